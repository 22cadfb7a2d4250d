"""What the agent itself may try: it writes the home, its databases, its logs and its pid file, and wants the
watchdog to act for it.
"""

from __future__ import annotations

import json
import os
import pwd
import shlex
import shutil
import sqlite3
import subprocess
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import UTC
from pathlib import Path

import pytest
from effort import rounds
from homes import BOOK, NOW
from machines import ARGV, Machine, incident, propose, run_of, said, waits_for
from machines import ROOT_FACTS as FACTS
from machines import ask as ask_for

from watchdog.approval.channels.own_bot import refused
from watchdog.cli import main
from watchdog.config import rules as rule_files
from watchdog.config.read_settings import load_settings
from watchdog.config.rules import shipped_folder
from watchdog.config.settings import Channel, Secret
from watchdog.errors import ConfigError, WatchdogError
from watchdog.gateway.host_facts import Container, Mount, Surroundings, Unit
from watchdog.gateway.machine import GatewayProcess
from watchdog.gateway.machine import Machine as RealMachine
from watchdog.gateway.recognise import recognise
from watchdog.gateway.release import drain_of
from watchdog.gateway.supervisor import PROCESS, SYSTEM, Supervisor
from watchdog.job import load_rules
from watchdog.model import Incident, Step, plain
from watchdog.notify.sanitize import render
from watchdog.notify.translate import in_english
from watchdog.pipeline import check, full_check
from watchdog.repair import Look, resume_plan
from watchdog.repair.verify import verify
from watchdog.reports.language import reader_of
from watchdog.reports.plans import Answering, full_lines
from watchdog.sources.read import Sources
from watchdog.sqlite.files import MOST_BOARDS, databases, passed_over
from watchdog.sqlite.heal import heal, migrate, snapshot
from watchdog.sqlite.inspect import look
from watchdog.sqlite.installed import ask, installed, pythons
from watchdog.sqlite.schema import columns_of, is_virtual, make, releases
from watchdog.steps import add_column, heal_database
from watchdog.steps import bare_process as bare
from watchdog.steps.common import UnfitFact, fill
from watchdog.store import Store
from watchdog.store import plans as rows
from watchdog.system.files import read_small
from watchdog.system.privileges import ANYONE, hands
from watchdog.system.procfs import command_of, start_time_of

AGENT = 65534  # nobody: the user whom the gateway runs as, in tests where the watchdog is root
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root has something to lose to another user")


@pytest.fixture
def place(public_folder):
    """A folder of root's that others may look into."""
    return public_folder


def forged(path: Path, sql: str) -> Path:
    """A database whose schema says this of one table."""
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE sessions(id)")
    db.execute("CREATE TABLE messages(id)")
    db.execute("PRAGMA writable_schema=ON")
    db.execute("UPDATE sqlite_schema SET sql = ? WHERE name = 'messages'", (sql,))
    db.commit()
    db.close()
    return path


# A schema is text out of a file that the agent writes.

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c"


@pytest.mark.parametrize(
    "sql", ["VACUUM INTO '{}'", "ATTACH '{}' AS x", f"CREATE TABLE messages AS {ENDLESS}", ENDLESS]
)
def test_a_schema_that_is_a_command_is_not_run_by_a_look(tmp_path, sql):
    told = look(forged(tmp_path / "state.db", sql.format(tmp_path / "made")))
    assert not (tmp_path / "made").exists()
    assert told.grade == ("drifted" if sql.startswith("CREATE") else "broken")
    assert columns_of(sql.format(tmp_path / "made")) == ()
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE a(x INTEGER PRIMARY KEY, y TEXT UNIQUE DEFAULT 'now', z AS (upper(y)), CHECK(length(y) > 1))",
        "CREATE VIRTUAL TABLE a USING fts5(x)",
        "CREATE VIEW a AS SELECT 1",
        "create unique index a on there(x) where x > 1",
        "CREATE TRIGGER a AFTER INSERT ON there BEGIN DELETE FROM there WHERE x = new.x; END",
    ],
)
def test_what_a_schema_may_hold_is_made(sql):
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE there(x)")
    make(db, sql)
    assert db.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'a'").fetchone() == (1,)
    db.close()


# The home is the agent's; root works there with no more than the agent's rights.


@pytest.fixture
def home(place):
    """A home of the agent's, watched by root."""
    (place / "state").mkdir(mode=0o700)
    folder = place / "hermes"
    folder.mkdir()
    os.chown(folder, AGENT, AGENT)
    return folder


