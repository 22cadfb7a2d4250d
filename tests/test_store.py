"""The store itself: opened, refused, and closed again by whoever is done with it."""

from __future__ import annotations

import sqlite3

import pytest

from watchdog.errors import WatchdogError
from watchdog.store import Store


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
    monkeypatch.setattr(sqlite3, "connect", lambda *how, **more: made.append(connect(*how, **more)) or made[-1])
    with pytest.raises(WatchdogError):
        way(path)
    assert made and all(closed(db) for db in made)


def test_an_empty_file_is_no_store_yet(tmp_path):
    (tmp_path / "watchdog.db").touch()
    assert Store.look(tmp_path / "watchdog.db") is None
