"""Who holds a lock: by the file itself, not by a number that files of other disks have too."""

from __future__ import annotations

import fcntl
import os

import pytest

from watchdog.gateway.machine import look_at_gateway
from watchdog.system import procfs as process
from watchdog.system.procfs import lock_holder


@pytest.fixture
def lock(tmp_path):
    path = tmp_path / "gateway.lock"
    path.touch()
    return path


@pytest.fixture
def locks(tmp_path, monkeypatch):
    """What /proc/locks would say: (kind, pid, device, inode) each."""

    def say(*lines):
        told = tmp_path / "locks"
        text = (
            f"{number}: {kind}  ADVISORY  WRITE {pid} {os.major(device):02x}:{os.minor(device):02x}:{inode} 0 EOF\n"
            for number, (kind, pid, device, inode) in enumerate(lines, 1)
        )
        told.write_text("".join(text))
        monkeypatch.setattr(process, "LOCKS", str(told))

    return say


def anonymous(path, monkeypatch):
    """The file as btrfs or an overlay shows it: on a device that /proc/locks does not know it by."""
    real, own = os.stat, str(path)

    class Seen:
        st_dev, st_ino = os.makedev(0, 77), real(own).st_ino

    def stat(name, **more):
        here = real(name, **more)
        return Seen if (here.st_dev, here.st_ino) == (real(own).st_dev, real(own).st_ino) else here

    monkeypatch.setattr(process.os, "stat", stat)


def test_a_lock_that_is_held_is_seen_and_one_that_was_let_go_is_not(lock):
    with open(lock) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert lock_holder(str(lock)) == os.getpid()
    assert lock_holder(str(lock)) == 0


def test_a_file_of_another_disk_with_the_same_number_is_another_file(lock, locks):
    status = os.stat(lock)
    locks(("FLOCK", 812, os.makedev(0xFD, 9), status.st_ino))
    assert lock_holder(str(lock)) == 0
    locks(("FLOCK", 812, os.makedev(0xFD, 9), status.st_ino), ("FLOCK", 813, status.st_dev, status.st_ino))
    assert lock_holder(str(lock)) == 813


def test_where_the_device_differs_the_holder_is_who_has_the_file_open(lock, locks, monkeypatch):
    inode = os.stat(lock).st_ino
    anonymous(lock, monkeypatch)
    locks(("FLOCK", os.getpid(), os.makedev(0, 31), inode))
    assert lock_holder(str(lock)) == 0
    with open(lock):
        assert lock_holder(str(lock)) == os.getpid()


def test_where_the_holder_cannot_be_looked_into_nobody_can_tell(lock, locks, monkeypatch):
    inode = os.stat(lock).st_ino
    anonymous(lock, monkeypatch)
    locks(("FLOCK", 812, os.makedev(0, 31), inode))

    def closed(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(process.os, "listdir", closed)
    assert lock_holder(str(lock)) is None


def test_a_holder_that_ended_meanwhile_holds_nothing(lock, locks, monkeypatch):
    inode = os.stat(lock).st_ino
    anonymous(lock, monkeypatch)
    locks(("FLOCK", 2**22 + 5, os.makedev(0, 31), inode))
    assert lock_holder(str(lock)) == 0


def test_who_only_waits_for_a_lock_does_not_hold_it(lock, tmp_path, monkeypatch):
    told = tmp_path / "locks"
    status = os.stat(lock)
    told.write_text(
        f"1: -> FLOCK  ADVISORY  WRITE 812 {os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino} 0 EOF\n"
    )
    monkeypatch.setattr(process, "LOCKS", str(told))
    assert lock_holder(str(lock)) == 0


@pytest.mark.parametrize(
    "line", ["1: FLOCK ADVISORY WRITE x zz:00:{inode} 0 EOF", "1: FLOCK ADVISORY WRITE 812 {inode} 0 EOF"]
)
def test_a_line_that_cannot_be_read_is_nobodys_lock_to_guess(lock, tmp_path, monkeypatch, line):
    told = tmp_path / "locks"
    told.write_text(line.format(inode=os.stat(lock).st_ino) + "\n")
    monkeypatch.setattr(process, "LOCKS", str(told))
    assert lock_holder(str(lock)) is None


def test_a_gateway_whose_lock_cannot_be_looked_at_is_neither_alive_nor_dead(lock, monkeypatch):
    monkeypatch.setattr(process, "LOCKS", "/nonexistent")
    assert look_at_gateway(lock.parent).alive is None
    monkeypatch.undo()
    assert look_at_gateway(lock.parent).alive is False
