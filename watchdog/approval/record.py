"""The record of who was asked and what they said. A chat message only changes it; this is the truth."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Any

from watchdog.config.settings import Limits
from watchdog.model import Hold, Plan, Reason, plain
from watchdog.model.plan_reasons import End, Note, Said
from watchdog.plan.limits import unfinished
from watchdog.plan.planner import digest_of
from watchdog.store import Store
from watchdog.store import plans as rows
from watchdog.store.plans import Stored
from watchdog.store.recovery import disarm as disarm  # the other half of `arm`
from watchdog.store.rows import stamp
from watchdog.text import harmless
from watchdog.values import dataclass, replace

COMMAND_LINE = "command line"  # the way that is always there: who may write the store may answer
PAGE = "page"  # served on the host itself; it takes the codes for the host's shell, and no other channel does
ALPHABET = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"  # nothing that looks like something else
LENGTH = 8


@dataclass(frozen=True)
class Answer:
    """What came of an answer, for the one who gave it."""

    ok: bool
    reason: Reason
    plan_id: int = 0
    approved: bool = False


@dataclass(frozen=True)
class GivenAnswer:
    """A yes or no with its code, who gave it, and where."""

    code: str
    yes: bool
    by: str
    via: str
    # who may answer there; None: only the command line may
    allowed: Collection[str] | None = None
    digest: str = ""  # of the plan that was shown, where the channel can tell; '' where it cannot


def submit(store: Store, plans: Sequence[Plan], now: datetime) -> tuple[Plan, ...]:
    """Record what may be asked, and only that; withdraw the questions whose plan is not proposed any more.

    Gives the plans, with their numbers, or with why they are not asked. A question stays open while its plan is only
    waiting for something; it goes when the plan itself is gone.
    """
    asked = tuple(plan if plan.hold else _asked(store, plan, now) for plan in plans)
    withdraw(store, {plan.digest for plan in plans}, now)
    return asked


def _asked(store: Store, plan: Plan, now: datetime) -> Plan:
    """The plan with its number, or with why it is not asked: another check is carrying one out by now."""
    number = ask(store, plan, now)
    busy = () if number else rows.history(store, now).unfinished
    return replace(plan, hold=Hold(unfinished(busy))) if busy else replace(plan, id=number)


def ask(store: Store, plan: Plan, now: datetime) -> int:
    """Store the plan, before anyone is asked.

    The same plan is one question; a changed one takes the place of the old. 0 while another is being carried
    out: what is seen meanwhile is about to change.
    """
    with store.atomic():
        expire(store, now)
        if rows.in_state(store, *rows.UNFINISHED):
            return 0
        for old in rows.in_state(store, *rows.OPEN):
            if old.plan.digest == plan.digest:
                if old.plan.incidents != plan.incidents:
                    rows.join(store, old.id, plan)
                return old.id
            if old.state == "pending":
                _end(store, old, "superseded", Reason(End.PLAN_CHANGED), now)
        plan = replace(plan, id=rows.save(store, plan, now))
        shown = {name: getattr(plan, name) for name in ("words", "host", "home", "incidents")}
        shown["evidence"] = [str.__str__(seen) for seen in plan.evidence]  # the audit is in English
        rows.audit(store, "asked", now, plan, reason=plan.title_reason, **shown)
        if plan.approval == "auto":
            who = rows.Who("settings (auto)", "auto")
            answered = _answered(who, now, answered_digest=plan.digest)
            rows.move(store, plan.id, ("pending",), "approved", **answered)
            rows.audit(store, "approved", now, plan, who, reason=Reason(Note.BY_SETTINGS))
        return plan.id


def _end(store: Store, stored: Stored, state: str, reason: Reason, now: datetime) -> bool:
    """Close a question that is still open; True for the one caller who found it so."""
    if not rows.move(store, stored.id, (stored.state,), state, finished_at=now, reason=reason):
        return False
    rows.audit(store, state, now, stored.plan, reason=reason)
    return True


def new_code(store: Store, plan_id: int, via: str, now: datetime, to: str = "") -> str:
    """A fresh code for one approver or channel, valid as long as the question; only its hash stays here."""
    code = "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))
    hashed = _hash(store, code)
    with store.atomic():
        store.insert("codes", plan=plan_id, hash=hashed, via=via, to=to, at=now)
    return code


def answer(store: Store, reply: GivenAnswer, now: datetime, limits: Limits | None = None) -> Answer:
    """A person's yes or no. Of several answers known before the first step, one no decides."""
    limits = limits or Limits()
    who = {"by": harmless(reply.by, 60), "via": reply.via}
    if reply.by not in reply.allowed if reply.allowed is not None else reply.via != COMMAND_LINE:
        _note_stranger(store, reply, now)
        return Answer(False, Reason(Said.NOT_ALLOWED, who))
    word = _word(reply.code)
    if len(word) != LENGTH:  # a word of another length cannot be a guess at a code: it costs no try
        return Answer(False, Reason(Said.WRONG_FORM, {"length": LENGTH, "given": len(word)}))
    given = _hash(store, word)  # slow on purpose, so before the lock
    with store.atomic() as db:
        expire(store, now)
        # Rows in the future count too: setting the clock back opens no lock.
        wrong = db.execute(
            "SELECT count(*) FROM wrong_tries WHERE via = ? AND by = ? AND at > ?",
            (reply.via, reply.by, stamp(now - limits.locked_for)),
        ).fetchone()[0]
        row = _find(store, given)
        theirs = row is not None and _is_theirs(row, reply)
        if wrong >= limits.wrong_tries and (reply.yes or not theirs):  # a no with its code always counts
            return Answer(False, Reason(Said.LOCKED, {**who, "count": wrong, "span": limits.locked_for}))
        if row is None or not theirs:
            store.insert("wrong_tries", via=reply.via, by=reply.by, at=now)
            tries = Reason(Note.WRONG_CODE, {"number": wrong + 1, "limit": limits.wrong_tries})
            rows.audit(store, "wrong code", now, who=rows.Who(reply.by, reply.via), reason=tries)
            return Answer(False, Reason(Said.UNKNOWN_CODE, {"count": limits.wrong_tries - wrong - 1}))
        stored = rows.get(store, row["plan"])
        if stored is None:
            return Answer(False, Reason(Said.PLAN_GONE), row["plan"])
        if reply.digest and reply.digest != stored.plan.digest:
            return Answer(False, Reason(Said.OTHER_PLAN, {"plan": stored.id}), stored.id)
        result = _record(store, stored, reply, now, limits)
        if result.ok:
            db.execute("UPDATE codes SET used_at = ? WHERE id = ?", (stamp(now), row["id"]))
        return result


