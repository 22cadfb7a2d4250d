"""In whose hands a path is: root works only where nobody else can bend what it does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from watchdog.errors import WatchdogError
from watchdog.system.privileges import hands, owner_of

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can be led astray")
SOMEBODY = 65534


def make(folder: Path, mode: int) -> Path:
    folder.mkdir(mode=0o700)
    folder.chmod(mode)
    file = folder / "state.db"
    file.write_bytes(b"x")
    return file


def test_a_private_folder_of_roots_is_roots_to_work_in(tmp_path):
    assert owner_of(make(tmp_path / "a", 0o755)) is None


def test_in_a_sticky_folder_root_works_on_its_own_file(tmp_path):
    assert owner_of(make(tmp_path / "a", 0o1777)) is None


def test_in_a_sticky_folder_somebody_elses_file_of_that_name_stops_root(tmp_path):
    file = make(tmp_path / "a", 0o1777)
    planted = file.parent / "state.db.quarantine"
    planted.symlink_to("/etc")
    os.lchown(planted, SOMEBODY, SOMEBODY)
    with pytest.raises(WatchdogError, match="others may write there"):
        owner_of(file)


def test_in_a_folder_that_anyone_may_change_root_does_nothing(tmp_path):
    with pytest.raises(WatchdogError, match="others may write there"):
        owner_of(make(tmp_path / "a", 0o777))


def test_the_files_owner_does_the_work_where_the_folder_is_the_owners(tmp_path):
    file = make(tmp_path / "a", 0o755)
    os.chown(file.parent, SOMEBODY, SOMEBODY)
    assert owner_of(file) == (SOMEBODY, SOMEBODY)


def test_whoever_owns_the_root_folder_is_root_as_the_hosts_root_is_for_a_user_namespace(tmp_path):
    make(tmp_path / "a", 0o755)
    for folder in (tmp_path, tmp_path / "a"):
        os.chown(folder, SOMEBODY, SOMEBODY)
    assert hands(tmp_path / "a") >= {SOMEBODY}
    if (child := os.fork()) == 0:
        os.chroot(tmp_path)
        os._exit(len(hands("/a")))
    assert os.waitpid(child, 0)[1] == 0
