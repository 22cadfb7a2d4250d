"""A plan as text for people, in their language, and as JSON for scripts, in English."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from watchdog.model import Outcome, OutcomeKind, Plan, Reason, unpacked
from watchdog.model.plan_reasons import Chain, Lapse
from watchdog.notify.translate import in_english
from watchdog.reports.language import Reader
from watchdog.store import plans as rows
from watchdog.store.plans import Stored
from watchdog.text import clock, harmless, iso, picked
from watchdog.values import Any

COLOURS = {
    "pending": "medium",
    "approved": "medium",
    "claimed": "high",
    "interrupted": "high",
    "failed": "high",
    "done": "good",
}


def stored_json(stored: Stored) -> dict[str, Any]:
    """A stored plan for scripts: what, why, and what became of it. Never a code."""
    plan = stored.plan
    return {
        **picked(stored, "id state"),
        "title": plan.title,
        "steps": [in_english(word) for word in plan.words],
        "incidents": list(plan.incidents),
        "recipes": list(plan.recipes),
        "chain": "; ".join(map(in_english, _chain(plan))),
        "costs": in_english(plan.costs),
        "warnings": [in_english(warning) for warning in plan.warnings],
        **picked(plan, "evidence host home digest approval"),
        **picked(stored, "asked_at expires_at answered_at"),
        "answered_by": stored.answered_by or None,
        "answered_via": stored.answered_via or None,
        "finished_at": iso(stored.finished_at),
        "says": in_english(stored.reason),
    }


def proposed_json(plan: Plan) -> dict[str, Any]:
    """A plan of a check: proposed, asked or on hold."""
    return {
        "id": plan.id or None,
        **unasked_json(plan),
        "approval": plan.approval,
        "hold": _hold_json(plan) if plan.hold else None,
    }


def held_json(plan: Plan) -> dict[str, Any]:
    """A plan that must wait and was therefore not asked."""
    return {**unasked_json(plan), **_hold_json(plan)}


def unasked_json(plan: Plan) -> dict[str, Any]:
    """A plan that is not stored yet."""
    return {
        **picked(plan, "title incidents recipes"),
        "steps": [in_english(word) for word in plan.words],
        "digest": plan.digest,
    }


def _hold_json(plan: Plan) -> dict[str, Any]:
    assert plan.hold is not None
    return {"reason": in_english(plan.hold.reason), "until": iso(plan.hold.until)}


def outcome_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "step": in_english(outcome.what),
        "ok": outcome.ok,
        "says": in_english(outcome.reason),
        "seconds": outcome.took.total_seconds(),
    }


def for_scripts(found: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the store for scripts: their reasons as sentences."""
    shown = []
    for row in found:
        value = {key: cell for key, cell in row.items() if key != "reason"}
        value["says"] = in_english(row["reason"])
        more = row.get("more")
        if isinstance(more, dict) and "words" in more:
            words = [word if isinstance(word, str) else in_english(unpacked(word)) for word in more["words"]]
            value["more"] = {**more, "words": words}
        shown.append(value)
    return shown


def _chain(plan: Plan) -> list[Reason]:
    """'A → B' and 'also open: C': what the plan is for, and what else is open."""
    also = Reason(Chain.ALSO_OPEN, {"titles": plan.also}) if plan.also else None
    return [reason for reason in (plan.chain, also) if reason]


def chain_text(plan: Plan, reader: Reader) -> str:
    return harmless(reader("check.and").join(filter(None, map(reader.reason, _chain(plan)))), 1000)


def step_lines(plan: Plan, reader: Reader) -> list[str]:
    """'1. stop the gateway: systemctl stop …', numbered."""
    return [f"{number}. {reader.reason(word)}" for number, word in enumerate(plan.words, 1)]


def proposed_lines(plan: Plan, reader: Reader) -> list[str]:
    """A plan as a check prints it."""
    title = reader.plan_title(plan)
    head = reader("check.plan-number", title=title, plan=plan.id) if plan.id else title
    lines = [chain] if (chain := chain_text(plan, reader)) else []
    lines += step_lines(plan, reader)
    lines += [reader.reason(warning) for warning in plan.warnings]
    if plan.costs:
        lines.append(reader("check.side-effect", costs=reader.reason(plan.costs)))
    if plan.hold:
        key = "check.held-until" if plan.hold.until else "check.held"
        fields = {"why": reader.reason(plan.hold.reason), "until": plan.hold.until and clock(plan.hold.until)}
        lines.append(reader(key, **fields))
    elif plan.approval == "ask":
        lines.append(reader("check.waits-code" if plan.id else "check.waits", plan=plan.id))
    return [f"{reader.paint(reader('check.plan'), 'bold')}  {head}", *(f"      {line}" for line in lines)]