def broken(home: Path, kind: str = "state") -> Path:
    """A real database of the agent's whose header is gone."""
    path = home / f"{kind}.db"
    db = sqlite3.connect(path)
    for thing in releases()[-1].objects[kind]:
        if thing.type == "table" and not is_virtual(thing.sql):
            db.execute(thing.sql)
    db.execute("INSERT INTO sessions(id, source, started_at) VALUES('one', 'cli', 1.0)")
    db.commit()
    db.close()
    with path.open("r+b") as file:
        file.write(b"\0" * 16)
    os.chown(path, AGENT, AGENT)
    return path


@as_root
@pytest.mark.parametrize("name", ["state.db.quarantine", "state.db.backups", ".state.db.repair"])
def test_a_folder_of_the_repair_that_is_a_link_gives_nothing_away(home, place, name):
    path = broken(home)
    treasure = place / "treasure"
    treasure.mkdir(mode=0o755)
    (home / name).symlink_to(treasure)
    with suppress(WatchdogError, OSError):
        heal(path)
    snapshot(path)
    status = treasure.stat()
    assert (status.st_uid, status.st_mode & 0o777) == (0, 0o755)
    assert not list(treasure.iterdir())


@as_root
def test_root_heals_a_database_of_another_user_as_that_user(home, place):
    path = broken(home)
    report = heal(path, backups=place / "state" / "backups")
    assert report.ok, report
    assert {one.lstat().st_uid for one in home.rglob("*")} == {AGENT}
    assert (os.geteuid(), os.getegid()) == (0, 0)


@as_root
def test_roots_own_backup_heals_a_database_that_nothing_else_can(home, place):
    path, backups = broken(home), place / "state" / "backups"
    heal(path)
    assert snapshot(path, backups).ok
    path.write_bytes(os.urandom(8192))
    report = heal(path, backups=backups)
    assert report.strategy == "restored from the backup", report
    assert not [one for one in home.iterdir() if "lent" in one.name]


@as_root
def test_a_link_in_the_place_of_the_database_is_not_healed_for_root(home, place):
    roots = place / "roots.db"
    roots.write_bytes(b"not a database, and root's")
    (home / "state.db").symlink_to(roots)
    with pytest.raises(WatchdogError):
        heal(home / "state.db")
    assert roots.read_bytes() == b"not a database, and root's"
    assert sorted(one.name for one in place.iterdir()) == ["hermes", "roots.db", "state"]


SECRET = b"root:$6$salt$hash-of-a-password:20000:0:99999:7:::\n" * 20


@as_root
@pytest.mark.parametrize("whose", [0, 1000])
def test_root_looks_through_no_link_of_the_agents_at_somebody_elses_file(home, place, whose):
    secret = place / "shadow"
    secret.write_bytes(SECRET)
    secret.chmod(0o600)
    os.chown(secret, whose, whose)
    for name in ("state.db", "kanban.db"):
        (home / name).symlink_to(secret)
        os.chown(home / name, AGENT, AGENT, follow_symlinks=False)
    boards = home / "kanban" / "boards"
    boards.mkdir(parents=True)
    (place / "vault").mkdir(mode=0o700)
    shutil.copy(secret, place / "vault" / "kanban.db")
    os.chown(place / "vault", whose, whose)
    os.chown(place / "vault" / "kanban.db", whose, whose)
    (boards / "x").symlink_to(place / "vault")
    os.chown(boards / "x", AGENT, AGENT, follow_symlinks=False)
    for path in databases(home):
        told = look(path)
        assert told.grade == "unknown" and told.fault == (
            "a link of nobody's leads to a file of another user; root does not look at it. Put the file itself there"
        )


@as_root
@pytest.mark.parametrize("name", ["logs", "logs/agent.log", "gateway.pid"])
def test_root_reads_no_log_and_no_file_of_somebody_elses_through_a_link_of_the_agents(home, place, name):
    vault = place / "vault"
    vault.mkdir(mode=0o700)
    line = "2026-11-16 10:00:00,000 ERROR gateway.run: private"
    for made in (vault / "agent.log", vault / "gateway.log", vault / "gateway.pid"):
        made.write_text('{"argv": ["private"]}' if made.suffix == ".pid" else line)
    (home / "logs").mkdir() if name != "logs" else None
    (home / name).symlink_to(vault if name == "logs" else vault / Path(name).name)
    os.chown(home / name, AGENT, AGENT, follow_symlinks=False)
    report = check(run_of(BOOK, None, NOW, Sources(home, zone=UTC)), NOW.replace(hour=0))
    assert "private" not in repr(report)
    if name != "gateway.pid":
        assert "a link of another user leads to a file that is not theirs" in report.blind["agent.log"]


