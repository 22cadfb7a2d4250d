"""From a report to notifications: what it is about, which of it is said, in which words."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from datetime import datetime, time, timedelta

from watchdog.config.rulebook import Rulebook
from watchdog.config.settings import Settings
from watchdog.model import Incident, Notification, Phrase, Reason, Report, plain
from watchdog.notify.choose import Proposal, Selection, related_incidents, select
from watchdog.notify.compose import compose, daily, weekly
from watchdog.notify.context import MessageContext, host_of, machine_and_home, own_command, profile_of
from watchdog.notify.deliver import Messenger
from watchdog.notify.sanitize import fit
from watchdog.notify.translate import read_words, with_rules
from watchdog.store import Store, audit, messages
from watchdog.store.incidents import last_sent
from watchdog.store.messages import Memory, News, NotificationRecord, Subject
from watchdog.values import replace

UNSURE = ("suspected", "unconfirmed")  # changes that are not certain enough to be said


def messenger(store: Store, settings: Settings, book: Rulebook, home: str, now: datetime) -> Messenger:
    """What telling and asking need for one home."""
    notify = settings.notify
    words = with_rules(read_words(notify.language, notify.zone), book.rules, book.recipes.values())
    command = own_command(home, os.path.dirname(store.path), os.path.dirname(settings.where))
    context = MessageContext(
        now,
        machine_and_home(host_of(notify), home, command),
        replace(words, command=str(command), program=command.program, profile=fit(profile_of(home), 16)),
        {rule.id: rule for rule in book.rules},
        command,
        notify.quote_logs,
        notify.per_hour,
        audit.head(store),
    )
    return Messenger(store, notify, context)


def write(
    report: Report, proposals: Sequence[Proposal], messenger: Messenger
) -> list[tuple[int, Notification]]:
    """The notifications of this check, recorded, with their numbers; not sent yet."""
    store, settings, context = messenger.store, messenger.settings, messenger.context
    memory = messages.memory(store, context.now)
    subjects = subjects_of(report, memory, messenger)
    proposals = [
        replace(proposal, related=related_incidents(proposal.plan, context.rules)) for proposal in proposals
    ]
    selections = select(subjects, proposals, memory, settings, context.now)
    notifications = [compose(selection, context) for selection in selections if not selection.held]
    messages.remember(store, _records(subjects, selections, memory, context.now), context.now)
    if settings.summary_due(last_sent(store, News.DAILY), context.now):
        open_now = [subject for subject in subjects if not subject.over_at]
        notifications.append(daily(open_now, messages.day(store, context.now), context))
    if settings.week_due(last_sent(store, News.WEEKLY), context.now):
        midnight = datetime.combine(context.now.astimezone(settings.zone), time(), settings.zone)
        days = messages.week(store, midnight)
        faults = messages.faults_between(store, midnight - timedelta(days=7), midnight)
        open_now = [subject for subject in subjects if not subject.over_at]
        notifications.append(weekly(open_now, days, faults, context))
    return [
        (messages.record(store, notification, context.now), notification) for notification in notifications
    ]


def subjects_of(report: Report, memory: Memory, messenger: Messenger) -> list[Subject]:
    """Everything of this check that a person may want to know, and what is still owed from before."""
    now, known = messenger.now, {record.subject.ref: record for record in memory.records}
    subjects: dict[str, Subject] = {}
    for change in report.changes:
        incident = change.incident
        if change.what in UNSURE or incident.status == "suspected":
            continue
        if incident.status == "resolved" and _switched_off(incident.rule, messenger.context):
            continue  # nothing looks any more, so it is not known to be gone
        subject = _subject(incident, messenger.context)
        subjects[subject.ref] = subject
    for subject in _conditions(report, messenger):
        before = known.get(subject.ref)
        since = before.subject.since if before and not before.settled_at else now
        subjects[subject.ref] = replace(subject, since=since)
    for ref, record in known.items():
        if record.settled_at or ref in subjects:
            continue
        if record.subject.rule in (News.BLIND, News.DISARMED, News.TARGET) and record.subject.over_at is None:
            subjects[ref] = replace(record.subject, over_at=now)
        elif record.subject.over_at is not None:
            subjects[ref] = record.subject  # its end was held back
    return list(subjects.values())


def _subject(incident: Incident, context: MessageContext) -> Subject:
    now = context.now
    unstored = f"{incident.rule} {incident.key} {incident.opened_at:%s}"
    ref = f"incident {incident.id}" if incident.id else unstored
    return Subject(
        ref,
        incident.rule,
        incident.key,
        incident.severity,
        incident.title,
        context.words.found_by(incident.rule, incident.says, incident.fields),
        min(incident.first_at, now),
        incident.resolved_at or now if incident.status == "resolved" else None,
        incident.id,
        incident.advice,
        tuple(event.text for event in incident.evidence[:3] if not isinstance(event.text, Phrase)),
    )


def _switched_off(rule: str, context: MessageContext) -> bool:
    return bool(context.rules) and rule not in context.rules


def _conditions(report: Report, messenger: Messenger) -> Iterator[Subject]:
    """What no rule finds: blind, disarmed, a target that fails."""
    store, now = messenger.store, messenger.now

    def subject(news: News, key: str, severity: str, **fields: object) -> Subject:
        ref, says = f"{news} {key}".strip(), Reason(f"subject.{news}", fields)
        return Subject(ref, str(news), key, severity, str(news), says, now)

    for source, why in report.blind.items():
        yield subject(News.BLIND, source, "high", source=source, why=plain(why))
    if disarmed := messages.disarmed(store):
        yield subject(News.DISARMED, "", "critical", why=disarmed.why)
    owed = messages.owed(store, now)
    for state in messages.targets(store).values():
        count, at = len(owed.get(state.name, ())) or 1, state.next_try_at or now
        fields = {"count": count, "name": state.name, "why": state.why or plain("?"), "at": at}
        yield subject(News.TARGET, state.name, "high", **fields)


def _records(
    subjects: Sequence[Subject], selections: Sequence[Selection], memory: Memory, now: datetime
) -> list[NotificationRecord]:
    """What has been said about each subject after this check; only those that changed."""
    known = {record.subject.ref: record for record in memory.records}
    news: dict[str, News] = {}
    held: dict[str, bool] = {}
    for selection in selections:
        for part in selection.parts or (selection,):
            for subject in part.subjects:
                if selection.held:
                    held[subject.ref] = selection.owed
                else:
                    news[subject.ref] = part.news
    records = []
    for subject in subjects:
        before = known.get(subject.ref)
        record = replace(before or NotificationRecord(subject), subject=replace(subject, quotes=()))
        if subject.ref in news:
            record = _after_saying(record, news[subject.ref], now)
        elif subject.over_at and not record.settled_at:
            owed = held.get(subject.ref) or (subject.ref in held and record.news == News.FLAPPING)
            record = record if owed else replace(record, settled_at=now)
        elif subject.ref in held and not subject.over_at and record.settled_at:
            record = replace(record, settled_at=None, at=None)  # back, and not said yet
        if record != before:
            records.append(record)
    return records


def _after_saying(record: NotificationRecord, news: News, now: datetime) -> NotificationRecord:
    fresh = record.at is None or record.settled_at is not None
    ends = record.subject.over_at is not None or news in (News.FIXED, News.UNVERIFIED)
    return replace(
        record,
        at=now if fresh else record.at,
        news=record.news if news == News.REMINDER else str(news),
        severity=record.subject.severity,
        settled_at=now if ends else None,
        times=record.times + int(fresh and not ends),
    )
