"""The audit is a chain: what was changed, taken out or put in afterwards shows."""

from __future__ import annotations

import json
import os
import sqlite3
from datetime import timedelta

import pytest
from machines import START

from watchdog.cli.main import main
from watchdog.model import plain
from watchdog.store import Store
from watchdog.store.audit import AuditFault, Who, archive, audit, head, verify

DAY = timedelta(days=1)


@pytest.fixture
def store(tmp_path):
    """A store with ten lines in its audit, one a day."""
    with Store.open(tmp_path / "watchdog.db") as store:
        for number in range(10):
            audit(store, "armed", START + number * DAY, who=Who("ann"), reason=plain(f"reason {number}"))
        yield store


def past_the_triggers(store, *statements):
    """What somebody does who may write the file."""
    for name in ("audit_no_update", "audit_no_delete"):
        store.db.execute(f"DROP TRIGGER IF EXISTS {name}")
    for statement in statements:
        store.db.execute(statement)


def test_an_untouched_audit_holds_and_every_head_is_found(store):
    chain = verify(store, head(store))
    assert (chain.lines, chain.breaks, chain.absent, chain.found) == (10, (), (), True)
    assert chain.head.startswith(head(store)) and len(head(store)) == 8


@pytest.mark.parametrize(
    ("statement", "line", "fault"),
    [
        ("UPDATE audit SET by = 'eve' WHERE id = 4", 4, AuditFault.CHANGED),
        ("UPDATE audit SET at = '2020-01-01T00:00:00.000000+00:00' WHERE id = 1", 1, AuditFault.CHANGED),
        ("UPDATE audit SET plan = 7 WHERE id = 10", 10, AuditFault.CHANGED),
        ("UPDATE audit SET says = 'nothing happened' WHERE id = 3", 3, AuditFault.CHANGED),
        ("DELETE FROM audit WHERE id = 5", 6, AuditFault.MISSING),
        ("DELETE FROM audit WHERE id < 4", 4, AuditFault.MISSING),
        (
            "INSERT INTO audit (id, at, what, chain) VALUES (11, 'x', 'approved', 'ffff')",
            11,
            AuditFault.CHANGED,
        ),
        ("INSERT INTO audit (id, at, what) VALUES (11, 'x', 'approved')", 11, AuditFault.CHANGED),
    ],
)
def test_what_was_done_behind_its_back_is_told_by_its_line(store, statement, line, fault):
    past_the_triggers(store, statement)
    (broken, *_) = verify(store).breaks
    assert (broken.line, broken.fault) == (line, fault)


def test_a_past_that_was_rewritten_as_a_whole_lacks_the_head_that_a_message_named(tmp_path, store):
    said = head(store)
    with Store.open(tmp_path / "other" / "watchdog.db") as forged:
        for number in range(10):
            audit(forged, "armed", START + number * DAY, who=Who("eve"))
        chain = verify(forged, said)
        assert not chain.breaks and chain.found is False


def test_lines_cut_off_at_the_end_are_missed_by_the_head_of_a_message(store):
    said = head(store)
    past_the_triggers(store, "DELETE FROM audit WHERE id > 7")
    chain = verify(store, said)
    assert not chain.breaks and chain.found is False


def test_an_audit_of_an_older_version_is_linked_as_it_stands(tmp_path):
    path = tmp_path / "watchdog.db"
    with Store.open(path) as store:
        for number in range(3):
            audit(store, "armed", START + number * DAY)
        past_the_triggers(
            store,
            "ALTER TABLE audit DROP COLUMN chain",
            "DROP TABLE audit_archives",
            "DELETE FROM _sqlite_migrations WHERE name LIKE 'm006%'",
            "PRAGMA user_version = 3",
            "CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit BEGIN SELECT RAISE(ABORT, 'no'); END",
            "CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit BEGIN SELECT RAISE(ABORT, 'no'); END",
        )
    with Store.look(path) as old:
        assert verify(old).unlinked and not verify(old).breaks
    with Store.open(path) as store:
        audit(store, "disarmed", START + 4 * DAY)
        assert verify(store).lines == 4 and not verify(store).breaks
        with pytest.raises(sqlite3.Error, match="append-only"):
            store.db.execute("UPDATE audit SET by = 'eve'")


