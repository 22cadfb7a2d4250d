"""What a quiet check seldom needs is made on first use: the modules of a package, and regular expressions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module

from watchdog.values import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from re import Pattern
    from typing import AnyStr


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
