"""Plans, answers and steps done, as rows.

A plan's state: pending (a person is asked), approved, refused, expired, superseded (a changed plan took its
place), lapsed (approved, but no longer needed or no longer the same), claimed (being carried out),
interrupted (the watchdog died in the middle), done, failed, abandoned. Every change of state is one UPDATE
that names the state it comes from.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from watchdog.errors import WatchdogError
from watchdog.model import Outcome, Plan, Reason, Verify, as_phrase, packed, plain, unpacked
from watchdog.plan.limits import Action, History, Refusal
from watchdog.steps.common import pack, pack_verify, unpack
from watchdog.store import Store
from watchdog.store.audit import Who, audit, audit_lines
from watchdog.store.messages import disarmed, maintenance
from watchdog.store.rows import from_row, pack_reason, reason_of, stamp, when
from watchdog.store.store import reads_rows
from watchdog.text import redact
from watchdog.values import dataclass

__all__ = ["Who", "audit", "audit_lines"]  # every change of a plan is audited where it is made

OPEN = ("pending", "approved")
UNFINISHED = ("claimed", "interrupted")
_PLAIN = ("title", "restarts", "stops", "host", "home", "approval", "digest")
_LISTS = ("incidents", "recipes")
_REASONS = ("words", "also", "advice", "warnings")  # lists of reasons


@dataclass(frozen=True)
class Stored:
    """A plan as it was stored, and what became of it."""

    plan: Plan
    state: str
    asked_at: datetime
    expires_at: datetime
    answered_at: datetime | None
    answered_by: str
    answered_via: str
    answered_digest: str
    claimed_at: datetime | None
    claimed_by: str
    finished_at: datetime | None
    reason: Reason | None  # why it ended so, or where it was cut off

    @property
    def id(self) -> int:
        return self.plan.id


def save(store: Store, plan: Plan, now: datetime) -> int:
    """Store it as a question; the caller holds the transaction."""
    return store.insert(
        "plans", digest=plan.digest, state="pending", title=plan.title, content=_content(plan),
        recipes=json.dumps(plan.recipes), approval=plan.approval, asked_at=now, expires_at=now + plan.lasts,
    )  # fmt: skip


def join(store: Store, plan_id: int, plan: Plan) -> None:
    """The same steps for more incidents: what would be done is the same, the incidents it is for are new."""
    store.db.execute(
        "UPDATE plans SET content = ? WHERE id = ? AND digest = ? AND state = 'pending'",
        (_content(plan), plan_id, plan.digest),
    )


def _content(plan: Plan) -> str:
    content: dict[str, Any] = {name: getattr(plan, name) for name in (*_PLAIN, *_LISTS)}
    content |= {
        "steps": [pack(step) for step in plan.steps],
        "rollback": [pack(step) for step in plan.rollback],
        "verify": pack_verify(plan.verify),
        "lasts": plan.lasts.total_seconds(),
        "parts": plan.parts,
        "costs": packed(plan.costs),
        "chain": packed(plan.chain),
        "evidence": packed(plan.evidence, redact),
    }
    content |= {name: packed(getattr(plan, name)) for name in _REASONS}
    return json.dumps(content, ensure_ascii=False)


def get(store: Store, plan_id: int) -> Stored | None:
    row = store.db.execute("SELECT * FROM plans WHERE id = ?", (plan_id,)).fetchone()
    return _stored(row) if row else None


def home_of(store: Store) -> str | None:
    """The home that the plans of this store are about; None where it holds none."""
    row = store.db.execute("SELECT content FROM plans ORDER BY id DESC LIMIT 1").fetchone()
    return str(json.loads(row["content"])["home"]) if row else None


def in_state(store: Store, *states: str) -> tuple[Stored, ...]:
    marks = ",".join("?" * len(states))
    return tuple(
        _stored(row)
        for row in store.db.execute(f"SELECT * FROM plans WHERE state IN ({marks}) ORDER BY id", states)
    )


def any_in_state(store: Store, *states: str) -> bool:
    marks = ",".join("?" * len(states))
    return store.db.execute(f"SELECT 1 FROM plans WHERE state IN ({marks})", states).fetchone() is not None


def newest(store: Store, count: int = 50) -> tuple[Stored, ...]:
    return tuple(
        _stored(row) for row in store.db.execute("SELECT * FROM plans ORDER BY id DESC LIMIT ?", (count,))
    )


def move(
    store: Store, plan_id: int, before: Sequence[str], after: str, **columns: str | datetime | Reason
) -> bool:
    """Compare and set: True for the one caller who found it in the state it was thought to be in."""
    sets = ", ".join(["state = ?", *(f"{name} = ?" for name in columns)])
    marks = ",".join("?" * len(before))
    cursor = store.db.execute(
        f"UPDATE plans SET {sets} WHERE id = ? AND state IN ({marks})",
        (after, *map(_column, columns.values()), plan_id, *before),
    )
    return cursor.rowcount == 1


def _column(value: str | datetime | Reason) -> str | None:
    if isinstance(value, Reason):
        return pack_reason(value)
    return stamp(value) if isinstance(value, datetime) else value


def _reasons(values: Any) -> tuple[Reason, ...]:
    """A stored list of reasons; an older version kept sentences."""
    return tuple(plain(value) if isinstance(value, str) else _reason(value) for value in values)


def _reason(value: Any) -> Reason:
    reason = unpacked(value)
    if not isinstance(reason, Reason):
        raise TypeError("no reason")
    return reason


def _stored(row: Any) -> Stored:
    try:
        content = json.loads(row["content"])
        verify = None
        if content["verify"]:
            quiet, alive, within = content["verify"]
            verify = Verify(tuple(quiet), bool(alive), timedelta(seconds=within))
        fields: dict[str, Any] = {name: content[name] for name in _PLAIN}
        fields |= {name: tuple(content[name]) for name in _LISTS}
        fields |= {name: _reasons(content.get(name, ())) for name in _REASONS}
        fields["evidence"] = tuple(as_phrase(unpacked(value)) for value in content["evidence"])
        for name in ("costs", "chain"):
            fields[name] = next(iter(_reasons([content[name]] if content[name] else ())), None)
        plan = Plan(
            **fields,
            verify=verify,
            parts=tuple((str(recipe), str(key), int(place)) for recipe, key, place in content["parts"]),
            steps=tuple(unpack(step) for step in content["steps"]),
            rollback=tuple(unpack(step) for step in content["rollback"]),
            lasts=timedelta(seconds=content["lasts"]),
            id=row["id"],
        )
        return from_row(Stored, row, plan=plan, reason=reason_of(row))
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise WatchdogError(
            f"plan {row['id']} in the store cannot be read; it was changed by something else, and will not be run"
        ) from error


# steps


@dataclass(frozen=True)
class StepRow:
    """Which step of which plan: the key of a row in steps_done."""

    plan: int
    part: str  # steps, rollback
    number: int


def begin_step(store: Store, step: StepRow, now: datetime) -> None:
    """Written before the step runs, so that a crash leaves a trace; fails when it was begun before."""
    store.insert("steps_done", plan=step.plan, part=step.part, number=step.number, begun_at=now)


def end_step(store: Store, step: StepRow, outcome: Outcome, now: datetime) -> None:
    store.db.execute(
        "UPDATE steps_done SET ended_at = ?, ok = ?, reason = ?, output = ? WHERE plan = ? AND part = ? AND number = ?",
        (stamp(now), int(outcome.ok), pack_reason(outcome.reason), redact(outcome.output), *_key(step)),
    )


def forget_step(store: Store, step: StepRow) -> None:
    """A person chose to go on: this step is begun again. What it did the first time is in the audit."""
    store.db.execute("DELETE FROM steps_done WHERE plan = ? AND part = ? AND number = ?", _key(step))


def _key(step: StepRow) -> tuple[int, str, int]:
    return step.plan, step.part, step.number


@reads_rows
def steps_of(store: Store, plan_id: int) -> list[dict[str, Any]]:
    """The steps that were begun, in order; `reason` says how each ended."""
    names = ("part", "number", "begun_at", "ended_at", "ok", "output")
    rows = store.db.execute("SELECT * FROM steps_done WHERE plan = ? ORDER BY id", (plan_id,))
    return [{**{name: row[name] for name in names}, "reason": reason_of(row)} for row in rows]


# what budgets count


def begin_action(store: Store, plan: Plan, now: datetime) -> None:
    for recipe, key, _ in plan.parts:
        begun = {"at": now, "restarted": int(plan.restarts), "state": "begun", "forgotten": 0}
        store.insert("actions", plan=plan.id, recipe=recipe, key=key, **begun)


def action_begun(store: Store, plan_id: int) -> bool:
    return store.db.execute("SELECT 1 FROM actions WHERE plan = ?", (plan_id,)).fetchone() is not None


def refused_by(store: Store, plan_id: int) -> str:
    """Who said no to a plan; '' when no one did."""
    row = store.db.execute(
        "SELECT by FROM refusals WHERE plan = ? ORDER BY id LIMIT 1", (plan_id,)
    ).fetchone()
    return str(row["by"]) if row else ""


def end_action(store: Store, plan_id: int, recipe: str, key: str, state: str) -> None:
    store.db.execute(
        "UPDATE actions SET state = ? WHERE plan = ? AND recipe = ? AND key = ?",
        (state, plan_id, recipe, key),
    )


def note_starts(store: Store, times: Iterable[datetime]) -> None:
    """Starts of the gateway, by anyone; the same start seen again (or a second later, by its log) is one."""
    known = [
        datetime.fromisoformat(row["at"])
        for row in store.db.execute("SELECT at FROM starts ORDER BY at DESC LIMIT 500")
    ]
    for at in sorted(times):
        if not any(abs(at - before) < timedelta(seconds=10) for before in known):
            store.insert("starts", "INSERT OR IGNORE", at=at)
            known.append(at)


@reads_rows
def history(
    store: Store | None,
    now: datetime,
    not_checked: Iterable[str] = (),
    besides: int = 0,
) -> History:
    """What the planner must know of the last month and the future, without the plan `besides`."""
    if store is None:
        return History(not_checked=frozenset(not_checked))
    since = stamp(now - timedelta(days=31))
    last_armed = store.db.execute(
        "SELECT seen, at FROM arming WHERE armed = 1 ORDER BY id DESC LIMIT 1"
    ).fetchone()
    seen = last_armed["seen"] if last_armed else 0

    def done_at(row: Any) -> datetime:
        # What was done before a person armed it was not done after: so a clock that was wrong for a while can
        # be put right.
        at = datetime.fromisoformat(row["at"])
        return min(at, datetime.fromisoformat(last_armed["at"])) if row["id"] <= seen else at

    actions = tuple(
        Action(
            row["recipe"],
            row["key"],
            done_at(row),
            bool(row["restarted"]),
            "ok" if row["forgotten"] and row["state"] == "failed" else row["state"],
            row["plan"],
            row["id"] > seen,
            (when(row["ended_at"]) or done_at(row)) - done_at(row),
        )
        for row in store.db.execute(
            "SELECT actions.*, (SELECT max(ended_at) FROM steps_done WHERE steps_done.plan = actions.plan) AS ended_at "
            "FROM actions WHERE at > ? AND plan <> ? ORDER BY id",
            (since, besides),
        )
    )
    starts = tuple(
        datetime.fromisoformat(row["at"])
        for row in store.db.execute("SELECT at FROM starts WHERE at > ? ORDER BY at", (since,))
    )
    refused = store.db.execute("SELECT * FROM refusals WHERE until > ?", (stamp(now),))
    refusals = tuple(from_row(Refusal, row) for row in refused)
    begun = store.db.execute(
        "SELECT id FROM plans WHERE state IN (?, ?) AND id <> ? ORDER BY id", (*UNFINISHED, besides)
    )
    unfinished = tuple(row["id"] for row in begun)
    planned = maintenance(store, now)
    until = planned.until if planned else None
    return History(actions, starts, refusals, disarmed(store), unfinished, until, frozenset(not_checked))


def set_armed(store: Store, armed: bool, by: str, why: Reason, now: datetime) -> bool:
    """True when this changed something; arming also forgets starts that a wrong clock put into the future."""
    row = store.db.execute("SELECT armed FROM arming ORDER BY id DESC LIMIT 1").fetchone()
    changed = bool(row["armed"] if row else 1) != armed
    if armed:
        store.db.execute("DELETE FROM starts WHERE at > ?", (stamp(now),))
    if changed or armed:
        seen = store.db.execute("SELECT coalesce(max(id), 0) FROM actions").fetchone()[0]
        store.insert("arming", armed=int(armed), by=by, reason=pack_reason(why), at=now, seen=seen)
    return changed


def forget_failures(store: Store) -> None:
    store.db.execute("UPDATE actions SET forgotten = 1 WHERE state = 'failed'")
