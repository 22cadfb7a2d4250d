"""The record of who was asked and what they said. A chat message is only a way to change it; this is the truth."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from watchdog.limits import Limits
from watchdog.model import Plan
from watchdog.plan import digest_of
from watchdog.store import Store
from watchdog.store import plans as rows
from watchdog.store.plans import Stored, text_of
from watchdog.text import clock, harmless, spell
from watchdog.values import dataclass

COMMAND_LINE = "command line"  # the way that is always there: who may write the store may answer
ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"  # nothing that looks like something else
LENGTH = 8


@dataclass(frozen=True)
class Answer:
    """What came of an answer, in words for the one who gave it."""

    ok: bool
    says: str
    plan_id: int = 0
    approved: bool = False


def ask(store: Store, plan: Plan, now: datetime) -> int:
    """Store the plan, before anyone is asked. The same plan is one question; a changed one takes the place of the old."""
    with store.atomic():
        expire(store, now)
        for old in rows.in_state(store, *rows.OPEN):
            if old.plan.digest == plan.digest:
                if old.plan.incidents != plan.incidents:
                    rows.join(store, old.id, plan)
                return old.id
            if old.state == "pending":
                rows.move(store, old.id, ("pending",), "superseded", finished_at=text_of(now), says="the plan changed")
                rows.audit(store, "superseded", now, old.plan, says="the plan changed; the new one is asked anew")
        plan = rows.with_id(plan, rows.save(store, plan, now))
        told = {"words": plan.words, "host": plan.host, "home": plan.home, "incidents": plan.incidents, "evidence": plan.evidence}
        rows.audit(store, "asked", now, plan, says=plan.title, more=told)
        if plan.approval == "auto":
            rows.move(
                store,
                plan.id,
                ("pending",),
                "approved",
                answered_at=text_of(now),
                answered_by="settings (auto)",
                answered_via="auto",
                answered_digest=plan.digest,
            )
            rows.audit(store, "approved", now, plan, "settings (auto)", "auto", "the settings let this recipe run without asking")
        return plan.id


def new_code(store: Store, plan_id: int, via: str, now: datetime, to: str = "") -> str:
    """A fresh code for one approver or channel; only its hash stays here. It lives as long as the question."""
    code = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
    hashed = _hash(store, code)
    with store.atomic() as db:
        db.execute('INSERT INTO codes (plan, hash, via, "to", at) VALUES (?,?,?,?,?)', (plan_id, hashed, via, to, text_of(now)))
    return code


def answer(
    store: Store,
    code: str,
    yes: bool,
    by: str,
    via: str,
    now: datetime,
    allowed: Collection[str] | None = None,
    limits: Limits | None = None,
) -> Answer:
    """A person's yes or no. `allowed` is the list of who may answer on this channel; without one, only the command line may."""
    limits = limits or Limits()
    if by not in allowed if allowed is not None else via != COMMAND_LINE:
        with store.atomic() as db:
            told = db.execute(
                "SELECT count(*) FROM audit WHERE what = 'not allowed' AND via = ? AND at > ?", (via, text_of(now - timedelta(hours=1)))
            ).fetchone()[0]
            if told < 20:  # a flood of strangers is one story, not a full disk
                rows.audit(store, "not allowed", now, by=harmless(by, 60), via=via, says="someone who is not on the list of approvers")
        return Answer(False, f"{harmless(by, 60)} may not answer on {via}; the settings list who may")
    given = _hash(store, _word(code))  # slow on purpose, so before the lock
    with store.atomic() as db:
        expire(store, now)
        # Rows in the future count too: setting the clock back opens no lock.
        wrong = db.execute(
            "SELECT count(*) FROM wrong_tries WHERE via = ? AND by = ? AND at > ?", (via, by, text_of(now - limits.locked_for))
        ).fetchone()[0]
        if wrong >= limits.wrong_tries:
            return Answer(False, f"{wrong} wrong codes; no answer is taken from {harmless(by, 60)} on {via} for {spell(limits.locked_for)}")
        row = _find(store, given) if len(_word(code)) == LENGTH else None
        if row is None or (via != COMMAND_LINE and (row["via"] != via or (row["to"] and row["to"] != by))):
            db.execute("INSERT INTO wrong_tries (via, by, at) VALUES (?,?,?)", (via, by, text_of(now)))
            rows.audit(store, "wrong code", now, by=by, via=via, says=f"try {wrong + 1} of {limits.wrong_tries}")
            return Answer(
                False, f"that code is not known; {limits.wrong_tries - wrong - 1} tries left. Open questions: hermes-watchdog plans"
            )
        stored = rows.get(store, row["plan"])
        if stored is None:
            return Answer(False, "the plan of that code is gone", row["plan"])
        return _record(store, stored, row["id"], yes, by, via, now, limits)


