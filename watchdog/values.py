"""@dataclass as the standard library has it, without its price: making one class there takes longer than starting Python.

A check is a short life with some eighty such classes. Here a class is made without generating code, and its objects
behave the same: frozen, compared and hashed by value, printed by field. What is rarely asked for (fields(), asdict()
of the standard library) is worked out when asked for. Any and TYPE_CHECKING are typing's, which is as dear to load.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from dataclasses import dataclass, field, replace
    from typing import Any

__all__ = ["TYPE_CHECKING", "Any", "dataclass", "field", "replace"]


if not TYPE_CHECKING:
    Any = object
    _NOTHING = object()

    class _Field:
        def __init__(self, default=_NOTHING, default_factory=None, repr=True, compare=True):
            self.default, self.factory, self.repr, self.compare = default, default_factory, repr, compare

    def field(*, default=_NOTHING, default_factory=None, repr=True, compare=True):
        """A field with a default made anew for each object, or one that is not shown or compared."""
        return _Field(default, default_factory, repr, compare)

    class _Fields:
        """Stands for __dataclass_fields__ until somebody wants them."""

        def __get__(self, _, cls):
            import dataclasses

            own = {}
            for name, one in cls.__values__.items():
                factory = {"default_factory": one.factory} if one.factory else {}
                given = {"default": one.default} if one.default is not _NOTHING else factory
                own[name] = dataclasses.field(**given, repr=one.repr, compare=one.compare)
            plain = type(cls.__name__, (), {"__annotations__": dict.fromkeys(own, "Any"), **own})
            made = dataclasses.dataclass(init=False, repr=False, eq=False)(plain).__dataclass_fields__
            for name, one in made.items():
                one.type = cls.__annotations_of__.get(name, "Any")
            cls.__dataclass_fields__ = made
            return made

    def dataclass(cls=None, /, *, frozen=False, slots=False):
        """As dataclasses.dataclass. With `slots` a class is made for speed: millions of objects, and nobody refuses a change."""
        if cls is None:
            return lambda wanted: _slotted(_made(wanted, False)) if slots else _made(wanted, frozen)
        return _made(cls, frozen)

    def _made(cls, frozen):
        values, annotations = {}, {}
        for base in reversed(cls.__mro__[1:]):
            values.update(getattr(base, "__values__", {}))
            annotations.update(getattr(base, "__annotations_of__", {}))
        for name, kind in cls.__dict__.get("__annotations__", {}).items():  # noqa: RUF063
            if "ClassVar" in str(kind):
                continue
            given = cls.__dict__.get(name, _NOTHING)
            values[name] = given if isinstance(given, _Field) else _Field(given)
            annotations[name] = kind
            if isinstance(given, _Field):
                if given.default is _NOTHING:
                    delattr(cls, name)
                else:
                    setattr(cls, name, given.default)
        cls.__values__, cls.__annotations_of__ = values, annotations
        cls.__dataclass_fields__ = _Fields()
        cls.__match_args__ = tuple(values)
        cls.__init__ = _init(cls.__name__, values, getattr(cls, "__post_init__", None))
        if "__repr__" not in cls.__dict__:
            cls.__repr__ = _repr
        compared = tuple(name for name, one in values.items() if one.compare)
        if "__eq__" not in cls.__dict__:
            cls.__eq__ = _equal(compared)
            if "__hash__" not in cls.__dict__ or cls.__dict__["__hash__"] is None:
                cls.__hash__ = _hash(compared) if frozen else None
        if frozen:
            cls.__setattr__ = cls.__delattr__ = _refuse
        return cls

    def _slotted(cls):
        values = cls.__values__
        parts = ["self"]
        for name, one in values.items():
            has_default = one.factory or one.default is not _NOTHING
            parts.append(f"{name}=_default_{name}" if has_default else name)
        lines = [f"def __init__({', '.join(parts)}):", *(f" self.{name} = {name}" for name in values)]
        # A default that is made is made once: objects of such a class must not change what they share.
        names = {f"_default_{name}": one.factory() if one.factory else one.default for name, one in values.items()}
        exec("\n".join(lines), names)
        kept = {name: value for name, value in cls.__dict__.items() if name not in values and name not in ("__dict__", "__weakref__")}
        compared = tuple(name for name, one in values.items() if one.compare)
        kept |= {"__slots__": tuple(values), "__init__": names["__init__"], "__hash__": _hash(compared)}
        return type(cls)(cls.__name__, cls.__bases__, kept)

    def _init(owner, values, after):
        names, known, count = tuple(values), frozenset(values), len(values)
        defaults = {name: one.default for name, one in values.items() if one.default is not _NOTHING}
        factories = tuple((name, one.factory) for name, one in values.items() if one.factory)

        def __init__(self, *args, **given):
            held = self.__dict__
            if len(args) != count:
                held.update(defaults)
            held.update(zip(names, args, strict=False))
            if given:
                held.update(given)
            for name, make in factories:
                if name not in held:
                    held[name] = make()
            if len(held) != count or len(args) > count or (given and (given.keys() - known or given.keys() & names[: len(args)])):
                _complain(owner, names, args, given, held)
            if after is not None:
                after(self)

        return __init__

    def _complain(owner, names, args, given, held):
        missing = [name for name in names if name not in held]
        if missing:
            raise TypeError(f"{owner}() lacks {', '.join(missing)}")
        unknown = [name for name in given if name not in names]
        raise TypeError(f"{owner}() does not take {', '.join(unknown) if unknown else 'so many values'}")

    def _repr(self):
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name, one in self.__values__.items() if one.repr)
        return f"{type(self).__qualname__}({shown})"

    def _equal(names):
        def __eq__(self, other):
            if other.__class__ is not self.__class__:
                return NotImplemented
            return self is other or all(getattr(self, name) == getattr(other, name) for name in names)

        return __eq__

    def _hash(names):
        return lambda self: hash(tuple([getattr(self, name) for name in names]))

    def _refuse(self, name, *_):
        # The standard library's own error, so that whoever expects it is not surprised.
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def replace(one, /, **changes):
        """The same object with some values changed."""
        values = getattr(one, "__values__", None)
        if values is None:
            from dataclasses import replace as other

            return other(one, **changes)
        return one.__class__(**{**{name: getattr(one, name) for name in values}, **changes})
