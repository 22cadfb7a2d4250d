"""What a command says to somebody whose home, store or disk it is not: a sentence and exit code 2, never a
traceback.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from watchdog.cli.context import need_home
from watchdog.errors import WatchdogError
from watchdog.store import Store

NOBODY = 65534
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")


@pytest.fixture
def place(public_folder, monkeypatch):
    """A folder that everybody may enter; HOME, settings and state are in it."""
    monkeypatch.setenv("HOME", str(public_folder))
    return public_folder


def refused(home: Path) -> str:
    """What nobody is told of this home."""
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        with pytest.raises(WatchdogError) as caught:
            need_home(home)
    finally:
        os.seteuid(0)
        os.setegid(0)
    return str(caught.value)


@as_root
def test_the_home_of_another_user_is_told_by_its_owner(place):
    (place / "home").mkdir(mode=0o700)
    assert refused(place / "home") == (
        f"{place / 'home'} belongs to root and may not be read; run this as that user: sudo -u root hermes-watchdog …"
    )


@as_root
def test_a_home_behind_a_closed_door_is_told(place):
    (place / "closed" / "home").mkdir(parents=True)
    (place / "closed").chmod(0o700)
    assert refused(place / "closed" / "home") == (
        f"{place / 'closed' / 'home'} cannot be reached: a folder on the way may not be entered; run this as the gateway's user"
    )


@as_root
def test_ones_own_home_without_rights_is_told_with_the_command_that_helps(place):
    (place / "home").mkdir(mode=0o000)
    os.chown(place / "home", NOBODY, NOBODY)
    assert (
        refused(place / "home")
        == f"{place / 'home'} is yours and may not be read; run: chmod u+rx {place / 'home'}"
    )


COMMANDS = [
    ["check"],
    ["check", "--dry-run"],
    ["explain", "session-stuck"],
    ["db", "check"],
    ["run"],
    ["install", "--cron", "--dry-run"],
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_that_looks_at_a_home_makes_sure_of_it_first(place, typed, words):
    (place / "home").touch()
    code, out, err = typed(*words, "--home", str(place / "home"))
    assert code == (1 if words[0] == "db" else 2) and out == ""
    assert (
        err.endswith(f"{place / 'home'} is not a folder; give --home DIR or set HERMES_HOME\n")
        and "Traceback" not in err
    )


def test_a_replay_of_what_is_not_a_folder_is_told(place, typed):
    (place / "home").touch()
    code, _, err = typed("replay", str(place / "home"))
    assert code == 2 and "is not a folder" in err


@pytest.mark.parametrize(
    "words",
    [
        ["arm"],
        ["disarm"],
        ["silence", "gateway-down", "--for", "2h", "--because", "x"],
        ["maintenance", "on", "--for", "2h", "--because", "x"],
    ],
    ids=lambda words: words[0],
)
def test_a_word_about_a_home_that_never_was_is_a_slip_of_the_pen(place, typed, words):
    code, out, err = typed(*words, "--home", str(place / ".hermse"))
    assert code == 2 and out == "" and "no such folder; give --home DIR or set HERMES_HOME" in err
    assert not (place / ".local").exists()


def test_a_home_that_is_gone_but_known_can_still_be_disarmed(place, typed):
    (place / ".hermes" / "logs").mkdir(parents=True)
    assert typed("disarm")[0] == 0
    shutil.rmtree(place / ".hermes")
    assert typed("arm")[0] == 0


@pytest.mark.parametrize(
    "words",
    [
        ["approve", "ABCDEFGH"],
        ["refuse", "ABCDEFGH"],
        ["disarm"],
        ["silence", "gateway-down", "--for", "2h", "--because", "x"],
        ["maintenance", "on", "--for", "2h", "--because", "x"],
    ],
    ids=lambda words: words[0],
)
def test_a_store_that_cannot_be_written_is_told_and_nothing_is_done(place, typed, monkeypatch, words):
    (place / ".hermes" / "logs").mkdir(parents=True)
    assert typed("disarm")[0] == typed("arm")[0] == 0
    (state,) = (place / ".local" / "state" / "hermes-watchdog").iterdir()
    init = Store.__init__

    def only_to_read(self, db, path):
        init(self, db, path)
        db.execute("PRAGMA query_only = ON")

    monkeypatch.setattr(Store, "__init__", only_to_read)
    code, out, err = typed(*words)
    assert (code, out) == (2, "")
    assert err == (
        f"hermes-watchdog: cannot write the store {state}/watchdog.db: attempt to write a readonly database; "
        "make it writable for this user, or give another folder with --state DIR\n"
    )


def test_status_tells_what_the_last_check_could_not_see(place, typed):
    (place / ".hermes" / "logs").mkdir(parents=True)
    typed("check")
    code, out, _ = typed("status")
    assert code == 1 and "cannot see   gateway.log: no such file" in out
    code, out, _ = typed("status", "--json")
    assert code == 1 and '"gateway.log": "no such file' in out


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.mkdir(), "a directory where a database should be; move it away"),
        (
            lambda path: path.symlink_to("/nonexistent/state.db"),
            "a link to '/nonexistent/state.db', which does not exist; put the database there, or remove the link",
        ),
        (os.mkfifo, "a FIFO where a database should be; move it away"),
    ],
    ids=["directory", "link", "pipe"],
)
def test_a_database_that_cannot_be_looked_at_is_told_and_the_others_are_still_watched(
    place, typed, make, why
):
    home = place / ".hermes"
    (home / "logs").mkdir(parents=True)
    make(home / "state.db")
    (home / "kanban.db").write_bytes(b"no database" * 100)
    code, out, _ = typed("check", "--dry-run", "--json")
    told = json.loads(out)
    assert code == 1 and told["blind"]["state.db"] == why
    assert [(one["rule"], one["key"]) for one in told["incidents"]] == [("database-broken", "kanban.db")]
    assert "database-broken" not in told["not_checked"]
    assert f"cannot see  state.db: {why}" in typed("check")[1]
