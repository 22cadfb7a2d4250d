"""Coverage-guided fuzzing of whatever reads untrusted bytes; README.md beside this says how to run it.

A target may only return: an exception that its callers do not expect, a broken promise (an `assert` below), more than
ten seconds or 2 GB for one input is a finding.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["watchdog"]):
    from watchdog.approval.channels import matrix, ntfy, telegram
    from watchdog.approval.channels.base import ChannelError
    from watchdog.approval.replies import attempted, parse
    from watchdog.config.read_settings import load_settings
    from watchdog.config.rules import read_rule, shipped_folder, shipped_vocabulary
    from watchdog.config.settings import Approver, Channel, Secret
    from watchdog.config.yaml import read_documents
    from watchdog.errors import ConfigError, Problem, WatchdogError
    from watchdog.gateway import containers
    from watchdog.gateway.evidence import read_saved_evidence
    from watchdog.gateway.state import state_of
    from watchdog.job import rule_kinds
    from watchdog.model import Line
    from watchdog.notify.sanitize import exact, fit, render
    from watchdog.service.install import with_entry, without_entry
    from watchdog.sources import cron, journal, process
    from watchdog.sources.chat_text import ChatText
    from watchdog.sources.forgery import find_doubts
    from watchdog.sources.localtime import LocalClock
    from watchdog.sources.records import RecordReader, Wanted
    from watchdog.sqlite import quarantine, swap
    from watchdog.sqlite.backups import kept, last_good
    from watchdog.sqlite.choose import scan
    from watchdog.sqlite.format import Bad
    from watchdog.sqlite.gate import DatabaseRepair
    from watchdog.sqlite.inspect import observe
    from watchdog.sqlite.schema import releases
    from watchdog.system.commands import Ran
    from watchdog.text import harmless, redact

FOLDER = Path(tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
RULE_KINDS = rule_kinds()
NOW = datetime(2026, 5, 19, 10, 0, tzinfo=UTC)
VOCABULARY = shipped_vocabulary()
CHAT = ChatText(VOCABULARY.with_chat_text())
HEADER = b"2026-05-19 10:00:00,000 INFO gateway.run: "
INBOUND = HEADER + b"inbound message: platform=telegram user="
TURN = b"2026-05-19 10:00:01,000 INFO [s1] agent.loop: conversation turn: session=s1 platform=telegram history=1 msg='x'\n"


def records(data: bytes) -> None:
    """Logs of any bytes are read, and the fast way finds the records that the plain way finds."""
    for short, piece in (
        (b"\x01", HEADER),
        (b"\x02", INBOUND),
        (b"\x03", b" chat=1 msg='x'\n"),
        (b"\x04", TURN),
    ):
        data = data.replace(short, piece)
    name, _, rest = data.partition(b"\x00")
    doubts = find_doubts([("gateway.log", name)], [("agent.log", name + rest)], CHAT)
    found = []
    for plain in (True, False):
        wanted = Wanted([Line("agent.log")], CHAT, plain=plain, doubts=doubts)
        reader = RecordReader("agent.log", LocalClock(UTC), wanted)
        found.append([(e.at, e.text, e.more) for e in reader.records("agent.log", 0, name + rest, b"")])
    assert found[0] == found[1]
    for _, text, _ in found[0]:
        redact(text)


def rules(data: bytes) -> None:
    """A rule file is read, or told to be wrong."""
    problems: list[Problem] = []
    for section in read_documents("mine.yaml", data, problems):
        section.vocabulary = VOCABULARY
        read_rule(section, RULE_KINDS)
    for problem in problems:
        assert len(problem.says) < 2000


def settings(data: bytes) -> None:
    (FOLDER / "settings.yaml").write_bytes(data)
    with suppress(ConfigError):
        load_settings(FOLDER)


def _database(data: bytes) -> Path:
    """A database with a WAL and a journal: the three parts lie one behind the other."""
    path = FOLDER / "fuzzed.db"
    parts = [*data.split(b"<SIDE>"), b"", b""][:3]
    for side, part in zip(("", "-wal", "-journal"), parts, strict=True):
        file = Path(f"{path}{side}")
        file.unlink(missing_ok=True)
        if part or not side:
            file.write_bytes(part)
    return path


def sqlite(data: bytes) -> None:
    """A look at a database without SQLite."""
    observe(os.fspath(_database(data)))


def salvage(data: bytes) -> None:
    """The page scan, which runs in a limited child: it may refuse, and must end."""
    path, work = _database(data), FOLDER / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir()
    with suppress(WatchdogError, OSError, sqlite3.Error, Bad):
        scan(
            DatabaseRepair(os.fspath(path), os.fspath(work), "state", releases()[-1]), lambda text: None, None
        )


def text(data: bytes) -> None:
    """What leaves the machine paints nothing, links nowhere, mentions nobody."""
    given = data.decode("utf-8", "surrogateescape")
    shown = fit(given)
    assert len(shown) <= 300 and "<" not in shown and "`" not in shown and "://" not in shown, shown
    line = harmless(given)
    assert "\n" not in line and "\x1b" not in line and "\u202e" not in line and len(line) <= 300
    assert not any(ord(sign) < 32 for sign in exact(given))
    for form in ("text", "markdown", "html"):
        made = render(line, form)
        assert form != "html" or "<script" not in made.lower()
    secret = "sk-ant-api03-" + "Zq3x9Kd7" * 5
    assert "Zq3x9Kd7" not in redact(f"{given} {secret} {given}")


def replies(data: bytes) -> None:
    """An answer is exactly a verb and a code, and no server's answer ends a look."""
    written = data.decode("utf-8", "surrogateescape")
    if found := parse(written):
        assert len(found.code) == 8 and len(written) <= 200
    attempted(written)
    for module in (ntfy, telegram, matrix):
        module.fetch = lambda channel, request: data
        channel = Channel(
            module.KIND,
            "https://chat.example",
            (Approver("ann", "7", Secret("topic")),),
            Secret("12345678:" + "a" * 30),
            "!room:x" if module is matrix else "",
        )
        with suppress(ChannelError, *_BOUNDED):
            for reply in module.collect(channel, "1" if module is telegram else "{}", 0.0).replies:
                assert len(reply.text) <= 201


