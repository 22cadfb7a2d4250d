"""The rulebook as it was read last time, so that the next command reads neither YAML nor patterns anew.

The shipped rules alone are kept where Python keeps what it made of our modules; with rules of the user's own,
they are kept beside the store. Either counts only for exactly these rule files, this program and this Python
(sealed.py); otherwise it is made again. Without it a quiet check costs ten interpreter starts more.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from watchdog import __version__
from watchdog.config import sealed
from watchdog.config.rules import Rulebook, shipped_folder
from watchdog.system.files import open_regular
from watchdog.values import Any, replace

FORMAT = 8
NAME = "rulebook.cache"
FOLDERS = ("lines", "detect", "recipes")


def load_cached(
    config: Path, state: Path, load: Callable[[], Rulebook], write: bool, remember: bool = False
) -> Rulebook:
    """The rulebook of this configuration; ConfigError as load() has it.

    It is kept beside the store if we may write there, with the program if we may remember.
    """
    own = str(config) if any(os.path.lexists(config / folder) for folder in FOLDERS) else ""
    key = _key(own)
    places = [(state / NAME, write)]
    if not own:
        places.insert(
            0, (_with_the_program(), remember and not sys.dont_write_bytecode and not sys.pycache_prefix)
        )
    for path, _ in places:
        try:
            return _read(path, key)
        except (OSError, ValueError):
            pass  # none, damaged or of another time: made again
    book = load()
    for path, may in places:
        if may:
            # no room for it: the next command reads the rules again
            with suppress(OSError, ValueError, TypeError):
                _write(path, key, book)
                break
    return book


def _with_the_program() -> Path:
    return Path(os.path.dirname(__file__)) / "__pycache__" / f"rulebook.{sys.implementation.cache_tag}"


def _key(own: str) -> bytes:
    """A digest of everything that the rulebook depends on."""
    from hashlib import blake2b

    # How a rule of the user's own is called depends on where we are.
    seen_from = (os.getcwd(), own) if own else ()
    digest = blake2b(repr((FORMAT, __version__, sys.version, seen_from)).encode(), digest_size=32)
    for folder, _, names in sorted(os.walk(os.path.dirname(os.path.dirname(__file__)))):
        for name in sorted(names):
            if name.endswith(".py"):
                status = os.stat(os.path.join(folder, name))
                digest.update(f"{folder}/{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    for folder in filter(None, (str(shipped_folder()), own)):
        for kind in FOLDERS:
            path = os.path.join(folder, kind)
            try:
                names = sorted(os.listdir(path))
            except OSError as error:
                digest.update(f"{path} {error.errno}\n".encode())
                continue
            for name in names:
                if name.endswith((".yaml", ".yml")):
                    digest.update(f"{path}/{name}\n".encode("utf-8", "replace"))
                    try:
                        with open_regular(Path(path) / name) as file:
                            digest.update(file.read())
                    except OSError as error:
                        digest.update(f"{error.errno}\n".encode())
    return digest.digest()


def _read(path: Path, key: bytes) -> Rulebook:
    book, recipes = sealed.read(path, key)
    return replace(book, recipes=Later(recipes))


def _write(path: Path, key: bytes, book: Rulebook) -> None:
    sealed.write(path, key, (replace(book, recipes={}), pickle.dumps(dict(book.recipes), 5)))


class Later(Mapping[str, Any]):
    """The recipes, which only a check that found something needs: their steps are loaded when somebody looks."""

    def __init__(self, packed: bytes):
        self._packed: bytes | None = packed
        self._held: dict[str, Any] = {}

    def _all(self) -> dict[str, Any]:
        if self._packed is not None:
            self._held, self._packed = pickle.loads(self._packed), None
        return self._held

    def __getitem__(self, name: str) -> Any:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())
