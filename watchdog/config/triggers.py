"""`every:` as a trigger of APScheduler, which takes longer to load than a whole quiet check: cron expressions need it."""

from __future__ import annotations

from datetime import UTC, tzinfo
from functools import lru_cache

from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.interval import IntervalTrigger

from watchdog.config.schedule import EPOCH, is_cron
from watchdog.text import duration
from watchdog.values import Any

_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS = ("minute", "hour", "day of month", "month", "day of week")


def trigger(every: str, zone: tzinfo | None = None) -> Any:
    """The same moments as an APScheduler trigger, for the long-running mode."""
    if is_cron(every):
        return cron_trigger(every, zone)
    return IntervalTrigger(seconds=duration(every).total_seconds(), start_date=EPOCH, timezone=UTC)


@lru_cache(maxsize=64)
def cron_trigger(every: str, zone: tzinfo | None) -> Any:
    """A crontab line's five fields as crontab(5) means them, which is not quite what APScheduler reads."""
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
    """Names for numbers: APScheduler counts from Monday, crontab from Sunday, which is both 0 and 7."""
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