def outcome_lines(outcomes: Sequence[Outcome], reader: Reader) -> list[str]:
    """What came of each step, of the verification and of the plan."""
    lines = []
    for outcome in outcomes:
        key, how = ("done", "good") if outcome.ok else ("failed", "high")
        if outcome.kind == OutcomeKind.WAITS:
            key, how = "on-hold", "medium"
        elif outcome.reason.key in tuple(Lapse):
            key, how = "not-done", "medium"
        says = harmless(reader.reason(outcome.reason), 2000)
        lines.append(
            f"{reader.paint(reader(f'check.{key}'), how)}  "
            + reader("end.step", what=reader.reason(outcome.what), result=says)
        )
    return lines


def unasked_lines(plan: Plan, reader: Reader) -> list[str]:
    """A plan that waits, with the reason; one that waits for nothing but the next check."""
    steps = [f"        {line}" for line in step_lines(plan, reader)]
    title = reader.plan_title(plan)
    if plan.hold is None:
        return [f"{reader.paint(reader('status.label.next'), 'medium')}  {title}", *steps]
    until = f" {reader('plan.until', until=clock(plan.hold.until))}" if plan.hold.until else ""
    return [
        f"{reader.paint(reader('status.label.held'), 'medium')}{until}  {title}",
        f"        {harmless(reader.reason(plan.hold.reason), 1000)}",
        *steps,
    ]


def stored_lines(stored: Stored, reader: Reader) -> list[str]:
    """A stored plan in a list: its state and title, and what became of it."""
    pending = stored.state == "pending"
    moment = stored.expires_at if pending else stored.finished_at or stored.answered_at or stored.asked_at
    state = reader.paint(reader.plan_state(stored.state), COLOURS.get(stored.state, "dim"))
    when = reader("plan.until", until=clock(moment)) if pending else reader("plan.at", at=clock(moment))
    title = reader.plan_title(stored.plan)
    head = f"{reader('status.label.plan', plan=stored.id)}  {state} {when}  {title}"
    return [head, f"        {reader.reason(stored.reason)}"] if stored.reason else [head]


@dataclass(frozen=True)
class Answering:
    """How a person answers a plan here: a code where one was made, or the question that follows at once."""

    code: str = ""
    asked_now: bool = False
    at_work: bool = False  # a plan is carried out right now


def full_lines(
    stored: Stored, steps: Sequence[dict[str, Any]], reader: Reader, answering: Answering
) -> list[str]:
    """One plan in full: what a person must know before saying yes, and what became of it."""
    plan = stored.plan
    lines = [reader("plan.where", host=plan.host, home=plan.home)]
    lines += [reader("plan.why", chain=chain)] if (chain := chain_text(plan, reader)) else []
    lines += [reader("plan.seen", evidence=harmless(reader.phrase(seen), 1000)) for seen in plan.evidence]
    lines += step_lines(plan, reader)
    if plan.verify:
        key = "plan.verify-alive" if plan.verify.alive else "plan.verify-stopped"
        rules = reader.joined(plan.verify.quiet)
        lines.append(reader(key, within=reader.span(plan.verify.within), rules=rules))
    lines += [reader("check.side-effect", costs=reader.reason(plan.costs))] if plan.costs else []
    lines += [reader("plan.note", note=reader.reason(note)) for note in (*plan.warnings, *plan.advice)]
    if stored.answered_at:
        fields = {"by": stored.answered_by, "via": stored.answered_via, "at": stored.answered_at}
        lines.append(reader.reason(Reason("plan.answered", fields)))
    for row in steps:
        how = "interrupted" if not row["ended_at"] else "done" if row["ok"] else "failed"
        part = reader("plan.step" if row["part"] == "steps" else "plan.roll-back", number=row["number"] + 1)
        says = harmless(reader.reason(row["reason"]), 1000)
        lines.append(f"{reader(f'plan.{how}')}{part}{reader('plan.colon')}{says}")
        lines += [f"    | {harmless(text)}" for text in (row["output"] or "").splitlines()[:20]]
    if answering.code:
        lines += ["", *(reader(f"plan.{verb}", code=answering.code) for verb in ("allow", "refuse"))]
    elif stored.state == "pending" and not answering.asked_now:
        lines += ["", reader("plan.answer", plan=stored.id)]
    elif stored.state in rows.UNFINISHED and not answering.at_work:
        lines += ["", reader("plan.go-on", plan=stored.id)]
    return [*stored_lines(stored, reader), *(f"  {line}".rstrip() for line in lines)]
