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

    class _Shape:
        """What is known of one class; worked out when its first object is made, because most classes of a run never have one."""

        __slots__ = ("after", "compared", "count", "defaults", "factories", "kinds", "known", "names", "values")

        def __init__(self, owner):
            self.values, self.kinds = {}, {}
            for base in reversed(owner.__mro__[1:]):
                if "__values__" in base.__dict__:
                    self.values.update(_shape(base).values)
                    self.kinds.update(_shape(base).kinds)
            for name, kind in owner.__dict__.get("__annotations__", {}).items():  # noqa: RUF063
                if "ClassVar" in str(kind):
                    continue
                given = owner.__dict__.get(name, _NOTHING)
                self.values[name] = given if isinstance(given, _Field) else _Field(given)
                self.kinds[name] = kind
                if isinstance(given, _Field):
                    if given.default is _NOTHING:
                        delattr(owner, name)
                    else:
                        setattr(owner, name, given.default)
            self.names, self.known, self.count = tuple(self.values), frozenset(self.values), len(self.values)
            self.defaults = {name: one.default for name, one in self.values.items() if one.default is not _NOTHING}
            self.factories = tuple((name, one.factory) for name, one in self.values.items() if one.factory)
            self.compared = tuple(name for name, one in self.values.items() if one.compare)
            self.after = getattr(owner, "__post_init__", None)

    _SHAPES = {}

    def _shape(cls):
        if cls not in _SHAPES:
            owner = next(one for one in cls.__mro__ if "__values__" in one.__dict__)
            _SHAPES[cls] = _Shape(owner) if owner is cls else _shape(owner)
        return _SHAPES[cls]

    class _Asked:
        """Stands in a class for what is worked out when somebody asks for it."""

        def __init__(self, answer):
            self.answer = answer

        def __get__(self, _, cls):
            return self.answer(cls)

    def _fields(cls):
        """As the standard library has them."""
        import dataclasses

        own = {}
        for name, one in _shape(cls).values.items():
            factory = {"default_factory": one.factory} if one.factory else {}
            given = {"default": one.default} if one.default is not _NOTHING else factory
            own[name] = dataclasses.field(**given, repr=one.repr, compare=one.compare)
        plain = type(cls.__name__, (), {"__annotations__": dict.fromkeys(own, "Any"), **own})
        made = dataclasses.dataclass(init=False, repr=False, eq=False)(plain).__dataclass_fields__
        for name, one in made.items():
            one.type = _shape(cls).kinds.get(name, "Any")
        cls.__dataclass_fields__ = made
        return made

    _VALUES, _FIELDS, _NAMES = _Asked(lambda cls: _shape(cls).values), _Asked(_fields), _Asked(lambda cls: _shape(cls).names)

    def dataclass(cls=None, /, *, frozen=False, slots=False):
        """As dataclasses.dataclass. With `slots` a class is made for speed: millions of objects, and nobody refuses a change."""
        if cls is not None:
            return _made(cls, None)
        return _slotted if slots else _frozen if frozen else lambda wanted: _made(wanted, None)

    def _frozen(cls):
        cls.__setattr__ = cls.__delattr__ = _refuse
        return _made(cls, _hash)

    def _made(cls, hashed):
        own = cls.__dict__
        cls.__init__ = _init
        if "__repr__" not in own:
            cls.__repr__ = _repr
        if "__eq__" not in own:
            cls.__eq__ = _equal
            if own.get("__hash__") is None:
                cls.__hash__ = hashed
        cls.__values__, cls.__dataclass_fields__, cls.__match_args__ = _VALUES, _FIELDS, _NAMES
        return cls

    def _slotted(cls):
        shape = _shape(_made(cls, _hash))
        values = shape.values
        parts = ["self"]
        for name, one in values.items():
            has_default = one.factory or one.default is not _NOTHING
            parts.append(f"{name}=_default_{name}" if has_default else name)
        lines = [f"def __init__({', '.join(parts)}):", *(f" self.{name} = {name}" for name in values)]
        # A default that is made is made once: objects of such a class must not change what they share.
        names = {f"_default_{name}": one.factory() if one.factory else one.default for name, one in values.items()}
        exec("\n".join(lines), names)
        kept = {name: value for name, value in cls.__dict__.items() if name not in values and name not in ("__dict__", "__weakref__")}
        made = type(cls)(cls.__name__, cls.__bases__, kept | {"__slots__": tuple(values), "__init__": names["__init__"]})
        _SHAPES[made] = shape
        return made

    def _init(self, /, *args, **given):
        cls = self.__class__
        shape = _SHAPES.get(cls) or _shape(cls)
        held = self.__dict__
        if len(args) != shape.count:
            held.update(shape.defaults)
        held.update(zip(shape.names, args, strict=False))
        if given:
            held.update(given)
        for name, make in shape.factories:
            if name not in held:
                held[name] = make()
        if len(held) != shape.count or len(args) > shape.count or (
            given and (given.keys() - shape.known or given.keys() & shape.names[: len(args)])
        ):
            _complain(cls.__name__, shape.names, args, given, held)
        if shape.after is not None:
            shape.after(self)

    def _complain(owner, names, args, given, held):
        missing = [name for name in names if name not in held]
        if missing:
            raise TypeError(f"{owner}() lacks {', '.join(missing)}")
        unknown = [name for name in given if name not in names]
        raise TypeError(f"{owner}() does not take {', '.join(unknown) if unknown else 'so many values'}")

    def _repr(self):
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name, one in self.__values__.items() if one.repr)
        return f"{type(self).__qualname__}({shown})"

    def _equal(self, other):
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self is other or all(getattr(self, name) == getattr(other, name) for name in _shape(self.__class__).compared)

    def _hash(self):
        return hash(tuple([getattr(self, name) for name in _shape(self.__class__).compared]))

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
