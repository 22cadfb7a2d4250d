"""Cases: folders of files as a gateway would have left them, and what the rules must say of them.

samples/logs/<rule>/fires-<what-happened>/   gateway.log  agent.log  journal.jsonl  kanban.sql  case.yaml
samples/logs/<rule>/quiet-<what-happened>/
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from watchdog.config.lines import LineSample
from watchdog.config.rulebook import Rulebook, Vocabulary
from watchdog.config.rules import read_file
from watchdog.config.settings import zone_of
from watchdog.errors import ConfigError, Problem
from watchdog.model import Finding
from watchdog.pipeline import look
from watchdog.sources.read import Sources, read_line


@dataclass(frozen=True)
class Expected:
    rule: str
    key: str | None
    says: str | None
    line: int


@dataclass(frozen=True)
class Case:
    rule: str
    name: str
    folder: Path
    now: datetime
    gateway: str
    zone: tzinfo | None
    expect: tuple[Expected, ...]

    @property
    def fires(self) -> bool:
        return self.name.startswith("fires-")


@dataclass(frozen=True)
class Result:
    case: Case
    wrong: tuple[str, ...]  # empty: as expected
    found: tuple[Finding, ...] = ()  # all that is open at that time


def find_cases(folder: Path, only: frozenset[str] = frozenset()) -> list[Case]:
    """All cases below a samples/logs folder; ConfigError with every mistake in a case.yaml."""
    problems: list[Problem] = []
    cases = []
    for path in sorted(folder.glob("*/*/case.yaml")):
        rule = path.parent.parent.name
        if only and rule not in only:
            continue
        case = _read(path, rule, problems)
        if case is not None:
            cases.append(case)
    if problems:
        raise ConfigError(problems)
    return cases


def _read(path: Path, rule: str, problems: list[Problem]) -> Case | None:
    sections = read_file(path, problems)
    if not sections:
        return None
    section = sections[0]
    before = len(problems)
    name = path.parent.name
    if not name.startswith(("fires-", "quiet-")):
        problems.append(Problem(str(path), 0, f"the folder {name} must begin with fires- or quiet-"))
    zone: tzinfo | None = UTC
    try:
        zone = zone_of(section.text("zone", "UTC"))
    except ValueError as error:
        section.wrong_at("zone", str(error))
    now = datetime.now(UTC)
    try:
        now = datetime.fromisoformat(section.text("now")).replace(tzinfo=zone)
        now = (now.astimezone() if zone is None else now).astimezone(UTC)
    except ValueError as error:
        section.wrong_at("now", f"{error}; write 2026-05-19 10:41:00")
    gateway = section.choice("gateway", ("running", "dead", "unknown"), "running")
    expect = []
    for part in section.sections("expect", ()):
        expect.append(
            Expected(part.text("rule", rule), part.text("key", None), part.text("says", None), part.line)
        )
        part.done()
    section.text("about", "")
    section.done()
    if name.startswith("fires-") and not expect:
        section.wrong("a fires- case needs 'expect:' with at least one key")
    return (
        Case(rule, name, path.parent, now, gateway, zone, tuple(expect)) if len(problems) == before else None
    )


def check_line(vocabulary: Vocabulary, sample: LineSample) -> list[Problem]:
    """What is wrong with the reading of one sample of rules/lines/; nothing when it is read as it says."""
    event, _ = read_line(sample.line, UTC, vocabulary)
    found = vocabulary.read(f"{event.text}\n{event.more}" if event.more else event.text)
    expected = sample.word, sample.variant, sample.cause
    wrong = [
        f"read as {meaning}, expected {sample.word}/{sample.variant} {sample.cause}".rstrip()
        for meaning in found
        if (meaning.word, meaning.variant, meaning.cause) != expected
    ]
    if event.ambiguous:
        wrong = [f"not believed: {event.ambiguous}"]
    elif not found:
        wrong = ["no word fits this line"]
    elif not wrong:
        captures = found[0].captures
        wrong = [
            f"{name} is '{captures.get(name)}', expected '{value}'"
            for name, value in sample.captures.items()
            if captures.get(name) != value
        ]
    return [Problem(sample.path, sample.number, says) for says in wrong]


def run_case(book: Rulebook, case: Case) -> Result:
    """Evaluate every rule on the case at its `now` and compare all that is open then."""
    with as_home(case.folder) as home:
        seen, _ = look(
            book.rules,
            Sources(home, zone=case.zone, stated=case.gateway, vocabulary=book.vocabulary),
            None,
            case.now,
        )
    still = tuple(finding for finding in seen.findings if finding.ended_at is None)
    found = list(still)
    wrong = []
    for expected in case.expect:
        match = next((other for other in found if _fits(other, expected)), None)
        if match is None:
            near = [
                f"{other.rule} {other.key}: {other.says}" for other in found if other.rule == expected.rule
            ]
            wrong.append(
                f"{case.folder}/case.yaml:{expected.line}: expected {expected.rule} {expected.key or ''} {expected.says or ''}".rstrip()
                + (f"; found {'; '.join(near)}" if near else "; found nothing of this rule")
            )
        else:
            found.remove(match)
    wrong += [f"{case.folder}: not expected: {other.rule} {other.key}: {other.says}" for other in found]
    blind = [
        f"{case.folder}: {rule} was not checked: {why}"
        for rule, why in seen.not_checked.items()
        # A quiet case of `gateway: unknown` is about just that: what cannot be told must not fire.
        if rule == case.rule and (case.fires or case.gateway != "unknown")
    ]
    return Result(case, tuple(wrong + blind), still)


def _fits(finding: Finding, expected: Expected) -> bool:
    return (
        finding.rule == expected.rule
        and expected.key in (None, finding.key)
        and expected.says in (None, finding.says)
    )


@contextmanager
def as_home(folder: Path) -> Iterator[Path]:
    """The folder itself; or, when a database is written as a .sql script, a copy with the database made."""
    scripts = sorted(folder.glob("*.sql"))
    if not scripts:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="hermes-watchdog-case-") as temporary:
        home = Path(temporary)
        for path in folder.iterdir():
            if path.is_dir():
                shutil.copytree(path, home / path.name)
            elif path.suffix != ".sql":
                shutil.copy2(path, home)
        for script in scripts:
            db = sqlite3.connect(home / f"{script.stem}.db")
            db.executescript(script.read_text("utf-8"))
            db.close()
        yield home
