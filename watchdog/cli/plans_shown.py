"""Stored plans as text for people and as JSON for scripts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from watchdog.cli.common import colours, paint
from watchdog.text import clock, harmless

if TYPE_CHECKING:
    from watchdog.store.plans import Stored


def plan_json(one: Stored) -> dict[str, Any]:
    """A stored plan for scripts: what, why, and what became of it. Never a code."""
    plan = one.plan
    return {
        "id": one.id,
        "state": one.state,
        "title": plan.title,
        "steps": list(plan.words),
        "incidents": list(plan.incidents),
        "recipes": list(plan.recipes),
        "chain": plan.chain,
        "costs": plan.costs,
        "warnings": list(plan.warnings),
        "evidence": list(plan.evidence),
        "host": plan.host,
        "home": plan.home,
        "digest": plan.digest,
        "approval": plan.approval,
        "asked_at": one.asked_at.isoformat(),
        "expires_at": one.expires_at.isoformat(),
        "answered_at": one.answered_at.isoformat() if one.answered_at else None,
        "answered_by": one.answered_by or None,
        "answered_via": one.answered_via or None,
        "finished_at": one.finished_at.isoformat() if one.finished_at else None,
        "says": one.says,
    }


def line(one: Stored) -> str:
    colour = {"pending": "medium", "approved": "medium", "claimed": "high", "interrupted": "high", "failed": "high", "done": "good"}
    state = {"pending": "waits for you", "claimed": "being carried out", "interrupted": "cut off"}.get(one.state, one.state)
    when = f"until {clock(one.expires_at)}" if one.state == "pending" else f"at {clock(one.finished_at or one.answered_at or one.asked_at)}"
    return f"plan {one.id}  {paint(state, colour.get(one.state, 'dim'), colours())} {when}  {one.plan.title}" + (
        f"\n        {harmless(one.says, 2000)}" if one.says else ""
    )


def shown(one: Stored, steps: list[dict[str, Any]], code: str) -> list[str]:
    plan = one.plan
    lines = [line(one), f"  on {plan.host}, home {plan.home}"]
    lines += [f"  why: {harmless(plan.chain, 1000)}"] if plan.chain else []
    lines += [f"  seen: {harmless(seen, 1000)}" for seen in plan.evidence]
    lines += [f"  {number}. {harmless(words, 5000)}" for number, words in enumerate(plan.words, 1)]
    if plan.verify:
        lines.append(
            f"  it worked when {', '.join(plan.verify.quiet)} are quiet and the gateway "
            f"{'gives a sign of life' if plan.verify.alive else 'is stopped'}, within {plan.verify.within.total_seconds():g} s"
        )
    lines += [f"  it costs: {plan.costs}"] if plan.costs else []
    lines += [f"  note: {words}" for words in (*plan.warnings, *plan.advice)]
    if one.answered_at:
        lines.append(f"  answered by {one.answered_by} via {one.answered_via} at {clock(one.answered_at)}")
    for row in steps:
        how = "cut off" if not row["ended_at"] else "done" if row["ok"] else "failed"
        part = "step" if row["part"] == "steps" else "roll back"
        lines.append(f"  {how}: {part} {row['number'] + 1}: {harmless(row['says'] or '', 1000)}")
        lines += [f"      | {harmless(text)}" for text in (row["output"] or "").splitlines()[:20]]
    if code:
        lines += ["", f"  to allow it:  hermes-watchdog approve {code}", f"  to refuse it: hermes-watchdog refuse {code}"]
    elif one.state == "pending":
        lines += ["", f"  to answer here: hermes-watchdog plan {one.id} --code"]
    elif one.state in ("interrupted", "claimed"):
        lines += ["", f"  to go on: hermes-watchdog resume {one.id}    to leave it: hermes-watchdog abandon {one.id}"]
    return lines
