"""The store itself: opened, refused, and closed again by whoever is done with it."""

from __future__ import annotations

import shutil
import sqlite3
from dataclasses import replace
from datetime import timedelta

import pytest
from machines import START, incident

from watchdog.errors import WatchdogError
from watchdog.job import find_job
from watchdog.model import Change
from watchdog.service.check import check_once
from watchdog.store import Store, all_incidents, record_ends
from watchdog.store.audit import audit, verify
from watchdog.store.incidents import save_changes
from watchdog.store.retention import forget_old
from watchdog.store.rows import stamp


def closed(db: sqlite3.Connection) -> bool:
    try:
        db.execute("SELECT 1")
    except sqlite3.ProgrammingError:
        return True
    return False


def test_a_store_that_nobody_holds_any_more_is_closed(tmp_path):
    Store.open(tmp_path / "watchdog.db").close()
    store = Store.look(tmp_path / "watchdog.db")
    assert store is not None
    db = store.db
    assert not closed(db)
    del store
    assert closed(db)


@pytest.mark.parametrize("way", [Store.open, Store.look])
@pytest.mark.parametrize("spoil", ["no database at all" * 100, "newer"])
def test_a_store_that_is_refused_is_closed(tmp_path, monkeypatch, way, spoil):
    path = tmp_path / "watchdog.db"
    if spoil == "newer":
        with Store.open(path) as store:
            store.db.execute("PRAGMA user_version = 999")
    else:
        path.write_text(spoil)
        path.chmod(0o600)
    made, connect = [], sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *how, **more: made.append(connect(*how, **more)) or made[-1]
    )
    with pytest.raises(WatchdogError):
        way(path)
    assert made and all(closed(db) for db in made)


def test_an_empty_file_is_no_store_yet(tmp_path):
    (tmp_path / "watchdog.db").touch()
    assert Store.look(tmp_path / "watchdog.db") is None


def test_what_is_older_than_the_setting_goes_and_what_is_open_or_newest_stays(tmp_path):
    def at(days):
        return stamp(START - timedelta(days=days))

    with Store.open(tmp_path / "watchdog.db") as store:
        for days, status in ((500, "resolved"), (500, "open"), (10, "resolved")):
            store.db.execute(
                "INSERT INTO incidents (rule, status, resolved_at) VALUES ('r', ?, ?)",
                (status, at(days) if status == "resolved" else None),
            )
        for days, state in ((500, "done"), (500, "interrupted"), (450, "expired"), (10, "refused")):
            store.db.execute("INSERT INTO plans (state, expires_at) VALUES (?, ?)", (state, at(days)))
        for plan in (1, 2, 3, 4):
            store.db.execute(
                "INSERT INTO codes (plan, at) VALUES (?, ?)", (plan, at(10 if plan == 4 else 500))
            )
            store.db.execute("INSERT INTO steps_done (plan, part, number) VALUES (?, 'steps', 0)", (plan,))
        for days, armed in ((500, 0), (490, 1), (480, 0)):
            store.db.execute("INSERT INTO arming (armed, at) VALUES (?, ?)", (armed, at(days)))
        for days in (500, 450, 10):
            audit(store, "armed", START - timedelta(days=days))
        name = forget_old(store, timedelta(days=400), START)

        def left(table):
            return [row[0] for row in store.db.execute(f"SELECT id FROM {table} ORDER BY id")]

        assert left("incidents") == [2, 3] and left("plans") == [2, 4]
        assert left("codes") == [4] and left("steps_done") == [2, 4]
        assert left("arming") == [2, 3] and left("audit") == [3] and name == "audit-1-2.jsonl"
        assert not verify(store).breaks and verify(store).lines == 3


def test_the_first_check_of_a_day_forgets_what_is_old(tmp_path):
    (tmp_path / "home" / "logs").mkdir(parents=True)
    job = find_job(str(tmp_path / "home"), None, str(tmp_path / "state"))
    check_once(job, START)
    with job.store() as store:
        store.db.execute("INSERT INTO wrong_tries (at) VALUES (?)", (stamp(START - timedelta(days=99)),))

    def tries():
        with Store.look(job.store_path) as store:
            return store.db.execute("SELECT count(*) FROM wrong_tries").fetchone()[0]

    check_once(job, START + timedelta(minutes=1))
    assert tries() == 1
    check_once(job, START + timedelta(days=1))
    assert tries() == 0


def test_a_second_look_within_a_check_ends_incidents_and_confirms_none():
    repaired = replace(incident("gateway-down", ""), id=0)
    suspected = replace(incident("cron-overdue", ""), id=0, status="suspected")
    with Store.in_memory() as store:
        saved = save_changes(store, [Change("opened", repaired), Change("suspected", suspected)])
        ended = replace(saved[0].incident, status="resolved", resolved_at=START)
        confirmed = replace(saved[1].incident, status="open")
        changes = record_ends(store, [Change("resolved", ended), Change("opened", confirmed)])
        kept = {each.rule: each.status for each in all_incidents(store)}
    assert [change.what for change in changes] == ["resolved"]
    assert kept == {"gateway-down": "resolved", "cron-overdue": "suspected"}


def test_a_store_whose_writer_was_killed_half_way_can_be_looked_at(tmp_path):
    """Its journal is rolled back, which a connection for reading only may not do."""
    path, killed = tmp_path / "watchdog.db", tmp_path / "killed" / "watchdog.db"
    killed.parent.mkdir(mode=0o700)
    with Store.open(path) as store:
        store.db.execute("PRAGMA cache_size = 1")
        store.db.execute("BEGIN IMMEDIATE")
        store.db.execute("CREATE TABLE half(row)")
        store.db.executemany("INSERT INTO half VALUES (zeroblob(4000))", [()] * 50)
        for name in ("watchdog.db", "watchdog.db-journal"):
            shutil.copy(tmp_path / name, killed.parent)
        store.db.rollback()
    found = Store.look(killed)
    assert found is not None and all_incidents(found) == []
    assert not found.db.execute("SELECT 1 FROM sqlite_master WHERE name = 'half'").fetchone()
