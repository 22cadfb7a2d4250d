"""The deep look: SQLite's own checks, in a process of their own, as the owner of the file."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time

from watchdog.sqlite import checks
from watchdog.sqlite.grade import Deep
from watchdog.sqlite.reading import Moved, connect, place
from watchdog.values import Any

FTS_UP_TO = 256 << 20       # bytes; above, the content of full-text indexes is checked on the daily backup only


def examine(path: str, timeout: float = 3600, fts_up_to: int = FTS_UP_TO) -> Deep:
    """What SQLite says about a database; never an exception, never 'broken' for a lock or a full disk."""
    # Root that works as someone else for a while: the child begins as root, who may read this program, and becomes them.
    them = [os.geteuid(), os.getegid()] if os.getuid() == 0 != os.geteuid() else None
    asked = {"path": os.path.abspath(path), "fts_up_to": fts_up_to, "as": them}
    try:
        answer = json.loads((_fork if _alone() else _spawn)(asked, timeout))
    except TimeoutError:
        return Deep(unknown=f"SQLite did not finish its checks in {timeout:.0f} s")
    except (OSError, ValueError):
        return Deep(unknown="the checking process died")
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in answer.items()}
    return Deep(**values)


def _alone() -> bool:
    """Whether this process has one thread: only then may it be forked, for another's locks would stay taken in the child."""
    try:
        return len(os.listdir("/proc/self/task")) == 1      # of C, too, which Python does not count
    except OSError:
        return False


def _spawn(asked: dict[str, Any], timeout: float) -> bytes:
    """The child's answer, from a new Python."""
    import subprocess

    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    root = 0 if asked["as"] else None
    try:
        # Without site: the child needs the standard library and this package alone.
        return subprocess.run([sys.executable, "-S", "-c", "from watchdog.sqlite.deep import main; main()"], cwd="/",
                              env={**os.environ, "PYTHONPATH": package}, input=json.dumps(asked).encode(),
                              capture_output=True, timeout=timeout, user=root, group=root).stdout
    except subprocess.TimeoutExpired:
        raise TimeoutError from None


def _fork(asked: dict[str, Any], timeout: float) -> bytes:
    """The same from a copy of this process, which spares the start of a Python: a check is measured by it."""
    import select
    import signal

    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            os.close(reader)
            if asked["as"]:
                os.seteuid(0)
                os.setegid(0)
            with open(writer, "wb") as file:
                file.write(_answer(asked))
            code = 0
        finally:
            os._exit(code)          # nothing of the parent's may be ended, flushed or closed here
    os.close(writer)
    content, end = b"", time.monotonic() + timeout
    try:
        while select.select([reader], [], [], max(0.0, end - time.monotonic()))[0]:
            if not (more := os.read(reader, 1 << 16)):
                return content
            content += more
        raise TimeoutError
    finally:
        os.close(reader)
        os.kill(child, signal.SIGKILL)      # done, or over time; it is not waited for yet, so the number is still its own
        os.waitpid(child, 0)


def inspect(path: str, fts_up_to: int = FTS_UP_TO, tries: int = 3) -> Deep:
    """The checks themselves; a file that changes under an immutable look is looked at again."""
    for _ in range(tries):
        try:
            with place(path) as (where, mode):
                return _inspect(path, where, mode, fts_up_to)
        except Moved:
            continue
        except sqlite3.Error as error:
            if checks.is_damage(error, os.path.dirname(path)):
                return Deep(integrity=(str(error),), sqlite=sqlite3.sqlite_version)
            return Deep(unknown=_words(error), sqlite=sqlite3.sqlite_version)
        except UnicodeDecodeError:
            return Deep(broken="SQLite cannot open it: the schema is not text", sqlite=sqlite3.sqlite_version)
        except OSError as error:
            return Deep(unknown=f"cannot read it: {error.strerror}", sqlite=sqlite3.sqlite_version)
    return Deep(unknown="the file keeps changing hands while it is looked at", sqlite=sqlite3.sqlite_version)


