"""The schema of the Hermes that is installed here: its own classes are asked, in an empty home."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from watchdog.errors import WatchdogError
from watchdog.sqlite.schema import CORE, Reference, SchemaObject, release, releases, shadows
from watchdog.system.files import read_small, replace_file
from watchdog.system.privileges import hands, owner_of

# Runs under Hermes' own Python, in an empty home: what its classes make is what it expects.
_ASK = """
import json, os, shutil, sqlite3, sys, tempfile
from pathlib import Path
home = Path(tempfile.mkdtemp(prefix="hermes-schema-"))
os.environ["HERMES_HOME"] = str(home)
os.environ.pop("HERMES_KANBAN_DB", None)
found, said = {}, []
def state():
    from hermes_state import SessionDB
    SessionDB(home / "state.db").close()
def kanban():
    from hermes_cli import kanban_db
    kanban_db.init_db(home / "kanban.db")
def response_store():
    from gateway.platforms.api_server import ResponseStore
    ResponseStore(db_path=str(home / "response_store.db"))
try:
    for make in (state, kanban, response_store):
        try:
            make()
            db = sqlite3.connect(home / (make.__name__ + ".db"))
            found[make.__name__] = db.execute(
                "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
        except Exception as error:
            said.append(f"{make.__name__}: {type(error).__name__}: {error}")
    try:
        from importlib.metadata import version
        release = version("hermes-agent")
    except Exception:
        release = ""
finally:
    shutil.rmtree(home, ignore_errors=True)
files = [getattr(sys.modules.get(name), "__file__", None)
         for name in ("hermes_state", "hermes_cli.kanban_db", "gateway.platforms.api_server")]
stamps = {file: os.stat(file).st_mtime_ns for file in files if file}
sys.__stdout__.write("\\n" + json.dumps({"version": release, "found": found, "said": said, "stamps": stamps}) + "\\n")
"""


def ask(python: str, timeout: float = 60, whose: tuple[int, int] | None = None) -> Reference | None:
    """The schema of the Hermes that this Python can import;

    None when there is none. `whose`: the user to ask it as.
    """
    answer = _remembered(python) or _answer(python, timeout, whose)
    try:
        return _understood(answer) if answer is not None else None
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return None  # what answered is not a Hermes


def _understood(answer: Mapping) -> Reference | None:
    if not answer["found"]:
        return release(answer["version"])
    objects = {}
    for kind, rows in answer["found"].items():
        inner = shadows((name, sql) for type_, name, _, sql in rows if type_ == "table")
        objects[kind] = tuple(
            SchemaObject(*row) for row in rows if row[1] not in inner and not row[1].startswith("sqlite_")
        )
    fallback = release(answer["version"])
    for kind in CORE:
        if kind not in objects and fallback:
            objects[kind] = fallback.objects[kind]
    return Reference(
        f"Hermes {answer['version'] or 'of unknown version'}, installed", objects, releases()[-1].optional
    )


def _answer(python: str, timeout: float, whose: tuple[int, int] | None) -> Mapping | None:
    # Their program runs with their rights, and sees nothing of ours: tokens of our own may be in the
    # environment.
    kept = ("PATH", "LANG", "LC_ALL", "TZ", "HOME") if whose is None else ("PATH", "LANG", "LC_ALL", "TZ")
    environment = {name: os.environ[name] for name in kept if name in os.environ} | {
        "PYTHONDONTWRITEBYTECODE": "1"
    }
    become: dict = {"user": whose[0], "group": whose[1], "extra_groups": []} if whose else {}
    try:
        done = subprocess.run(
            [python, "-s", "-c", _ASK],
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            env=environment,
            cwd="/",
            **become,
        )
        answer = json.loads(done.stdout.strip().splitlines()[-1])
    except (OSError, subprocess.SubprocessError, ValueError, IndexError, RecursionError):
        return None
    if not isinstance(answer, dict):
        return None
    if answer.get("stamps") and not answer.get("said"):
        with suppress(OSError):
            _memory(python).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(_memory(python), json.dumps(answer).encode())
    return answer


def _memory(python: str) -> Path:
    """Where the answer of this Python is kept: asking takes a second, a quick look milliseconds."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache, "hermes-watchdog", f"schema-{zlib.crc32(os.fsencode(python)):08x}.json")


def _remembered(python: str) -> Mapping | None:
    """The kept answer, as long as the files it came from have not changed."""
    try:
        answer = json.loads(_memory(python).read_text("utf-8"))
        same = all(os.stat(file).st_mtime_ns == stamp for file, stamp in answer["stamps"].items())
        return answer if same and answer["stamps"] else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def pythons(home: Path | None) -> Iterator[str]:
    """Where Hermes may live, the surest first: the gateway's own process, its home, the command on the PATH."""
    if home is not None:
        try:
            pid = int(json.loads(read_small(home / "gateway.pid"))["pid"])
            command = read_small(f"/proc/{pid}/cmdline").split(b"\0")
            if b"gateway" in command:
                yield os.fsdecode(command[0])
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            pass
        for place in ("hermes-agent/venv/bin/python", "hermes-agent/.venv/bin/python"):
            yield str(home / place)
    for command_line in (shutil.which("hermes"), os.path.expanduser("~/.local/bin/hermes")):
        if command_line:
            try:
                first = read_small(command_line, 512).partition(b"\n")[0]
            except OSError:
                continue
            if first.startswith(b"#!") and (words := first[2:].split()):
                yield os.fsdecode(words[0])
            yield os.path.join(os.path.dirname(os.path.realpath(command_line)), "python")


def installed(home: Path | None = None, python: str = "") -> Reference | None:
    """The schema of the installed Hermes, asked once per process and Python."""
    for candidate in [python] if python else pythons(home):
        if os.path.basename(candidate).startswith("python") and os.access(candidate, os.X_OK):
            try:
                answer = _ask_once(candidate, _whose(candidate, home))
            except WatchdogError:
                continue  # a program that other users may exchange, and no other user to run it as
            if answer is not None:
                return answer
    return None


def _whose(python: str, home: Path | None) -> tuple[int, int] | None:
    """The user (uid, gid) that root asks as: the owner of the home, else of the program; None: no other user."""
    if os.geteuid() != 0:
        return None
    if home is not None and (owner := owner_of(home / "gateway.pid")):
        return owner
    folder = os.path.dirname(os.path.abspath(python))
    if not hands(folder) | hands(os.path.dirname(os.path.realpath(python))):
        return None
    status = os.stat(folder)
    if not status.st_uid:
        raise WatchdogError(f"{python}: others may write there; root does not run it")
    return status.st_uid, status.st_gid


@lru_cache(maxsize=8)
def _ask_once(python: str, whose: tuple[int, int] | None) -> Reference | None:
    return ask(python, whose=whose)
