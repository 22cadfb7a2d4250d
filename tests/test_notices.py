"""Which changes deserve a message: single decisions, and a whole day as a person would live through it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from talk import MINUTE, NOW, incident, plan, report

from watchdog import notify, telling
from watchdog.history import Disarmed
from watchdog.model import Change, Hold, Outcome
from watchdog.notices import Case, Memory, Restraint, Silence, Thing, Told, choose_notices
from watchdog.rulebook import load
from watchdog.store import Store, messages
from watchdog.targets import NotifySettings, QuietHours, Secret, Target

HOUR = timedelta(hours=1)


def thing(number: int = 1, rule: str = "provider-errors", key: str = "minimax", **more: object) -> Thing:
    base = {"severity": "medium", "title": "The provider fails", "says": f"{key} failed 7 times", "since": NOW - 5 * MINUTE}
    return Thing(f"incident {number}", rule, key, **{**base, **more}, incident=number)  # type: ignore[arg-type]


def told(one: Thing, **more: object) -> Told:
    return Told(one, **{"at": NOW - HOUR, "told_as": "first seen", "severity": one.severity, "times": 1, **more})  # type: ignore[arg-type]


def reasons(things: list[Thing], *cases: Case, memory: Memory | None = None, restraint: Restraint | None = None) -> list[str]:
    """The messages that are sent, by reason; held ones as 'held: why'."""
    choices = choose_notices(things, cases, memory or Memory(), restraint or Restraint(), NOW)
    return [f"held: {choice.hold.reason}" if choice.hold else choice.reason for choice in choices]


def test_what_is_new_is_told_once():
    assert reasons([thing()]) == ["first seen"]
    assert reasons([thing()], memory=Memory((told(thing()),))) == []


def test_what_was_told_and_is_over_is_told_once():
    over = thing(over_at=NOW)
    assert reasons([over], memory=Memory((told(thing()),))) == ["healed by itself"]
    assert reasons([over], memory=Memory((told(over, settled_at=NOW),))) == []


def test_a_graver_severity_is_told():
    assert reasons([thing(severity="critical")], memory=Memory((told(thing()),))) == ["worse"]
    assert reasons([thing(severity="low")], memory=Memory((told(thing()),))) == []


def test_what_came_and_went_between_two_checks_is_told_as_over():
    assert reasons([thing(over_at=NOW)]) == ["passed"]


def test_three_faults_without_a_plan_are_one_message():
    choices = choose_notices([thing(n, key=f"chat/{n}") for n in (1, 2, 3)], (), Memory(), Restraint(), NOW)
    assert [(choice.reason, len(choice.things)) for choice in choices] == [("first seen", 3)]


def test_a_plan_and_its_faults_are_one_message():
    stuck, loop = incident(1), incident(2, "qq-resume-loop", "bot/7")
    things = [thing(1, "session-stuck", "telegram/42"), thing(2, "qq-resume-loop", "bot/7")]
    assert reasons(things, Case(plan(stuck, loop), ask=True)) == ["approval needed"]
    assert reasons(things, Case(plan(stuck, loop, hold=Hold("cooling down", NOW + HOUR)))) == ["first seen"]


def test_a_plan_that_waits_is_not_told_again_and_again():
    things = [thing(1, "session-stuck", "telegram/42")]
    case = Case(plan(incident(1), hold=Hold("cooling down")))
    assert reasons(things, case, memory=Memory((told(things[0]),))) == []


@pytest.mark.parametrize(("ok", "reason"), [(True, "healed by us"), (False, "not healed")])
def test_an_outcome_is_told(ok: bool, reason: str):
    outcome = Outcome("d", "plan 7", ok, "Restart the gateway: done and verified")
    assert reasons([], Case(plan(), outcomes=(outcome,))) == [reason]


def test_what_a_switched_off_rule_could_not_prove_is_not_told_as_healed():
    outcome = Outcome("d", "plan 7", True, "Restart the gateway: done; not verified by crash-loop (switched off)")
    assert reasons([], Case(plan(), outcomes=(outcome,))) == ["not verified"]


def test_a_silenced_rule_key_or_pair_says_nothing_and_why():
    for what in ("provider-errors", "minimax", "provider-errors minimax"):
        silence = Silence(1, what, NOW + HOUR, "planned", "anna", NOW)
        assert reasons([thing()], memory=Memory(silences=(silence,))) == ["held: silenced by anna: planned"]
    other = Silence(1, "qq-dead", NOW + HOUR, "planned", "anna", NOW)
    assert reasons([thing()], memory=Memory(silences=(other,))) == ["first seen"]


def test_maintenance_holds_everything_even_questions():
    everything = Silence(1, "*", NOW + HOUR, "new disk", "anna", NOW)
    things = [thing(1, "session-stuck", "telegram/42", severity="critical")]
    held = reasons(things, Case(plan(incident(1)), ask=True), memory=Memory(silences=(everything,)))
    assert held == ["held: maintenance by anna: new disk", "held: everything it is about is silenced"]


def quiet_now() -> Restraint:
    local = NOW.astimezone()
    return Restraint(6, QuietHours((local - HOUR).time(), (local + HOUR).time()))


def test_quiet_hours_hold_back_all_but_critical_and_what_was_done():
    critical = thing(2, "gateway-down", "", severity="critical")
    assert reasons([thing(), critical], restraint=quiet_now()) == ["first seen", "held: quiet hours"]
    done = Case(plan(), outcomes=(Outcome("d", "plan 7", True, "done"),))
    assert reasons([], done, restraint=quiet_now()) == ["healed by us"]


@pytest.mark.parametrize(
    ("now", "end"),
    [("22:30", None), ("23:00", "07:00"), ("03:00", "07:00"), ("06:59", "07:00"), ("07:00", None)],
)
def test_quiet_hours_cross_midnight(now: str, end: str | None):
    quiet = QuietHours(time(23), time(7))
    at = datetime.combine(NOW.date(), time.fromisoformat(now)).astimezone()
    ends = quiet.ends(at)
    assert (ends.astimezone().strftime("%H:%M") if ends else None) == end
    assert ends is None or ends > at


@pytest.mark.parametrize(
    ("now", "end"),
    [
        ("2026-05-19T14:59", None),  # 22:59 where the owner sleeps
        ("2026-05-19T15:00", "2026-05-19T23:00"),
        ("2026-05-19T22:59", "2026-05-19T23:00"),
        ("2026-05-19T23:00", None),  # 07:00 there
        ("2026-05-19T03:00", None),  # night on the machine, noon there
    ],
)
def test_quiet_hours_are_the_owners_night_and_not_the_machines(now: str, end: str | None):
    quiet = QuietHours(time(23), time(7), ZoneInfo("Asia/Shanghai"))
    ends = quiet.ends(datetime.fromisoformat(now).replace(tzinfo=UTC))
    assert ends == (datetime.fromisoformat(end).replace(tzinfo=UTC) if end else None)


@pytest.mark.parametrize(("day", "hours"), [("2026-03-28", 7), ("2026-10-24", 9), ("2026-06-01", 8)])
def test_quiet_hours_end_by_the_owners_clock_on_the_night_it_changes(day: str, hours: int):
    zone = ZoneInfo("Europe/Berlin")
    at = datetime.fromisoformat(f"{day}T23:00").replace(tzinfo=zone).astimezone(UTC)
    assert QuietHours(time(23), time(7), zone).ends(at) == at + timedelta(hours=hours)


def test_a_storm_is_a_few_messages_and_one_digest():
    cases = [Case(plan(incident(n, key=f"chat/{n}"), hold=Hold("waits"))) for n in range(20)]
    things = [thing(n, "session-stuck", f"chat/{n}") for n in range(20)]
    choices = choose_notices(things, cases, Memory(), Restraint(6), NOW)
    sent = [choice for choice in choices if not choice.hold]
    assert [choice.reason for choice in sent] == ["first seen"] * 4 + ["digest"]
    assert {part.ref for choice in sent for part in choice.things} == {one.ref for one in things}


def test_after_the_digest_nothing_more_within_the_hour():
    sent = (*tuple((NOW - n * MINUTE, "first seen") for n in range(6)), (NOW - MINUTE, "digest"))
    assert reasons([thing()], memory=Memory(sent=sent)) == ["held: 6 messages were sent within an hour"]


def test_the_last_messages_of_an_hour_are_kept_for_what_is_urgent():
    sent = (*tuple((NOW - n * MINUTE, "first seen") for n in range(4)), (NOW - MINUTE, "digest"))
    critical = thing(2, "gateway-down", "", severity="critical")
    assert reasons([thing(), critical], memory=Memory(sent=sent)) == ["first seen", "held: 6 messages were sent within an hour"]


def test_a_question_is_never_part_of_a_digest():
    sent = tuple((NOW - n * MINUTE, "first seen") for n in range(6))
    choices = choose_notices([], [Case(plan(), ask=True)], Memory(sent=sent), Restraint(6), NOW)
    assert [bool(choice.hold) for choice in choices] == [True]


def test_what_comes_and_goes_is_told_as_that_the_third_time():
    before = tuple(told(thing(n), at=NOW - n * HOUR, settled_at=NOW - n * HOUR) for n in (1, 2))
    assert reasons([thing(9)], memory=Memory(before)) == ["flapping"]
    standing = told(thing(3, over_at=NOW - 20 * MINUTE), told_as="flapping")
    waits = "held: it comes and goes; told when it was calm for an hour"
    assert reasons([thing(9)], memory=Memory((*before, standing))) == [waits]
    assert reasons([standing.thing], memory=Memory((*before, standing))) == [waits]
    calm = told(thing(3, over_at=NOW - 61 * MINUTE), told_as="flapping")
    assert reasons([calm.thing], memory=Memory((*before, calm))) == ["healed by itself"]


# A day: 96 checks, a quarter of an hour apart, seen from a phone.

DAY = datetime(2026, 5, 19, 0, 0).astimezone().astimezone(UTC)  # midnight where the test runs
FAULTS = {
    # rule and key: severity, and the checks (0 to 95) at which it is there
    ("telegram-down", ""): ("medium", {*range(5, 9), *range(40, 44)}),  # once at night, once by day
    ("session-stuck", "telegram/42"): ("high", {n for n in range(30, 60) if n % 4 < 2}),  # comes and goes for hours
    ("provider-errors", "minimax"): ("medium", {n for n in range(32, 90) if n % 2}),  # every other check
    ("gateway-down", ""): ("critical", {14, 15, 16}),
    ("qq-dead", "bot/7"): ("high", set(range(70, 96))),
}
TRANSCRIPT = """\
03:30 [first seen] the gateway of ~ died 11 minutes ago without a stop
04:15 [healed by itself] OK, gone by itself: gateway-down
07:00 [passed] came and went: telegram-down
08:00 [first seen] session-stuck telegram/#7347
08:15 [first seen] provider-errors minimax
08:30 [healed by itself] OK, 2 problems gone by themselves
08:45 [first seen] again: provider-errors minimax
09:00 [first seen] again: session-stuck telegram/#7347
09:00 [digest] OK, gone by itself: provider-errors
09:15 [flapping] comes and goes: provider-errors minimax
09:30 [healed by itself] OK, gone by itself: session-stuck
10:00 [flapping] comes and goes: session-stuck telegram/#7347
10:00 [first seen] telegram-down
11:00 [healed by itself] OK, gone by itself: telegram-down
15:30 [healed by itself] OK, calm again: session-stuck
17:30 [first seen] qq-dead bot/7
23:30 [healed by itself] OK, calm again: provider-errors
"""  # 17 messages; the faults changed 79 times


def test_a_day_of_flapping_faults_is_a_readable_transcript(monkeypatch: pytest.MonkeyPatch):
    lines: list[str] = []
    clock = {"now": DAY}

    def deliver(letters: dict) -> tuple[notify.Sent, ...]:
        for _target, own in letters.items():
            for letter in own:
                at = clock["now"].astimezone().strftime("%H:%M")
                title = letter.title.removeprefix("Gateway watchdog: ")
                lines.append(f"{at} [{messages.notice(store, letter.id).reason}] {title}")
        return tuple(notify.Sent(target.name, letter.id, True) for target, own in letters.items() for letter in own)

    monkeypatch.setattr(notify, "send", deliver)
    settings = NotifySettings((Target("phone", Secret("json://x")),), quiet=QuietHours(time(23, 45), time(7)), host="box")
    open_now: dict[tuple[str, str], object] = {}
    numbers, flips = iter(range(1, 1000)), 0
    with Store.in_memory() as store:
        for check in range(96):
            clock["now"] = now = DAY + check * 15 * MINUTE
            changes = []
            for (rule, key), (severity, there) in FAULTS.items():
                flips += (check in there) != ((check - 1) in there)
                known = open_now.get((rule, key))
                if check in there:
                    says = f"{rule} {key}".strip()
                    if rule == "gateway-down":
                        says = "the gateway of ~ died 11 minutes ago without a stop"
                    fresh = known or incident(next(numbers), rule, key, now, severity=severity, says=says, title=rule, recipe=None)
                    open_now[rule, key] = fresh
                    changes.append(Change("seen" if known else "opened", fresh))  # type: ignore[arg-type]
                elif known:
                    del open_now[rule, key]
                    changes.append(Change("resolved", replace(known, status="resolved", resolved_at=now)))  # type: ignore[type-var]
            telling.tell(report(*changes, at=now), store, settings, now)
    assert "\n".join(lines) + "\n" == TRANSCRIPT
    assert flips == 79


# What only the whole of telling shows.


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[notify.Letter]:
    letters: list[notify.Letter] = []

    def deliver(wanted: dict) -> tuple[notify.Sent, ...]:
        letters.extend(letter for own in wanted.values() for letter in own)
        return tuple(notify.Sent(target.name, letter.id, True) for target, own in wanted.items() for letter in own)

    monkeypatch.setattr(notify, "send", deliver)
    return letters


PHONE = NotifySettings((Target("phone", Secret("json://x")),), host="box")


def test_a_blind_source_is_told_once_and_its_end_too(sent: list[notify.Letter]):
    with Store.in_memory() as store:
        for minutes in (0, 15, 30):
            telling.tell(report(blind={"gateway.log": "permission denied"}), store, PHONE, NOW + minutes * MINUTE)
        assert [letter.title for letter in sent] == ["Gateway watchdog: cannot read gateway.log"]
        assert "permission denied" in sent[0].body
        telling.tell(report(), store, PHONE, NOW + HOUR)
        telling.tell(report(), store, PHONE, NOW + HOUR + MINUTE)
    assert [letter.title for letter in sent[1:]] == ["Gateway watchdog: OK · gateway.log can be read again."]


def test_a_watchdog_that_disarmed_itself_says_so_once(sent: list[notify.Letter]):
    disarmed = Disarmed(NOW, "hermes-watchdog", "restart-gateway did not help")
    with Store.in_memory() as store:
        for minutes in (0, 15):
            telling.tell(report(), store, PHONE, NOW + minutes * MINUTE, disarmed=disarmed)
    assert [letter.title for letter in sent] == ["Gateway watchdog: disarmed, does nothing until you arm it"]
    assert "restart-gateway did not help" in sent[0].body and "hermes-watchdog arm" in sent[0].body


def test_a_fault_that_is_only_suspected_is_not_told(sent: list[notify.Letter]):
    with Store.in_memory() as store:
        telling.tell(report(Change("suspected", incident(status="suspected"))), store, PHONE, NOW)
        telling.tell(report(Change("unconfirmed", incident(status="resolved", resolved_at=NOW))), store, PHONE, NOW)
    assert sent == []


def test_what_was_silenced_is_told_when_the_silence_is_over_and_it_is_still_there(sent: list[notify.Letter]):
    with Store.in_memory() as store:
        messages.silence(store, "session-stuck", NOW + HOUR, "known", "anna", NOW)
        telling.tell(report(Change("opened", incident(recipe=None))), store, PHONE, NOW)
        assert sent == []
        later = NOW + HOUR + MINUTE
        telling.tell(report(Change("seen", incident(recipe=None))), store, PHONE, later)
        assert len(sent) == 1


def test_what_ends_because_its_rule_was_switched_off_is_not_called_gone(sent: list[notify.Letter]):
    open_, over = incident(recipe=None), incident(recipe=None, status="resolved", resolved_at=NOW + MINUTE)
    others = tuple(rule for rule in load().rules if rule.id != open_.rule)
    with Store.in_memory() as store:
        telling.tell(report(Change("opened", open_)), store, PHONE, NOW, rules=load().rules)
        assert len(sent) == 1
        telling.tell(report(Change("resolved", over)), store, PHONE, NOW + MINUTE, rules=others)
        assert len(sent) == 1
        telling.tell(report(), store, PHONE, NOW + 2 * MINUTE, rules=others)
        assert len(sent) == 1


def test_the_daily_summary_comes_once_a_day_and_says_ok_when_all_is_well(sent: list[notify.Letter]):
    settings = replace(PHONE, daily_summary=(NOW - MINUTE).astimezone().time())
    with Store.in_memory() as store:
        for minutes in (-10, 0, 15, 30):
            telling.tell(report(), store, settings, NOW + minutes * MINUTE)
        assert [letter.title for letter in sent] == ["Gateway watchdog: OK"]
        telling.tell(report(), store, settings, NOW + timedelta(days=1))
    assert len(sent) == 2


def test_the_daily_summary_comes_by_the_owners_clock(sent: list[notify.Letter]):
    shanghai = ZoneInfo("Asia/Shanghai")
    settings = replace(PHONE, daily_summary=time(9), zone=shanghai)
    nine = datetime(2026, 5, 20, 9, tzinfo=shanghai)
    with Store.in_memory() as store:
        for minutes in (-1, 0, 60, 8 * 60):  # the last one is another day on a machine in UTC
            telling.tell(report(), store, settings, (nine + minutes * MINUTE).astimezone(UTC))
        assert len(sent) == 1


def test_a_message_tells_the_time_where_its_reader_is(sent: list[notify.Letter]):
    settings = replace(PHONE, zone=ZoneInfo("Asia/Shanghai"))
    with Store.in_memory() as store:
        telling.tell(report(Change("opened", incident(recipe=None))), store, settings, NOW)
    assert f"Since {incident().first_at.astimezone(ZoneInfo('Asia/Shanghai')):%H:%M}" in sent[0].body


def test_a_quiet_check_asks_for_nothing_and_takes_no_time(monkeypatch: pytest.MonkeyPatch):
    import time as clock

    monkeypatch.setattr(notify, "send", lambda letters: pytest.fail("sent something"))
    with Store.in_memory() as store:
        telling.tell(report(), store, PHONE, NOW)
        began = clock.process_time()
        for _ in range(100):
            telling.tell(report(), store, PHONE, NOW)
            telling.hear(store, PHONE, NOW)
        assert clock.process_time() - began < 2