def _inspect(path: str, where: str, mode: str, fts_up_to: int) -> Deep:
    folder, version = os.path.dirname(path), sqlite3.sqlite_version
    db = connect(where, mode)
    try:
        try:
            db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.Error as error:
            if checks.is_damage(error, folder):
                return Deep(broken=f"SQLite cannot open it: {error}", sqlite=version)
            raise
        has_fts = bool(checks.fills(checks.schema(db)))
        rows = checks.integrity(db)
        fts, counted, orphans = _count(db, folder)
    finally:
        db.close()
    says = []
    doubts: list[tuple[str, int, str]] = []
    size = os.path.getsize(path)
    if not rows and size <= fts_up_to:
        reader = connect(where, mode)
        try:
            doubts = checks.doubts(reader)
        finally:
            reader.close()
    if rows or not has_fts:
        pass
    elif size > fts_up_to:
        says.append(f"the content of the full-text indexes was not checked ({size >> 20} MB); db backup checks it")
    else:
        found = fts_on_copy(where, mode)
        fts += found if found is not None else []
        if found is None:
            says.append("no room for a copy: the content of the full-text indexes was not checked")
    return Deep(integrity=rows, orphans=orphans, fts=tuple(fts), rows=counted, says=tuple(says),
                doubts=tuple(f"{table} {rowid}: {why}" for table, rowid, why in doubts), sqlite=version)


def _count(db: sqlite3.Connection, folder: str) -> tuple[list[str], dict[str, int], int]:
    """Full-text indexes that lost rows, rows per table, orphans: by indexes, next to nothing beside integrity_check."""
    fts: list[str] = []
    rows: dict[str, int] = {}
    orphans = 0
    try:
        db.execute("BEGIN")         # one snapshot: a row between two counts is no fault
        fts = list(checks.fts_counts(db))
        rows = checks.counts(db)
        orphans = checks.orphans(db)
    except sqlite3.Error as error:
        if not checks.is_damage(error, folder):     # damage is integrity_check's to tell
            raise
    return fts, rows, orphans


def fts_on_copy(where: str, mode: str) -> list[str] | None:
    """Faults in the content of full-text indexes, found on a private copy; None when there is no room for one."""
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="hermes-watchdog-")
    try:
        if checks.free_space(folder) < 2 * os.path.getsize(where) + (64 << 20):
            return None
        source, copy = connect(where, mode), connect(os.path.join(folder, "copy.db"), "mode=rwc")
        try:
            source.backup(copy, pages=-1)
            copy.execute("PRAGMA synchronous=OFF")
            return list(checks.fts_content(copy))
        finally:
            source.close()
            copy.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _words(error: sqlite3.Error) -> str:
    text = str(error)
    if "locked" in text or "busy" in text:
        return "busy: another process holds a lock; nothing is wrong with the file as far as anyone can tell"
    return f"SQLite could not look ({text}); that speaks of locks, permissions or space, not of the file"


def _as_owner(path: str) -> None:
    """Give up root for the owner of the file, so that anything SQLite makes is theirs."""
    if os.geteuid() == 0:
        status = os.stat(path)
        os.setgroups([])
        os.setegid(status.st_gid)
        os.seteuid(status.st_uid)
        try:
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
            reachable = True
        except PermissionError:
            reachable = False           # a folder that its owner may not enter: look as root after all
        os.seteuid(0)
        os.setegid(0)
        if reachable:
            os.setgid(status.st_gid)
            os.setuid(status.st_uid)


def _answer(asked: dict[str, Any]) -> bytes:
    try:
        if asked["as"]:
            os.setgroups([])
            os.setgid(asked["as"][1])
            os.setuid(asked["as"][0])
        _as_owner(asked["path"])
        answer = inspect(asked["path"], asked["fts_up_to"])
    except OSError as error:
        answer = Deep(unknown=f"cannot read it: {error.strerror}")
    return json.dumps(vars(answer)).encode()


def main() -> None:
    sys.stdout.buffer.write(_answer(json.load(sys.stdin)))