@as_root
def test_root_opens_nothing_of_somebody_elses_while_folders_are_exchanged_for_links(home, place):
    """The agent swaps its folder for a link and back as fast as it can; root opens, looks and backs up meanwhile."""
    vault = place / "vault"
    vault.mkdir(mode=0o700)
    forged(vault / "state.db", "CREATE TABLE messages(id)")
    for folder, word in ((vault, b"private"), (home / "in", b"agent")):
        folder.mkdir(exist_ok=True)
        (folder / "agent.log").write_bytes(word)
    (home / "in" / "state.db").write_bytes(SECRET)
    for made in (home / "in", home / "in" / "agent.log", home / "in" / "state.db"):
        os.chown(made, AGENT, AGENT)
    assert look(vault / "state.db").grade == "drifted", "what root would see there"
    (home / "link").symlink_to(vault)
    os.chown(home / "link", AGENT, AGENT, follow_symlinks=False)
    over = threading.Event()

    def swap() -> None:
        while not over.is_set():
            for old, new in (("in", "out"), ("link", "in"), ("in", "link"), ("out", "in")):
                os.rename(home / old, home / new)

    thread = threading.Thread(target=swap)
    thread.start()
    seen, grades = set(), set()
    try:
        for _ in range(rounds(300)):
            with suppress(OSError):
                seen.add(read_small(home / "in" / "agent.log"))
            with suppress(OSError):
                grades.add(look(home / "in" / "state.db").grade)
            copied = snapshot(home / "in" / "state.db", place / "state" / "backups")
            assert not copied.ok and not copied.rows, copied
    finally:
        over.set()
        thread.join()
    assert b"private" not in seen and grades <= {"unknown", "broken"}


@as_root
def test_root_looks_through_a_link_to_the_agents_own_file_and_through_roots_own_links(home, place):
    other = place / "disk"
    other.mkdir()
    path = broken(home)
    path.rename(other / "state.db")
    path.symlink_to(other / "state.db")
    os.chown(path, AGENT, AGENT, follow_symlinks=False)
    assert look(path).fault == "the first 16 bytes are not SQLite's: 15 wrong"
    (place / "link").symlink_to(home)
    os.chown(other / "state.db", 1000, 1000)
    path.unlink()
    path.symlink_to(other / "state.db")
    assert look(place / "link" / "state.db").grade == "broken"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (SECRET, "the first 16 bytes are not SQLite's: 16 wrong"),
        (b"SQLit\x17 format 3\0" + bytes(100), "the first 16 bytes are not SQLite's: 1 wrong (byte 6 is 17)"),
        (b"SQLit\x17\xdb\0\x91\x04mat 3\0" + bytes(100), "the first 16 bytes are not SQLite's: 5 wrong"),
    ],
)
def test_a_fault_in_the_header_is_told_by_its_kind_and_not_by_what_stands_there(tmp_path, data, says):
    (tmp_path / "state.db").write_bytes(data)
    assert look(tmp_path / "state.db").fault.startswith(says)


@as_root
def test_a_migration_by_root_leaves_no_file_of_roots_beside_the_database(home, place):
    path = home / "kanban.db"
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("CREATE TABLE tasks(id TEXT PRIMARY KEY, title TEXT)")
    db.execute("CREATE TABLE task_events(id INTEGER PRIMARY KEY)")
    db.commit()
    db.close()
    os.chown(path, AGENT, AGENT)
    report = migrate(path, reference=releases()[-1], backups=place / "state" / "backups")
    assert report.added, report
    assert {one.lstat().st_uid for one in home.rglob("*")} == {AGENT}


@as_root
def test_whose_hands_a_folder_is_in(place, home):
    shared = place / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (place / "there").symlink_to(home)
    assert hands(place) == frozenset()
    assert hands(home / "kanban" / "boards") == {AGENT}
    assert hands(place / "there") == {AGENT}
    assert hands(shared) == {ANYONE}
    assert hands(place / "nothing" / "here") == frozenset()


def a_python_of(folder: Path, says: str) -> Path:
    """A program that takes itself for Python: whatever it is asked, it runs this shell line first."""
    program = folder / "hermes-agent" / "venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{says}\necho '{{}}'\n")
    program.chmod(0o755)
    for one in (program, *list(program.parents)[:4]):
        os.chown(one, AGENT, AGENT)
    return program


@as_root
def test_root_asks_the_agents_python_as_the_agent_and_shows_it_no_secret(home, monkeypatch):
    monkeypatch.setenv("HERMES_WATCHDOG_NOTIFY", "ntfy://the-secret-topic")
    a_python_of(home, f"id -u > {home}/seen; env >> {home}/seen")
    assert installed(home) is None or "installed" not in installed(home).name
    seen = (home / "seen").read_text().splitlines()
    assert seen[0] == str(AGENT)
    assert "the-secret-topic" not in "\n".join(seen)


