"""What keeps a quiet check cheap: a small `dataclass`, packages that load their modules on first use, and regular
expressions that are compiled on first use.

The standard decorator generates and compiles code per class; sixty classes would cost a quiet check about
seven interpreter starts. This one only records the fields. Elsewhere, use `dataclasses`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from dataclasses import dataclass, field, replace
    from re import Pattern
    from typing import Any, AnyStr

    StrPath = str | os.PathLike[str]

__all__ = ["TYPE_CHECKING", "Any", "StrPath", "dataclass", "field", "lazy", "regex", "replace"]

if not TYPE_CHECKING:
    Any = StrPath = object

    class field:
        """A default that is made anew for each object."""

        def __init__(self, *, default_factory):
            self.make = default_factory

    class _StandardFields:
        """Lets `dataclasses.fields`, `replace` and `asdict` work, at their price, where they are used."""

        def __get__(self, _, cls):
            import dataclasses

            kinds = {
                n: k
                for base in reversed(cls.__mro__)
                for n, k in getattr(base, "__annotations__", {}).items()
            }
            twin = dataclasses.make_dataclass(cls.__name__, [(name, kinds[name]) for name in cls.__fields__])
            cls.__dataclass_fields__ = twin.__dataclass_fields__  # made once: it takes a millisecond
            return cls.__dataclass_fields__

    def dataclass(cls=None, /, *, frozen=False):
        """Objects with the annotated fields: compared by value, printed by field, and unchangeable if frozen."""
        if cls is None:
            return lambda wanted: dataclass(wanted, frozen=frozen)
        names = (*getattr(cls, "__fields__", ()), *cls.__dict__.get("__annotations__", {}))  # noqa: RUF063
        cls.__fields__ = cls.__match_args__ = tuple(dict.fromkeys(names))
        cls.__dataclass_fields__ = _StandardFields()
        cls.__init__ = _init
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = _repr
        if "__eq__" not in cls.__dict__:
            cls.__eq__ = _equal
            cls.__hash__ = _hash if frozen else None
        if "__getstate__" not in cls.__dict__:
            cls.__getstate__ = _told
        if frozen:
            cls.__setattr__ = cls.__delattr__ = _refuse
        return cls

    def _init(self, /, *args, **given):
        cls = self.__class__
        values = dict(zip(cls.__fields__, args, strict=False))
        if (
            len(args) > len(cls.__fields__)
            or given.keys() & values.keys()
            or given.keys() - set(cls.__fields__)
        ):
            raise TypeError(f"{cls.__name__}() does not take {args or ''} {given or ''}")
        values |= given
        for name in cls.__fields__ if len(values) < len(cls.__fields__) else ():
            if name not in values:
                if not hasattr(cls, name):
                    raise TypeError(f"{cls.__name__}() lacks {name}")
                default = getattr(cls, name)
                values[name] = default.make() if isinstance(default, field) else default
        self.__dict__.update(values)

    def _repr(self):
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__fields__)
        return f"{type(self).__qualname__}({shown})"

    def _values(self):
        return tuple([getattr(self, name) for name in self.__fields__])

    def _told(self):
        """For pickle: without what has its default. The kept rules take a third less time to load so."""
        cls = self.__class__
        return {name: value for name, value in self.__dict__.items() if getattr(cls, name, self) is not value}

    def _equal(self, other):
        return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented

    def _hash(self):
        return hash(_values(self))

    def _refuse(self, name, *_):
        raise AttributeError(f"cannot assign to field {name!r}")

    def replace(value, /, **changes):
        """The same object with some fields changed."""
        names = value.__fields__ if hasattr(value, "__fields__") else value.__dataclass_fields__
        return value.__class__(**{**{name: getattr(value, name) for name in names}, **changes})


def lazy(package: str, **modules: tuple[str, ...]) -> Callable[[str], Any]:
    """A package's `__getattr__` (PEP 562): a module is loaded when one of its names is first asked for.

    `lazy(__name__, questions=("ask", "close"))` gives `package.ask` and `package.close` from package/questions.py.
    """
    where = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{where[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return load


def regex(text: AnyStr) -> Pattern[AnyStr]:
    """The compiled pattern, made when it is first used: most of a module's patterns a quiet check never needs.

    Measured: compiling all of them costs a quiet check 0.9 interpreter starts.
    """
    return _Later(text)  # type: ignore[return-value]


class _Later:
    def __init__(self, text: Any):
        self.pattern = text

    def __getattr__(self, name: str) -> Any:
        import re  # loaded by the time that a pattern is used

        value = getattr(re.compile(self.pattern), name)
        setattr(self, name, value)
        return value