def _record(store: Store, stored: Stored, code_id: int, yes: bool, by: str, via: str, now: datetime, limits: Limits) -> Answer:
    if now < stored.asked_at - timedelta(minutes=5):
        return Answer(False, f"the clock went back since plan {stored.id} was asked; it is asked anew at the next check", stored.id)
    if digest_of(stored.plan) != stored.plan.digest:
        rows.move(store, stored.id, rows.OPEN, "lapsed", finished_at=text_of(now), says="changed in the store")
        rows.audit(store, "lapsed", now, stored.plan, by, via, "the stored plan is not the one that was asked")
        return Answer(
            False,
            f"plan {stored.id} changed since it was asked at {clock(stored.asked_at)}; look at it again: hermes-watchdog plan {stored.id}",
            stored.id,
        )
    # One statement decides: of two taps, or two channels at once, one finds the question still open.
    cursor = store.db.execute(
        "UPDATE plans SET state = ?, answered_at = ?, answered_by = ?, answered_via = ?, answered_digest = digest "
        "WHERE id = ? AND state = 'pending' AND expires_at > ?",
        ("approved" if yes else "refused", text_of(now), by, via, stored.id, text_of(now)),
    )
    if cursor.rowcount != 1:
        return Answer(False, _why_closed(store, stored), stored.id)
    store.db.execute("UPDATE codes SET used_at = ? WHERE id = ?", (text_of(now), code_id))
    rows.audit(store, "approved" if yes else "refused", now, stored.plan, by, via, stored.plan.title)
    if yes:
        return Answer(True, f"plan {stored.id} approved: {stored.plan.title}", stored.id, True)
    until = now + limits.refused_for
    for recipe in stored.plan.recipes:
        store.db.execute("INSERT INTO refusals (recipe, until, by, at) VALUES (?,?,?,?)", (recipe, text_of(until), by, text_of(now)))
    store.db.execute("UPDATE plans SET finished_at = ?, says = ? WHERE id = ?", (text_of(now), f"refused by {by}", stored.id))
    return Answer(
        True, f"plan {stored.id} refused; {', '.join(stored.plan.recipes)} is not proposed again before {clock(until)}", stored.id
    )


def _why_closed(store: Store, stored: Stored) -> str:
    now = rows.get(store, stored.id) or stored
    who = f"by {now.answered_by} via {now.answered_via} at {clock(now.answered_at)}" if now.answered_at else ""
    newer = next((one for one in rows.in_state(store, "pending")), None)
    again = f"; look at plan {newer.id}: hermes-watchdog plan {newer.id}" if newer else ""
    return {
        "expired": f"plan {now.id} expired at {clock(now.expires_at)}; no answer was a no{again}",
        "superseded": f"plan {now.id} changed since it was asked at {clock(now.asked_at)}{again}",
        "approved": f"plan {now.id} was already approved {who}",
        "refused": f"plan {now.id} was already refused {who}",
        "claimed": f"plan {now.id} was approved {who} and is being carried out",
    }.get(now.state, f"plan {now.id} is over ({now.state}): {now.says or 'nothing to answer'}{', answered ' + who if who else ''}")


