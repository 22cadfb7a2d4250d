"""The operators' story: a broken state.db and an old kanban.db under a crash loop are one case, repaired in
order, once.
"""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from types import SimpleNamespace

from . import parts, person
from .conftest import both
from .gateway import UNIT
from .waiting import until

# 31 bytes, found at offset 5 in the field
TLS_RECORD = bytes.fromhex("170303001a") + bytes(range(0x80, 0x9A))
KANBAN = "agent: {restart_drain_timeout: 5}\nkanban: {dispatch_interval_seconds: 2}\n"

# No released Hermes complains of session_id: builds between 0.14 and 0.15 made the index before the column.
# Their order of statements is put back into 0.19.0; the failing tick, its traceback and its cure are real.
BETWEEN_RELEASES = """
import importlib.abc, sys

class Order(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name != "hermes_cli.kanban_db":
            return None
        sys.meta_path.remove(self)
        import importlib.util
        spec = importlib.util.find_spec(name)
        load = spec.loader.exec_module
        def exec_module(module):
            load(module)
            later = module._migrate_add_optional_columns
            def first(conn, *more, **named):
                conn.execute("CREATE INDEX IF NOT EXISTS idx_tasks_session_id ON tasks(session_id)")
                return later(conn, *more, **named)
            module._migrate_add_optional_columns = first
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Order())
"""


def rows(file: Path, columns: dict[str, str]) -> dict[str, set]:
    """Read from a copy with its sidecars, so that looking changes nothing."""
    place = file.parent / "looked-at"
    place.mkdir(exist_ok=True)
    for name in (file.name, f"{file.name}-wal"):
        if (file.parent / name).exists():
            shutil.copy(file.parent / name, place / name)
    db = sqlite3.connect(place / file.name)
    try:
        return {table: set(db.execute(f"SELECT {names} FROM {table}")) for table, names in columns.items()}
    finally:
        db.close()
        shutil.rmtree(place)


STATE = {"messages": "id, session_id, role, content, timestamp", "sessions": "id, source, started_at"}
BOARD = {"tasks": "id, title, body, created_at", "task_events": "id, task_id, kind, payload, created_at"}


def old_board(it: SimpleNamespace, version: str) -> str:
    """A kanban.db as an older Hermes left it; the column that is missed."""
    hermes = parts.hermes("0.13.0") / "bin/python"
    for title in ("Water the plants", "Paint the door", "Call home"):
        it.machine.run(
            [hermes, "-m", "hermes_cli.main", "kanban", "create", title, "--body", f"About: {title}"],
            it.gateway.environment,
            check=True,
        )
    if version == "0.13.0":
        db = sqlite3.connect(it.gateway.home / "kanban.db")
        db.execute("DROP INDEX idx_tasks_tenant")
        db.execute("ALTER TABLE tasks DROP COLUMN tenant")
        db.close()
        return "tenant"
    (it.machine.folder / "order").mkdir()
    (it.machine.folder / "order/sitecustomize.py").write_text(BETWEEN_RELEASES)
    return "session_id"


@both
def test_a_broken_database_and_an_old_board_under_a_crash_loop_are_one_case(lab, version):
    it = lab(version, settings=person.SETTINGS, hurry=("crash-loop",), config=KANBAN)
    state, board = it.gateway.home / "state.db", it.gateway.home / "kanban.db"
    # This unit looks at its database before it starts, so a broken one is a start that fails.
    look = (
        f"{it.gateway.python} -c \"import sqlite3; sqlite3.connect('file:{state}?mode=ro', uri=True)"
        ".execute('select count(*) from messages')\""
    )
    it.gateway.install(
        extra=f"[Service]\nEnvironment=PYTHONPATH={it.machine.folder}/order\n"
        f'ExecStartPre=/bin/sh -c \'[ ! -e {state} ] || exec "$0" "$@"\' {look}\n'
    )
    column = old_board(it, version)  # after the installer, which would bring it up to date
    it.gateway.start()
    for number in range(5):
        it.gateway.answers(f"Question {number}: what is it?", chat=42 + number % 2)
    it.gateway.wait_for(f"no such column: {column}", times=2)
    it.machine.systemctl("stop", UNIT)
    before = rows(state, STATE), rows(board, BOARD)
    assert len(before[0]["messages"]) >= 10 and len(before[1]["tasks"]) == 3
    with state.open("r+b") as file:
        file.seek(5)
        file.write(TLS_RECORD)
    it.machine.systemctl("start", "--no-block", UNIT)
    it.gateway.wait_for_restarts(4)

    report = it.watchdog.json("check", "--dry-run")
    assert {"crash-loop", "database-broken", "missing-column"} <= set(person.open_rules(report)), report
    question = person.asked(it, "database-broken")
    report = it.watchdog.json("check", "--dry-run")
    assert len(report["plans"]) == 1, report["plans"]
    steps = " | ".join(report["plans"][0]["steps"])
    order = [steps.find(word) for word in ("stop", "state.db", "kanban.db", "start")]
    assert -1 not in order and order == sorted(order), steps

    starts = it.gateway.count("gateway.log", "Starting Hermes Gateway")
    told = person.approves(it, question)
    it.gateway.wait_until_running(starts=2)
    assert it.gateway.count("gateway.log", "Starting Hermes Gateway") == starts + 1, "one start"
    after = rows(state, STATE), rows(board, BOARD)
    for was, now in zip(before, after, strict=True):
        for table, kept in was.items():
            assert kept <= now[table], f"rows of {table} were lost: {kept - now[table]}\n{told}"
    it.gateway.answers("are you back?")
    person.hears_the_end(it)
    until(
        lambda: (
            it.gateway.count("gateway.log", "tick failed")
            == (it.gateway.log().rpartition("Starting Hermes Gateway")[0].count("tick failed"))
        ),
        "no tick fails any more",
    )
    # as shipped, a loop has ended when a start has lived for three minutes
    person.is_quiet(it, shipped=False)