# channels.bounded turns any exception of a channel's module into a ChannelError; an assertion must show.
_BOUNDED = (AttributeError, KeyError, TypeError, ValueError, IndexError, RecursionError, OverflowError)


def crontab(data: bytes) -> None:
    """Everyone else's lines stay as they are, byte for byte; what was put in is taken out exactly."""
    home, entry = Path("/home/ann/.hermes"), "# >>> hermes-watchdog /home/ann/.hermes >>>\n* * * * * x\n"
    entry += "# <<< hermes-watchdog /home/ann/.hermes <<<\n"
    before = os.fsdecode(data.replace(b"\x01", os.fsencode(entry)).replace(b"\x02", os.fsencode(entry[:44])))
    try:
        bare, _ = without_entry(before, home)
        after = with_entry(before, home, entry)
    except WatchdogError:
        return
    again, found = without_entry(after, home)
    assert found == entry
    assert again in (bare, bare + "\n") or entry[:43] in bare, (before, after)


def files(data: bytes) -> None:
    """The small JSON files of Hermes."""
    home = FOLDER / "home"
    (home / "sessions").mkdir(parents=True, exist_ok=True)
    (home / "cron").mkdir(exist_ok=True)
    parts = (data.split(b"<FILE>") + [data] * 4)[:4]
    names = ("gateway.pid", "gateway_state.json", "sessions/sessions.json", "cron/jobs.json")
    for name, part in zip(names, parts, strict=True):
        (home / name).write_bytes(part)
    state_of(read_saved_evidence(home, NOW))
    for event in process.sessions(home):
        assert event.source == "sessions"
    with suppress(cron.JobsUnreadable):
        cron.observe(home, NOW)


