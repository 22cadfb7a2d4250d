"""What the kinds of steps share: placeholders, storing, how a command failed, outcomes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from watchdog import steps
from watchdog.config.recipes import HOLE, NAME, texts_of
from watchdog.config.yaml import Section
from watchdog.errors import WatchdogError
from watchdog.model import Outcome, OutcomeKind, Reason, Step, Verify
from watchdog.model.plan_reasons import Failed, Unfit
from watchdog.system.commands import NOT_THERE, TOO_LONG, Ran
from watchdog.text import harmless
from watchdog.values import replace


class UnfitFact(Exception):
    """A fact that a step needs was not measured, or is not fit for a command; its only argument says why."""

    @property
    def reason(self) -> Reason:
        reason: Reason = self.args[0]
        return reason


def fill(step: Step, facts: Mapping[str, str]) -> Step:
    """The step with measured facts in its holes; UnfitFact when one is missing or could not have been measured."""

    def fact(match: re.Match[str]) -> str:
        value = facts.get(match[1], "")
        about = {"step": step.kind, "fact": match[1]}
        if not value:
            raise UnfitFact(Reason(Unfit.NOT_MEASURED, about))
        # Unprintable: controls, line breaks, marks that turn the direction of text, bytes that are no text.
        if len(value) > 4000 or not value.isprintable() or value.startswith("-"):
            raise UnfitFact(Reason(Unfit.BAD_VALUE, {**about, "value": ascii(harmless(value, 60))}))
        return value

    changed: dict[str, Any] = {}
    for name in step.args.__match_args__:
        value = getattr(step.args, name)
        if isinstance(value, str):
            changed[name] = HOLE.sub(fact, value)
        elif isinstance(value, tuple):
            changed[name] = tuple(HOLE.sub(fact, word) for word in value)
    return replace(step, args=replace(step.args, **changed))


def check_holes(section: Section, args: Any) -> None:
    """Braces are for facts only."""
    for text in texts_of(args):
        for name in HOLE.findall(text):
            if not NAME.fullmatch(name):
                section.wrong(
                    f"'{{{harmless(name, 40)}}}' is not the name of a fact; write {{database}} or the like"
                )
        if re.sub(HOLE, "", text).count("{") or re.sub(HOLE, "", text).count("}"):
            section.wrong(f"a single brace in '{harmless(text, 60)}'; facts are written {{database}}")


def pack(step: Step) -> dict[str, Any]:
    """A step as plain values, for the store and the digest; the line in the recipe file is not part of it."""
    packed: dict[str, Any] = {"kind": step.kind}
    for name in step.args.__match_args__:
        value = getattr(step.args, name)
        if isinstance(value, timedelta):
            value = value.total_seconds()
        packed[name] = list(value) if isinstance(value, tuple) else value
    return packed


# What a step's arguments are made of: how JSON holds it, and how it is read.
_TYPES: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "str": (str, str),
    "bool": (bool, bool),
    "tuple[str, ...]": (list, tuple),
    "timedelta": ((int, float), lambda seconds: timedelta(seconds=seconds)),
}


def pack_verify(verify: Verify | None) -> list[Any] | None:
    """How a plan is verified, as JSON holds it."""
    return [verify.quiet, verify.alive, verify.within.total_seconds()] if verify else None


def unpack(packed: Mapping[str, Any]) -> Step:
    """The step again; WatchdogError when the store holds something else."""
    try:
        module = steps.KINDS[packed["kind"]]
        given: dict[str, Any] = {}
        for name, kind in module.Args.__annotations__.items():
            value = packed[name]
            stored_as, read = _TYPES[kind]
            words = value if isinstance(value, list) else []
            if not isinstance(value, stored_as) or not all(isinstance(word, str) for word in words):
                raise TypeError(name)
            given[name] = read(value)
        return Step(packed["kind"], module.Args(**given))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise WatchdogError(
            f"a stored step cannot be read ({harmless(repr(error), 60)}); nothing was done"
        ) from error


def written(argv: Iterable[str]) -> str:
    """An argument list as a person would type it."""
    return shlex.join(argv)


def command_failure(ran: Ran, argv: Sequence[str], within: timedelta) -> Reason:
    """How a command failed that ended with another exit code than 0."""
    if ran.code == NOT_THERE:
        return Reason(Failed.NO_PROGRAM, {"program": argv[0]})
    if ran.code == TOO_LONG:
        return Reason(Failed.TOO_LONG, {"within": within})
    return Reason(Failed.EXIT_CODE, {"code": ran.code, "command": written(argv)})


def ok(what: Reason, reason: Reason, output: str = "") -> Outcome:
    return Outcome("", OutcomeKind.STEP, what, True, reason, output=output)


def failed(what: Reason, reason: Reason, output: str = "") -> Outcome:
    return Outcome("", OutcomeKind.STEP, what, False, reason, output=output)
