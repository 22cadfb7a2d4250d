"""Paths as pathlib has them, without its price: loading it takes half as long as starting Python.

What a check needs that finds nothing is here; for everything else such a path turns to pathlib.
"""

from __future__ import annotations

import errno
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

__all__ = ["Path", "open_regular"]


if not TYPE_CHECKING:

    class Path:
        """A path that equals the same path of pathlib."""

        __slots__ = ("_text",)

        def __init__(self, *parts):
            text = os.path.join(*map(os.fspath, parts)) if parts else "."
            if not text or "//" in text or "/./" in text or text.startswith("./") or text.endswith(("/", "/.")):
                text = str(_other(text))
            self._text = text

        def __getattr__(self, name):
            if name.startswith("__"):
                raise AttributeError(name)
            return getattr(_other(self._text), name)

        def __fspath__(self):
            return self._text

        __str__ = __fspath__

        def __repr__(self):
            return repr(_other(self._text))

        def __eq__(self, other):
            return self._text == os.fspath(other) if hasattr(other, "__fspath__") else NotImplemented

        def __lt__(self, other):
            return self._text.split("/") < os.fspath(other).split("/")

        def __gt__(self, other):
            return self._text.split("/") > os.fspath(other).split("/")

        def __hash__(self):
            if sys.version_info >= (3, 12):
                return hash(self._text)
            parts = [part for part in self._text.split("/") if part not in ("", ".")]
            return hash(("/", *parts) if self._text.startswith("/") else tuple(parts))

        def __truediv__(self, part):
            return Path(self._text, part)

        def __rtruediv__(self, part):
            return Path(part, self._text)

        @classmethod
        def cwd(cls):
            return cls(os.getcwd())

        @property
        def name(self):
            return os.path.basename(self._text) if self._text != "." else ""

        @property
        def suffix(self):
            return os.path.splitext(self._text)[1]

        @property
        def parent(self):
            return Path(os.path.dirname(self._text) or ".")

        def with_name(self, name):
            return self.parent / name

        def exists(self):
            try:
                os.stat(self._text)
            except (FileNotFoundError, NotADirectoryError, ValueError):
                return False
            except OSError:
                return _other(self._text).exists()
            return True

        def is_dir(self):
            return os.path.isdir(self._text)

        def is_file(self):
            return os.path.isfile(self._text)

        def stat(self):
            return os.stat(self._text)

        def open(self, *how, **options):
            return open(self._text, *how, **options)

        def mkdir(self, mode=0o777, parents=False, exist_ok=False):
            if not (exist_ok and os.path.isdir(self._text)):
                _other(self._text).mkdir(mode, parents, exist_ok)

    def _other(path):
        from pathlib import Path

        return Path(path)


def open_regular(path: Path, buffering: int = 0) -> IO[bytes]:
    """Open a file for reading; a pipe or a device of that name would hold us for ever."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise IsADirectoryError(errno.EISDIR, "is not a regular file", str(path))
    return open(fd, "rb", buffering=buffering)
