"""Tell people what changed, ask them what needs their leave, and hear what they answer.

Two functions for the pipeline. Both cost next to nothing when there is nothing to say: no import, no connection.

    tell(report, store, settings, now)   choose, ask with codes, send, record
    hear(store, settings, now, wait)     collect answers, for a bounded time while a question is open
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from watchdog.model import Notice, Outcome, Plan, Report, Rule
from watchdog.values import TYPE_CHECKING, Any, replace

if TYPE_CHECKING:
    from watchdog.answers import Weighed
    from watchdog.history import Disarmed
    from watchdog.limits import Limits
    from watchdog.message import Setting
    from watchdog.notices import Case, Choice, Memory, Thing, Told
    from watchdog.store import Store
    from watchdog.store.messages import Question, TargetState
    from watchdog.targets import NotifySettings

QUIET = ("suspected", "unconfirmed")  # not sure enough for words
TARGET_SAYS = "{count} not delivered to {key}: {why}. Next try {at}."


def tell(
    report: Report,
    store: Store,
    settings: NotifySettings,
    now: datetime,
    *,
    rules: Sequence[Rule] = (),
    disarmed: Disarmed | None = None,
    waits: timedelta | None = None,
) -> tuple[tuple[Notice, ...], tuple[str, ...]]:
    """Choose, ask, send and record; the notices that were sent, and lines for the report about what did not work."""
    if not settings.targets and not settings.replies.channels:
        return (), ()
    from watchdog.store import messages

    daily = _daily_due(store, settings, now)
    disarmed = disarmed or messages.disarmed(store)
    if not (report.changes or report.plans or report.outcomes or report.blind or disarmed or daily or messages.owing(store)):
        return (), ()
    return _tell(report, store, settings, now, rules, disarmed, daily, settings.replies.wait if waits is None else waits)


def hear(
    store: Store,
    settings: NotifySettings,
    now: datetime,
    wait: timedelta = timedelta(0),
    limits: Limits | None = None,
    **pace: Callable[..., Any],
) -> tuple[tuple[Weighed, ...], tuple[str, ...]]:
    """The answers that came since the last look; waits for one, at most so long, while a question is open."""
    if not settings.replies.channels:
        return (), ()
    from watchdog.store import messages

    if not any(question.places for question in messages.open_questions(store)):
        return (), ()
    from watchdog.hearing import listen

    return listen(store, settings, now, wait, limits, **pace)


def _tell(
    report: Report, store: Store, settings: NotifySettings, now: datetime, rules: Sequence[Rule],
    disarmed: Disarmed | None, daily: bool, waits: timedelta,
) -> tuple[tuple[Notice, ...], tuple[str, ...]]:  # fmt: skip
    from watchdog import approval
    from watchdog.asking import put, remind, shell_lines
    from watchdog.delivery import deliver
    from watchdog.ending import close_questions
    from watchdog.message import Setting, compose
    from watchdog.message import daily as daily_notice
    from watchdog.notices import Restraint, choose_notices
    from watchdog.outgoing import fit
    from watchdog.store import messages
    from watchdog.words import read_words

    says = {rule.id: rule.say for rule in rules} | {"target": TARGET_SAYS}
    titles = {rule.title: rule.id for rule in rules}
    advices = {fit(rule.advice, 600): rule.id for rule in rules if rule.advice}
    words = read_words(settings.language, settings.zone)
    at = Setting(now, settings.host or host_name(), words, settings.quote_logs, settings.per_hour, says, titles, advices)
    approval.expire(store, now)
    done, notes = close_questions(store, report.outcomes, settings, at)
    memory = messages.memory(store, now)
    things = things_of(report, memory, messages.targets(store).values(), messages.owed(store, now), disarmed, at, now)
    cases = _cases(report, store, done, now, at)
    choices = choose_notices(things, cases, memory, Restraint(settings.per_hour, settings.quiet), now)
    told: list[Notice] = []
    queue: list[tuple[int, Notice, list[str]]] = []
    for choice in choices:
        if choice.hold:
            continue
        more: list[str] = []
        case = choice.case
        if choice.reason == "approval needed" and case:
            # The record comes first, and the question carries the number it got there.
            choice = replace(choice, case=replace(case, plan=replace(case.plan, id=approval.ask(store, case.plan, now))))
        notice = compose(choice, at)
        number = messages.record(store, notice, now)
        if choice.reason == "approval needed" and choice.case:
            question, failed = put(store, choice.case.plan, notice, settings, at, waits)
            more, notes = shell_lines(store, choice.case.plan.id, question.expires_at, at), notes + failed
        elif choice.reason == "reminder" and (asked := messages.question(store, plan=notice.plan)):
            _, failed = remind(store, asked, notice, settings, at, waits)
            more, notes = shell_lines(store, notice.plan, asked.expires_at, at), notes + failed
        told.append(notice)
        queue.append((number, notice, more))
    messages.remember(store, _now_told(things, choices, memory, now), now)
    if daily:
        notice = daily_notice([thing for thing in things if not thing.over_at], *messages.day(store, now), at)
        told.append(notice)
        queue.append((messages.record(store, notice, now), notice, []))
    notes += deliver(store, settings, queue, at)
    return tuple(told), tuple(notes)


def things_of(
    report: Report,
    memory: Memory,
    targets: Iterable[TargetState],
    owed: dict[str, list[int]],
    disarmed: Disarmed | None,
    at: Setting,
    now: datetime,
) -> list[Thing]:
    """Everything of this check that a person may want to hear of, and what is still owed from before."""
    from watchdog.notices import Thing
    from watchdog.outgoing import fit

    known = {entry.thing.ref: entry for entry in memory.told}
    things: dict[str, Thing] = {}
    for change in report.changes:
        incident = change.incident
        if change.what in QUIET or incident.status == "suspected":
            continue
        ref = f"incident {incident.id}" if incident.id else f"{incident.rule} {incident.key} {incident.opened_at:%s}"
        over = incident.resolved_at or now if incident.status == "resolved" else None
        if over and len(at.says) > 1 and incident.rule not in at.says:
            continue  # its rule was switched off: nobody looks, so nobody knows that it is gone
        # What is kept about a message is already fit to be sent; the evidence is not kept.
        things[ref] = Thing(
            ref, incident.rule, incident.key, incident.severity, fit(incident.title), fit(incident.says),
            incident.first_at if incident.first_at <= now else now, over, incident.id, fit(incident.advice, 600),
            tuple(event.text for event in incident.evidence[:3]),
        )  # fmt: skip
    standing: list[tuple[str, str, str, str]] = [("blind", source, "high", fit(why)) for source, why in report.blind.items()]
    if disarmed:
        standing.append(("disarmed", "", "critical", fit(disarmed.why)))
    for state in targets:
        count = len(owed.get(state.name, ())) or 1
        again = at.words.at(state.next_try_at, now) if state.next_try_at else "-"
        says = TARGET_SAYS.format(key=state.name, count=count, why=state.says, at=again)
        standing.append(("target", state.name, "high", fit(says)))
    for rule, key, severity, says in standing:
        ref = f"{rule} {key}".strip()
        before = known.get(ref)
        since = before.thing.since if before and not before.settled_at else now
        things[ref] = Thing(ref, rule, key, severity, rule, says, since)
    for ref, entry in known.items():
        if entry.settled_at or ref in things:
            continue
        if entry.thing.rule in ("blind", "disarmed", "target") and entry.thing.over_at is None:
            things[ref] = replace(entry.thing, over_at=now)
        elif entry.thing.over_at is not None:
            things[ref] = entry.thing  # its end was held back
    return list(things.values())


def _cases(
    report: Report,
    store: Store,
    done: Sequence[tuple[Question, tuple[Outcome, ...]]],
    now: datetime,
    at: Setting,
) -> list[Case]:
    """The plans of this check with the question or the outcome each of them has."""
    from watchdog.asking import may_ask
    from watchdog.ending import answer_of, standing
    from watchdog.notices import Case
    from watchdog.store import messages

    cases: list[Case] = []
    plans = {plan.digest: plan for plan in report.plans}
    ended: set[str] = set()
    for question, outcomes in done:
        plan = replace(plans.get(question.plan.digest, question.plan), id=question.plan.id)
        answer = answer_of(standing(store, question), at)
        cases.append(Case(plan, outcomes=outcomes, answer=answer, severity=question.severity))
        ended.add(plan.digest)
    for digest in dict.fromkeys(outcome.plan_digest for outcome in report.outcomes):
        if digest and digest not in ended and not _lapsed(store, digest):  # carried out without a question: the settings allow it
            outcomes = tuple(outcome for outcome in report.outcomes if outcome.plan_digest == digest)
            plan = plans.get(digest) or Plan("", (), (), (), (), digest)
            ended.add(digest)
            if not (plan.id and messages.told_outcome(store, plan.id, now)):
                cases.append(Case(plan, outcomes=outcomes))
    for question in messages.open_questions(store):
        stored = standing(store, question)
        if question.reminded_at or now < question.half_at or not stored or stored.state != "pending":
            continue
        plan = replace(plans.get(question.plan.digest, question.plan), id=question.plan.id)
        left = at.words.span(question.expires_at - now)
        cases.append(Case(plan, remind=True, severity=question.severity, left=left))
        ended.add(plan.digest)
    for plan in report.plans:
        if plan.digest not in ended:
            wanted = plan.approval == "ask" and plan.hold is None and bool(plan.steps)
            cases.append(Case(plan, ask=wanted and may_ask(store, plan, now)))
    return cases


def _lapsed(store: Store, digest: str) -> bool:
    """Approved and found to be no longer needed: those who were asked know it, and nothing was done."""
    from watchdog.store import messages

    asked = messages.question(store, digest=digest)
    return asked is not None and asked.closed_at is not None


def _now_told(things: Sequence[Thing], choices: Sequence[Choice], memory: Memory, now: datetime) -> list[Told]:
    """What was said about each thing after this check."""
    from watchdog.notices import Told

    known = {entry.thing.ref: entry for entry in memory.told}
    said: dict[str, str] = {}
    held: dict[str, bool] = {}
    for choice in choices:
        for part in choice.parts or (choice,):
            for thing in part.things:
                if choice.hold:
                    held[thing.ref] = choice.owed
                else:
                    said[thing.ref] = part.reason
    told: list[Told] = []
    for thing in things:
        entry = replace(known.get(thing.ref, Told(thing)), thing=replace(thing, quotes=()))
        reason = said.get(thing.ref, "")
        over = thing.over_at is not None
        if reason:
            fresh = entry.at is None or entry.settled_at is not None
            ends = over or reason in ("healed by us", "not verified")
            entry = replace(
                entry,
                at=now if fresh else entry.at,
                told_as=entry.told_as if reason == "reminder" else reason,
                severity=thing.severity,
                settled_at=now if ends else None,
                times=entry.times + int(fresh and not ends),
            )
        elif thing.ref in held:
            owed = held[thing.ref] or entry.told_as == "flapping"
            if over and not owed:
                entry = replace(entry, settled_at=now)  # its silence was wished for
            elif not over and entry.settled_at:
                entry = replace(entry, settled_at=None, at=None)  # back, and not told yet
        elif over and not entry.settled_at:
            entry = replace(entry, settled_at=now)
        if entry != known.get(thing.ref):
            told.append(entry)
    return told


def _daily_due(store: Store, settings: NotifySettings, now: datetime) -> bool:
    if settings.daily_summary is None:
        return False
    from watchdog.store import messages

    local = now.astimezone(settings.zone)
    if local.time().replace(tzinfo=None) < settings.daily_summary:
        return False
    last = messages.last_notice(store, "daily")
    return last is None or last.astimezone(settings.zone).date() < local.date()


def host_name() -> str:
    import socket

    return socket.gethostname().partition(".")[0]
