"""Logs as newer releases would write them: every sample gives the same verdicts, and unknown tails spoil nothing."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from homes import SAMPLES

from watchdog.config.rules import load_lines, shipped_folder
from watchdog.service.line_report import Known, line_report
from watchdog.service.samples import Case, find_cases, run_case

INBOUND = re.compile(
    r"(?m)^(2\S+ \S+ INFO gateway\.run: inbound message: platform=(\S+) user=(\w+) chat=(\S+) msg='[^'\n]*'[^'\n]*(?:'')?)$"
)
READY = re.compile(r"(?m)(response ready: platform=(\S+) chat=(\S+)) time=")
RECORD = re.compile(r"(?m)^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+(?: \[[^\]\n]*\])? [\w.-]+: .*)$")
TURN = re.compile(r"(?m)^(2\S+ \S+ INFO .*conversation turn: session=\S+ .*history=\d+ msg='[^'\n]*')$")
# What a forged name does to a line must stay as it is.
FORGED = ("forge", "quote")
CASES = [case for case in find_cases(SAMPLES) if not any(word in case.name for word in FORGED)]


def newer(text: str) -> str:
    """`queued=` after a message, `session=` in an answer where one person speaks in the chat."""
    users: dict[tuple[str, str], set[str]] = {}
    for found in INBOUND.finditer(text):
        users.setdefault((found[2], found[4]), set()).add(found[3])

    def ready(found: re.Match[str]) -> str:
        alone = len(users.get((found[2], found[3]), ())) < 2
        session = f" session=agent:main:{found[2]}:dm:{found[3]}" if alone else ""
        return f"{found[1]}{session} time="

    return READY.sub(ready, INBOUND.sub(r"\1 queued=False", text))


def unknown(text: str) -> str:
    return TURN.sub(r"\1 mood=calm", INBOUND.sub(r"\1 lane=fast mood='so la la'", text))


def tail_everywhere(text: str) -> str:
    """Every record ends in words that no release has written so far."""
    return RECORD.sub(r"\1 trace_id=0af7651916cd43dd lane=fast", text)


def rewritten(case: Case, folder: Path, change) -> Case | None:
    """The case with its logs changed; None when nothing in them changes."""
    shutil.copytree(case.folder, folder)
    changed = False
    for name in ("gateway.log", "agent.log"):
        if (folder / name).exists():
            before = (folder / name).read_bytes()
            after = change(before.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
            (folder / name).write_bytes(after)
            changed = changed or after != before
    expect = tuple(replace(expected, says=None) for expected in case.expect)  # a sentence may quote the tail
    return replace(case, folder=folder, expect=expect) if changed else None


@pytest.mark.parametrize(
    "change", [newer, unknown, tail_everywhere], ids=["newer", "unknown-tail", "unknown-tail-everywhere"]
)
def test_every_sample_gives_the_same_verdicts_in_a_newer_shape(change, book, tmp_path):
    rewrote = 0
    for number, case in enumerate(CASES):
        if (other := rewritten(case, tmp_path / str(number), change)) is not None:
            rewrote += 1
            assert run_case(book, other).wrong == (), f"{case.rule}/{case.name}"
    assert rewrote > 50


def test_rules_lines_tells_known_lines_new_tails_and_unknown_ones(tmp_path):
    log = tmp_path / "gateway.log"
    start = "2026-05-19 10:15:00,123 INFO gateway.run: "
    log.write_text(
        f"{start}inbound message: platform=telegram user=Ann chat=42 msg='a secret=1 thing' lane=fast\n"
        f"{start}inbound message: platform=telegram user=Ann chat=43 msg='hi'\n"
        f"{start}response ready: somewhere else\n"
        f"{start}Something new 17 happened\n{start}Something new 18 happened\nTraceback\n"
    )
    found, without = line_report(log, *load_lines(shipped_folder()))
    told = {(count.known, count.shape, count.detail): count.times for count in found}
    assert told == {
        (Known.TAIL, "inbound/asked", "lane"): 1,
        (Known.KNOWN, "inbound/asked", ""): 1,
        (Known.TAIL, "response ready: somewhere else", ""): 1,
        (Known.UNKNOWN, "Something new N happened", ""): 2,
    }
    assert without == 1
