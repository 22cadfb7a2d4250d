"""The report over days: true numbers, four forms, one page that a phone can show and nobody is asked for."""

from __future__ import annotations

import argparse
import html.parser
import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from watchdog.cli import main
from watchdog.cli.common import Context
from watchdog.history_page import as_html
from watchdog.history_report import ITSELF, OPEN, US, Past, as_json, as_markdown, as_text, gather, unseen
from watchdog.model import Change, Event, Incident, Plan
from watchdog.store import Store
from watchdog.store import plans as rows
from watchdog.store.incidents import finish_check, save_changes
from watchdog.store.plans import text_of

START = datetime(2026, 5, 12, 10, 0, tzinfo=UTC)
NOW = START + timedelta(days=7)
MINUTE = timedelta(minutes=1)


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
            finish_check(store, at, at, {"journal": "permission denied"} if at - START < timedelta(hours=2) else {}, ())
        at += 15 * MINUTE
    first = START + timedelta(days=1, minutes=4)
    changes = [
        incident("session-stuck", "telegram/42", first, 26 * MINUTE),
        incident("tls-burst", "openai", START + timedelta(days=3, minutes=10), 5 * MINUTE),
        incident("qq-dead", "1903", START + timedelta(days=6), None),
        incident("gateway-down", "gateway", START, None, status="suspected"),
    ]
    save_changes(store, [Change("opened", one) for one in changes])
    plan = Plan("Restart the gateway", ("session-stuck telegram/42",), ("restart-gateway",), (), ("restart",), "d1", home="/h")
    number = rows.save(store, plan, first + 11 * MINUTE)
    rows.move(store, number, ("pending",), "done", answered_by="ann", claimed_at=text_of(first + 20 * MINUTE),
              finished_at=text_of(first + 25 * MINUTE), says="done and verified")  # fmt: skip
    return store


@pytest.fixture
def past(store: Store) -> Past:
    return gather(store, "/home/me/.hermes", START, NOW)


def test_each_incident_knows_when_it_was_noticed_how_long_it_lasted_and_who_healed_it(past: Past) -> None:
    told = {one.incident.rule: one for one in past.incidents}
    assert set(told) == {"session-stuck", "tls-burst", "qq-dead"}  # what was only suspected is no incident
    assert told["session-stuck"].to_notice == 11 * MINUTE and told["session-stuck"].lasted == 26 * MINUTE
    assert [told[rule].healed for rule in ("session-stuck", "tls-burst", "qq-dead")] == [US, ITSELF, OPEN]
    assert told["qq-dead"].to_notice == timedelta(0) and told["qq-dead"].lasted is None


def test_the_median_is_of_what_is_known(past: Past) -> None:
    assert past.noticing == 5 * MINUTE  # of 11, 5 and 0 minutes
    assert past.healing == timedelta(minutes=15, seconds=30)
    assert past.checks == 672 + 1 - 31


def test_time_without_a_check_and_blind_sources_are_told(past: Past) -> None:
    night, journal = past.unseen[1], past.unseen[0]
    assert (night.what, night.why, night.end - night.start) == ("everything", "no check was made", timedelta(hours=8))
    assert (journal.what, journal.why, journal.end - journal.start) == ("journal", "permission denied", timedelta(minutes=105))


def test_a_watchdog_that_stopped_is_told_up_to_now_and_its_first_day_is_no_gap() -> None:
    checks = [(START + timedelta(days=3), {}), (START + timedelta(days=3, minutes=15), {})]
    (gap,) = unseen(checks, START, NOW)
    assert gap.start == checks[1][0] and gap.end == NOW
    assert unseen([], START, START + MINUTE) == ()


def test_the_text_reads_as_a_person_would_tell_it(past: Past) -> None:
    text = as_text(past)
    assert "642 checks, 3 incidents: 1 healed by the watchdog, 1 over by themselves, 1 still open." in text
    assert "Noticed within 5 minutes (median" in text
    assert "noticed after 11 minutes, healed by us" in text and "still open" in text
    assert "plan 1, asked" in text and "done by ann at" in text and "everything: no check was made" in text


