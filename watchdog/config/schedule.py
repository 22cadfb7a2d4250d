"""Which rules are due: each rule's `every:` is a trigger, asked alike by cron's check and by the long-running
mode.

A duration fires at whole multiples of itself since 1970, not "so long after the last run": a check that cron
started half a second late does not push the next one past cron's next start, and rules of 5m and 15m meet in
one check.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

from watchdog.model import Rule
from watchdog.text import duration, harmless
from watchdog.values import Any

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHORTEST = timedelta(minutes=1)
_INSTANT = timedelta(microseconds=1)
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = ("minute", "hour", "day of month", "month", "day of week")


def due(
    rules: Sequence[Rule], last_runs: Mapping[str, datetime], now: datetime, zone: tzinfo | None = None
) -> tuple[Rule, ...]:
    """The rules whose trigger fired since they were last evaluated; one that never was is due at once."""
    return tuple(rule for rule in rules if is_due(rule.every, last_runs.get(rule.id), now, zone))


def is_due(every: str, last: datetime | None, now: datetime, zone: tzinfo | None = None) -> bool:
    if last is None:
        return True
    if last > now:
        # The clock was set back. A little: wait for the trigger. By more than two rounds: the stored time is
        # worthless.
        return next_fire(every, next_fire(every, now, zone), zone) < last
    return next_fire(every, last, zone) <= now


def next_fire(every: str, after: datetime, zone: tzinfo | None = None) -> datetime:
    """The first moment after this one at which the trigger fires."""
    if is_cron(every):
        fires = _cron(every, zone).get_next_fire_time(None, after + _INSTANT)
        return fires.astimezone(UTC) if fires is not None else datetime.max.replace(tzinfo=UTC)
    step = duration(every)
    return EPOCH + ((after - EPOCH) // step + 1) * step


def next_due(
    rules: Iterable[Rule], last_runs: Mapping[str, datetime], now: datetime, zone: tzinfo | None = None
) -> datetime | None:
    """When there is next something to do; now, when there is something already."""
    times = (
        now if is_due(rule.every, last_runs.get(rule.id), now, zone) else next_fire(rule.every, now, zone)
        for rule in rules
    )
    return min(times, default=None)


def is_cron(every: str) -> bool:
    return len(every.split()) == 5


def every_problem(every: str) -> str:
    """What is wrong with an `every:`, and what to write instead; '' when nothing is."""
    shown = harmless(every, 40)
    if is_cron(every):
        try:
            fires = _cron(every, UTC).get_next_fire_time(None, EPOCH)
        except ValueError as error:
            return f"'{shown}' is not a cron expression: {harmless(str(error), 120)}"
        return "" if fires is not None else f"'{shown}' never comes: no month has such a day"
    try:
        span = duration(every)
    except ValueError:
        return f"'{shown}' is neither a duration (15m) nor a cron expression (*/15 * * * *)"
    if span < SHORTEST:
        return f"'{shown}' is shorter than a minute, which cron cannot do"
    return f"'{shown}' is longer than a month" if span > timedelta(days=31) else ""


def trigger(every: str, zone: tzinfo | None = None) -> Any:
    """The same moments as an APScheduler trigger, for the long-running mode."""
    if is_cron(every):
        return _cron(every, zone)
    from apscheduler.triggers.interval import IntervalTrigger

    return IntervalTrigger(seconds=duration(every).total_seconds(), start_date=EPOCH, timezone=UTC)


@lru_cache(maxsize=64)
def _cron(every: str, zone: tzinfo | None) -> Any:
    """A crontab line's five fields as crontab(5) means them, which is not quite what APScheduler reads."""
    # Only rules with a cron expression pay for this import: it costs more than a whole quiet check.
    from apscheduler.triggers.combining import OrTrigger
    from apscheduler.triggers.cron import CronTrigger

    words = every.lower().split()
    fields = {}
    for name, word, known in zip(("minute", "hour", "day", "month"), words, _FIELDS, strict=False):
        fields[name] = word
        try:
            CronTrigger(**{name: word}, timezone=UTC)
        except ValueError:
            raise ValueError(f"{known}: '{word}'") from None
    weekdays = _weekdays(words[4])
    if "*" not in words[2] and "*" not in words[4]:
        # crontab(5): with both a day of the month and a weekday given, either is enough.
        other = {**fields, "day": "*"}
        return OrTrigger(
            [CronTrigger(**fields, timezone=zone), CronTrigger(**other, day_of_week=weekdays, timezone=zone)]
        )
    return CronTrigger(**fields, day_of_week=weekdays, timezone=zone)


def _weekdays(word: str) -> str:
    """Names instead of numbers:

    APScheduler counts from Monday, crontab from Sunday, and both 0 and 7 are Sunday.
    """
    if word == "*":
        return "*"
    found: list[str] = []
    for part in word.split(","):
        body, _, step = part.partition("/")
        first, dash, last = body.partition("-")
        try:
            if body == "*":
                low, high = 0, 6
            else:
                low = _weekday(first)
                high = _weekday(last) if dash else (6 if step else low)
            high += 7 if dash and high < low else 0
            stride = int(step) if step else 1
            if stride < 1 or high > 13:
                raise ValueError(part)
        except ValueError:
            raise ValueError(f"day of week: '{part}'; write 0-7 or sun to sat") from None
        found += [_DAYS[day % 7] for day in range(low, high + 1, stride)]
    return ",".join(dict.fromkeys(found))


def _weekday(word: str) -> int:
    if word in _DAYS:
        return _DAYS.index(word)
    number = int(word)
    if not 0 <= number <= 7:
        raise ValueError(word)
    return number
