"""A plan as text for people and as JSON for scripts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from watchdog.cli.context import colours, paint
from watchdog.model import Plan, unpacked
from watchdog.notify.translate import in_english
from watchdog.reports.check import chain_of
from watchdog.store import plans as rows
from watchdog.store.plans import Stored
from watchdog.text import clock, harmless, iso, spell

STATES = {"pending": "waits for you", "claimed": "being carried out", "interrupted": "interrupted"}
COLOURS = {
    "pending": "medium",
    "approved": "medium",
    "claimed": "high",
    "interrupted": "high",
    "failed": "high",
    "done": "good",
}


def plan_json(stored: Stored) -> dict[str, Any]:
    """A stored plan for scripts: what, why, and what became of it. Never a code."""
    plan = stored.plan
    return {
        "id": stored.id,
        "state": stored.state,
        "title": plan.title,
        "steps": [in_english(word) for word in plan.words],
        "incidents": list(plan.incidents),
        "recipes": list(plan.recipes),
        "chain": chain_of(plan),
        "costs": in_english(plan.costs),
        "warnings": [in_english(warning) for warning in plan.warnings],
        "evidence": list(plan.evidence),
        "host": plan.host,
        "home": plan.home,
        "digest": plan.digest,
        "approval": plan.approval,
        "asked_at": iso(stored.asked_at),
        "expires_at": iso(stored.expires_at),
        "answered_at": iso(stored.answered_at),
        "answered_by": stored.answered_by or None,
        "answered_via": stored.answered_via or None,
        "finished_at": iso(stored.finished_at),
        "says": in_english(stored.reason),
    }


def held_json(plan: Plan) -> dict[str, Any]:
    """A plan that must wait and was therefore not asked."""
    assert plan.hold is not None
    return {
        **unasked_json(plan),
        "reason": in_english(plan.hold.reason),
        "until": iso(plan.hold.until),
    }


def unasked_json(plan: Plan) -> dict[str, Any]:
    """A plan that is not stored yet."""
    return {
        "title": plan.title,
        "steps": [in_english(word) for word in plan.words],
        "incidents": list(plan.incidents),
        "recipes": list(plan.recipes),
        "digest": plan.digest,
    }


def unasked_lines(plan: Plan, command: str) -> list[str]:
    """A plan that waits, with the reason; one that waits for nothing but the next check."""
    steps = [f"        {number}. {in_english(word, command)}" for number, word in enumerate(plan.words, 1)]
    if plan.hold is None:
        return [f"{paint('next check', 'medium', colours())}  {plan.title}", *steps]
    until = f" until {clock(plan.hold.until)}" if plan.hold.until else ""
    return [
        f"{paint('on hold', 'medium', colours())}{until}  {plan.title}",
        f"        {harmless(in_english(plan.hold.reason, command), 1000)}",
        *steps,
    ]


def line(stored: Stored, command: str) -> str:
    when = (
        f"until {clock(stored.expires_at)}"
        if stored.state == "pending"
        else f"at {clock(stored.finished_at or stored.answered_at or stored.asked_at)}"
    )
    state = paint(STATES.get(stored.state, stored.state), COLOURS.get(stored.state, "dim"), colours())
    return f"plan {stored.id}  {state} {when}  {stored.plan.title}" + (
        f"\n        {in_english(stored.reason, command)}" if stored.reason else ""
    )


@dataclass(frozen=True)
class Answering:
    """How a person answers a plan here: the command, and a code where one was made."""

    command: str
    code: str = ""
    now: bool = False  # the question follows at once


def shown(stored: Stored, steps: list[dict[str, Any]], how_to: Answering) -> list[str]:
    """One plan in full: what a person must know before saying yes, and what became of it."""
    plan, command, code = stored.plan, how_to.command, how_to.code
    lines = [line(stored, command), f"  on {plan.host}, home {plan.home}"]
    lines += [f"  why: {harmless(chain, 1000)}"] if (chain := chain_of(plan)) else []
    lines += [f"  seen: {harmless(seen, 1000)}" for seen in plan.evidence]
    lines += [f"  {number}. {in_english(word, command)}" for number, word in enumerate(plan.words, 1)]
    if plan.verify:
        lines.append(
            f"  checked afterwards, within {spell(plan.verify.within)}: {', '.join(plan.verify.quiet)} found no more, "
            f"and the gateway {'gives a sign of life' if plan.verify.alive else 'is stopped'}"
        )
    lines += [f"  side effect: {in_english(plan.costs)}"] if plan.costs else []
    lines += [f"  note: {in_english(note, command)}" for note in (*plan.warnings, *plan.advice)]
    if stored.answered_at:
        lines.append(
            f"  answered by {stored.answered_by} via {stored.answered_via} at {clock(stored.answered_at)}"
        )
    for row in steps:
        how = "interrupted" if not row["ended_at"] else "done" if row["ok"] else "failed"
        part = "step" if row["part"] == "steps" else "roll back"
        lines.append(
            f"  {how}: {part} {row['number'] + 1}: {harmless(in_english(row['reason'], command), 1000)}"
        )
        lines += [f"      | {harmless(text)}" for text in (row["output"] or "").splitlines()[:20]]
    if code:
        lines += [
            "",
            f"  to allow it:  {command} approve {code}",
            f"  to refuse it: {command} refuse {code}",
        ]
    elif stored.state == "pending" and not how_to.now:
        lines += [
            "",
            f"  to answer here: {command} approve, or a code: {command} plan {stored.id} --code",
        ]
    elif stored.state in rows.UNFINISHED:
        lines += [
            "",
            f"  to continue: {command} resume {stored.id}    to give it up: {command} abandon {stored.id}",
        ]
    return lines


def for_scripts(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the store for scripts: their reasons as sentences."""
    found = []
    for row in rows:
        shown = {key: value for key, value in row.items() if key != "reason"}
        shown["says"] = in_english(row["reason"])
        more = row.get("more")
        if isinstance(more, dict) and "words" in more:
            words = [word if isinstance(word, str) else in_english(unpacked(word)) for word in more["words"]]
            shown["more"] = {**more, "words": words}
        found.append(shown)
    return found
