"""A watchdog that fails says so without its own memory, once to each target, and never comes back armed in silence."""

from __future__ import annotations

import errno
import json
import os
import sqlite3
from contextlib import suppress
from pathlib import Path

import pytest
from talk import Server, running

from watchdog.cli.main import main
from watchdog.errors import WatchdogError
from watchdog.job import find_job
from watchdog.model import Reason
from watchdog.notify.deliver import Delivery
from watchdog.service.check import check_once
from watchdog.store import Store
from watchdog.store.recovery import Marker, marker_path, read_marker, write_marker
from watchdog.store.store import VERSION, Trouble, store_error

RULE = "id: mine\ntitle: mine\nwhen: [{sings: 3}]\n"


class Place:
    """A home of its own; `check` gives what a phone and a mailbox heard of it."""

    def __init__(self, folder: Path):
        self.folder, self.broken = folder, False
        (folder / "home" / "logs").mkdir(parents=True)
        (folder / "config" / "detect").mkdir(parents=True)
        (folder / "config").chmod(0o700)
        self.where = [f"--{name}={folder / name}" for name in ("home", "config", "state")]

    def run(self, *words: str) -> int:
        return main([*words, *self.where])

    def targets(self) -> None:
        """From now on there is somebody to tell."""
        (self.folder / "config" / "settings.yaml").write_text(
            "backups: false\nnotify:\n  host: box\n  targets:\n"
            "    - {name: phone, url: 'json://127.0.0.1:9/phone', at_least: critical}\n    - {name: mail, url: 'json://127.0.0.1:9/mail', at_least: critical}\n"
        )

    def check(self) -> list[str]:
        """Who was told what by the failure of a check, or by its success after one."""
        heard: list[str] = []

        def deliver(outgoing):
            heard.extend(
                f"{target.name}: {message.title}: {message.body}"
                for target, own in outgoing.items()
                for message in own
            )
            why = Reason("undelivered.slow") if self.broken else None
            return tuple(
                Delivery(target.name, message.id, why) for target, own in outgoing.items() for message in own
            )

        job = find_job(*(str(self.folder / name) for name in ("home", "config", "state")))
        with suppress(WatchdogError, ZeroDivisionError):
            check_once(job, job.now, deliver)
        return heard

    @property
    def store(self) -> Path:
        (path,) = (self.folder / "state").glob("*/")
        return path / "watchdog.db"


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def noise(path: Path) -> None:
    path.write_bytes(os.urandom(20_000))


def cut_short(path: Path) -> None:
    os.truncate(path, 4096 * 3)


def header_only(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100] + bytes(path.stat().st_size - 100))


