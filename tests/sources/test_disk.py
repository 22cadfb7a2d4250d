"""Room on the home's volume: what is measured, what takes the room, and what a check remembers of it."""

from __future__ import annotations

import os
from datetime import timedelta
from itertools import pairwise

from homes import NOW
from machines import run_of

from watchdog.pipeline import check, look, record
from watchdog.sources import resources
from watchdog.sources.read import Sources
from watchdog.store import Store
from watchdog.store.incidents import past_measurements, save_measurement
from watchdog.values import replace


def test_the_biggest_heaps_are_named_and_copies_of_one_database_are_one_heap(home):
    folder = home()
    for name, size in (
        ("state.db.malformed-backup-1", 3),
        ("state.db.malformed-backup-2", 2),
        ("cache/big", 4),
    ):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(os.urandom(size * 1_000_000))
    assert resources.heaps(folder) == "state.db.malformed-backup-* 5 MB (2 files), cache 4 MB"


def test_a_file_name_cannot_write_on_the_terminal_or_fill_the_message(home):
    folder = home()
    (folder / ("\x1b[31m\n" + "x" * 200)).write_bytes(os.urandom(2_000_000))
    told = resources.heaps(folder)
    assert "\x1b" not in told and "\n" not in told and len(told) < 90


def test_links_and_other_volumes_are_not_counted(home, tmp_path):
    folder = home()
    (tmp_path / "elsewhere").write_bytes(os.urandom(2_000_000))
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    (folder / "proc").symlink_to("/proc")
    assert resources.heaps(folder) == ""


def test_a_volume_that_cannot_be_measured_is_blind_and_not_full(tmp_path, book):
    rules = [rule for rule in book.rules if rule.id == "disk-full"]
    seen, reading = look(rules, Sources(tmp_path / "gone"), None, NOW)
    assert seen.findings == () and "no such file" in seen.not_checked["disk-full"]
    assert "free" not in reading.measured


def test_each_check_leaves_a_measurement_for_the_next_ones(home, book):
    store = Store.in_memory()
    rules = [rule for rule in book.rules if rule.id == "disk-low"]
    run = replace(run_of(book, store, NOW, Sources(home())), rules=rules)
    record(check(run, run.start), run)
    kept = past_measurements(store, NOW)
    assert [one.at for one in kept] == [NOW] and kept[0].facts["size"] > 0


def test_a_daemon_that_checks_every_minute_keeps_one_measurement_in_ten_minutes_and_the_newest():
    store = Store.in_memory()
    for minute in range(61):
        save_measurement(store, NOW + timedelta(minutes=minute), {"free": minute})
    kept = [one.facts["free"] for one in past_measurements(store, NOW + timedelta(hours=1))]
    assert kept[-1] == 60 and len(kept) <= 8
    assert all(later - earlier >= 10 for earlier, later in pairwise(kept[:-1]))


def test_measurements_are_forgotten_after_half_a_day():
    store = Store.in_memory()
    save_measurement(store, NOW, {"free": 1})
    save_measurement(store, NOW + timedelta(hours=13), {"free": 2})
    assert [one.facts["free"] for one in past_measurements(store, NOW + timedelta(hours=13))] == [2]
