"""The rulebook and the settings as they were read last time, so that the next command reads neither YAML nor patterns
anew.

The shipped rules alone are kept where Python keeps what it made of our modules; with rules of the user's own,
they are kept beside the store. Either counts only for exactly these rule files, this program and this Python
(sealed.py); otherwise it is made again. Without it a quiet check costs ten interpreter starts more, two of them for
the settings.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache

from watchdog import __version__
from watchdog import config as config_package
from watchdog.config import sealed
from watchdog.config.rulebook import Rulebook, shipped_dir
from watchdog.config.settings import ENVIRONMENT, Settings, others_may_write
from watchdog.config.settings import NAME as SETTINGS
from watchdog.system.files import read_small, working_folder
from watchdog.values import Any, StrPath, replace

FORMAT = 10
NAME = "rulebook.cache"
SETTINGS_NAME = "settings.cache"
LARGEST = 1_000_000  # bytes of settings.yaml
FOLDERS = ("lines", "detect", "recipes")
MADE_BY = ("", "config", "detect", "model", "steps")  # folders of this package


def load_cached(
    config: StrPath, state: StrPath, load: Callable[[], Rulebook], write: bool, remember: bool = False
) -> Rulebook:
    """The rulebook of this configuration; ConfigError as load() has it.

    It is kept beside the store if we may write there, with the program if we may remember.
    """
    own = str(config) if any(os.path.lexists(os.path.join(config, folder)) for folder in FOLDERS) else ""
    key = _key(own)
    places = [(os.path.join(state, NAME), write)]
    with_program = _with_the_program()
    if not own and not _others_may_exchange(with_program):
        places.insert(0, (with_program, remember and not sys.dont_write_bytecode and not sys.pycache_prefix))
    for path, _ in places:
        try:
            return _read(path, key)
        except (OSError, ValueError):
            pass  # none, damaged or of another time: made again
    if sys.stderr.isatty():
        print("  reading the rules; the next command finds them ready …", file=sys.stderr, flush=True)
    book = load()
    for path, may in places:
        if may:
            # no room for it: the next command reads the rules again
            with suppress(OSError, ValueError, TypeError):
                _write(path, key, book)
                break
    return book


def load_cached_settings(config: StrPath, state: StrPath, write: bool) -> Settings:
    """The settings of this configuration; ConfigError as load_settings() has it.

    They name secrets by file or variable, or hold what settings.yaml itself holds. So what is kept is ours alone to
    read, and goes as soon as settings.yaml says something else, is gone, or cannot be believed.
    """
    path, kept = os.path.join(config, SETTINGS), os.path.join(state, SETTINGS_NAME)
    content: bytes | None = None  # None: nothing is kept of what cannot be read or believed
    try:
        if not others_may_write(path):
            content = read_small(path, LARGEST)
    except FileNotFoundError:
        content = b""  # the defaults
    except OSError:
        pass
    seen_from = str(path), os.environ.get("HOME"), bool(os.environ.get(ENVIRONMENT, "").strip())
    key = _program() + repr(seen_from).encode() + (content or b"")
    try:
        if content is not None:
            settings: Settings = sealed.read(kept, key)
            return settings
    except (OSError, ValueError):
        pass  # none, damaged or of another time: made again
    if write:
        with suppress(OSError):
            sealed.remove(kept)
    settings = config_package.load_settings(config)
    if write and content is not None:
        with suppress(OSError, ValueError, TypeError):
            sealed.write(kept, key, settings)
    return settings


@cache
def _program() -> bytes:
    """What tells this program and this Python from others: the modules that rules and settings are read by and made of."""
    package = os.path.dirname(os.path.dirname(__file__))
    stamps = [_stamps(os.path.join(package, folder), ".py") for folder in MADE_BY]
    return repr((FORMAT, __version__, sys.version, stamps)).encode()


def _with_the_program() -> str:
    return os.path.join(os.path.dirname(__file__), "__pycache__", f"rulebook.{sys.implementation.cache_tag}")


def _others_may_exchange(path: str) -> bool:
    try:
        return sealed.others_may_exchange(os.path.dirname(path))
    except OSError:
        return False  # no such folder, and so no such file


def _key(own: str) -> bytes:
    """Everything that the rulebook depends on; a rule file that is written to gets another time of change."""
    folders = [os.path.join(folder, kind) for folder in (shipped_dir(), own) if folder for kind in FOLDERS]
    # How a rule of the user's own is called depends on where we are.
    where = (working_folder(), own) if own else ()
    return _program() + repr((where, [_stamps(folder, ".yaml", ".yml") for folder in folders])).encode()


def _stamps(folder: str, *ends: str) -> list[object]:
    """What changes with every write to such a file of this folder."""
    found: list[object] = [folder]
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        return [folder, error.errno]
    for name in names:
        if name.endswith(ends):
            try:
                status = os.stat(f"{folder}/{name}")
                found.append((name, status.st_ino, status.st_size, status.st_mode, status.st_ctime_ns))
            except OSError as error:
                found.append((name, error.errno))
    return found


def _read(path: StrPath, key: bytes) -> Rulebook:
    book, recipes = sealed.read(path, key)
    return replace(book, recipes=Later(recipes))


def _write(path: StrPath, key: bytes, book: Rulebook) -> None:
    sealed.write(path, key, (replace(book, recipes={}), pickle.dumps(dict(book.recipes), 5)))


class Later(Mapping[str, Any]):
    """The recipes, which only a check that found something needs: their steps are loaded on first use."""

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