def notes(data: bytes) -> None:
    """What a repair and a backup note beside the database, in a folder of the gateway's user."""
    path = FOLDER / "noted" / "state.db"
    note, made = FOLDER / "noted/.state.db.repair.json", FOLDER / "noted/state.db.backups/state.db.1.json"
    manifest = FOLDER / "noted/state.db.quarantine/1/manifest.json"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"x")
    for place in (note, made, manifest):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(data.replace(b"<FOLDER>", os.fsencode(manifest.parent)))
    made.with_suffix(".db").write_bytes(b"x")
    quarantine.read_manifest(manifest.parent)
    list(kept(made.parent, "state.db"))
    last_good(made.parent, "state.db")
    with suppress(WatchdogError):
        swap.finish(os.fspath(path))
    assert path.read_bytes() == b"x", "nothing was built"


def engines(data: bytes) -> None:
    """What docker and podman answer about containers, whose names and paths people in them may choose."""
    answer = data.decode("utf-8", "surrogateescape")

    def ask(words: Sequence[str], timeout: float) -> Ran:
        return Ran(len(answer) % 3, "0" * 64 if "ps" in words else answer)

    containers.shutil.which = lambda tool: f"/usr/bin/{tool}"
    containers.mounted_folders(ask)
    containers.killed_for_memory(f"/docker/{'0' * 64}", ask)


def journald(data: bytes) -> None:
    for event in journal.parse(data.splitlines(), "journal", CHAT):
        redact(event.text)


# Beginnings


def seeds(name: str) -> list[bytes]:
    shipped = shipped_folder()
    if name == "rules":
        return [file.read_bytes() for file in sorted(shipped.glob("detect/*.yaml"))]
    if name == "settings":
        return [
            b"unit: auto\nbackups: true\napproval: {auto: [restart-gateway], lasts: 30m}\nlimits: {per_hour: 3}\n",
            b"notify:\n  targets:\n  - {name: a, url: 'json://localhost'}\n  language: zh\n  quiet_hours: {from: '22:00', to: '07:00'}\n",
            b"replies:\n  ntfy:\n    server: http://127.0.0.1:8\n    approvers:\n    - {name: ann, topic: {file: /x}}\n  telegram:\n    token: {env: T}\n    approvers: [{name: bob, id: '7'}]\n",
        ]
    if name in ("sqlite", "salvage"):
        return _databases()
    if name == "replies":
        return [
            b"approve K7MNPQRS",
            "同意K7MNPQRS".encode(),
            b'{"id":"a","time":1,"event":"message","message":"approve K7MNPQRS"}\n',
            b'{"ok":true,"result":[{"update_id":1,"callback_query":{"id":"9","data":"approve K7MNPQRS","from":{"id":7},"message":{"date":1,"chat":{"id":7}}}}]}',
            b'{"next_batch":"s","rooms":{"join":{"!room:x":{"timeline":{"events":[{"type":"m.room.message","sender":"@a:x","origin_server_ts":1,"content":{"msgtype":"m.text","body":"approve K7MNPQRS","m.relates_to":{"m.in_reply_to":{}}}}]}}}}}',
        ]
    if name == "files":
        return [
            b'{"pid": 7, "start_time": 3, "argv": ["hermes", "gateway", "run"]}<FILE>{"state": "running", "updated_at": "2026-05-19T10:00:00", "platforms": {"telegram": {"state": "connected"}}}'
            b'<FILE>{"k": {"session_id": "s", "origin": {"platform": "telegram", "chat_id": "1", "user_name": "ann"}}}'
            b'<FILE>{"jobs": [{"id": "a", "name": "b", "schedule": {"kind": "cron", "expr": "0 8 * * *"}, "next_run_at": "2026-05-19T09:00:00", "last_status": "error"}]}'
        ]
    if name == "journald":
        return [
            json.dumps({"__REALTIME_TIMESTAMP": "1779184800000000", "MESSAGE": "x", "_PID": "1"}).encode(),
            json.dumps(
                {"__REALTIME_TIMESTAMP": "1779184800000000", "MESSAGE": [50, 51], "PRIORITY": "3"}
            ).encode(),
        ]
    if name == "engines":
        box = {
            "id": "0" * 64,
            "name": "/hermes",
            "running": True,
            "paused": False,
            "oom": False,
            "stop": 10,
            "path": "x",
        }
        box |= {
            "args": ["gateway", "run"],
            "mounts": [{"Source": "/home/h", "Destination": "/data", "RW": True}],
        }
        return [
            json.dumps({**box, "rm": False, "labels": {"PODMAN_SYSTEMD_UNIT": "h.service"}}).encode(),
            b"permission denied",
        ]
    if name == "notes":
        report = {
            "path": "/x/state.db",
            "ok": True,
            "says": "",
            "at": "2026-05-19T10:00:00+00:00",
            "size": 1,
            "rows": {"messages": 3},
        }
        manifest = {
            "path": "/x/state.db",
            "at": "2026-05-19T10:00:00+00:00",
            "why": "",
            "hashes": {"": "0"},
            "says": ["x"],
        }
        journal = {"quarantine": "<FOLDER>", "manifest": manifest}
        return [json.dumps(value).encode() for value in (report, manifest, journal)] + [b"[" * 50_000]
    if name == "crontab":
        return [b"MAILTO=x\n* * * * * y\n\x01# end", b"\x01\x01", b"a\r\n\x02\n\x0c"]
    if name == "text":
        return [
            b"see https://a.example/x?sig=1 @all <b>x</b> `a` **b** \x1b[31m",
            "张三 13800138000".encode(),
        ]
    samples = sorted(Path(__file__).parents[2].glob("samples/logs/*/*/agent.log"))
    return [file.read_bytes()[:3000] for file in samples[:60]] + [b"\x02a\x03\x04\x01x\n", b"\x02a\n\x04\x03"]


