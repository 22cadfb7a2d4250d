"""The rulebook as it was read last time, so that the next command reads neither YAML nor patterns anew.

The shipped rules alone are kept where Python keeps what it made of our modules; with rules of the user's own, they are
kept beside the store. Either counts only for exactly these rule files, this program and this Python (sealed.py); otherwise it is made again.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta

from watchdog import __version__, literals, sealed
from watchdog.literals import as_re
from watchdog.paths import Path, open_regular
from watchdog.pattern import OWN, READY, Pattern, prepared
from watchdog.rulebook import Rulebook, load, shipped_folder
from watchdog.sources.gate import NEIGHBOURS
from watchdog.values import Any

FORMAT = 7
NAME = "rulebook.cache"
KINDS_OF_FILES = ("detect", "recipes")
_CODE = ("detect", "actions", "recipes.py", "rulebook.py", "yamlfile.py", "literals.py", "pattern.py", "model.py", "compiled.py")
_PLAIN = (str, int, float, bool, bytes, type(None))


def load_cached(config: Path, state: Path, write: bool, remember: bool = False) -> Rulebook:
    """The rulebook of this configuration; ConfigError as load() has it.

    It is kept beside the store if we may write there, with the program if we may remember.
    """
    own = str(config) if any(os.path.lexists(config / kind) for kind in KINDS_OF_FILES) else ""
    key = _key(own)
    places = [(state / NAME, write)]
    if not own:
        places.insert(0, (_with_the_program(), remember and not sys.dont_write_bytecode and not sys.pycache_prefix))
    for path, _ in places:
        try:
            return _read(path, key)
        except (OSError, ValueError, TypeError, EOFError, KeyError, AttributeError, ImportError, RecursionError):
            pass  # none, damaged or of another time: made again
    book = load(config)
    for path, may in places:
        if may:
            with suppress(OSError, ValueError, TypeError):  # no room for it: the next command reads the rules again
                _write(path, key, book)
                break
    return book


def _with_the_program() -> Path:
    return Path(os.path.dirname(__file__)) / "__pycache__" / f"rulebook.{sys.implementation.cache_tag}"


def _key(own: str) -> bytes:
    """A digest of everything that the rulebook depends on."""
    from _blake2 import blake2b  # as hashlib's, which would load all of OpenSSL

    # How a rule of the user's own is called depends on where we are.
    seen_from = (os.getcwd(), own) if own else ()
    digest = blake2b(repr((FORMAT, __version__, sys.version, seen_from)).encode(), digest_size=32)
    here = os.path.dirname(__file__)
    for part in _CODE:
        path = os.path.join(here, part)
        for name in sorted(os.listdir(path)) if os.path.isdir(path) else [""]:
            if part.endswith(".py") or name.endswith(".py"):
                status = os.stat(os.path.join(path, name) if name else path)
                digest.update(f"{part}/{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    for folder in filter(None, (str(shipped_folder()), own)):
        for kind in KINDS_OF_FILES:
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
    rules, off, recipes, studies, ready, neighbours = sealed.read(path, key)
    READY.update(ready)
    literals.BEFORE.update(studies)
    NEIGHBOURS.update(neighbours)
    return Rulebook(_decoded(rules), Later(recipes), _decoded(off))


def _write(path: Path, key: bytes, book: Rulebook) -> None:
    from watchdog.evaluate import lines_by_source
    from watchdog.reading import apart
    from watchdog.sources.gate import Gate
    from watchdog.sqlite import making  # noqa: F401  (its pattern is one of our own, too)

    patterns = {line.pattern.text for lines in lines_by_source(book.rules).values() for line in lines if line.pattern is not None}
    known = [(text, literals.study(text)) for text in sorted(patterns)]
    studies = {text: (one.words, one.heads, one.degree, one.names, one.also) for text, one in known}
    ready: dict[str | bytes, Any] = {text: prepared(as_re(text)) for text, one in known if one.degree is not None}
    ready |= {own.text: prepared(own.text) for own in OWN}
    for lines in lines_by_source(book.rules).values():
        together, aside = apart(lines)
        for group in [together, *([line] for line in aside)]:
            Gate(group).learn_neighbours()
    recipes = marshal.dumps(_encoded(dict(book.recipes)))
    sealed.write(path, key, (_encoded(book.rules), _encoded(book.off), recipes, studies, ready, NEIGHBOURS))


class Later(Mapping[str, Any]):
    """The recipes, which only a check that found something needs: their actions are loaded when somebody looks."""

    def __init__(self, packed: bytes):
        self._packed: bytes | None = packed
        self._held: dict[str, Any] = {}

    def _all(self) -> dict[str, Any]:
        if self._packed is not None:
            self._held, self._packed = _decoded(marshal.loads(self._packed)), None
        return self._held

    def __getitem__(self, name: str) -> Any:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


def _encoded(value: Any) -> Any:
    """Plain values as they are; everything else as (what it is, its parts)."""
    if type(value) in _PLAIN:
        return value
    if _is_plain(value):
        return "plain", value
    if isinstance(value, Pattern):
        return "pattern", value.text, value.where
    if isinstance(value, timedelta):
        return "span", value.days, value.seconds, value.microseconds
    if type(value) in (tuple, list, frozenset):
        return type(value).__name__, [_encoded(one) for one in (sorted(value) if type(value) is frozenset else value)]
    if isinstance(value, Mapping):
        return "dict", [(_encoded(name), _encoded(one)) for name, one in value.items()]
    cls = type(value)
    if "__values__" in cls.__dict__ and cls.__module__.startswith("watchdog."):
        return "value", cls.__module__, cls.__name__, [_encoded(getattr(value, name)) for name in cls.__values__]
    raise TypeError(f"{cls.__name__} cannot be kept")


def _decoded(value: Any) -> Any:
    if type(value) is not tuple:
        return value
    kind, *parts = value
    if kind == "value":
        module, name, values = parts
        cls = _CLASSES.get((module, name)) or _class(module, name)
        return cls(*[_decoded(one) if type(one) is tuple else one for one in values])
    if kind == "plain":
        return parts[0]
    if kind == "pattern":
        return Pattern(*parts)
    if kind == "span":
        return timedelta(*parts)
    if kind == "dict":
        return {_decoded(name): _decoded(one) for name, one in parts[0]}
    made: Any = {"tuple": tuple, "list": list, "frozenset": frozenset}[kind]
    return made([_decoded(one) for one in parts[0]])


_CLASSES: dict[tuple[str, str], Any] = {}


def _class(module: str, name: str) -> Any:
    if not module.startswith("watchdog."):
        raise ValueError(f"{module} is not ours")
    __import__(module)
    cls = getattr(sys.modules[module], name)
    if "__values__" not in cls.__dict__:
        raise ValueError(f"{module}.{name} is not a value")
    _CLASSES[module, name] = cls
    return cls


def _is_plain(value: Any) -> bool:
    """Whether marshal gives it back as it is."""
    if type(value) in (tuple, list, frozenset):
        return all(_is_plain(one) for one in value)
    if type(value) is dict:
        return all(_is_plain(name) and _is_plain(one) for name, one in value.items())
    return type(value) in _PLAIN