@as_root
def test_a_home_that_leads_into_a_folder_of_roots_makes_root_run_nothing(home, place):
    shared = place / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    a_python_of(shared, f"id -u > {shared}/seen")
    link = home / "elsewhere"
    link.symlink_to(shared)
    os.chown(link, AGENT, AGENT, follow_symlinks=False)
    installed(link)
    assert not (shared / "seen").exists() or (shared / "seen").read_text() != "0\n"


@pytest.mark.parametrize("content", ["[" * 100_000, '{"pid": {}}', '{"pid": "1e9"}', "\0" * 5000])
def test_a_pid_file_of_nonsense_names_no_python(tmp_path, content):
    (tmp_path / "gateway.pid").write_text(content)
    assert not [one for one in pythons(tmp_path) if "hermes-agent" not in one and str(tmp_path) in one]


def test_a_pid_file_that_is_a_pipe_holds_nobody(tmp_path):
    os.mkfifo(tmp_path / "gateway.pid")
    assert isinstance(list(pythons(tmp_path)), list)


@pytest.mark.parametrize(
    "answer", ["{}", "[]", "7", '{"found": 7}', '{"found": {"state": [[1]]}, "version": ""}', '{"found": {}}']
)
def test_a_program_that_answers_nonsense_is_no_hermes(tmp_path, monkeypatch, answer):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\necho '{answer}'\n")
    program.chmod(0o755)
    assert ask(str(program)) is None


# gateway.pid is the agent's word for which process, and which program, the gateway is.


@pytest.mark.parametrize(
    ("unit", "uid", "argv"),
    [
        (Unit("ssh.service", SYSTEM, 812, "/usr/sbin/sshd -D"), 0, ("sshd:", "/usr/sbin/sshd")),
        (Unit("shop.service", SYSTEM, 812, "/srv/shop/run", "/srv/shop", "hermes"), 1000, ("/srv/shop/run",)),
        (
            Unit("hermes-gateway-bob.service", SYSTEM, 812, "hermes gateway run", "/home/bob/.hermes", "bob"),
            1001,
            ARGV,
        ),
    ],
)
def test_a_pid_file_that_names_another_service_restarts_nothing(unit, uid, argv):
    found = recognise(
        replace(FACTS, pid_uid=uid, argv=argv, cgroup=f"0::/system.slice/{unit.name}\n", units=(unit,))
    )
    assert found.unit != unit.name and not found.may_act


def test_a_pid_file_that_names_a_process_in_another_container_restarts_nothing():
    box = Container("ab" * 32, "postgres", "docker", (Mount("/var/lib/postgres"),))
    found = recognise(replace(FACTS, around=Surroundings(box.id, "docker", containers=(box,))))
    assert not found.may_act and "does not have /home/hermes/.hermes as a volume" in in_english(found.why_not)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"pid_uid": 0}, "does not belong to hermes"),
        ({"pid_uid": 1001}, "does not belong to hermes"),
        ({"pid": 0, "told_by": 1001}, "gateway.pid does not belong to hermes"),
        ({"owner": "root", "owner_uid": 0, "pid_uid": 0, "others": True}, "nothing is started as root"),
        ({"pid": 0, "owner": "root", "owner_uid": 0, "told_by": 1000}, "gateway.pid does not belong to root"),
    ],
)
def test_root_neither_ends_nor_starts_for_one_user_what_is_anothers(more, why):
    found = recognise(replace(FACTS, **more))
    assert not found.may_act and why in in_english(found.why_not)


def looked_at(child: subprocess.Popen) -> GatewayProcess:
    return GatewayProcess(True, child.pid, start_time_of(child.pid) or 0, command_of(child.pid))


@pytest.fixture
def bystander():
    child = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE)
    yield child
    assert child.poll() is None, "a process that is no gateway was ended"
    child.kill()
    child.communicate()


def test_a_pid_file_that_is_rewritten_after_the_approval_ends_no_other_process(tmp_path, bystander):
    approved = GatewayProcess(True, os.getpid(), start_time_of(os.getpid()) or 0, ARGV)
    world = RealMachine(tmp_path, tmp_path, Supervisor(PROCESS, uid=os.getuid(), argv=ARGV), approved)
    told = bare.stop(world, looked_at(bystander))
    assert not told.ok and "which was approved; nothing was signalled" in said(told)


def test_a_process_that_is_no_gateway_is_never_ended(tmp_path, bystander):
    world = RealMachine(
        tmp_path, tmp_path, Supervisor(PROCESS, uid=os.getuid(), argv=ARGV), GatewayProcess(False)
    )
    assert "is not a gateway; nothing was signalled" in said(bare.stop(world, looked_at(bystander)))
    strange = replace(world, supervisor=replace(world.supervisor, uid=os.getuid() + 1))
    assert "belongs to another user" in said(bare.stop(strange, looked_at(bystander)))