def expire(store: Store, now: datetime) -> tuple[int, ...]:
    """No answer is a no: open questions whose time is over, each told once."""
    gone = []
    for stored in rows.in_state(store, "pending"):
        if stored.expires_at <= now and rows.move(store, stored.id, ("pending",), "expired", finished_at=text_of(now), says="no answer"):
            rows.audit(store, "expired", now, stored.plan, says="no answer is a no")
            gone.append(stored.id)
    return tuple(gone)


def withdraw(store: Store, keep: Collection[str], now: datetime) -> tuple[int, ...]:
    """Questions whose plan is not proposed any more (its digest is not among `keep`): the fault went away by itself."""
    gone = []
    with store.atomic():
        for stored in rows.in_state(store, "pending"):
            if stored.plan.digest not in keep and rows.move(
                store, stored.id, ("pending",), "lapsed", finished_at=text_of(now), says="no longer needed"
            ):
                rows.audit(store, "lapsed", now, stored.plan, says="no longer needed")
                gone.append(stored.id)
    return tuple(gone)


def approved(store: Store, now: datetime, limits: Limits | None = None) -> tuple[int, ...]:
    """Plans that may be carried out now. An approval that nobody took up in time is void, never used later."""
    ready = []
    with store.atomic():
        for stored in rows.in_state(store, "approved"):
            late = (stored.answered_at or stored.asked_at) + (limits or Limits()).carry_out_within
            if max(late, stored.expires_at) > now:
                ready.append(stored.id)
            elif rows.move(
                store, stored.id, ("approved",), "lapsed", finished_at=text_of(now), says="approved, but not carried out in time"
            ):
                rows.audit(store, "lapsed", now, stored.plan, says="approved, but not carried out in time")
    return tuple(ready)


def disarm(store: Store, why: str, now: datetime, by: str = "hermes-watchdog") -> bool:
    """Do nothing more until a person arms it; True when it was armed before."""
    with store.atomic():
        changed = rows.set_armed(store, False, by, why, now)
        if changed:
            rows.audit(store, "disarmed", now, by=by, says=why)
    return changed


def arm(store: Store, by: str, now: datetime, why: str = "", forget: bool = False) -> bool:
    """A person says that it may act again; with `forget`, cures that failed may be tried again too."""
    with store.atomic():
        changed = rows.set_armed(store, True, by, why, now)
        if forget:
            rows.forget_failures(store)
        if changed or forget:
            rows.audit(store, "armed", now, by=by, says=why + (" (failed cures may be tried again)" if forget else ""))
    return changed


def _word(code: str) -> str:
    """What was typed, without the spaces and dashes that people and keyboards add."""
    return "".join(letter for letter in code[:100].upper() if letter.isalnum())


def _find(store: Store, given: str) -> dict[str, Any] | None:
    """The row of a code; every stored hash is compared, in constant time, so that time tells nothing."""
    found = None
    for row in store.db.execute("SELECT * FROM codes ORDER BY id DESC LIMIT 1000"):
        if hmac.compare_digest(row["hash"], given):
            found = dict(row)
    return found


def _hash(store: Store, code: str) -> str:
    """Slow on purpose: who reads the store should not be able to try all codes in an evening."""
    row = store.db.execute("SELECT salt FROM salts LIMIT 1").fetchone()
    if row is None:
        store.db.execute("INSERT OR IGNORE INTO salts (id, salt) VALUES (1, ?)", (secrets.token_hex(16),))
        row = store.db.execute("SELECT salt FROM salts LIMIT 1").fetchone()
    return hashlib.scrypt(code.encode(), salt=bytes.fromhex(row["salt"]), n=2**13, r=8, p=1, maxmem=2**26).hex()