def _databases() -> list[bytes]:
    made = []
    for mode in ("delete", "wal"):
        path = Path(tempfile.mkdtemp(dir=FOLDER), "seed.db")
        db = sqlite3.connect(path)
        db.execute("PRAGMA page_size=512")
        db.execute(f"PRAGMA journal_mode={mode}")
        for part in releases()[-1].objects["state"]:
            if part.type == "table" and part.name == "sessions":
                db.execute(part.sql)
        with suppress(sqlite3.Error):
            db.execute("INSERT INTO sessions(id, source, started_at) VALUES('one', 'cli', 1.0)")
        db.execute("CREATE TABLE notes(id INTEGER PRIMARY KEY, body TEXT)")
        db.executemany("INSERT INTO notes(body) VALUES(?)", [("x" * (i * 37 % 900),) for i in range(12)])
        db.commit()
        sides = [Path(f"{path}{side}") for side in ("", "-wal")]
        made.append(b"<SIDE>".join(side.read_bytes() if side.exists() else b"" for side in sides))
        db.close()
    journal_head = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + (1).to_bytes(4, "big") + bytes(8)
    made.append(
        made[0] + b"<SIDE>" * 1 + journal_head + (512).to_bytes(4, "big") * 2 + bytes(484) + bytes(520)
    )
    return made


TARGETS = {
    function.__name__: function
    for function in (
        records,
        rules,
        settings,
        sqlite,
        salvage,
        text,
        replies,
        crontab,
        files,
        notes,
        engines,
        journald,
    )
}

if __name__ == "__main__":
    name = sys.argv.pop(1)
    if name == "list":
        print(*TARGETS)
        sys.exit()
    corpus = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    if os.path.isdir(corpus):
        for number, seed in enumerate(seeds(name)):
            Path(corpus, f"seed-{number}").write_bytes(seed)
    atheris.Setup(sys.argv, TARGETS[name])
    atheris.Fuzz()
