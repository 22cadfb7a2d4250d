"""Rows saved per fault: ours beside what people use today. Writes its table into docs/databases.md, between
the marks.

    python bench/databases.py [--rows 600] [--seeds 2] [--hermes VENV] [--write]
    python bench/databases.py --rounds 2000 [--from 0] [--harder | --rare | --wild]

The second way plays generated databases and faults (tests/sqlite/generated.py) and prints every round in which
the heal said something that is not so; exit 1 if there is any.

Each fault is done to a fresh copy of a database with `tests/sqlite/inject.py`; afterwards every row that can
be read at the path and is identical in every column counts as saved. VENV is a virtual environment with
Hermes 0.19 in it.
"""

# ruff: noqa: E402 (the checkout goes on the path first)

from __future__ import annotations

import argparse
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "sqlite")]

import generated
import inject

from watchdog.errors import WatchdogError
from watchdog.sqlite import sandbox
from watchdog.sqlite.heal import heal

PAGE = ROOT / "docs" / "databases.md"
BEGIN, END = "<!-- rows saved: made by bench/databases.py -->", "<!-- end of rows saved -->"
Rows = dict[str, dict[int, tuple]]


def read(path: Path) -> Rows:
    """What a program can still read: each table from its start up to the first error."""
    found: Rows = {}
    if not path.exists():
        return found
    try:
        db = sqlite3.connect(path)  # as Hermes opens it: with the WAL, read-write
        db.text_factory = bytes
        names = [
            name.decode() for (name,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")
        ]
    except (sqlite3.Error, UnicodeDecodeError):
        return found
    for name in names:
        found[name] = {}
        try:
            for row in db.execute(f'SELECT _rowid_, * FROM "{name}"'):
                found[name][row[0]] = row[1:]
        except (sqlite3.Error, UnicodeDecodeError):
            continue
    db.close()
    return found


def ours(path: Path) -> str:
    try:
        report = heal(path)
    except WatchdogError as error:
        return str(error)
    if not report.strategy and report.after.grade != "well":
        return "not healed, and said so"
    lost = str(report.lost) if report.lost_most <= report.lost else f"{report.lost}–{report.lost_most}"
    return lost + (f", {report.in_doubt} in doubt" if report.in_doubt else "")


def snippet(path: Path) -> str:
    """The snippet that operators pass around: run integrity_check, and on an error move the file away."""
    try:
        db = sqlite3.connect(path)
        db.execute("PRAGMA integrity_check")
        db.close()
    except (sqlite3.Error, UnicodeDecodeError):
        os.rename(path, f"{path}.corrupt")
    return ""


def recover(path: Path) -> str:
    """`.recover` of the sqlite3 command line, piped into a new file."""
    fresh = Path(f"{path}.recovered")
    made = subprocess.run(["sqlite3", str(path), ".recover"], capture_output=True)
    subprocess.run(
        ["sqlite3", str(fresh)], input=b".dbconfig defensive off\n" + made.stdout, capture_output=True
    )
    for part in ("", "-wal", "-shm"):
        Path(f"{path}{part}").unlink(missing_ok=True)
    if fresh.exists():
        fresh.rename(path)
    return ""


def can_recover() -> bool:
    """Whether the sqlite3 here gives one row of a good file back; some list the command and cannot do it."""
    if not shutil.which("sqlite3"):
        return False
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.db"
        db = sqlite3.connect(path)
        db.executescript("CREATE TABLE t(x); INSERT INTO t VALUES(42);")
        db.close()
        recover(path)
        return read(path).get("t") == {1: (42,)}


def recover_version() -> str:
    found = subprocess.run(["sqlite3", "--version"], capture_output=True, text=True).stdout.split()
    return f"; `.recover` is that of SQLite {found[0]}" if found else ""


def hermes(venv: Path, *words: str) -> Callable[[Path], str]:
    def run(path: Path) -> str:
        environment = {**os.environ, "HERMES_HOME": str(path.parent)}
        subprocess.run(
            [str(venv / "bin" / "hermes"), *words],
            env=environment,
            input=b"y\n",
            capture_output=True,
            timeout=300,
        )
        return ""

    return run


def share(before: Rows, after: Rows) -> tuple[float, int, int]:
    """(rows identical in percent, rows changed, rows that were not there before)."""
    total = sum(len(rows) for rows in before.values())
    same = sum(
        after.get(table, {}).get(rowid) == row
        for table, rows in before.items()
        for rowid, row in rows.items()
    )
    changed = sum(
        after.get(table, {}).get(rowid, row) != row
        for table, rows in before.items()
        for rowid, row in rows.items()
    )
    new = sum(len(after.get(table, {}).keys() - rows.keys()) for table, rows in before.items())
    return 100 * same / total, changed, new


def cell(results: list[tuple[float, int, int]]) -> str:
    """The range of the seeds, and in bold what nobody would want to find out later."""
    worst, best = min(one[0] for one in results), max(one[0] for one in results)
    text = _percent(worst) if _percent(worst) == _percent(best) else f"{_percent(worst)}–{_percent(best)}"
    changed = max(one[1] for one in results)
    return text + (f" **+{changed} altered**" if changed else "")


def _percent(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if value < 100 else "100"


def table(kind: str, rows: int, seeds: int, ways: dict[str, Callable[[Path], str]]) -> list[str]:
    lines = [
        f"| {kind}.db: fault | {' | '.join(ways)} | rows lost: told | really |",
        f"|---|{'---|' * (len(ways) + 2)}",
    ]
    with tempfile.TemporaryDirectory() as folder:
        good = inject.make(Path(folder) / "good.db", kind, size=rows)
        well = inject.rows(good)
        for name, fault in inject.FAULTS.items():
            if kind != "state" and name.startswith("FTS"):
                continue
            results: dict[str, list[tuple[float, int, int]]] = {way: [] for way in ways}
            told, really = [], []
            for seed in range(seeds):
                for way, act in ways.items():
                    home = Path(folder) / "home"
                    home.mkdir()
                    path = home / f"{kind}.db"
                    shutil.copyfile(good, path)
                    fault(inject.Patient(path, kind, seed))
                    before = well if name != "stale index" else read(path)
                    note = act(path)
                    after = read(path)
                    results[way].append(share({table: before[table] for table in well}, after))
                    if act is ours:
                        told.append(note)
                        really.append(
                            str(
                                sum(len(before[table].keys() - after.get(table, {}).keys()) for table in well)
                            )
                        )
                    shutil.rmtree(home)
            cells = [cell(results[way]) for way in ways]
            lines.append(f"| {name} | {' | '.join(cells)} | {'; '.join(told)} | {'; '.join(really)} |")
            print(lines[-1], file=sys.stderr, flush=True)
    return lines


def play(first: int, rounds: int, level: str) -> int:
    """Generated rounds; the number of those in which a heal said something that is not so."""
    wrong, rows, saved, whole = 0, 0, 0, 0
    sandbox.run = generated.in_this_process  # a child per look would triple the time
    for seed in range(first, first + rounds):
        with tempfile.TemporaryDirectory() as folder:
            try:
                outcome = generated.play(seed, Path(folder), level)
            except Exception:
                wrong += 1
                print(f"seed {seed}: {traceback.format_exc()}", flush=True)
                continue
        rows, saved, whole = rows + outcome.rows, saved + outcome.saved, whole + outcome.ok
        if outcome.lies:
            wrong += 1
            print(
                f"seed {seed}: {outcome.label}: {outcome.faults}: {outcome.strategy}: {outcome.lies}",
                flush=True,
            )
    print(
        f"{rounds} rounds: {whole} called whole, {wrong} wrong; {100 * saved / max(1, rows):.2f} % of {rows} rows saved"
    )
    return int(bool(wrong))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=600, help="messages, tasks or responses in each database")
    parser.add_argument("--seeds", type=int, default=2, help="draws per fault")
    parser.add_argument(
        "--hermes", type=Path, help="a virtual environment with Hermes 0.19, for its own repair"
    )
    parser.add_argument("--kinds", default="state,kanban,response_store")
    parser.add_argument("--write", action="store_true", help="put the table into docs/databases.md")
    parser.add_argument("--rounds", type=int, default=0, help="play so many generated faults instead")
    for level, module in (
        (generated.HARDER, "harder"),
        (generated.RARE, "rarer"),
        (generated.WILD, "wilder"),
    ):
        parser.add_argument(
            f"--{level}",
            action="store_const",
            const=level,
            dest="level",
            default=generated.PLAIN,
            help=f"with the databases and faults of tests/sqlite/{module}.py, too",
        )
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first seed (default 0)")
    args = parser.parse_args()
    if args.rounds:
        sys.exit(play(args.first, args.rounds, args.level))
    sandbox.run = generated.in_this_process
    capable = can_recover()
    text = []
    for kind in args.kinds.split(","):
        ways: dict[str, Callable[[Path], str]] = {"db heal": ours, "operators' snippet": snippet}
        if capable:
            ways["`.recover`"] = recover
        if args.hermes and kind == "state":
            ways["hermes sessions repair"] = hermes(args.hermes, "sessions", "repair")
            ways["hermes doctor --fix"] = hermes(args.hermes, "doctor", "--fix")
        text += ["", *table(kind, args.rows, args.seeds, ways)]
    note = (
        f"Rows identical in every column, in percent; {args.rows} messages, tasks or responses, "
        f"{args.seeds} {'draw' if args.seeds == 1 else 'draws'} per fault, no backup, SQLite {sqlite3.sqlite_version}"
        f"{recover_version() if capable else ''}."
    )
    if not capable:
        note += (
            " `.recover` could not take part: the sqlite3 command line here lists it, but does not give back the one "
            "row of a good file."
        )
    block = "\n".join([BEGIN, note, *text, "", END])
    if args.write:
        page = PAGE.read_text("utf-8")
        head, rest = page.split(BEGIN)
        PAGE.write_text(head + block + rest.split(END)[1], "utf-8")
    else:
        print(block)


if __name__ == "__main__":
    main()