@as_root
def test_a_home_that_is_exchanged_for_one_of_roots_starts_nothing_as_root(home, place):
    evil = place / "evil"
    evil.write_text(f"#!/bin/sh\nid -u > {place}/ran\n")
    evil.chmod(0o755)
    world = RealMachine(
        home,
        place / "state",
        Supervisor(PROCESS, uid=AGENT, argv=(str(evil), "gateway", "run")),
        GatewayProcess(False),
    )
    home.rename(place / "away")
    home.symlink_to(place)
    assert "another user than when it was approved" in in_english(bare.start(world))
    assert not (place / "ran").exists()


def test_a_gateway_of_another_user_gets_none_of_our_secrets():
    ours = {"PATH": "/bin", "HERMES_WATCHDOG_NOTIFY": "ntfy://topic", "BOT_TOKEN": "123:abc", "LC_ALL": "C"}
    theirs = bare.surroundings(ours, {}, pwd.getpwuid(AGENT))
    assert set(theirs) == {"PATH", "LC_ALL", "HOME", "USER", "LOGNAME", "SHELL"}
    assert "HERMES_WATCHDOG_NOTIFY" not in bare.surroundings(ours, {}, None)


@pytest.mark.parametrize("value", ["1.2.3", "9" * 400, "180"])
def test_a_drain_that_is_no_number_ends_no_check(tmp_path, value):
    (tmp_path / "config.yaml").write_text(f"agent:\n  restart_drain_timeout: {value}\n")
    drain_of(tmp_path, ())


@pytest.mark.parametrize(
    "words", [["doctor"], ["db", "backup"], ["db", "check", "--deep"], ["check"]], ids=" ".join
)
def test_a_home_of_pipes_and_dead_links_holds_no_command(tmp_path, monkeypatch, capsys, words):
    home = tmp_path / "home"
    (home / "logs").mkdir(parents=True)
    for name in ("logs/gateway.log", "logs/agent.log", "state.db", "gateway.pid", "gateway_state.json"):
        os.mkfifo(home / name)
    (home / "kanban.db").symlink_to("/nonexistent/kanban.db")
    (home / "response_store.db").symlink_to("response_store.db")
    monkeypatch.setenv("HERMES_HOME", str(home))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main([*words, *([] if words[0] == "db" else ["--state", str(tmp_path / "state")])]) in (0, 1)
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize("name", ["settings.yaml", "detect/mine.yaml", "recipes/mine.yaml"])
def test_a_configuration_file_that_is_a_pipe_is_a_mistake_with_a_name(tmp_path, capsys, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    os.mkfifo(tmp_path / name, 0o600)
    (tmp_path / "home" / "logs").mkdir(parents=True)
    assert (
        main(
            [
                "check",
                "--dry-run",
                "--home",
                str(tmp_path / "home"),
                "--config",
                str(tmp_path),
                "--state",
                str(tmp_path / "state"),
            ]
        )
        == 2
    )
    assert f"{name}: cannot be read: is not a regular file" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [["check", "--dry-run", "--json", "--home"], ["check", "--home"], ["replay"], ["status", "--home"]],
    ids=" ".join,
)
def test_a_home_whose_name_is_not_utf8_is_a_sentence(tmp_path, capsys, words):
    home = os.path.join(tmp_path, os.fsdecode(b"home\xff"))
    os.makedirs(os.path.join(home, "logs"))
    assert main([*words, home, "--config", str(tmp_path), "--state", str(tmp_path / "state")]) == 2
    told = capsys.readouterr().err
    assert "is not UTF-8" in told and told.isascii() and told.count("\n") == 1
    assert not (tmp_path / "state").exists()


def test_a_config_that_is_a_pipe_holds_nobody(tmp_path):
    os.mkfifo(tmp_path / "config.yaml")
    assert drain_of(tmp_path, ()) is None


# Names of boards are the agent's, and stand in messages, in commands and in the store.


def boards(home: Path, *names: bytes) -> None:
    for name in names:
        folder = os.fsencode(home) + b"/kanban/boards/" + name
        os.makedirs(folder)
        Path(os.fsdecode(folder), "kanban.db").write_bytes(b"broken" * 100)


# A rule decides what is seen, and what is proposed; two lines switch it off.

OFF = "id: gateway-down\nenabled: false\n"


def config(place: Path, kind: str = "detect") -> Path:
    file = place / "config" / kind / "gateway-down.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(OFF)
    file.chmod(0o644)
    return file


