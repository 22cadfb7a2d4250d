"""Which changes deserve a message: single decisions, and a whole day as a person would live through it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from talk import BOOK, MINUTE, NOW, ended, hear, incident, plan, report, tell

from watchdog.approval.record import disarm
from watchdog.config.settings import NotifySettings, QuietHours, Secret, Target, Weekly
from watchdog.model import Change, Hold
from watchdog.notify import deliver as notify
from watchdog.notify.choose import Proposal, select
from watchdog.store import Store, messages, record_check
from watchdog.store.messages import Memory, NotificationRecord, Silence, Subject
from watchdog.store.rows import plain

HOUR = timedelta(hours=1)


def subject(number: int = 1, rule: str = "provider-errors", key: str = "minimax", **more: object) -> Subject:
    base = {
        "severity": "medium",
        "title": "The provider fails",
        "says": plain(f"{key} failed 7 times"),
        "since": NOW - 5 * MINUTE,
    }
    return Subject(f"incident {number}", rule, key, **{**base, **more}, incident=number)  # type: ignore[arg-type]


def told(one: Subject, **more: object) -> NotificationRecord:
    return NotificationRecord(
        one, **{"at": NOW - HOUR, "news": "first seen", "severity": one.severity, "times": 1, **more}
    )  # type: ignore[arg-type]


def reasons(
    subjects: list[Subject],
    *proposals: Proposal,
    memory: Memory | None = None,
    settings: NotifySettings | None = None,
) -> list[str]:
    """The messages that are sent, by reason; held ones as 'held: why'."""
    selections = select(subjects, proposals, memory or Memory(), settings or NotifySettings(), NOW)
    return [f"held: {selection.held}" if selection.held else str(selection.news) for selection in selections]


def test_what_is_new_is_told_once():
    assert reasons([subject()]) == ["first seen"]
    assert reasons([subject()], memory=Memory((told(subject()),))) == []


def test_what_was_told_and_is_over_is_told_once():
    over = subject(over_at=NOW)
    assert reasons([over], memory=Memory((told(subject()),))) == ["healed by itself"]
    assert reasons([over], memory=Memory((told(over, settled_at=NOW),))) == []


def test_a_graver_severity_is_told():
    assert reasons([subject(severity="critical")], memory=Memory((told(subject()),))) == ["worse"]
    assert reasons([subject(severity="low")], memory=Memory((told(subject()),))) == []


def test_what_came_and_went_between_two_checks_is_told_as_over():
    assert reasons([subject(over_at=NOW)]) == ["passed"]


def test_three_faults_without_a_plan_are_one_message():
    selections = select([subject(n, key=f"chat/{n}") for n in (1, 2, 3)], (), Memory(), NotifySettings(), NOW)
    assert [(str(selection.news), len(selection.subjects)) for selection in selections] == [("first seen", 3)]


def test_a_plan_and_its_faults_are_one_message():
    stuck, loop = incident(1), incident(2, "qq-resume-loop", "bot/7")
    subjects = [subject(1, "session-stuck", "telegram/42"), subject(2, "qq-resume-loop", "bot/7")]
    assert reasons(subjects, Proposal(plan(stuck, loop), ask=True)) == ["approval needed"]
    assert reasons(subjects, Proposal(plan(stuck, loop, hold=Hold(plain("cooling down"), NOW + HOUR)))) == [
        "first seen"
    ]


def test_a_plan_that_waits_is_not_told_again_and_again():
    subjects = [subject(1, "session-stuck", "telegram/42")]
    case = Proposal(plan(incident(1), hold=Hold(plain("cooling down"))))
    assert reasons(subjects, case, memory=Memory((told(subjects[0]),))) == []


@pytest.mark.parametrize(("ok", "reason"), [(True, "healed by us"), (False, "not healed")])
def test_an_outcome_is_told(ok: bool, reason: str):
    outcome = ended("d", "plan 7", ok, "Restart the gateway: done and verified")
    assert reasons([], Proposal(plan(), outcomes=(outcome,))) == [reason]


def test_what_a_switched_off_rule_could_not_prove_is_not_told_as_healed():
    outcome = ended("d", "plan 7", True, "done", unproven=("crash-loop",))
    assert reasons([], Proposal(plan(), outcomes=(outcome,))) == ["not verified"]


def test_a_silenced_rule_key_or_pair_says_nothing_and_why():
    for what in ("provider-errors", "minimax", "provider-errors minimax"):
        silence = Silence(1, what, NOW + HOUR, "planned", "anna", NOW)
        assert reasons([subject()], memory=Memory(silences=(silence,))) == ["held: silenced"]
    other = Silence(1, "qq-dead", NOW + HOUR, "planned", "anna", NOW)
    assert reasons([subject()], memory=Memory(silences=(other,))) == ["first seen"]


def test_maintenance_holds_everything_even_questions():
    everything = Silence(1, "*", NOW + HOUR, "new disk", "anna", NOW)
    subjects = [subject(1, "session-stuck", "telegram/42", severity="critical")]
    held = reasons(subjects, Proposal(plan(incident(1)), ask=True), memory=Memory(silences=(everything,)))
    assert held == ["held: silenced", "held: silenced"]


def quiet_now() -> NotifySettings:
    local = NOW.astimezone()
    return NotifySettings(quiet=QuietHours((local - HOUR).time(), (local + HOUR).time()))


def test_quiet_hours_hold_back_all_but_critical_and_what_was_done():
    critical = subject(2, "gateway-down", "", severity="critical")
    assert reasons([subject(), critical], settings=quiet_now()) == ["first seen", "held: quiet hours"]
    done = Proposal(plan(), outcomes=(ended("d", "plan 7", True, "done"),))
    assert reasons([], done, settings=quiet_now()) == ["healed by us"]


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
    proposals = [Proposal(plan(incident(n, key=f"chat/{n}"), hold=Hold(plain("waits")))) for n in range(20)]
    subjects = [subject(n, "session-stuck", f"chat/{n}") for n in range(20)]
    selections = select(subjects, proposals, Memory(), NotifySettings(), NOW)
    sent = [selection for selection in selections if not selection.held]
    assert [selection.news for selection in sent] == ["first seen"] * 4 + ["digest"]
    assert {part.ref for selection in sent for part in selection.subjects} == {one.ref for one in subjects}


def test_after_the_digest_nothing_more_within_the_hour():
    sent = (*tuple((NOW - n * MINUTE, "first seen") for n in range(6)), (NOW - MINUTE, "digest"))
    assert reasons([subject()], memory=Memory(sent=sent)) == ["held: too many messages within an hour"]


def test_results_and_summaries_take_no_message_from_a_question():
    """A broken database was not asked about, because two repairs and a weekly summary had filled the hour."""
    before = [
        "approval needed",
        "healed by us",
        "approval needed",
        "not healed",
        "healed by us",
        "first seen",
    ]
    sent = tuple((NOW - n * MINUTE, news) for n, news in enumerate([*before, "weekly"], 1))
    assert reasons([], Proposal(plan(), ask=True), memory=Memory(sent=sent)) == ["approval needed"]
    full = tuple((NOW - n * MINUTE, "first seen") for n in range(6))
    outcomes = (ended("d", "plan 7", True, "done"),)
    assert reasons([], Proposal(plan(), outcomes=outcomes), memory=Memory(sent=full)) == ["healed by us"]


@pytest.mark.parametrize(("ago", "told"), [(10, False), (16, True)])
def test_a_grave_fault_does_not_wait_an_hour_behind_a_digest(ago: int, told: bool):
    """A refused key that comes after a stormy hour is told within a quarter of an hour."""
    sent = (*tuple((NOW - n * MINUTE, "first seen") for n in range(6)), (NOW - ago * MINUTE, "digest"))
    refused = subject(2, "provider-auth", "custom", severity="high")
    wanted = "digest" if told else "held: too many messages within an hour"
    assert reasons([refused], memory=Memory(sent=sent)) == [wanted]


def test_the_last_messages_of_an_hour_are_kept_for_what_is_urgent():
    sent = (*tuple((NOW - n * MINUTE, "first seen") for n in range(4)), (NOW - MINUTE, "digest"))
    critical = subject(2, "gateway-down", "", severity="critical")
    assert reasons([subject(), critical], memory=Memory(sent=sent)) == [
        "first seen",
        "held: too many messages within an hour",
    ]


def test_a_question_is_never_part_of_a_digest():
    sent = tuple((NOW - n * MINUTE, "first seen") for n in range(6))
    selections = select([], [Proposal(plan(), ask=True)], Memory(sent=sent), NotifySettings(), NOW)
    assert [bool(selection.held) for selection in selections] == [True]


def test_what_comes_and_goes_is_told_as_that_the_third_time():
    before = tuple(told(subject(n), at=NOW - n * HOUR, settled_at=NOW - n * HOUR) for n in (1, 2))
    assert reasons([subject(9)], memory=Memory(before)) == ["flapping"]
    standing = told(subject(3, over_at=NOW - 20 * MINUTE), news="flapping")
    waits = "held: it comes and goes"
    assert reasons([subject(9)], memory=Memory((*before, standing))) == [waits]
    assert reasons([standing.subject], memory=Memory((*before, standing))) == [waits]
    calm = told(subject(3, over_at=NOW - 61 * MINUTE), news="flapping")
    assert reasons([calm.subject], memory=Memory((*before, calm))) == ["healed by itself"]


# A day: 96 checks, a quarter of an hour apart, seen from a phone.

DAY = datetime(2026, 5, 19, 0, 0).astimezone().astimezone(UTC)  # midnight where the test runs
FAULTS = {
    # rule and key: severity, and the checks (0 to 95) at which it is there
    ("telegram-down", ""): ("medium", {*range(5, 9), *range(40, 44)}),  # once at night, once by day
    ("session-stuck", "telegram/42"): (
        "high",
        {n for n in range(30, 60) if n % 4 < 2},
    ),  # comes and goes for hours
    ("provider-errors", "minimax"): ("medium", {n for n in range(32, 90) if n % 2}),  # every other check
    ("gateway-down", ""): ("critical", {14, 15, 16}),
    ("qq-dead", "bot/7"): ("high", set(range(70, 96))),
}
TRANSCRIPT = """\
03:30 [first seen] Gateway is down
04:15 [healed by itself] Resolved: Gateway is down
07:00 [passed] Resolved: Telegram cannot be reached
08:00 [first seen] No answer in 1 chat for 26 min
08:15 [first seen] Provider failing (minimax)
08:30 [healed by itself] Resolved: 2 problems
08:45 [first seen] Provider failing (minimax)
09:00 [first seen] No answer in 1 chat for 26 min
09:00 [digest] Resolved: Provider failing (minimax)
09:15 [flapping] Unstable: Provider failing (minimax)
09:30 [healed by itself] Resolved: No answer in 1 chat for 26 min
10:00 [flapping] Unstable: No answer in 1 chat for 26 min
10:00 [first seen] Telegram cannot be reached
11:00 [healed by itself] Resolved: Telegram cannot be reached
15:30 [healed by itself] Stable: No answer in 1 chat for 26 min
17:30 [first seen] QQ bot is offline
23:30 [healed by itself] Stable: Provider failing (minimax)
"""  # 17 messages; the faults changed 79 times


def test_a_day_of_flapping_faults_is_a_readable_transcript():
    lines: list[str] = []
    clock = {"now": DAY}

    def deliver(letters: dict) -> tuple[notify.Delivery, ...]:
        for _target, own in letters.items():
            for letter in own:
                at = clock["now"].astimezone().strftime("%H:%M")
                title = letter.title
                lines.append(f"{at} [{messages.notification(store, letter.id)[0].news}] {title}")
        return tuple(
            notify.Delivery(target.name, letter.id) for target, own in letters.items() for letter in own
        )

    settings = NotifySettings(
        (Target("phone", Secret("json://x")),), quiet=QuietHours(time(23, 45), time(7)), host="box"
    )
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
                    said = {"provider": key, "times": "7", "platform": "telegram", "chat": "42"}
                    said |= {"waited": 26 * MINUTE, "longer_than": 15 * MINUTE, "alive_at": now, "bot": "7"}
                    fresh = known or incident(
                        next(numbers), rule, key, now, severity=severity, fields=said, recipe=None
                    )
                    open_now[rule, key] = fresh
                    changes.append(Change("seen" if known else "opened", fresh))  # type: ignore[arg-type]
                elif known:
                    del open_now[rule, key]
                    changes.append(Change("resolved", replace(known, status="resolved", resolved_at=now)))  # type: ignore[type-var]
            tell(report(*changes, at=now), store, settings, now, send=deliver)
    assert "\n".join(lines) + "\n" == TRANSCRIPT
    assert flips == 79


# What only the whole of telling shows.


class Sent(list[notify.Outgoing]):
    """The messages that `tell` sends."""

    def tell(self, *words: object, **more: object) -> object:
        return tell(*words, **more, send=self.take)  # type: ignore[arg-type]

    def take(self, wanted: dict) -> tuple[notify.Delivery, ...]:
        self += [letter for own in wanted.values() for letter in own]
        return tuple(
            notify.Delivery(target.name, letter.id) for target, own in wanted.items() for letter in own
        )


@pytest.fixture
def sent() -> Sent:
    return Sent()


PHONE = NotifySettings((Target("phone", Secret("json://x")),), host="box")


def test_a_blind_source_is_told_once_and_its_end_too(sent: Sent):
    with Store.in_memory() as store:
        for minutes in (0, 15, 30):
            sent.tell(
                report(blind={"gateway.log": "permission denied"}), store, PHONE, NOW + minutes * MINUTE
            )
        assert [letter.title for letter in sent] == ["Cannot read gateway.log"]
        assert "permission denied" in sent[0].body
        sent.tell(report(), store, PHONE, NOW + HOUR)
        sent.tell(report(), store, PHONE, NOW + HOUR + MINUTE)
    assert [letter.title for letter in sent[1:]] == ["gateway.log can be read again"]


def test_a_watchdog_that_disarmed_itself_says_so_once(sent: Sent):
    with Store.in_memory() as store:
        disarm(store, "restart-gateway did not help", NOW)
        for minutes in (0, 15):
            sent.tell(report(), store, PHONE, NOW + minutes * MINUTE)
    assert [letter.title for letter in sent] == ["Watchdog has stopped acting"]
    assert "restart-gateway did not help" in sent[0].body and "hermes-watchdog arm" in sent[0].body


def test_a_fault_that_is_only_suspected_is_not_told(sent: Sent):
    with Store.in_memory() as store:
        sent.tell(report(Change("suspected", incident(status="suspected"))), store, PHONE, NOW)
        sent.tell(
            report(Change("unconfirmed", incident(status="resolved", resolved_at=NOW))), store, PHONE, NOW
        )
    assert sent == []


def test_what_was_silenced_is_told_when_the_silence_is_over_and_it_is_still_there(
    sent: Sent,
):
    with Store.in_memory() as store:
        messages.add_silence(store, Silence(0, "session-stuck", NOW + HOUR, "known", "anna", NOW))
        sent.tell(report(Change("opened", incident(recipe=None))), store, PHONE, NOW)
        assert sent == []
        later = NOW + HOUR + MINUTE
        sent.tell(report(Change("seen", incident(recipe=None))), store, PHONE, later)
        assert len(sent) == 1


def test_what_ends_because_its_rule_was_switched_off_is_not_called_gone(sent: Sent):
    open_, over = incident(recipe=None), incident(recipe=None, status="resolved", resolved_at=NOW + MINUTE)
    others = replace(BOOK, rules=tuple(rule for rule in BOOK.rules if rule.id != open_.rule))
    with Store.in_memory() as store:
        sent.tell(report(Change("opened", open_)), store, PHONE, NOW, BOOK)
        assert len(sent) == 1
        sent.tell(report(Change("resolved", over)), store, PHONE, NOW + MINUTE, book=others)
        assert len(sent) == 1
        sent.tell(report(), store, PHONE, NOW + 2 * MINUTE, book=others)
        assert len(sent) == 1


def test_the_daily_summary_comes_once_a_day_and_says_ok_when_all_is_well(sent: Sent):
    settings = replace(PHONE, daily_summary=(NOW - MINUTE).astimezone().time())
    with Store.in_memory() as store:
        for minutes in (-10, 0, 15, 30):
            sent.tell(report(), store, settings, NOW + minutes * MINUTE)
        assert [letter.title for letter in sent] == ["Gateway watchdog: OK"]
        sent.tell(report(), store, settings, NOW + timedelta(days=1))
    assert len(sent) == 2


SHANGHAI = ZoneInfo("Asia/Shanghai")
MONDAY = datetime(2026, 5, 18, 9, tzinfo=SHANGHAI)
WEEKLY = replace(PHONE, weekly_summary=Weekly(0, time(9)), zone=SHANGHAI)


def checked(store: Store, *days: int) -> None:
    """A check at noon of each of these days before Monday."""
    for day in days:
        at = (MONDAY - timedelta(days=day)).replace(hour=12)
        record_check(store, replace(report(), start=at, now=at), [])


def test_the_weekly_summary_comes_once_a_week_with_a_line_for_each_day(sent: Sent):
    with Store.in_memory() as store:
        checked(store, *range(7, 0, -1))
        for minutes in (-30, 0, 15, 60 * 24, 60 * 24 * 6):
            sent.tell(report(), store, WEEKLY, (MONDAY + minutes * MINUTE).astimezone(UTC))
        assert [letter.title for letter in sent] == ["All quiet this week"]
        lines = sent[0].body.splitlines()
        assert lines[0] == "Mon 05-11  quiet" and lines[6] == "Sun 05-17  quiet"
        sent.tell(report(), store, WEEKLY, MONDAY + timedelta(days=7))
    assert len(sent) == 2


def test_a_weekly_summary_that_was_missed_is_sent_later(sent: Sent):
    with Store.in_memory() as store:
        sent.tell(report(), store, WEEKLY, MONDAY)
        sent.tell(report(), store, WEEKLY, MONDAY + timedelta(days=9))
        sent.tell(report(), store, WEEKLY, MONDAY + timedelta(days=10))
    assert len(sent) == 2


def test_a_week_without_checks_is_not_called_quiet(sent: Sent):
    with Store.in_memory() as store:
        checked(store, 7, 6, 5, 4, 3)
        sent.tell(report(), store, WEEKLY, MONDAY)
    assert sent[0].title == "This week: no checks on 2 days"
    assert sent[0].body.splitlines()[5] == "Sat 05-16  no checks"


def test_days_before_the_watchdog_was_installed_are_not_called_unchecked(sent: Sent):
    with Store.in_memory() as store:
        checked(store, 2, 1)
        sent.tell(report(), store, WEEKLY, MONDAY)
    assert sent[0].title == "All quiet this week"
    assert [line[:3] for line in sent[0].body.splitlines()[:2]] == ["Sat", "Sun"]
    sent.clear()
    with Store.in_memory() as store:
        record_check(store, replace(report(), start=MONDAY, now=MONDAY), [])
        sent.tell(report(), store, WEEKLY, MONDAY)
    assert sent[0].title == "Watching since today" and "no checks" not in sent[0].body


def test_a_fault_of_the_week_stands_on_each_of_its_days_in_chinese_too(sent: Sent):
    opened = MONDAY - timedelta(days=5)
    fault = incident(recipe=None, opened_at=opened, first_at=opened, last_seen_at=opened)
    over = replace(fault, status="resolved", resolved_at=opened + timedelta(days=1))
    with Store.in_memory() as store:
        checked(store, *range(7, 0, -1))
        sent.tell(report(Change("opened", fault)), store, replace(WEEKLY, language="zh"), opened)
        sent.tell(
            report(Change("resolved", over)),
            store,
            replace(WEEKLY, language="zh"),
            opened + timedelta(days=1),
        )
        sent.clear()
        sent.tell(report(), store, replace(WEEKLY, language="zh"), MONDAY)
    assert sent[0].title == "网关：本周有过 1 个问题"
    assert sent[0].body.splitlines()[1:5] == [
        "周二 05-12  正常",
        "周三 05-13  1 个问题",
        "周四 05-14  1 个问题",
        "周五 05-15  正常",
    ]


def test_the_daily_summary_comes_by_the_owners_clock(sent: Sent):
    shanghai = ZoneInfo("Asia/Shanghai")
    settings = replace(PHONE, daily_summary=time(9), zone=shanghai)
    nine = datetime(2026, 5, 20, 9, tzinfo=shanghai)
    with Store.in_memory() as store:
        for minutes in (-1, 0, 60, 8 * 60):  # the last one is another day on a machine in UTC
            sent.tell(report(), store, settings, (nine + minutes * MINUTE).astimezone(UTC))
        assert len(sent) == 1


def test_a_message_tells_the_time_where_its_reader_is(sent: Sent):
    settings = replace(PHONE, zone=ZoneInfo("Asia/Shanghai"))
    with Store.in_memory() as store:
        sent.tell(report(Change("opened", incident(recipe=None))), store, settings, NOW)
    assert f"Since {incident().first_at.astimezone(ZoneInfo('Asia/Shanghai')):%H:%M}" in sent[0].body


def test_a_quiet_check_sends_nothing_and_hears_nothing(sent: Sent):
    with Store.in_memory() as store:
        assert sent.tell(report(), store, PHONE, NOW) == ((), ()) and hear(store, PHONE, NOW) == ((), ())
    assert sent == []