def no_tables(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("DROP TABLE checks")
    db.close()


def no_column(path: Path) -> None:
    with sqlite3.connect(path) as db:
        db.execute("ALTER TABLE incidents RENAME COLUMN status TO other")
    db.close()


@pytest.mark.parametrize("spoil", [noise, cut_short, header_only, no_tables, no_column])
def test_a_damaged_store_is_set_aside_and_started_anew_disarmed_and_told(place, capsys, spoil):
    assert place.run("check") == 0
    spoil(place.store)
    assert place.run("check") == 0
    (aside,) = place.store.parent.glob("watchdog.db.damaged-*")
    with Store.look(place.store) as store:
        row = store.db.execute("SELECT armed, reason FROM arming").fetchone()
    assert row["armed"] == 0 and aside.name in row["reason"]
    assert place.run("check") == 0 and not list(place.store.parent.glob("*damaged*"))[1:]
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("lose", [noise, cut_short, Path.unlink])
def test_the_dead_man_ping_says_once_that_the_store_was_lost(tmp_path, lose):
    with running(Server()) as server:
        place = Place(tmp_path)
        settings = f"backups: false\nnotify: {{ping: '{server.url}/x'}}\n"
        (tmp_path / "config" / "settings.yaml").write_text(settings)
        for step in (lambda: None, lambda: lose(place.store), lambda: None):
            step()
            assert place.run("check") == 0
    called = [path for _, path, _ in server.requests if not path.endswith("/start")]
    assert called == ["/x", "/x/fail", "/x"]


def blank(path: Path) -> None:
    """A whole database in its place, with none of our tables."""
    path.unlink()
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE other(x)")
    db.close()


@pytest.mark.parametrize("lose", [Path.unlink, lambda path: os.truncate(path, 0), blank])
@pytest.mark.parametrize(
    "by",
    [
        ["check"],
        ["disarm"],
        ["arm", "--because", "x"],
        ["silence", "gateway-down", "--for", "1h", "--because", "x"],
    ],
)
def test_a_store_that_is_gone_where_one_was_known_never_comes_back_armed_in_silence(place, capsys, lose, by):
    assert place.run("check") == 0
    store = place.store
    lose(store)
    place.run(*by)
    with Store.look(store) as opened:
        assert opened.db.execute("SELECT armed FROM arming ORDER BY id LIMIT 1").fetchone()[0] == 0


def test_that_the_store_was_gone_is_told(tmp_path, capsys):
    with running(Server()) as server:
        place = Place(tmp_path)
        place.run("check")
        place.store.unlink()
        (tmp_path / "config" / "settings.yaml").write_text(
            f"notify: {{targets: [{{name: phone, url: 'json://127.0.0.1:{server.port}/'}}]}}\n"
        )
        place.run("check")
        (said,) = (body for body in server.bodies if body["title"] == "Watchdog has stopped acting")
        assert "its memory was there before and is gone" in said["message"]


def test_an_old_copy_that_is_put_back_is_not_trusted(place, capsys):
    assert place.run("check") == 0
    old = place.store.read_bytes()
    assert place.run("disarm", "--because", "do not touch") == 0
    place.store.write_bytes(old)
    assert place.run("check") == 0
    with Store.look(place.store) as store:
        row = store.db.execute("SELECT armed, reason FROM arming ORDER BY id DESC LIMIT 1").fetchone()
    assert row["armed"] == 0 and "store.older" in row["reason"]


def newer(place):
    with sqlite3.connect(place.store) as db:
        db.execute("PRAGMA user_version = 999")
    db.close()
    return lambda: _version(place, VERSION)


def _version(place, number):
    with sqlite3.connect(place.store) as db:
        db.execute(f"PRAGMA user_version = {number}")
    db.close()


def broken_rule(place):
    path = place.folder / "config" / "detect" / "mine.yaml"
    path.write_text(RULE)
    return path.unlink


def others_may_write(place):
    place.store.chmod(0o666)
    return lambda: place.store.chmod(0o600)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (newer, "newer version"),
        (broken_rule, "mine.yaml:"),
        (others_may_write, "others could write it"),
    ],
)
def test_each_target_hears_of_a_failure_once_and_of_its_end(place, capsys, spoil, says):
    assert place.run("check") == 0
    place.targets()
    mend = spoil(place)
    heard = place.check()
    assert [line.split(":")[0] for line in heard] == ["phone", "mail"]
    assert all("Watchdog itself has failed" in line and says in line for line in heard), heard
    assert place.check() == []
    mend()
    assert [line.split(": ")[:2] for line in place.check()] == [
        ["phone", "Watchdog works again"],
        ["mail", "Watchdog works again"],
    ]
    assert place.check() == []


def test_a_home_that_is_gone_is_told_where_it_was_known(tmp_path, capsys):
    with running(Server()) as server:
        place = Place(tmp_path)
        place.run("check")
        (tmp_path / "home").rename(tmp_path / "elsewhere")
        (tmp_path / "config" / "settings.yaml").write_text(
            f"notify:\n  ping: 'http://127.0.0.1:{server.port}/p'\n  targets: [{{name: phone, url: 'json://127.0.0.1:{server.port}/'}}]\n"
        )
        assert place.run("check") == 2 and place.run("check") == 2
        (said,) = server.bodies
        assert said["title"] == "Watchdog itself has failed" and "no such folder" in said["message"]
        assert [path for _, path, _ in server.requests if path.startswith("/p/")] == ["/p/fail", "/p/fail"]


def test_a_crash_of_our_own_is_told_once(place, capsys, monkeypatch):
    assert place.run("check") == 0
    place.targets()
    monkeypatch.setattr(Store, "atomic", lambda self: 1 / 0)
    (first, _) = place.check()
    assert "a fault of the watchdog itself: ZeroDivisionError: division by zero (test_failure.py" in first
    assert place.check() == []


def test_a_target_that_did_not_take_it_is_tried_again(place, capsys):
    assert place.run("check") == 0
    place.targets()
    others_may_write(place)
    place.broken = True
    assert len(place.check()) == 2
    place.broken = False
    assert len(place.check()) == 2 and place.check() == []


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (OSError(errno.ENOSPC, "x"), Trouble.FULL),
        (OSError(errno.EROFS, "x"), Trouble.READ_ONLY),
        (OSError(errno.EACCES, "x"), Trouble.READ_ONLY),
    ],
)
def test_the_advice_names_the_real_reason(tmp_path, error, trouble):
    assert store_error(tmp_path / "watchdog.db", error).trouble is trouble


