"""A small `dataclass` for the path of a quiet check. Elsewhere, use `dataclasses`.

The standard decorator generates and compiles code per class; sixty classes would cost a quiet check about seven interpreter
starts. This one only records the fields. mypy takes such classes for standard ones.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from dataclasses import dataclass, field, replace
    from typing import Any

    StrPath = str | os.PathLike[str]
else:
    Any = StrPath = object

    class field:
        """A default that is made anew for each object."""

        def __init__(self, *, default_factory):
            self.make = default_factory

    class _StandardFields:
        """Lets `dataclasses.replace`, `fields` and `asdict` work, at their price, where they are used."""

        def __get__(self, _, cls):
            import dataclasses

            twin = dataclasses.make_dataclass(cls.__name__, cls.__match_args__)
            cls.__dataclass_fields__ = twin.__dataclass_fields__  # made once: it takes a millisecond
            return cls.__dataclass_fields__

    def dataclass(cls=None, /, *, frozen=False):
        """Objects with the annotated fields: compared by value, printed by field, and unchangeable if frozen."""
        if cls is None:
            return lambda wanted: dataclass(wanted, frozen=frozen)
        names = (*getattr(cls, "__match_args__", ()), *cls.__dict__.get("__annotations__", {}))  # noqa: RUF063
        cls.__match_args__ = tuple(dict.fromkeys(names))
        cls.__dataclass_fields__ = _StandardFields()
        for name, method in (_METHODS | (_FROZEN if frozen else {"__hash__": None})).items():
            if name not in cls.__dict__:
                setattr(cls, name, method)
        return cls

    def replace(value, /, **changes):
        """The same object, of this kind or a standard one, with some fields changed."""
        return value.__class__(**{name: getattr(value, name) for name in value.__match_args__} | changes)

    def _init(self, /, *args, **given):
        fields, values = self.__match_args__, self.__dict__
        values.update(zip(fields, args, strict=False))
        values.update(given)
        wrong = len(values) < len(args) + len(given)  # one of them twice, or too many
        wrong = wrong or (bool(given) and not {*fields}.issuperset(given))
        for name in fields if len(values) < len(fields) else ():
            if name not in values:
                default = getattr(self.__class__, name, _init)
                wrong = wrong or default is _init
                values[name] = default.make() if isinstance(default, field) else default
        if wrong:
            raise TypeError(f"{self.__class__.__name__} takes {', '.join(fields)}, each once")

    def _repr(self):
        return f"{type(self).__qualname__}({', '.join(f'{n}={getattr(self, n)!r}' for n in self.__match_args__)})"

    def _values(self):
        return tuple([getattr(self, name) for name in self.__match_args__])

    def _equal(self, other):
        return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented

    def _refuse(self, name, *_):
        raise AttributeError(f"cannot assign to field {name!r}")

    def _state(self):
        """For pickle: without what has its default. The kept rules take a third less time to load so."""
        cls = self.__class__
        return {name: value for name, value in self.__dict__.items() if getattr(cls, name, self) is not value}

    _METHODS = {"__init__": _init, "__repr__": _repr, "__eq__": _equal, "__getstate__": _state}
    _FROZEN = {"__hash__": lambda self: hash(_values(self)), "__setattr__": _refuse, "__delattr__": _refuse}
