"""page: PATH: one file after each check, true, bounded, and never written where it does not belong."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from homes import BOOK, finish_check
from pages import Page

from watchdog.cli import main
from watchdog.config.read_settings import load_settings
from watchdog.errors import ConfigError, WatchdogError
from watchdog.job import Job, find_job
from watchdog.model import Incident
from watchdog.reports import history
from watchdog.reports.language import reader_of
from watchdog.reports.page import status_page
from watchdog.reports.status import Light, Status
from watchdog.service.page import page_path, write_after_check

NOW = datetime(2026, 5, 19, 10, 0, tzinfo=UTC)
WEEK = timedelta(days=7)
READERS = {language: reader_of(language, BOOK, NOW) for language in ("en", "zh")}
HOSTILE = "<img src=x onerror=alert(1)>\"'</style></title><script>alert(2)</script>\u202e\x1b[31m"


@pytest.fixture
def job(tmp_path: Path) -> Job:
    home = tmp_path / ".hermes"
    (home / "logs").mkdir(parents=True)
    (home / "logs" / "gateway.log").write_text("")
    return find_job(str(home), None, str(tmp_path / "state"))


def with_page(job: Job, path: Path | str, more: str = "") -> Job:
    config = job.home.parent / "config"
    config.mkdir(exist_ok=True)
    (config / "settings.yaml").write_text(f"page: {path}\n{more}")
    (config / "settings.yaml").chmod(0o600)
    return find_job(str(job.home), str(config), str(job.home.parent / "state"))


def incident(number: int, text: str = "it is broken") -> Incident:
    at = NOW - timedelta(minutes=number % 10_000)
    rule = f"rule-{number % 40}"
    return Incident(number, rule, f"{text} {number}", "high", "open", text, text, at, at, at)


def test_a_check_writes_the_page_that_the_settings_ask_for(job: Job, tmp_path: Path) -> None:
    page = tmp_path / "www" / "hermes.html"
    page.parent.mkdir()
    job = with_page(job, page)
    os.umask(0o077)  # as cron may have it: a web server must still read the page
    main(
        [
            "check",
            "--quiet",
            "--home",
            str(job.home),
            "--config",
            str(job.config),
            "--state",
            str(tmp_path / "state"),
        ]
    )
    os.umask(0o022)
    text = page.read_text()
    seen = Page(text)
    assert seen.open == [] and seen.bad == [] and seen.loads == []
    assert "default-src 'none'" in text and str(job.home) in text
    assert page.stat().st_mode & 0o777 == 0o644
    assert list(page.parent.iterdir()) == [page]  # no half-written file is left


def test_a_private_page_is_for_its_owner_alone(job: Job, tmp_path: Path) -> None:
    job = with_page(job, tmp_path / "p.html", "page_private: true\n")
    assert write_after_check(job) == ""
    assert (tmp_path / "p.html").stat().st_mode & 0o777 == 0o600


def test_a_dry_run_writes_no_page(job: Job, tmp_path: Path) -> None:
    job = with_page(job, tmp_path / "p.html")
    main(
        [
            "check",
            "--dry-run",
            "--home",
            str(job.home),
            "--config",
            str(job.config),
            "--state",
            str(tmp_path / "state"),
        ]
    )
    assert not (tmp_path / "p.html").exists()


def test_a_bad_place_is_a_note_and_the_check_goes_on(job: Job, tmp_path: Path, capsys) -> None:
    (tmp_path / "target").write_text("precious")
    (tmp_path / "link.html").symlink_to(tmp_path / "target")
    (tmp_path / "folder").mkdir()
    (tmp_path / "mine.html").write_text("<html>my own page</html>")
    os.mkfifo(tmp_path / "pipe")
    for name, why in (
        ("link.html", "is a link"),
        ("folder", "is a folder"),
        ("pipe", "is no plain file"),
        ("mine.html", "is not a page of the watchdog"),
        ("nowhere/p.html", "No such file or directory"),
    ):
        job = with_page(job, tmp_path / name)
        where = ["--home", str(job.home), "--config", str(job.config), "--state", str(tmp_path / "state")]
        assert main(["check", *where]) in (0, 1)
        out = capsys.readouterr().out
        assert "the page was not written: " in out and why in out, name
    assert (tmp_path / "target").read_text() == "precious"
    assert (tmp_path / "mine.html").read_text() == "<html>my own page</html>"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_leaves_the_old_page_whole(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = with_page(job, tmp_path / "p.html")
    assert write_after_check(job) == ""
    before = (tmp_path / "p.html").read_bytes()

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left on device" in write_after_check(job)
    assert (tmp_path / "p.html").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir() if "html" in path.name) == ["p.html"]


def test_two_homes_never_share_one_page(job: Job, tmp_path: Path) -> None:
    job = with_page(job, tmp_path / "{home}.html")
    other = tmp_path / "work"
    (other / "logs").mkdir(parents=True)
    second = replace_home(job, other)
    assert [page_path(each).name for each in (job, second)] == ["hermes.html", "work.html"]
    job = with_page(job, tmp_path / "p.html")
    assert write_after_check(job) == ""
    assert "is the page of another home" in write_after_check(replace_home(job, other))
    assert write_after_check(job) == ""


def replace_home(job: Job, home: Path) -> Job:
    return find_job(str(home), str(job.config), str(job.home.parent / "state"))


@pytest.mark.parametrize(
    ("line", "why"),
    [("page: hermes.html", "is not a whole path"), ("page: /srv/www/", "is a folder"), ("page: [a]", "page")],
)
def test_a_path_that_cannot_be_meant_is_a_mistake_with_its_line(tmp_path: Path, line: str, why: str) -> None:
    (tmp_path / "settings.yaml").write_text(f"timezone: UTC\n{line}\n")
    (tmp_path / "settings.yaml").chmod(0o600)
    with pytest.raises(ConfigError, match=why) as error:
        load_settings(tmp_path)
    assert "settings.yaml:2" in str(error.value)


def test_a_check_that_failed_leaves_a_page_that_says_so(job: Job, tmp_path: Path) -> None:
    job = with_page(job, tmp_path / "p.html")
    assert write_after_check(job, "cannot record: disk I/O error") == ""
    text = (tmp_path / "p.html").read_text()
    assert (
        "The last check failed: cannot record: disk I/O error" in text and "The gateway has a problem" in text
    )


def test_a_fault_while_making_the_page_is_a_note(job: Job, tmp_path: Path) -> None:
    job = with_page(job, tmp_path / "p.html")

    def broken(job: Job) -> Status:
        raise KeyError("pid")

    def refused(job: Job) -> Status:
        raise WatchdogError("no such home")

    assert write_after_check(job, look=broken) == "the page was not written: KeyError: 'pid'"
    assert write_after_check(job, look=refused) == "the page was not written: no such home"


@pytest.mark.parametrize("damage", ["damaged", "newer", "locked"])
def test_a_store_that_cannot_be_read_is_said_and_never_green(job: Job, tmp_path: Path, damage: str) -> None:
    job = with_page(job, tmp_path / "p.html")
    with job.store() as store:
        finish_check(store, NOW, NOW - WEEK, {}, ())
    holder = None
    if damage == "damaged":
        job.store_path.write_bytes(b"not a database at all" * 400)
    elif damage == "newer":
        with sqlite3.connect(job.store_path) as db:
            db.execute("PRAGMA user_version = 9999")
            db.execute(
                "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES ('watchdog','m9999','x')"
            ) if db.execute(
                "SELECT 1 FROM sqlite_master WHERE name='_sqlite_migrations'"
            ).fetchone() else None
    else:
        holder = sqlite3.connect(job.store_path, isolation_level=None)
        holder.execute("PRAGMA locking_mode = EXCLUSIVE")
        holder.execute("BEGIN IMMEDIATE")
    assert write_after_check(job) == ""
    text = (tmp_path / "p.html").read_text()
    if holder:
        holder.close()
    assert READERS["en"]("page.light.green") not in text
    assert Page(text).open == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_ten_thousand_incidents_with_hostile_text_make_a_small_page(language: str) -> None:
    many = tuple(incident(number, HOSTILE) for number in range(10_000))
    past = history.Past(
        HOSTILE, NOW - WEEK, NOW, 600,
        incidents=tuple(history.PastIncident(each, each.opened_at, history.Ending.OPEN) for each in many),
        unseen=tuple(history.Unseen(NOW - WEEK, NOW, f"{HOSTILE} {number}", HOSTILE) for number in range(1000)),
        watched=tuple((NOW - timedelta(hours=2 * n), NOW - timedelta(hours=2 * n)) for n in range(83, 0, -1)),
    )  # fmt: skip
    status = Status(HOSTILE, NOW, open=many, blind=((HOSTILE, HOSTILE),), last=NOW)
    text = status_page(status, past, READERS[language])
    seen = Page(text)
    assert seen.open == [] and seen.bad == [] and seen.loads == []
    assert len(text.encode()) < 100_000
    assert READERS[language]("report.more", count=10_000 - 15) in text
    assert "\u202e" not in text and "\x1b" not in text


def test_a_light_says_when_it_was_made_and_when_it_is_out_of_date() -> None:
    past = history.Past("/h", NOW - WEEK, NOW, 1)
    status = Status("/h", NOW, last=NOW, next=NOW + timedelta(minutes=15))
    text = status_page(status, past, READERS["en"])
    at, late = (f"{moment.astimezone():%H:%M}" for moment in (NOW, NOW + timedelta(minutes=25)))
    assert f"As of {at}. After {late} this page is out of date." in text
    assert "As of " in status_page(replace(status, next=None), past, READERS["en"])


def test_a_database_that_was_not_looked_at_is_not_called_whole() -> None:
    from watchdog.reports.page import databases
    from watchdog.reports.status import BackupAge

    backups = (BackupAge("state.db", NOW, 1248), BackupAge("kanban.db"))
    status = Status("/h", NOW, last=NOW, backups=backups)
    assert [each.kind for each in databases(status, READERS["en"])] == ["good", "good"]
    blind = replace(status, blind=(("state.db", "permission denied"),))
    assert [each.verdict for each in databases(blind, READERS["en"])] == ["not checked", "no damage found"]
    broken = replace(incident(1), key="kanban.db")
    assert [each.kind for each in databases(replace(status, open=(broken,)), READERS["en"])] == [
        "good",
        "high",
    ]
    assert [each.kind for each in databases(replace(status, last=None), READERS["en"])] == [
        "medium",
        "medium",
    ]


def test_the_sentence_of_the_light_begins_with_a_capital_but_a_file_keeps_its_name() -> None:
    past = history.Past("/h", NOW - WEEK, NOW, 1)
    for says, shown in (
        ("kanban.db lacks a column", "<p>kanban.db lacks"),
        ("no answer since", "<p>No answer"),
    ):
        status = Status("/h", NOW, last=NOW, open=(replace(incident(1), says=says, title=says),))
        assert shown in status_page(status, past, READERS["en"])


def test_before_the_first_check_nothing_is_said_about_open_problems() -> None:
    past = history.Past("/h", NOW - WEEK, NOW, 0)
    for last, count in ((None, "unknown"), (NOW, "0")):
        assert f"<dt>Open problems</dt><dd>{count}</dd>" in status_page(
            Status("/h", NOW, last=last), past, READERS["en"]
        )


def test_the_details_do_not_repeat_what_the_page_lists() -> None:
    status = Status(
        "/h", NOW, last=NOW, open=(incident(1, "a chat waits"),), blind=(("journal", "no right"),)
    )
    _, _, details = status_page(status, history.Past("/h", NOW - WEEK, NOW, 1), READERS["en"]).partition(
        '<dl class="facts">'
    )
    assert "a chat waits" not in details and "no right" not in details and "armed" in details


def test_the_light_is_told_by_words_and_sign_and_not_by_colour_alone() -> None:
    past = history.Past("/h", NOW - WEEK, NOW, 1)
    for status, sign, light in (
        (Status("/h", NOW, last=NOW), "✓", Light.GREEN),
        (Status("/h", NOW), "!", Light.YELLOW),
        (Status("/h", NOW, store_error="damaged"), "✕", Light.RED),
    ):
        for reader in READERS.values():
            text = status_page(status, past, reader)
            assert f"<title>{sign} {reader(f'page.light.{light}')}</title>" in text
            assert f"<h1>{reader(f'page.light.{light}')}</h1>" in text
