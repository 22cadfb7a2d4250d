"""Which rules are due: each rule's `every:` is a trigger, asked alike by cron's check and by the long-running
mode.

A duration fires at whole multiples of itself since 1970, not "so long after the last run": a check that cron
started half a second late does not push the next one past cron's next start, and rules of 5m and 15m meet in
one check.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

from watchdog import config
from watchdog.model import Rule
from watchdog.text import duration, harmless

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SHORTEST = timedelta(minutes=1)
_INSTANT = timedelta(microseconds=1)


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
        fires = config.cron_trigger(every, zone).get_next_fire_time(None, after + _INSTANT)
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
            fires = config.cron_trigger(every, UTC).get_next_fire_time(None, EPOCH)
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
