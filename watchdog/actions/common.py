"""What the kinds of steps share: placeholders, storing, databases that are what they seem."""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from watchdog.errors import WatchdogError
from watchdog.model import Outcome, Step
from watchdog.text import harmless
from watchdog.yamlfile import Section

HOLE = re.compile(r"\{([^{}]*)\}")
NAME = re.compile(r"[a-z_][a-z0-9_]*")


def holes(args: Any) -> tuple[str, ...]:
    """The {facts} that a step's arguments want, in order."""
    return tuple(dict.fromkeys(name for text in _texts(args) for name in HOLE.findall(text)))


def fill(step: Step, facts: Mapping[str, str]) -> Step:
    """The step with measured facts in its holes; ValueError when one is missing or could not have been measured."""

    def put(text: str) -> str:
        def one(match: re.Match[str]) -> str:
            value = facts.get(match[1], "")
            if not value:
                raise ValueError(f"{step.kind}: {{{match[1]}}} was not measured")
            # Unprintable: controls, line breaks, marks that turn the direction of text, bytes that are no text.
            if len(value) > 4000 or not value.isprintable() or value.startswith("-"):
                raise ValueError(f"{step.kind}: {{{match[1]}}} is {harmless(value, 60)!r}, which is not fit for a command")
            return value

        return HOLE.sub(one, text)

    changed: dict[str, Any] = {}
    for one in fields(step.args):
        value = getattr(step.args, one.name)
        if isinstance(value, str):
            changed[one.name] = put(value)
        elif isinstance(value, tuple):
            changed[one.name] = tuple(put(word) for word in value)
    return replace(step, args=replace(step.args, **changed))


def check_holes(section: Section, args: Any) -> None:
    """Braces are for facts only."""
    for text in _texts(args):
        for name in HOLE.findall(text):
            if not NAME.fullmatch(name):
                section.wrong(f"'{{{harmless(name, 40)}}}' is not the name of a fact; write {{database}} or the like")
        if re.sub(HOLE, "", text).count("{") or re.sub(HOLE, "", text).count("}"):
            section.wrong(f"a single brace in '{harmless(text, 60)}'; facts are written {{database}}")


def pack(step: Step) -> dict[str, Any]:
    """A step as plain values, for the store and the digest; the line in the recipe file is not part of it."""
    packed: dict[str, Any] = {"kind": step.kind}
    for one in fields(step.args):
        value = getattr(step.args, one.name)
        packed[one.name] = value.total_seconds() if isinstance(value, timedelta) else list(value) if isinstance(value, tuple) else value
    return packed


def unpack(packed: Mapping[str, Any]) -> Step:
    """The step again; WatchdogError when the store holds something else."""
    from watchdog.actions import KINDS

    try:
        module = KINDS[packed["kind"]]
        given: dict[str, Any] = {}
        for one in fields(module.Args):
            value, kind = packed[one.name], str(one.type)
            types: dict[str, Any] = {"str": str, "bool": bool, "tuple[str, ...]": list, "timedelta": (int, float)}
            wanted = types[kind]
            if not isinstance(value, wanted) or (isinstance(value, list) and not all(isinstance(word, str) for word in value)):
                raise TypeError(one.name)
            given[one.name] = timedelta(seconds=value) if kind == "timedelta" else tuple(value) if kind.startswith("tuple") else value
        return Step(packed["kind"], module.Args(**given))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise WatchdogError(f"a stored step cannot be read ({harmless(repr(error), 60)}); nothing was done") from error


def written(argv: Iterable[str]) -> str:
    """An argument list as a person would type it."""
    return shlex.join(argv)


def database(name: str, home: Path, there: bool = True) -> Path:
    """A database of this home: inside it, a plain file, reached through no symbolic link; WatchdogError otherwise."""
    root = Path(os.path.realpath(home))
    path = Path(name) if os.path.isabs(name) else root / name
    try:
        inside = path.relative_to(home if path.is_relative_to(home) else root)
    except ValueError:
        raise WatchdogError(f"{name} is outside {home}; only databases of this home are touched") from None
    if ".." in inside.parts or not inside.parts or not inside.name.endswith(".db"):
        raise WatchdogError(f"{name} is not the name of a database in {home}")
    walked = root
    for part in inside.parts:
        walked = walked / part
        try:
            mode = os.lstat(walked).st_mode
        except FileNotFoundError:
            if there:
                raise WatchdogError(f"{walked} is not there any more") from None
            return root / inside
        if stat.S_ISLNK(mode):
            raise WatchdogError(f"{walked} is a symbolic link; it could lead anywhere, so it is not touched")
        if walked == root / inside and not stat.S_ISREG(mode):
            raise WatchdogError(f"{walked} is not a plain file")
    return root / inside


def ok(step: str, says: str, output: str = "") -> Outcome:
    return Outcome("", step, True, says, output=output)


def failed(step: str, says: str, output: str = "") -> Outcome:
    return Outcome("", step, False, says, output=output)


def _texts(args: Any) -> Iterable[str]:
    for one in fields(args):
        value = getattr(args, one.name)
        if isinstance(value, str):
            yield value
        elif isinstance(value, Sequence):
            yield from value
