"""Which changes deserve a notification, and why: a pure decision from what is seen and what was said before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from watchdog.config.settings import NotifySettings
from watchdog.model import SEVERITIES, Outcome, Plan, Rule
from watchdog.store.messages import (
    FLAPPING,
    OUTCOMES,
    QUESTIONS,
    Memory,
    News,
    NotificationRecord,
    Subject,
)

CALM = timedelta(hours=1)  # this long without it, and it is resolved
HOUR = timedelta(hours=1)
GRAVE_PAUSE = timedelta(minutes=15)  # between two digests, when the second tells of something grave
RESERVED = 2  # of the messages an hour, kept for what is critical or asks


# What comes because a person said yes, or asked for it in the settings, takes no message from a fault.
UNCOUNTED = (News.DIGEST, News.DAILY, News.WEEKLY, *OUTCOMES)


class Held(StrEnum):
    """Why something is not said now."""

    SILENCED = "silenced"
    QUIET_HOURS = "quiet hours"
    TOO_MANY = "too many messages within an hour"
    COMES_AND_GOES = "it comes and goes"


@dataclass(frozen=True)
class Proposal:
    """A plan with the question it needs, or the outcome it had."""

    plan: Plan
    ask: bool = False  # it needs a person's approval that was not asked for yet
    remind: bool = False  # half of the time has passed without an answer
    outcomes: tuple[Outcome, ...] = ()
    answer: str = ""  # "approved by anna via ntfy at 08:51"
    severity: str = ""  # when its subjects are no longer known
    left: timedelta = timedelta(0)  # to answer
    heard_at: tuple[str, ...] = ()  # places that were asked and have been told the outcome
    related: tuple[str, ...] = ()  # incidents that it is for, or that hang together with those; () for all

    @property
    def about(self) -> tuple[str, ...]:
        return self.related or self.plan.incidents


@dataclass(frozen=True)
class Selection:
    """One notification with its subjects, or why it has to wait."""

    news: News
    subjects: tuple[Subject, ...]
    severity: str
    proposal: Proposal | None = None
    held: Held | None = None
    parts: tuple[Selection, ...] = ()  # of a digest
    before: int = 0  # how often it happened in the last few hours
    also_open: tuple[Subject, ...] = ()  # other faults of this home, which a plan has nothing to do with

    @property
    def owed(self) -> bool:
        """Held back, to be said later; a silence is wished for."""
        return self.held in (Held.QUIET_HOURS, Held.TOO_MANY)


def select(
    subjects: Sequence[Subject],
    proposals: Sequence[Proposal],
    memory: Memory,
    settings: NotifySettings,
    now: datetime,
) -> tuple[Selection, ...]:
    """Each change as one notification, grouped by plan; what must wait says why."""
    known = {record.subject.ref: record for record in memory.records}
    wanted: list[Selection] = []
    held: list[Selection] = []
    left: list[Subject] = []
    for subject in subjects:
        if any(silence.covers(subject) for silence in memory.silences):
            news = _news(subject, known) or News.OPENED
            held.append(Selection(news, (subject,), subject.severity, held=Held.SILENCED))
        else:
            left.append(subject)
    for proposal in proposals:
        # What came and went while a plan was carried out is no news beside its outcome.
        own = [
            subject
            for subject in left
            if subject.name in proposal.about or (proposal.outcomes and _news(subject, known) == News.PASSED)
        ]
        if selection := _about_plan(proposal, own, subjects, known):
            silenced = not own and any(subject.name in proposal.about for subject in subjects)
            if silenced and not proposal.outcomes:  # an outcome is told all the same
                held.append(replace(selection, held=Held.SILENCED))
                continue
            others = tuple(
                subject
                for subject in subjects
                if subject.incident and not subject.over_at and subject not in own
            )
            wanted.append(replace(selection, also_open=others if not proposal.outcomes else ()))
            left = [subject for subject in left if subject not in own]
    alone, restless = _without_plan(left, known, memory, now)
    sent, waiting = _let_through([*wanted, *alone], memory, settings, now)
    return (*sent, *held, *restless, *waiting)


def related_incidents(plan: Plan, rules: Mapping[str, Rule]) -> tuple[str, ...]:
    """The incidents that a plan is for, and those that caused them or follow from them."""
    treated = {name for _, name, _ in plan.parts} or set(plan.incidents)
    theirs = {name.split(" ")[0] for name in treated}
    return tuple(
        name
        for name in plan.incidents
        if name in treated or any(_linked(name.split(" ")[0], rule, rules) for rule in theirs)
    )


def _linked(rule: str, other: str, rules: Mapping[str, Rule]) -> bool:
    return leads_to(rule, other, rules) or leads_to(other, rule, rules)


def leads_to(cause: str, effect: str, rules: Mapping[str, Rule]) -> bool:
    """Whether one rule is the cause of the other, as their files say."""
    return cause in rules and effect in rules[cause].causes


def worst(severities: Iterable[str], default: str = "medium") -> str:
    known = [severity for severity in severities if severity in SEVERITIES]
    return max(known, key=SEVERITIES.index) if known else default


def _news(subject: Subject, known: Mapping[str, NotificationRecord]) -> News | None:
    """Why one subject, taken alone, is worth a message; None when all was said."""
    record = known.get(subject.ref)
    if subject.over_at is None:
        if record is None or record.at is None or record.settled_at:
            return News.OPENED  # or seen again, after its end was told
        if SEVERITIES.index(subject.severity) > SEVERITIES.index(record.severity or subject.severity):
            return News.WORSE
        return None
    if record is None:
        return News.PASSED
    if record.settled_at or subject.rule == "disarmed":
        return None  # a person armed it again, and knows
    # It could not be said while it lasted (quiet hours): one message that it was there.
    return News.RESOLVED if record.at else News.PASSED


def _about_plan(
    proposal: Proposal,
    own: list[Subject],
    everything: Sequence[Subject],
    known: Mapping[str, NotificationRecord],
) -> Selection | None:
    about = tuple(own) or tuple(subject for subject in everything if subject.name in proposal.plan.incidents)
    severity = worst([subject.severity for subject in about] or [proposal.severity], "high")
    if proposal.outcomes:
        last = proposal.outcomes[-1]
        news = News.NOT_FIXED if not last.ok else News.FIXED if last.verified else News.UNVERIFIED
        return Selection(news, about, severity, proposal)
    if proposal.ask:
        return Selection(News.QUESTION, about, severity, proposal)
    if proposal.remind:
        return Selection(News.REMINDER, about, severity, proposal)
    news_of = {_news(subject, known) for subject in own} & {News.OPENED, News.WORSE}
    if not news_of:
        return None
    # A plan that must wait is part of the message: why it waits is said with the fault.
    news = News.OPENED if News.OPENED in news_of else News.WORSE
    return Selection(news, tuple(own), severity, proposal)


def _without_plan(
    subjects: Sequence[Subject], known: Mapping[str, NotificationRecord], memory: Memory, now: datetime
) -> tuple[list[Selection], list[Selection]]:
    """One notification per news, the most severe first; and what comes and goes and was told as that."""
    groups: dict[tuple[News, bool], list[Subject]] = {}
    alone: list[Selection] = []
    held: list[Selection] = []
    for subject in sorted(
        subjects, key=lambda subject: (-SEVERITIES.index(subject.severity), subject.since, subject.ref)
    ):
        news = _news(subject, known)
        if news is None:
            continue
        same = [record for record in memory.records if record.subject.name == subject.name]
        times = sum(record.times for record in same if record.at and now - record.at <= FLAPPING)
        flapping = next(
            (record for record in same if record.news == News.FLAPPING and not record.settled_at), None
        )
        if flapping and news != News.WORSE:
            if flapping.subject.ref == subject.ref and now - _last_seen(subject, same, now) >= CALM:
                alone.append(Selection(News.RESOLVED, (subject,), subject.severity, before=max(times, 1)))
            else:
                held.append(Selection(news, (subject,), subject.severity, held=Held.COMES_AND_GOES))
        elif news == News.OPENED and times >= 2:
            alone.append(Selection(News.FLAPPING, (subject,), subject.severity, before=times))
        elif news == News.OPENED and subject.rule in (News.DISARMED, News.TARGET):
            alone.append(Selection(News(subject.rule), (subject,), subject.severity))
        elif news == News.OPENED and times:
            alone.append(Selection(news, (subject,), subject.severity, before=times))
        else:
            blind = news == News.OPENED and subject.rule == News.BLIND
            # What is critical goes alone: it passes where the others must wait.
            critical = subject.severity == "critical"
            groups.setdefault((News.BLIND if blind else news, critical), []).append(subject)
    for (news, _), group in groups.items():
        alone.append(Selection(news, tuple(group), worst(subject.severity for subject in group)))
    return alone, held


def _last_seen(subject: Subject, same: Sequence[NotificationRecord], now: datetime) -> datetime:
    ends = [
        record.subject.over_at or record.settled_at or now
        for record in same
        if record.subject.ref != subject.ref
    ]
    return max([*ends, subject.over_at or now])


def _let_through(
    wanted: list[Selection], memory: Memory, settings: NotifySettings, now: datetime
) -> tuple[list[Selection], list[Selection]]:
    """Quiet hours, then the number an hour; what is too many becomes one digest."""
    sent: list[Selection] = []
    held: list[Selection] = []
    crowd: list[Selection] = []
    quiet = settings.quiet is not None and settings.quiet.ends(now) is not None
    recent = [news for at, news in memory.sent if now - at < HOUR]
    used = sum(news not in UNCOUNTED for news in recent)
    for selection in sorted(wanted, key=lambda wish: (not _urgent(wish), -SEVERITIES.index(wish.severity))):
        # What was done to the machine is told when it was done, at any hour.
        if quiet and selection.severity != "critical" and selection.news not in OUTCOMES:
            held.append(replace(selection, held=Held.QUIET_HOURS))
            continue
        room = settings.per_hour - (0 if _urgent(selection) else min(RESERVED, settings.per_hour - 1))
        if used < room or selection.news in OUTCOMES:
            used += selection.news not in UNCOUNTED
            sent.append(selection)
        else:
            crowd.append(selection)
    # A question in a digest could not be answered, so it waits for the next free message.
    parts = tuple(selection for selection in crowd if selection.news not in QUESTIONS)
    severity = worst(part.severity for part in parts)
    pause = GRAVE_PAUSE if SEVERITIES.index(severity) >= SEVERITIES.index("high") else HOUR
    if parts and not any(news == News.DIGEST and now - at < pause for at, news in memory.sent):
        subjects = tuple(subject for part in parts for subject in part.subjects)
        sent.append(Selection(News.DIGEST, subjects, severity, parts=parts))
        crowd = [selection for selection in crowd if selection.news in QUESTIONS]
    return sent, held + [replace(selection, held=Held.TOO_MANY) for selection in crowd]


def _urgent(selection: Selection) -> bool:
    return selection.severity == "critical" or selection.news in (*QUESTIONS, *OUTCOMES)