def test_old_lines_go_into_a_file_and_the_chain_goes_on_from_it(tmp_path, store):
    said = head(store)
    name = archive(store, START + 4 * DAY, START + 20 * DAY)
    assert [json.loads(line)["id"] for line in (tmp_path / name).read_text().splitlines()] == [1, 2, 3, 4]
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    audit(store, "armed", START + 21 * DAY)
    chain = verify(store, said)
    assert (chain.lines, chain.breaks, chain.absent, chain.found) == (11, (), (), True)
    assert archive(store, START + 8 * DAY, START + 22 * DAY) == "audit-5-8.jsonl"
    assert archive(store, START + 100 * DAY, START + 100 * DAY) == "audit-9-11.jsonl"
    audit(store, "armed", START + 101 * DAY)
    assert verify(store).lines == 12 and not verify(store).breaks


def test_only_archived_lines_can_be_deleted(store):
    archive(store, START + 4 * DAY, START + 20 * DAY)
    with pytest.raises(sqlite3.Error, match="append-only"):
        store.db.execute("DELETE FROM audit WHERE id = 5")


def test_an_archive_that_is_gone_is_not_seen_and_one_that_was_changed_is_broken(tmp_path, store):
    name = archive(store, START + 4 * DAY, START + 20 * DAY)
    whole = (tmp_path / name).read_text()
    (tmp_path / name).write_text(whole.replace("reason 2", "reason 7"))
    assert [broken.line for broken in verify(store).breaks] == [3]
    (tmp_path / name).write_text(whole[: len(whole) // 2])
    assert verify(store).breaks
    (tmp_path / name).unlink()
    chain = verify(store)
    assert chain.absent == (name,) and not chain.breaks


@pytest.mark.parametrize("kept", [0, 8])
def test_an_archive_that_no_line_follows_is_missed_when_its_end_is_cut_off(tmp_path, store, kept):
    path = tmp_path / archive(store, START + 100 * DAY, START + 100 * DAY)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:kept]))
    assert [(broken.line, broken.fault) for broken in verify(store).breaks] == [(10, AuditFault.CUT_OFF)]


def test_nonsense_or_a_pipe_in_place_of_the_archive_ends_no_verification(tmp_path, store):
    name = archive(store, START + 4 * DAY, START + 20 * DAY)
    (tmp_path / name).write_bytes(b"[" * 100_000 + b"\n\xff\n[1]\n")
    assert {broken.fault for broken in verify(store).breaks} == {AuditFault.UNREADABLE, AuditFault.MISSING}
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    assert verify(store).absent == (name,)


def test_a_link_in_place_of_the_archive_is_not_written_through(tmp_path, store):
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "audit-1-4.jsonl").symlink_to(tmp_path / "victim")
    archive(store, START + 4 * DAY, START + 20 * DAY)
    assert (tmp_path / "victim").read_text() == "mine" and not verify(store).breaks


def test_the_command_proves_it_and_says_where_it_breaks(tmp_path, capsys):
    (tmp_path / "home" / "logs").mkdir(parents=True)
    place = ["--home", str(tmp_path / "home"), "--state", str(tmp_path / "state")]
    assert main(["disarm", "--because", "moving", *place]) == 0
    assert main(["arm", *place]) == 0
    capsys.readouterr()
    assert main(["audit", "--verify", *place]) == 0
    out = capsys.readouterr().out
    assert out.startswith("holds: 2 lines; the newest is ")
    said = out.split()[-1]
    assert main(["audit", "--verify", said.upper(), *place]) == 0
    (path,) = (tmp_path / "state").glob("*/watchdog.db")
    with Store.open(path) as store:
        past_the_triggers(store, "UPDATE audit SET what = 'armed' WHERE id = 1")
    capsys.readouterr()
    assert main(["audit", "--verify", *place]) == 1
    assert "broken at line 1 (watchdog.db)" in capsys.readouterr().out
    with Store.open(path) as store:
        past_the_triggers(store, "DELETE FROM audit WHERE id = 2")
        past_the_triggers(store, "UPDATE audit SET what = 'disarmed' WHERE id = 1")
    assert main(["audit", "--verify", *place]) == 1, "the marker beside the store knows the line that is gone"
    assert "broken at the end: store.mark knows line 2, which is gone" in capsys.readouterr().out
    assert main(["audit", "--verify", "00000000", "--json", *place]) == 1
    assert json.loads(capsys.readouterr().out)["found"] is False
    assert main(["audit", "--verify", "xyz", *place]) == 2