def test_a_full_store_is_told_as_full(tmp_path):
    with Store.open(tmp_path / "watchdog.db") as store:
        store.db.execute("PRAGMA max_page_count = 1")
        with pytest.raises(sqlite3.Error) as raised:
            store.db.execute("INSERT INTO checks (blind) VALUES (?)", ["x" * 100_000])
    assert store_error(tmp_path / "watchdog.db", raised.value).trouble is Trouble.FULL


@pytest.mark.parametrize("spoil", [header_only, no_tables, no_column])
def test_no_command_prints_a_traceback_for_a_damaged_store(place, capsys, spoil):
    place.run("check")
    spoil(place.store)
    before = place.store.read_bytes()
    for words in (["status"], ["plans"], ["audit"], ["audit", "--verify"], ["report"], ["incidents"], ["silences"],
                  ["store", "check"], ["store", "export"], ["check", "--dry-run"], ["doctor"], ["status", "--json"]):  # fmt: skip
        assert place.run(*words) in (0, 1, 2, 3), words
        told = capsys.readouterr()
        assert "Traceback" not in told.err + told.out, words
        assert place.store.read_bytes() == before, words  # looking repairs nothing


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/etc/passwd")


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (pipe, "is a pipe, not a file"),
        (folder, "is a folder, not a file"),
        (link, "is a link, not a file"),
        (Path.unlink, "was there before and is gone"),
        (lambda path: os.truncate(path, 0), "was there before and is gone"),
        (blank, "was there before and is gone"),
    ],
    ids=["pipe", "folder", "link", "gone", "empty", "blank"],
)
def test_a_store_that_is_gone_or_no_file_is_never_an_empty_one(place, capsys, spoil, says):
    assert place.run("check") == 0
    spoil(place.store)
    for words in (["status"], ["plans"], ["audit", "--verify"], ["report"], ["incidents"], ["store", "check"], ["store", "export"]):  # fmt: skip
        capsys.readouterr()
        assert place.run(*words) in (1, 2), words
        out, err = capsys.readouterr()
        assert says in out + err and "Traceback" not in err and "damaged" not in out, words


def test_store_repair_starts_anew_and_disarmed_where_the_store_is_gone(place, capsys):
    assert place.run("check") == 0
    place.store.unlink()
    assert place.run("store", "repair", "--dry-run") == 1 and not place.store.exists()
    assert place.run("store", "repair") == 1
    assert place.run("status") == 1 and "its memory was there before and is gone" in capsys.readouterr().out


def test_a_store_of_a_newer_version_is_not_called_damaged(place, capsys):
    assert place.run("check") == 0
    newer(place)
    capsys.readouterr()
    assert place.run("store", "check") == 1
    out = capsys.readouterr().out
    assert "unusable  the store" in out and "damaged" not in out and "repair" not in out


def test_rows_that_somebody_scribbled_in_are_told_and_no_traceback(place, capsys):
    place.run("disarm")
    with sqlite3.connect(place.store) as db:
        db.execute(
            "INSERT INTO incidents (rule, key, status, opened_at, evidence, facts) VALUES ('r', 'k', 'open', 'yesterday', '[', '{')"
        )
        db.execute("UPDATE arming SET at = 'noon', reason = '['")
        db.execute("INSERT INTO checks (at, blind) VALUES ('later', '[')")
    db.close()
    for words in (
        ["status"],
        ["plans"],
        ["incidents"],
        ["report"],
        ["audit"],
        ["check", "--dry-run"],
        ["check"],
    ):
        place.run(*words)
        told = capsys.readouterr()
        assert "Traceback" not in told.err + told.out, words


def test_the_marker_is_one_block_and_survives_nonsense(tmp_path):
    path = tmp_path / "state.mark"
    assert read_marker(path) is None
    assert write_marker(path, Marker(7, "ab", {"x": ("y",)}))
    assert read_marker(path) == Marker(7, "ab", {"x": ("y",)}) and path.stat().st_size == 4096
    for content in (b"", b"[" * 4096, b"{}", b"\xff" * 50, b'{"lines": [], "head": 1, "failures": 3}'):
        path.write_bytes(content)
        assert read_marker(path) == Marker()
    path.unlink()
    path.symlink_to(tmp_path / "victim")
    assert not write_marker(path, Marker()) and not (tmp_path / "victim").exists()


def test_store_repair_and_export_serve_a_damaged_store(place, capsys):
    place.run("disarm")
    no_tables(place.store)
    capsys.readouterr()
    assert place.run("store", "export") == 0
    assert any(json.loads(line)["table"] == "audit" for line in capsys.readouterr().out.splitlines())
    assert place.run("store", "repair") == 1
    assert place.run("store", "check") == 0
    assert os.path.exists(marker_path(place.store))