def _is_theirs(row: dict[str, Any], reply: GivenAnswer) -> bool:
    """A code is good for the person and the place that it was sent to, and on the host."""
    here = (COMMAND_LINE, PAGE) if reply.via == PAGE else (reply.via,)
    return reply.via == COMMAND_LINE or (row["via"] in here and row["to"] in ("", None, reply.by))


def _note_stranger(store: Store, reply: GivenAnswer, now: datetime) -> None:
    with store.atomic() as db:
        noted = db.execute(
            "SELECT count(*) FROM audit WHERE what = 'not allowed' AND via = ? AND at > ?",
            (reply.via, stamp(now - timedelta(hours=1))),
        ).fetchone()[0]
        if noted < 20:  # a flood of strangers is one story, not a full disk
            who = rows.Who(harmless(reply.by, 60), reply.via)
            rows.audit(store, "not allowed", now, who=who, reason=Reason(Note.STRANGER))


def _record(store: Store, stored: Stored, reply: GivenAnswer, now: datetime, limits: Limits) -> Answer:
    plan = stored.plan
    who = rows.Who(reply.by, reply.via)
    if now < stored.asked_at - timedelta(minutes=5):
        return Answer(False, Reason(Said.CLOCK_WENT_BACK, {"plan": stored.id}), stored.id)
    if digest_of(plan) != plan.digest:
        reason = Reason(End.CHANGED_IN_STORE)
        rows.move(store, stored.id, rows.OPEN, "lapsed", finished_at=now, reason=reason)
        rows.audit(store, "lapsed", now, plan, who, reason=reason)
        changed = {"plan": stored.id, "at": stored.asked_at}
        return Answer(False, Reason(Said.CHANGED, changed), stored.id)
    if not reply.yes:
        return _refuse(store, stored, reply, now, limits)
    # One statement decides: of two taps, or two channels at once, one finds the question still open.
    cursor = store.db.execute(
        "UPDATE plans SET state = 'approved', answered_at = ?, answered_by = ?, answered_via = ?, answered_digest = digest "
        "WHERE id = ? AND state = 'pending' AND expires_at > ?",
        (stamp(now), reply.by, reply.via, stored.id, stamp(now)),
    )
    if cursor.rowcount != 1:
        return Answer(False, _why_closed(store, stored), stored.id)
    rows.audit(store, "approved", now, plan, who, reason=plan.title_reason)
    approved = {"plan": stored.id, "title": plan.title_reason}
    return Answer(True, Reason(Said.APPROVED, approved), stored.id, True)


