"""The small dataclass does what the standard one does."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest

from watchdog import values


def both(frozen: bool) -> list[Any]:
    """The same class made by either decorator."""

    class Ours:
        name: str
        count: int = 3
        parts: list[str] = values.field(default_factory=list)

    class Standard:
        name: str
        count: int = 3
        parts: list[str] = dataclasses.field(default_factory=list)

    return [values.dataclass(frozen=frozen)(Ours), dataclasses.dataclass(frozen=frozen)(Standard)]


@pytest.mark.parametrize("frozen", [True, False])
def test_values_are_made_compared_and_changed_as_standard_ones(frozen: bool) -> None:
    for made in both(frozen):
        value = made("a", parts=["x"])
        assert (value.name, value.count, value.parts) == ("a", 3, ["x"])
        assert value == made("a", 3, ["x"]) != made("b", 3, ["x"])
        assert made("a").parts is not made("a").parts
        assert values.replace(value, count=4) == made("a", 4, ["x"])
        assert repr(value).endswith("(name='a', count=3, parts=['x'])")


@pytest.mark.parametrize(
    ("given", "named"),
    [((), {}), ((1, 2, [], 4), {}), ((1,), {"name": 2}), ((1,), {"other": 2}), ((1, 2), {"other": 3})],
)
def test_what_does_not_fit_the_fields_is_refused(given: tuple[Any, ...], named: dict[str, Any]) -> None:
    for made in both(True):
        with pytest.raises(TypeError):
            made(*given, **named)


def test_only_frozen_values_are_hashed_and_none_of_those_is_changed() -> None:
    for made in both(True):
        value = made("a", parts=())
        assert hash(value) == hash(made("a", parts=()))
        with pytest.raises(AttributeError):
            value.name = "b"
    for made in both(False):
        with pytest.raises(TypeError):
            hash(made("a"))
        made("a").name = "b"


@values.dataclass(frozen=True)
class Kept:
    name: str
    count: int = 3


def test_a_pickled_value_comes_back_with_its_defaults() -> None:
    assert pickle.loads(pickle.dumps(Kept("a"))) == Kept("a", 3)
    assert pickle.loads(pickle.dumps(Kept("a", 4))).count == 4