@as_root
@pytest.mark.parametrize(
    ("bend", "says"),
    [
        (
            lambda file: file.chmod(0o666),
            "others may write this file, and a rule decides what is seen; chmod go-w {file}",
        ),
        (
            lambda file: file.chmod(0o664),
            "others may write this file, and a rule decides what is seen; chmod go-w {file}",
        ),
        (
            lambda file: os.chown(file, AGENT, AGENT),
            "this file belongs to another user, and a rule decides what is seen; chown it: {file}",
        ),
        (
            lambda file: file.parent.chmod(0o777),
            "others may put another file in its place, and a rule decides what is seen; chmod go-w {folder}",
        ),
        (
            lambda file: os.chown(file.parent, AGENT, AGENT),
            "its folder belongs to another user, and a rule decides what is seen; chown it: {folder}",
        ),
    ],
)
def test_root_believes_no_rule_that_others_may_write(place, bend, says):
    file = config(place)
    assert load_rules(place / "config").off["gateway-down"] == f"{file}:1"
    bend(file)
    with pytest.raises(ConfigError) as caught:
        load_rules(place / "config")
    assert [problem.says for problem in caught.value.problems] == [says.format(file=file, folder=file.parent)]


@pytest.mark.parametrize(
    "text",
    ["a: " + "[" * 40_000, "a: " + "{b: " * 20_000, "- " * 30_000, "? " * 30_000],
    ids=lambda text: text[:6],
)
def test_lists_in_lists_without_end_are_a_mistake_with_a_name(tmp_path, text):
    """Composing 40,000 levels ended the process with SIGSEGV."""
    (tmp_path / "settings.yaml").write_text(text)
    (tmp_path / "settings.yaml").chmod(0o600)
    with pytest.raises(ConfigError, match=r"more than 40 levels|not YAML"):
        load_settings(tmp_path)


def test_a_rule_of_ones_own_group_is_fine_for_whoever_is_not_root(tmp_path, monkeypatch):
    file = config(tmp_path)
    file.chmod(0o664)
    monkeypatch.setattr(rule_files.os, "getuid", lambda: os.geteuid() or AGENT)
    assert "gateway-down" in load_rules(tmp_path / "config").off


def test_whose_a_file_is_does_not_depend_on_where_one_stands(place, monkeypatch):
    """Files beside the package are called by a short name, which means nothing elsewhere."""
    file = config(place)
    file.chmod(0o666)
    monkeypatch.setattr(rule_files, "shipped_folder", lambda: place / "rules")
    monkeypatch.chdir("/")
    with pytest.raises(ConfigError, match="others may write this file"):
        load_rules(place / "config", shipped=False)


def test_a_board_whose_name_is_a_trick_is_passed_over_and_told(tmp_path):
    boards(
        tmp_path,
        b"plain",
        b"\xff\xfe",
        b"new\nline",
        b"\x1b[31mred",
        "turn\u202eed".encode(),
        "soft\u00adhyphen".encode(),
    )
    assert [Path(path).parent.name for path in databases(tmp_path)] == ["plain"]
    assert passed_over(tmp_path).startswith("5 databases in kanban/boards were not looked at")
    sources = Sources(tmp_path, zone=UTC, stated="running")
    run = run_of(BOOK, None, NOW, sources)
    report = check(run, run.start)
    assert any("5 databases in kanban/boards" in note for note in report.notes)


def test_a_flood_of_boards_is_not_looked_at_to_its_end(tmp_path):
    boards(tmp_path, *(b"b%d" % number for number in range(MOST_BOARDS + 7)))
    assert len(databases(tmp_path)) == MOST_BOARDS
    assert passed_over(tmp_path).startswith("7 databases")


@pytest.mark.parametrize("name", ["$(touch x)", "a; rm -rf ~", "it's", "a b"])
def test_the_exact_command_can_be_typed_and_runs_nothing_else(tmp_path, name):
    machine = Machine(tmp_path)
    path = f"kanban/boards/{name}/kanban.db"
    for kind, verb, options in ((heal_database, "heal", ["--yes"]), (add_column, "migrate", [])):
        command = in_english(kind.describe(kind.Args(path), machine.world())).rpartition("hermes-watchdog")[2]
        assert shlex.split(command) == ["db", verb, str(tmp_path / path), *options]


def test_a_name_in_braces_is_not_filled_a_second_time():
    step = Step("heal_database", heal_database.Args("{database}"))
    assert (
        fill(step, {"database": "kanban/boards/{pid}/kanban.db", "pid": "1"}).args.database
        == "kanban/boards/{pid}/kanban.db"
    )


