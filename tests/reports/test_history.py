"""The report over days: true numbers, four forms, one page that a phone can show and nobody is asked for."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from homes import BOOK, finish_check
from pages import Page

from watchdog.cli import main
from watchdog.job import find_job
from watchdog.model import Change, Event, Incident, Plan
from watchdog.reports.history import Ending, Past, as_json, gather, unseen
from watchdog.reports.history_text import as_markdown, as_text
from watchdog.reports.language import Reader, reader_of
from watchdog.reports.page import report_page
from watchdog.store import Store
from watchdog.store import plans as rows
from watchdog.store.incidents import save_changes
from watchdog.store.rows import stamp

START = datetime(2026, 5, 12, 10, 0, tzinfo=UTC)
NOW = START + timedelta(days=7)
MINUTE = timedelta(minutes=1)
ENGLISH, CHINESE = (reader_of(language, BOOK, NOW) for language in ("en", "zh"))


def incident(rule: str, key: str, opened: datetime, lasted: timedelta | None, **more: object) -> Incident:
    evidence = (Event(opened, "gateway.log", "inbound message: platform=telegram", "gateway.log:7"),)
    made = Incident(
        0, rule, key, "high", "resolved" if lasted else "open", f"Title of {rule}", f"{key} is wrong", opened, opened, opened,
        opened + lasted if lasted else None, "restart-gateway", evidence=evidence,
    )  # fmt: skip
    return replace(made, **more)  # type: ignore[arg-type]


@pytest.fixture
def store() -> Store:
    """A week: checks every 15 minutes with a gap of a night, a blind journal, three incidents, one action."""
    store = Store.in_memory()
    at = START
    while at <= NOW:
        if not timedelta(days=2) < at - START < timedelta(days=2, hours=8):
            finish_check(
                store, at, at, {"journal": "permission denied"} if at - START < timedelta(hours=2) else {}, ()
            )
        at += 15 * MINUTE
    first = START + timedelta(days=1, minutes=4)
    changes = [
        incident("session-stuck", "telegram/42", first, 26 * MINUTE),
        incident("tls-burst", "openai", START + timedelta(days=3, minutes=10), 5 * MINUTE),
        incident("qq-dead", "1903", START + timedelta(days=6), None),
        incident("gateway-down", "gateway", START, None, status="suspected"),
    ]
    save_changes(store, [Change("opened", one) for one in changes])
    plan = Plan(
        "Restart the gateway",
        ("session-stuck telegram/42",),
        ("restart-gateway",),
        (),
        ("restart",),
        "d1",
        home="/h",
    )
    number = rows.save(store, plan, first + 11 * MINUTE)
    rows.move(store, number, ("pending",), "done", answered_by="ann", claimed_at=stamp(first + 20 * MINUTE),
              finished_at=stamp(first + 25 * MINUTE), says="done and verified")  # fmt: skip
    return store


@pytest.fixture
def past(store: Store) -> Past:
    return gather(store, "/home/me/.hermes", START, NOW)


def test_each_incident_knows_when_it_was_noticed_how_long_it_lasted_and_who_healed_it(past: Past) -> None:
    told = {one.incident.rule: one for one in past.incidents}
    assert set(told) == {"session-stuck", "tls-burst", "qq-dead"}  # what was only suspected is no incident
    assert told["session-stuck"].to_notice == 11 * MINUTE and told["session-stuck"].lasted == 26 * MINUTE
    assert [told[rule].ending for rule in ("session-stuck", "tls-burst", "qq-dead")] == [
        Ending.BY_US,
        Ending.BY_ITSELF,
        Ending.OPEN,
    ]
    assert told["qq-dead"].to_notice == timedelta(0) and told["qq-dead"].lasted is None


@pytest.mark.parametrize(("over", "ending"), [(24, Ending.BY_US), (40, Ending.BY_ITSELF)])
def test_what_was_open_beside_a_plan_and_ended_later_was_not_healed_by_it(
    store: Store, over: int, ending: Ending
) -> None:
    """A refused key that a person renewed after a database was repaired is no repair of ours."""
    first = START + timedelta(days=1, minutes=4)
    beside = incident("provider-auth", "custom", first, over * MINUTE)
    save_changes(store, [Change("opened", beside)])
    names = ("session-stuck telegram/42", "provider-auth custom")
    made = Plan("Restart the gateway", names, ("restart-gateway",), (), (), "d2", home="/h")
    made = replace(made, parts=(("restart-gateway", names[0], 0),))
    number = rows.save(store, made, first + 11 * MINUTE)
    times = {"claimed_at": stamp(first + 20 * MINUTE), "finished_at": stamp(first + 25 * MINUTE)}
    rows.move(store, number, ("pending",), "done", answered_by="ann", **times)
    told = {one.incident.rule: one.ending for one in gather(store, "/h", START, NOW).incidents}
    assert (told["provider-auth"], told["session-stuck"]) == (ending, Ending.BY_US)


def test_the_median_is_of_what_is_known(past: Past) -> None:
    assert past.noticing == 5 * MINUTE  # of 11, 5 and 0 minutes
    assert past.resolving == timedelta(minutes=15, seconds=30)
    assert past.checks == 672 + 1 - 31


def test_time_without_a_check_and_blind_sources_are_told(past: Past) -> None:
    night, journal = past.unseen[1], past.unseen[0]
    assert (night.source, night.end - night.start) == ("", timedelta(hours=8))
    assert (journal.source, journal.why, journal.end - journal.start) == (
        "journal",
        "permission denied",
        timedelta(minutes=105),
    )


def test_a_watchdog_that_stopped_is_told_up_to_now_and_its_first_day_is_no_gap() -> None:
    checks = [(START + timedelta(days=3), {}), (START + timedelta(days=3, minutes=15), {})]
    (gap,) = unseen(checks, START, NOW)
    assert gap.start == checks[1][0] and gap.end == NOW
    assert unseen([], START, START + MINUTE) == ()


def test_the_text_reads_as_a_person_would_tell_it(past: Past) -> None:
    text = as_text(past, ENGLISH)
    assert "642 checks, 3 incidents: 1 healed by the watchdog, 1 resolved by itself, 1 still open." in text
    assert "Noticed after 5 minutes (median" in text
    assert "noticed after 11 minutes, healed by the watchdog" in text and "still open" in text
    assert "plan 1, asked" in text and "done by ann at" in text and "everything: no check was made" in text


def test_nothing_found_and_nothing_known_are_two_things(store: Store) -> None:
    assert "No check was made in this time." in as_text(gather(None, "/h", START, NOW), ENGLISH)
    quiet = Store.in_memory()
    finish_check(quiet, NOW - MINUTE, NOW, {}, ())
    assert "1 check, nothing found." in as_text(
        gather(quiet, "/h", NOW - timedelta(minutes=30), NOW), ENGLISH
    )


def test_the_json_has_the_numbers_that_scripts_want(past: Past) -> None:
    told = json.loads(json.dumps(as_json(past)))
    assert told["median_seconds_to_notice"] == 300 and told["checks"] == 642
    stuck = next(one for one in told["incidents"] if one["rule"] == "session-stuck")
    assert (stuck["seconds_to_notice"], stuck["seconds_to_heal"], stuck["healed"]) == (660, 1560, "watchdog")
    assert told["actions"][0]["state"] == "done" and told["not_seen"][1]["what"] == "everything"


HOSTILE = "<script>alert(1)</script> | `x` [a](javascript:b) \x1b[31m \u202e token=abcdef123456"


def hostile(past: Past) -> Past:
    bad = incident(
        "session-stuck", HOSTILE, START + timedelta(days=1), 5 * MINUTE, says=HOSTILE, title=HOSTILE
    )
    told = replace(past.incidents[0], incident=bad)
    return replace(past, incidents=(told,), unseen=(replace(past.unseen[0], source=HOSTILE, why=HOSTILE),))


def test_text_from_logs_becomes_no_markup_and_no_secret_leaves(past: Past) -> None:
    page = report_page(hostile(past), ENGLISH)
    assert "<script" not in page and "&lt;script&gt;" in page
    table = as_markdown(hostile(past), ENGLISH)
    assert "<script" not in re.sub(r"\\<", "", table) and "\\|" in table
    for text in (page, table):
        assert "\x1b" not in text and "abcdef123456" not in text


@pytest.mark.parametrize("reader", [ENGLISH, CHINESE], ids=["en", "zh"])
def test_the_page_is_whole_asks_nobody_for_anything_and_fits_a_phone(past: Past, reader: Reader) -> None:
    page = report_page(past, reader)
    seen = Page(page)
    assert seen.open == [] and seen.loads == [] and seen.bad == []
    assert not re.search(r"https?://|url\((?!#)|@import", page)
    assert "default-src 'none'" in page and 'name="viewport" content="width=device-width' in page
    assert seen.bars >= 3 + 1 + 1  # incidents, the action, the gap
    assert "hermes-watchdog" in page and f'<html lang="{reader.language}">' in page


def test_every_bar_lies_inside_the_chart(past: Past) -> None:
    for x, width in re.findall(
        r'<rect class="\w+" x="([\d.]+)" y="\d+" width="([\d.]+)"', report_page(past, ENGLISH)
    ):
        assert float(x) >= 0 and float(x) + float(width) <= 1000.1


def test_the_command_prints_or_writes_each_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--home", str(tmp_path), "--state", str(tmp_path / "state"), "--since", "30d"]
    job = find_job(home=str(tmp_path), state=str(tmp_path / "state"))
    with job.store() as store:
        finish_check(store, datetime.now(UTC), NOW, {}, ())
    for form, part in (
        ("text", "1 check, nothing found."),
        ("markdown", "# Hermes gateway"),
        ("json", '"checks": 1'),
    ):
        assert main(["report", "--format", form, *where]) == 0
        assert part in capsys.readouterr().out
    assert main(["report", "--json", *where]) == 0 and capsys.readouterr().out.startswith("{")
    assert main(["report", "--format", "html", "--output", str(tmp_path / "r.html"), *where]) == 0
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert main(["report", "--output", "/nowhere/r.txt", *where]) == 2
    assert "cannot write /nowhere/r.txt: No such file or directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("pace", "missing", "gaps"), [(15, 1, 0), (15, 2, 1), (120, 0, 0), (120, 3, 1), (1, 5, 0)]
)
def test_checks_that_did_not_happen_are_a_gap_by_the_usual_pace(pace: int, missing: int, gaps: int) -> None:
    """Two missed checks of cron are drawn; a home that is checked every two hours has no gap after each."""
    times = [START + number * pace * MINUTE for number in range(50)]
    checks = [(at, {}) for at in times[:20] + times[20 + missing :]]
    found = unseen(checks, START, times[-1])
    assert len(found) == gaps


def test_a_week_without_checks_is_drawn_as_a_gap(past: Past) -> None:
    """The night without checks, in the row of the checks and behind each rule; and all of an empty week."""
    page = report_page(past, ENGLISH)
    assert page.count('<rect class="gap"') == 1 + 3 + 1  # checks, three rules, the blind journal
    assert page.count('<rect class="seen"') == 2
    empty = report_page(gather(None, "/h", START, NOW), ENGLISH)
    assert re.findall(r'<rect class="(\w+)" x="([\d.]+)" y="2" width="([\d.]+)"', empty) == [
        ("gap", "0.0", "1000.0")
    ]


def test_chinese_readers_get_chinese(past: Past) -> None:
    text = as_text(past, CHINESE)
    assert "检查 642 次，发现 3 个问题：1 个由看门狗修复、1 个自行恢复、1 个未解决。" in text
    assert "11 分钟后发现、由看门狗修复" in text and "全部: 没有检查" in text
    assert "| 级别 | 内容 |" in as_markdown(past, CHINESE)
    assert "重启网关" in text or "重启 gateway" in text


def test_many_incidents_are_counted_and_not_all_listed(past: Past) -> None:
    many = replace(past, incidents=past.incidents * 4000)
    page = report_page(many, ENGLISH)
    assert len(page) < 100_000 and "… and 11940 more" in page
    assert "… and 11800 more" in as_text(many, ENGLISH)


def test_a_report_is_for_its_owner_alone_and_goes_through_no_link(tmp_path: Path, capsys) -> None:
    where = ["--home", str(tmp_path), "--state", str(tmp_path / "state")]
    (tmp_path / "logs").mkdir()
    target, link = tmp_path / "elsewhere", tmp_path / "week.html"
    target.write_text("precious")
    link.symlink_to(target)
    assert main(["report", "--format", "html", "--output", str(link), *where]) == 2
    assert target.read_text() == "precious" and "is a link" in capsys.readouterr().err
    link.unlink()
    os.umask(0o022)
    link.write_text("old")
    link.chmod(0o644)
    assert main(["report", "--format", "html", "--output", str(link), *where]) == 0
    assert link.stat().st_mode & 0o777 == 0o600 and link.read_text().startswith("<!doctype html>")
    assert main(["report", "--output", str(tmp_path), *where]) == 2
    assert "is a folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
