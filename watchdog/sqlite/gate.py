"""What a repair has to work with, the healed copies that it makes, and the gate that each must pass."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from watchdog.sqlite import checks, full_text
from watchdog.sqlite.adoption import KnownRows
from watchdog.sqlite.format import SchemaObject
from watchdog.sqlite.notes import RepairNote, WitnessKind, note
from watchdog.sqlite.readonly import connect
from watchdog.sqlite.rebuilt import Tally
from watchdog.sqlite.schema import (
    Reference,
)
from watchdog.sqlite.survey import Survey
from watchdog.sqlite.witnesses import Disagreement, testify

Tick = Callable[[str], None]


@dataclass(frozen=True)
class DatabaseRepair:
    """What a repair has to work with."""

    original: str  # a private copy, its sidecars beside it
    work: str  # a folder for candidates
    kind: str
    reference: Reference | None = None
    known: KnownRows = field(default_factory=KnownRows)
    stale_wal: bool = False
    extra: tuple[SchemaObject, ...] = ()  # what the schema has lost and the reference has
    unreadable: int = 0  # bytes that the disk did not give


@dataclass(frozen=True)
class RepairResult:
    """What a repair made, as the child tells it."""

    strategy: str = ""  # '' when nothing passed the gate
    file: str = ""
    tables: dict[str, dict[str, int]] = field(default_factory=dict)
    doubtful: dict[str, list[int]] = field(default_factory=dict)
    contradicted: int = 0
    says: Sequence[Any] = ()  # packed phrases
    tried: Sequence[Any] = ()  # packed phrases
    side: str = ""  # a file with what has no place in the tables
    corrected: int = 0
    uncounted: bool = False
    orphans: int = 0  # rows in the new file that refer to a row that does not exist


def counts(
    tallies: Mapping[str, Tally], doubtful: Mapping[str, Mapping[int, str]]
) -> dict[str, dict[str, int]]:
    """The counts of each table: see heal.TableResult."""
    return {
        name: {
            "there": tally.there,
            "saved": tally.saved,
            "lost": tally.lost,
            "reconstructed": tally.reconstructed,
            "lost_most": max(tally.lost, tally.lost_most),
            "doubtful": len(doubtful.get(name, ())),
        }
        for name, tally in tallies.items()
    }


@dataclass(frozen=True)
class Candidate:
    """A healed copy, before or after the gate."""

    strategy: str
    file: str
    tallies: Mapping[str, Tally] = field(default_factory=dict)
    doubtful: Mapping[str, Mapping[int, str]] = field(default_factory=dict)  # rows in doubt, with the reason
    disagreements: tuple[Disagreement, ...] = ()
    says: tuple[str, ...] = ()
    salvage: str = ""  # a side file with what has no place in the tables
    refused: tuple[str, ...] = ()
    corrected: int = 0  # rows whose content came from another copy

    @property
    def harm(self) -> int:
        """Rows that are lost, in doubt or contradicted: 0 when everything that can testify agrees."""
        return (
            sum(max(tally.lost, tally.lost_most) for tally in self.tallies.values())
            + sum(len(rows) for rows in self.doubtful.values())
            + sum(max(1, disagreement.rows) for disagreement in self.disagreements)
        )

    @property
    def lost(self) -> int:
        return sum(max(tally.lost, tally.lost_most) for tally in self.tallies.values())

    @property
    def missing(self) -> int:
        """Rows that were found and are not in the new file, though they may have been deleted."""
        return sum(item.rows for item in self.disagreements if item.witness is WitnessKind.STRAY_PAGES)

    def better_than(self, other: Candidate) -> bool:
        """A row in doubt is better than a lost one; and of lost rows the page scan keeps what is known."""
        mine, theirs = (self.lost + self.missing, self.harm), (other.lost + other.missing, other.harm)
        return mine < theirs or (mine == theirs and bool(self.lost and self.salvage))


def judged(candidate: Candidate, job: DatabaseRepair, survey: Survey | None, rebuilt: bool) -> Candidate:
    """The candidate with what the witnesses say of it."""
    if survey is None:
        return candidate
    testimony = testify(survey, candidate.file, rebuilt, job.known.rows or {})
    tallies = {name: replace(tally) for name, tally in candidate.tallies.items()}
    for table in testimony.exact.keys() & tallies.keys():
        tallies[table].lost = tallies[table].lost_most = testimony.exact[table]
    for table, tally in tallies.items():
        if table in testimony.exact:
            continue
        named: Mapping[int, int] = testimony.lost.get(table, {})
        # where the table misses nothing, an index that alone names more rows may be the one that is old
        sure = sum(number > 1 or survey.may_miss(table, rowid) for rowid, number in named.items())
        counted = candidate.salvage and tally.lost_most  # the page scan has heard the same witnesses
        least, most = testimony.lost_more.get(table, (0 if counted else sure, len(named)))
        tally.lost, tally.lost_most = max(tally.lost, least), max(tally.lost, most, tally.lost_most)
    doubtful = {table: dict(rows) for table, rows in candidate.doubtful.items()}
    for table, rows in testimony.doubtful.items():
        for rowid, why in rows.items():
            if rowid not in doubtful.setdefault(table, {}):
                doubtful[table][rowid] = why
                tallies[table].saved -= 1
                tallies[table].reconstructed += 1
    disagreements = [
        disagreement
        for disagreement in testimony.disagreements
        if disagreement.witness not in (WitnessKind.BACKUP, WitnessKind.SEQUENCE, WitnessKind.FOREIGN_KEYS)
        or not tallies.get(disagreement.table, Tally()).lost_most
    ]
    for item in disagreements:
        if item.witness is WitnessKind.STRAY_PAGES and item.table in tallies:
            tally = tallies[item.table]
            tally.lost_most = max(tally.lost_most, tally.lost + item.rows)
    if job.unreadable:
        disagreements.append(Disagreement(WitnessKind.SECTORS, "", job.unreadable))
    return replace(
        candidate,
        tallies=tallies,
        doubtful={table: rows for table, rows in doubtful.items() if rows},
        disagreements=tuple(disagreements),
    )


def why_not(
    candidate: str, wanted: Sequence[SchemaObject], at_least: Mapping[str, int], proved: bool = False
) -> list[str]:
    """The reasons why a candidate may not pass; [] when it may.

    `proved`: its structure and full text were checked when it was built.
    """
    db = connect(candidate, "mode=rw")
    try:
        faults = [] if proved else list(checks.integrity(db)[:3])
        if faults:
            return faults
        if not proved:
            faults += full_text.fts_counts(db)
            faults += full_text.fts_content(db)
        have = {(kind, name.lower()) for kind, name in checks.schema(db)}
        faults += [
            note(RepairNote.IS_MISSING, type=entry.type, name=entry.name)
            for entry in wanted
            if entry.sql
            and (entry.type, entry.name.lower()) not in have
            and not entry.name.startswith("sqlite_stat")
        ]
        rows = checks.counts(db)
        faults += [
            note(RepairNote.FEWER_ROWS, table=table, rows=rows.get(table, 0), least=least)
            for table, least in at_least.items()
            if rows.get(table, 0) < least
        ]
    except sqlite3.Error as error:
        return [str(error)]
    finally:
        db.close()
    return faults


def all_saved(file: str) -> dict[str, Tally]:
    db = connect(file, "mode=ro&immutable=1")
    try:
        return {table: Tally(saved=rows) for table, rows in checks.counts(db).items()}
    finally:
        db.close()


def percent(tick: Tick, text: str) -> Callable[[int], None]:
    """Count pages into a line that moves."""
    done = 0

    def count(pages: int) -> None:
        nonlocal done
        done += pages
        if done % 4096 == 0:
            tick(f"{text}: {done} pages")

    return count