@pytest.mark.parametrize(
    "value", ["a\nb", "a\u061cb", "a\u00adb", "a\ufeffb", "\udcff.db", "-x.db", "x" * 5000]
)
def test_what_a_person_could_not_see_fills_no_step(value):
    with pytest.raises(UnfitFact) as caught:
        fill(Step("heal_database", heal_database.Args("{database}")), {"database": value})
    assert "not fit for a command" in in_english(caught.value.reason)
    in_english(caught.value.reason).encode()  # also where the name is no text


def ill(name: str) -> Incident:
    return incident("database-broken", name, "heal-database", facts={"database": name})


def test_a_plan_holds_no_more_repairs_than_a_person_can_judge(tmp_path):
    machine = Machine(tmp_path)
    wrong = [ill(f"kanban/boards/b{number}/kanban.db") for number in range(40)]
    (plan,) = propose(replace(machine, wrong=wrong), None)
    assert [step.kind for step in plan.steps] == ["gateway", *["heal_database"] * 8, "gateway"]


def test_a_board_that_is_a_link_does_not_spoil_the_cure_of_the_others(tmp_path):
    machine = Machine(tmp_path)
    (tmp_path / "kanban" / "boards").mkdir(parents=True)
    (tmp_path / "kanban" / "boards" / "trap").symlink_to("/etc")
    (tmp_path / "state.db").touch()
    trap = ill("kanban/boards/trap/kanban.db")
    plan, refused = propose(replace(machine, wrong=[ill("state.db"), trap]), None)
    assert [step.args.database for step in plan.steps if step.kind == "heal_database"] == ["state.db"]
    assert refused.incidents == (
        "database-broken kanban/boards/trap/kanban.db",
    ) and "symbolic link" in waits_for(refused)
    still = Look((trap,), machine.book)
    told, noisy = verify(plan, machine.world(), lambda since: still, machine.now)
    assert told.ok and not noisy
    worse = Look((trap, ill("kanban.db")), machine.book)
    assert not verify(plan, machine.world(), lambda since: worse, machine.now)[0].ok


# The store and the settings say who approved and who may.


def test_a_store_that_others_may_write_is_not_believed(tmp_path):
    Store.open(tmp_path / "watchdog.db").close()
    (tmp_path / "watchdog.db").chmod(0o666)
    with pytest.raises(WatchdogError, match="others may write the store"):
        Store.open(tmp_path / "watchdog.db")


@as_root
def test_root_believes_no_store_of_another_user(place):
    Store.open(place / "watchdog.db").close()
    os.chown(place / "watchdog.db", AGENT, AGENT)
    with pytest.raises(WatchdogError, match="belongs to another user"):
        Store.open(place / "watchdog.db")


@as_root
def test_root_keeps_no_store_where_another_user_could_exchange_it(home):
    with pytest.raises(WatchdogError, match="other users may change"):
        Store.open(home / "deeper" / "watchdog.db")


def test_settings_that_others_may_write_name_no_approvers(tmp_path):
    (tmp_path / "settings.yaml").write_text("approval: {auto: [restart-gateway]}\n")
    (tmp_path / "settings.yaml").chmod(0o666)
    with pytest.raises(ConfigError, match="others may write this file, and it says who may approve"):
        load_settings(tmp_path)
    (tmp_path / "settings.yaml").chmod(0o600)
    assert load_settings(tmp_path).limits.auto == ("restart-gateway",)
    tmp_path.chmod(0o777)
    with pytest.raises(ConfigError, match="others may put another file in its place"):
        load_settings(tmp_path)
    tmp_path.chmod(0o700)


def test_a_recipe_in_a_folder_that_others_may_write_is_refused(tmp_path):
    (tmp_path / "recipes").mkdir()
    shutil.copy(shipped_folder() / "recipes" / "restart-gateway.yaml", tmp_path / "recipes")
    load_rules(tmp_path)
    (tmp_path / "recipes").chmod(0o777)
    with pytest.raises(ConfigError, match="others may put another file in its place"):
        load_rules(tmp_path)


# What is shown must not act on whoever reads it.


def test_a_tick_in_a_command_ends_no_code_in_markdown():
    shown = render("    heal 'a`[press](http://evil.example)`'", "markdown")
    assert shown.count("`") == 2 and shown.startswith("`") and shown.endswith("`")


