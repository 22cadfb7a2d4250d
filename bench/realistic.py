"""Instructions of a quiet check on a realistic home, which no load disturbs: valgrind counts them.

python bench/realistic.py [--boards 10] [--sessions 500]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.place import database, home, install  # noqa: E402


def instructions(command: list[str], environment: dict[str, str]) -> int:
    """How many instructions the process itself runs."""
    counted = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command]
    done = subprocess.run(counted, capture_output=True, text=True, env=environment, timeout=500, check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if found is None or done.returncode > 1:
        raise SystemExit(f"{command} ended with {done.returncode}: {done.stderr[-2000:]}")
    return int(found[1])


def realistic(folder: Path, boards: int, sessions: int) -> Path:
    """Three databases, boards, sessions.json and an hour of traffic; the gateway lives."""
    place = home(folder / "home", 300_000, 300_000)
    database(place / "response_store.db", "state")
    for number in range(boards):
        board = place / "kanban" / "boards" / f"board{number}"
        board.mkdir(parents=True)
        database(board / "kanban.db", "kanban")
    (place / "sessions").mkdir()
    entries = {
        f"agent:main:telegram:dm:{number}": {
            "session_id": f"20260519_{number:06d}_{number:08x}",
            "origin": {"platform": "telegram", "chat_id": str(number), "user_name": f"Person {number}"},
        }
        for number in range(sessions)
    }
    (place / "sessions" / "sessions.json").write_text(json.dumps(entries))
    config = folder / "config"
    config.mkdir()
    settings = config / "settings.yaml"
    settings.write_text("notify:\n  targets:\n    - {name: me, url: 'json://127.0.0.1:9/'}\nbackups: false\n")
    settings.chmod(0o600)
    return place


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--boards", type=int, default=10)
    parser.add_argument("--sessions", type=int, default=500)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        python, script = install(folder / "venv")
        place = realistic(folder, args.boards, args.sessions)
        environment = {
            "HOME": name,
            "PATH": os.environ["PATH"],
            "HERMES_WATCHDOG_CONFIG": str(folder / "config"),
        }
        check = [script, "check", "--quiet", "--home", str(place), "--state", str(folder / "state")]
        for _ in range(2):  # the second finds what the first has kept
            done = subprocess.run(check, env=environment, capture_output=True, text=True, check=False)
        print(f"check ends with {done.returncode}: {(done.stdout + done.stderr)[-600:]}")
        start = instructions([python, "-I", "-c", "pass"], environment)
        quiet = instructions([python, *check], environment)
        print(
            f"python -I -c pass {start / 1e6:.1f} M, quiet check {quiet / 1e6:.1f} M instructions: {quiet / start:.2f} x"
        )


if __name__ == "__main__":
    main()