def _refuse(store: Store, stored: Stored, reply: GivenAnswer, now: datetime, limits: Limits) -> Answer:
    """A no ends a question or an approval; a plan that has begun, or was cut off, stops before its next step if that is safe."""
    who, plan = rows.Who(reply.by, reply.via), stored.plan
    first = stored.answered_by if stored.state != "pending" else ""
    reason = Reason(End.REFUSED, {"by": reply.by})
    if first:
        reason = Reason(End.REFUSED_AFTER_YES, {"by": reply.by, "first": first})
    answered = _answered(who, now, finished_at=now, reason=reason)
    ended = rows.move(store, stored.id, rows.OPEN, "refused", **answered)
    running = not ended and stored.state in rows.UNFINISHED
    if not ended and not running:
        return Answer(False, _why_closed(store, stored), stored.id)
    rows.audit(store, "refused", now, plan, who, reason=reason)
    until = now + limits.refused_for
    for recipe in plan.recipes:
        store.insert("refusals", recipe=recipe, until=until, by=reply.by, at=now, plan=stored.id)
    fields = {"plan": stored.id, "recipes": plan.recipes, "until": until}
    if running:
        return Answer(True, Reason(Said.STOPPING, {"plan": stored.id}), stored.id)
    if first:
        return Answer(True, Reason(Said.STOPPED, {**fields, "by": first}), stored.id)
    return Answer(True, Reason(Said.REFUSED, fields), stored.id)


def _answered(who: rows.Who, now: datetime, **more: Any) -> dict[str, Any]:
    return {"answered_at": now, "answered_by": who.name, "answered_via": who.via, **more}


def _why_closed(store: Store, stored: Stored) -> Reason:
    now = rows.get(store, stored.id) or stored
    plan = {"plan": now.id}
    who = {"by": now.answered_by, "via": now.answered_via, "at": now.answered_at}
    match now.state:
        case "expired":
            reason = Reason(Said.EXPIRED, {**plan, "at": now.expires_at})
        case "superseded":
            reason = Reason(Said.SUPERSEDED, {**plan, "at": now.asked_at})
        case "approved":
            return Reason(Said.ALREADY_APPROVED, {**plan, **who})
        case "refused":
            return Reason(Said.ALREADY_REFUSED, {**plan, **who})
        case "claimed":
            return Reason(Said.BEING_DONE, {**plan, **who})
        case _:
            fields = {**plan, "state": now.state, "why": now.reason or Reason(End.NO_LONGER_NEEDED)}
            answered = {**fields, **who}
            return Reason(Said.OVER_ANSWERED, answered) if now.answered_at else Reason(Said.OVER, fields)
    newer = next(iter(rows.in_state(store, "pending")), None)
    return Reason(Said.SEE_NEWER, {"why": reason, "newer": newer.id}) if newer else reason


def expire(store: Store, now: datetime) -> tuple[int, ...]:
    """No answer is a no: open questions whose time has passed, each told once."""
    late = [stored for stored in rows.in_state(store, "pending") if stored.expires_at <= now]
    reason = Reason(End.NO_ANSWER)
    return tuple(stored.id for stored in late if _end(store, stored, "expired", reason, now))


def withdraw(store: Store, keep: Collection[str], now: datetime) -> tuple[int, ...]:
    """Close questions whose plan is not proposed any more: the fault went away by itself."""
    with store.atomic():
        gone = [stored for stored in rows.in_state(store, "pending") if stored.plan.digest not in keep]
        reason = Reason(End.NO_LONGER_NEEDED)
        return tuple(stored.id for stored in gone if _end(store, stored, "lapsed", reason, now))


def approved(store: Store, now: datetime, limits: Limits | None = None) -> tuple[int, ...]:
    """Plans that may be carried out now; an approval that was not taken up in time is void."""
    ready = []
    with store.atomic():
        for stored in rows.in_state(store, "approved"):
            late = (stored.answered_at or stored.asked_at) + (limits or Limits()).carry_out_within
            if max(late, stored.expires_at) > now:
                ready.append(stored.id)
            else:
                _end(store, stored, "lapsed", Reason(End.TOO_LATE), now)
    return tuple(ready)


def arm(store: Store, by: str, now: datetime, why: str = "", forget: bool = False) -> bool:
    """A person says that it may act again; with `forget`, repairs that failed may be tried again too."""
    reason = plain(why)
    if forget:
        reason = Reason(Note.WORDS_AND_FORGET, {"words": why}) if why else Reason(Note.FORGET_FAILURES)
    with store.atomic():
        changed = rows.set_armed(store, True, by, plain(why), now)
        if forget:
            rows.forget_failures(store)
        if changed or forget:
            rows.audit(store, "armed", now, who=rows.Who(by), reason=reason)
    return changed


def knows(store: Store, code: str) -> bool:
    """Whether this store gave out the code; asks only, counts no try, writes nothing."""
    if store.db.execute("SELECT 1 FROM salts LIMIT 1").fetchone() is None:
        return False
    return _find(store, _hash(store, _word(code))) is not None


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
        store.insert("salts", "INSERT OR IGNORE", id=1, salt=secrets.token_hex(16))
        row = store.db.execute("SELECT salt FROM salts LIMIT 1").fetchone()
    return hashlib.scrypt(
        code.encode(), salt=bytes.fromhex(row["salt"]), n=2**13, r=8, p=1, maxmem=2**26
    ).hex()