def test_a_stored_plan_paints_nothing_on_the_terminal(tmp_path):
    machine = Machine(tmp_path)
    (plan,) = propose(replace(machine, wrong=[ill("state.db")]), None)
    evil = "\x1b[2J\x1b]0;owned\x07\nplan 9  approved"
    plan = replace(plan, chain=plain(evil), words=(plain(evil),), evidence=(evil,))
    with Store.in_memory() as store:
        stored = rows.get(store, rows.save(store, plan, machine.now))
    step = {"part": "steps", "number": 0, "ended_at": "x", "ok": 1, "reason": plain(evil), "output": evil}
    reader = reader_of("en", None, machine.now)
    text = full_lines(replace(stored, reason=plain(evil)), [step], reader, Answering())
    assert not any("\x1b" in line or "\x07" in line for line in text)
    assert not any(line.startswith("plan 9") for part in text for line in part.split("\n"))


def test_a_pipe_or_nonsense_in_the_home_holds_no_question(tmp_path):
    os.mkfifo(tmp_path / ".env")
    (tmp_path / "gateway.pid").write_text("[" * 100_000)
    channel = Channel("telegram", "https://api.telegram.org", (), Secret("12345:" + "x" * 30))
    assert refused(channel, tmp_path) == ""


def test_a_store_that_is_full_is_told_as_that_and_not_as_our_fault(tmp_path):
    boards(tmp_path, *(b"b%d" % number for number in range(60)))
    with Store.open(tmp_path / "state" / "watchdog.db") as store:
        store.db.execute("PRAGMA max_page_count = 1")
        sources = Sources(tmp_path, zone=UTC, stated="running")
        with pytest.raises(
            WatchdogError, match=r"cannot record in .*full; what could not be recorded was not begun"
        ):
            full_check(run_of(BOOK, store, NOW, sources))


def test_what_goes_on_after_a_crash_is_what_was_approved(tmp_path):
    """A plan to restart one unit is cut off; by the time somebody resumes it, the gateway's unit is another
    one.
    """
    machine = Machine(tmp_path, wrong=[incident()])
    world = machine.world()
    with Store.open(tmp_path / "state" / "watchdog.db") as store:
        (plan,) = ask_for(machine, store, world)
        rows.move(store, plan.id, ("pending",), "claimed", answered_digest=plan.digest)
        other = replace(
            world.supervisor, unit="ssh.service", restart=("/usr/bin/systemctl", "restart", "ssh.service")
        )
        (told,) = resume_plan(plan.id, machine.job(store, replace(world, supervisor=other)), "ann")
        assert (
            not told.ok
            and "would not be the one that was approved" in said(told)
            and "ssh.service" in said(told)
        )
        (told,) = resume_plan(plan.id, machine.job(store, replace(world, home=tmp_path / "other")), "ann")
        assert not told.ok and "is for" in said(told)
        assert not machine.ran
        assert resume_plan(plan.id, machine.job(store, world), "ann")[-1].ok
        assert machine.verbs() == ["restart"]


def test_a_log_that_names_ten_thousand_chats_makes_one_bounded_case(tmp_path):
    machine = Machine(tmp_path)
    wrong = [ill("state.db"), *(incident(key=f"telegram/{number}") for number in range(10_000))]
    (plan,) = propose(replace(machine, wrong=wrong), None)
    assert len(plan.incidents) == 200 and plan.incidents[0] == "database-broken state.db"


# Notes that a repair and a backup leave beside the database lie in the agent's home.


@pytest.mark.parametrize("kind", ["pipe", "lists in lists", "link to nowhere", "number"])
def test_whatever_lies_in_the_place_of_a_note_holds_nobody(tmp_path, kind):
    path = forged(tmp_path / "state.db", "CREATE TABLE messages(id)")
    with path.open("r+b") as file:
        file.write(bytes(16))
    for name in (
        "state.db.backups/state.db.1.json",
        "state.db.quarantine/1/manifest.json",
        ".state.db.repair.json",
    ):
        note = tmp_path / name
        note.parent.mkdir(parents=True, exist_ok=True)
        if kind == "pipe":
            os.mkfifo(note)
        elif kind == "link to nowhere":
            note.symlink_to("nowhere")
        else:
            note.write_text("[" * 100_000 if kind == "lists in lists" else "7")
    assert look(path).grade == "broken"
    assert heal(path).ok
    assert snapshot(path).ok


@pytest.mark.parametrize("named", ["other", "gone"])
def test_a_note_of_a_repair_that_names_another_folder_writes_nothing_there(tmp_path, named):
    path = forged(tmp_path / "state.db", "CREATE TABLE messages(id)")
    with path.open("r+b") as file:
        file.write(bytes(16))
    other = tmp_path / "other"
    other.mkdir()
    manifest = {"path": str(path), "at": "2026-11-16T10:00:00+00:00", "hashes": {}, "why": "x", "says": []}
    note = json.dumps({"quarantine": str(tmp_path / named), "manifest": manifest})
    (tmp_path / ".state.db.repair.json").write_text(note)
    assert heal(path).ok and list(other.iterdir()) == []
