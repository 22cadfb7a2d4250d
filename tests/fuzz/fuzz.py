"""Coverage-guided fuzzing of what reads untrusted bytes. Not part of `make test`; atheris is not a dependency:

    python -m venv /tmp/fuzz && /tmp/fuzz/bin/pip install atheris pyyaml regex
    PYTHONPATH=. /tmp/fuzz/bin/python tests/fuzz/fuzz.py records -max_total_time=120 -timeout=10

Targets: records (gateway.log and agent.log), yaml (rule files), sqlite (a database, read without SQLite), replies
(answers from a chat). A target may only return; an exception or ten seconds for one input is a finding.
"""

from __future__ import annotations

import os
import sys
import tempfile
from datetime import UTC
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["watchdog"]):
    from watchdog.approval.replies import attempted, parse
    from watchdog.config.rules import shipped_vocabulary
    from watchdog.config.yaml import read_documents
    from watchdog.model import Line
    from watchdog.sources.chat_text import ChatText
    from watchdog.sources.forgery import find_doubts
    from watchdog.sources.localtime import LocalClock
    from watchdog.sources.records import RecordReader, Wanted
    from watchdog.sqlite.inspect import observe
    from watchdog.text import redact

FOLDER = Path(tempfile.mkdtemp())
CHAT = ChatText(shipped_vocabulary().with_chat_text())
HEADER = b"2026-05-19 10:00:00,000 INFO gateway.run: "
INBOUND = HEADER + b"inbound message: platform=telegram user="


def records(data: bytes) -> None:
    data = data.replace(b"\x01", HEADER).replace(b"\x02", INBOUND).replace(b"\x03", b" chat=1 msg='x'\n")
    name, _, rest = data.partition(b"\x00")
    doubts = find_doubts([("gateway.log", name)], [("agent.log", name + rest)], CHAT)
    reader = RecordReader(
        "agent.log", LocalClock(UTC), Wanted([Line("agent.log")], CHAT, plain=True, doubts=doubts)
    )
    for event in reader.records("agent.log", 0, name + rest, b""):
        redact(event.text)


def yaml(data: bytes) -> None:
    for section in read_documents("rule.yaml", data, []):
        section.text("id", "")
        section.done()


def sqlite(data: bytes) -> None:
    path = FOLDER / "fuzzed.db"
    path.write_bytes(data)
    observe(os.fspath(path))


def replies(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    parse(text)
    attempted(text)
    redact(text)


if __name__ == "__main__":
    target = {"records": records, "yaml": yaml, "sqlite": sqlite, "replies": replies}[sys.argv.pop(1)]
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()
