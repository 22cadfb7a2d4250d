"""Which rules are due, and that cron and the long-running mode agree about it."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchdog.config.schedule import due, every_problem, is_due, next_due, next_fire
from watchdog.config.triggers import trigger
from watchdog.model import Rule

NOON = datetime(2026, 5, 19, 12, 0, tzinfo=UTC)


def rule(name: str, every: str) -> Rule:
    return Rule(name, "", "low", (), "", "", every=every)


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-05-19T{text}+00:00")


@pytest.mark.parametrize(
    ("every", "last", "now", "expected"),
    [
        ("15m", None, "10:00:00", True),
        ("15m", "10:00:01.300", "10:14:59", False),
        ("15m", "10:00:01.300", "10:15:00.900", True),  # cron started the last check late and this one early
        ("15m", "10:00:01", "10:00:02", False),
        ("1h", "10:05:00", "10:45:00", False),
        ("1h", "10:05:00", "11:00:30", True),
        ("15m", "10:20:00", "10:15:00", False),  # the clock was set back a little
        ("15m", "18:00:00", "10:15:00", True),  # by hours: what is stored means nothing
        ("15m", "10:15:00.300", "10:14:59.900", False),  # NTP stepped by half a second at the very moment
        ("*/15 * * * *", "10:00:01", "10:14:59", False),
        ("*/15 * * * *", "10:00:01", "10:15:00", True),
        ("0 3 * * *", "03:00:10", "23:00:00", False),
        ("0 3 * * *", None, "10:00:00", True),
    ],
)
def test_a_rule_is_due_when_its_trigger_fired_since_its_last_run(
    every: str, last: str | None, now: str, expected: bool
) -> None:
    assert is_due(every, at(last) if last else None, at(now), UTC) is expected


def test_rules_of_five_and_fifteen_minutes_meet_in_one_check() -> None:
    rules = [rule("often", "5m"), rule("rarely", "15m")]
    ran = dict.fromkeys(("often", "rarely"), at("10:00:02"))
    assert [one.id for one in due(rules, ran, at("10:05:01"))] == ["often"]
    assert [one.id for one in due(rules, ran, at("10:15:01"))] == ["often", "rarely"]


@pytest.mark.parametrize(
    ("every", "after", "expected"),
    [
        ("0 9 * * 0", "2026-05-19T12:00", "2026-05-24T09:00"),  # 0 is Sunday, as crontab(5) has it
        ("0 9 * * 7", "2026-05-19T12:00", "2026-05-24T09:00"),  # and so is 7
        ("0 9 * * 1-5", "2026-05-22T12:00", "2026-05-25T09:00"),
        ("0 9 * * sat", "2026-05-19T12:00", "2026-05-23T09:00"),
        ("0 9 * * 5-0", "2026-05-23T12:00", "2026-05-24T09:00"),
        ("0 9 * * */2", "2026-05-19T12:00", "2026-05-21T09:00"),
        ("0 9 1 * 1", "2026-05-26T12:00", "2026-06-01T09:00"),
        ("0 9 28 * 1", "2026-05-26T12:00", "2026-05-28T09:00"),  # both days given: either is enough
        ("30 2 * jan *", "2026-05-26T12:00", "2027-01-01T02:30"),
    ],
)
def test_cron_expressions_mean_what_crontab_means(every: str, after: str, expected: str) -> None:
    given_at = datetime.fromisoformat(after).replace(tzinfo=UTC)
    assert next_fire(every, given_at, UTC) == datetime.fromisoformat(expected).replace(tzinfo=UTC)


def test_a_daily_rule_keeps_its_local_hour_through_a_change_of_clocks() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    before = datetime(2026, 3, 28, 12, 0, tzinfo=UTC)
    first = next_fire("0 3 * * *", before, berlin)
    assert first.astimezone(berlin).hour == 3
    assert next_fire("0 3 * * *", first, berlin) - first == timedelta(hours=24)
    assert first == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)  # summer time began an hour earlier


def test_the_hour_that_comes_twice_runs_an_hourly_rule_twice_and_never_loses_one() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    moment, seen = datetime(2026, 10, 24, 23, 30, tzinfo=UTC), []
    for _ in range(4):
        moment = next_fire("0 * * * *", moment, berlin)
        seen.append(moment)
    assert [later - earlier for earlier, later in pairwise(seen)] == [timedelta(hours=1)] * 3


@pytest.mark.parametrize(
    ("every", "says"),
    [
        ("15m", ""),
        ("*/15 8-18 * * mon-fri", ""),
        ("often", "'often' is neither a duration (15m) nor a cron expression (*/15 * * * *)"),
        ("30s", "'30s' is shorter than a minute, which cron cannot do"),
        ("40d", "'40d' is longer than a month"),
        ("61 * * * *", "'61 * * * *' is not a cron expression: minute: '61'"),
        ("* 24 * * *", "'* 24 * * *' is not a cron expression: hour: '24'"),
        ("* * * * 8", "'* * * * 8' is not a cron expression: day of week: '8'; write 0-7 or sun to sat"),
        (
            "* * * * mon-",
            "'* * * * mon-' is not a cron expression: day of week: 'mon-'; write 0-7 or sun to sat",
        ),
        ("0 0 31 2 *", "'0 0 31 2 *' never comes: no month has such a day"),
    ],
)
def test_a_wrong_every_says_what_to_write(every: str, says: str) -> None:
    assert every_problem(every) == says


@settings(max_examples=60, deadline=None)
@given(
    every=st.sampled_from(["1m", "7m", "15m", "90m", "1d", "*/15 * * * *", "5 */2 * * *", "0 3 * * 1-5"]),
    seconds=st.integers(0, 400 * 86400),
)
def test_the_scheduler_trigger_fires_at_the_moments_that_cron_is_told(every: str, seconds: int) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    fires = trigger(every, UTC).get_next_fire_time(None, moment + timedelta(microseconds=1))
    assert fires == next_fire(every, moment, UTC)
    assert is_due(every, moment, fires, UTC) and not is_due(every, moment, fires - timedelta(seconds=1), UTC)


def test_the_next_check_is_now_when_something_is_due_and_else_at_the_first_trigger() -> None:
    rules = [rule("a", "15m"), rule("b", "1h")]
    assert next_due(rules, {}, NOON) == NOON
    ran = dict.fromkeys("ab", NOON)
    assert next_due(rules, ran, NOON) == NOON + timedelta(minutes=15)
    assert next_due([], {}, NOON) is None


def test_plain_durations_never_load_the_scheduler() -> None:
    code = (
        "import sys; from datetime import *; from watchdog.config.schedule import *; from watchdog.model import Rule\n"
        "now = datetime.now(UTC); due([Rule('a', '', 'low', (), '', '')], {'a': now}, now)\n"
        "assert not any(name.startswith('apscheduler') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