def test_nothing_found_and_nothing_known_are_two_things(store: Store) -> None:
    assert "No check was made in this time." in as_text(gather(None, "/h", START, NOW))
    quiet = Store.in_memory()
    finish_check(quiet, NOW - MINUTE, NOW, {}, ())
    assert "1 check, nothing found." in as_text(gather(quiet, "/h", NOW - timedelta(minutes=30), NOW))


def test_the_json_has_the_numbers_that_scripts_want(past: Past) -> None:
    told = json.loads(json.dumps(as_json(past)))
    assert told["median_seconds_to_notice"] == 300 and told["checks"] == 642
    stuck = next(one for one in told["incidents"] if one["rule"] == "session-stuck")
    assert (stuck["seconds_to_notice"], stuck["seconds_to_heal"], stuck["healed"]) == (660, 1560, "watchdog")
    assert told["actions"][0]["state"] == "done" and told["not_seen"][1]["what"] == "everything"


HOSTILE = "<script>alert(1)</script> | `x` [a](javascript:b) \x1b[31m \u202e token=abcdef123456"


def hostile(past: Past) -> Past:
    bad = incident("session-stuck", HOSTILE, START + timedelta(days=1), 5 * MINUTE, says=HOSTILE, title=HOSTILE)
    told = replace(past.incidents[0], incident=bad)
    return replace(past, incidents=(told,), unseen=(replace(past.unseen[0], what=HOSTILE, why=HOSTILE),))


def test_text_from_logs_becomes_no_markup_and_no_secret_leaves(past: Past) -> None:
    page = as_html(hostile(past))
    assert "<script" not in page and "&lt;script&gt;" in page
    table = as_markdown(hostile(past))
    assert "<script" not in re.sub(r"\\<", "", table) and "\\|" in table
    for text in (page, table):
        assert "\x1b" not in text and "abcdef123456" not in text


class Page(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.bars = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br"):
            self.open.append(tag)
        self.bars += tag == "rect"
        self.links += [name for name, _ in attrs if name in ("src", "href", "srcset", "action", "data", "background")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_asks_nobody_for_anything_and_fits_a_phone(past: Past) -> None:
    page = as_html(past)
    seen = Page()
    seen.feed(page)
    assert seen.open == [] and seen.links == []
    assert not re.search(r"https?://|url\(|@import", page)
    assert "default-src 'none'" in page and 'name=viewport content="width=device-width' in page
    assert seen.bars >= 3 + 1 + 1  # incidents, the action, the gap
    assert "Made by hermes-watchdog" in page


def test_every_bar_lies_inside_the_chart(past: Past) -> None:
    for x, width in re.findall(r'<rect class=\w+ x="([\d.]+)" y="\d+" width="([\d.]+)"', as_html(past)):
        assert float(x) >= 0 and float(x) + float(width) <= 1000.1


def test_the_command_prints_or_writes_each_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--home", str(tmp_path), "--state", str(tmp_path / "state"), "--since", "30d"]
    ctx = Context(argparse.Namespace(home=str(tmp_path), state=str(tmp_path / "state")), datetime.now(UTC))
    with ctx.store() as store:
        finish_check(store, datetime.now(UTC), NOW, {}, ())
    for form, part in (("text", "1 check, nothing found."), ("markdown", "# Hermes gateway"), ("json", '"checks": 1')):
        assert main(["report", "--format", form, *where]) == 0
        assert part in capsys.readouterr().out
    assert main(["report", "--json", *where]) == 0 and capsys.readouterr().out.startswith("{")
    assert main(["report", "--format", "html", "--output", str(tmp_path / "r.html"), *where]) == 0
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    assert main(["report", "--output", "/nowhere/r.txt", *where]) == 2
    assert "--output /nowhere/r.txt: No such file or directory" in capsys.readouterr().err
