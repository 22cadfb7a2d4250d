"""Heal a database on a copy and swap it in; undo."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from watchdog.errors import WatchdogError
from watchdog.model import as_phrase, unpacked
from watchdog.sqlite import backup, quarantine, sandbox, swap
from watchdog.sqlite.adoption import KnownRows
from watchdog.sqlite.backup import snapshot
from watchdog.sqlite.backups import SnapshotReport, known
from watchdog.sqlite.copies import give, write_json
from watchdog.sqlite.faults import Fault
from watchdog.sqlite.format import SchemaObject
from watchdog.sqlite.gate import DatabaseRepair, RepairResult
from watchdog.sqlite.grade import Deep, Verdict, drift
from watchdog.sqlite.inspect import look, observe
from watchdog.sqlite.migrate import MigrateReport, migrate
from watchdog.sqlite.notes import RepairNote, note
from watchdog.sqlite.refusals import DatabaseRefusal, Obstacle, megabytes, refused, why_of
from watchdog.sqlite.schema import Reference, is_virtual, nearest, releases
from watchdog.sqlite.strategies import AS_IT_IS
from watchdog.sqlite.swap import UndoReport, undo
from watchdog.system.files import free_bytes
from watchdog.system.privileges import as_owner, owner_of

__all__ = [
    "SET_ASIDE",
    "HealReport",
    "MigrateReport",
    "SnapshotReport",
    "TableResult",
    "UndoReport",
    "heal",
    "migrate",
    "snapshot",
    "undo",
]

SET_ASIDE = "set aside"
LACKS_HISTORY = "it began anew and lacks what its backup holds"
Progress = Callable[[str], None]


@dataclass(frozen=True)
class TableResult:
    """The rows of one table: there before, saved as they were, lost, put back or doubtful."""

    there: int
    saved: int
    lost: int  # at least
    reconstructed: int
    lost_most: int = 0
    doubtful: int = 0  # of those in the new file


@dataclass(frozen=True)
class HealReport:
    path: str
    before: Verdict
    after: Verdict
    strategy: str = ""  # '' when nothing was done
    tables: Mapping[str, TableResult] = field(default_factory=dict)
    quarantine: str = ""
    says: tuple[str, ...] = ()
    doubtful: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # rowids, as far as they are named
    contradicted: int = 0  # rows that something else in the file speaks against, without naming them
    uncounted: bool = False  # more may be missing or doubtful, and nothing tells how many
    dry_run: bool = False

    @property
    def there(self) -> int:
        """Rows that were in the damaged file, as far as they are known."""
        return sum(rows.there for rows in self.tables.values())

    @property
    def lost(self) -> int:
        return sum(rows.lost for rows in self.tables.values())

    @property
    def lost_most(self) -> int:
        return sum(max(rows.lost, rows.lost_most) for rows in self.tables.values())

    @property
    def in_doubt(self) -> int:
        """Rows in the new file that may not be what was written, and rows that may be missing from it."""
        return sum(rows.doubtful for rows in self.tables.values()) + self.contradicted

    @property
    def nothing_lost(self) -> bool:
        """Whether everything that can testify agrees with the result."""
        lost = self.lost_most or self.in_doubt or self.uncounted
        return not lost and self.strategy != SET_ASIDE

    @property
    def ok(self) -> bool:
        """Well now, or lacking no more than it did before, and nothing lost on the way."""
        if not self.strategy:
            return self.after.grade == "well"
        return self.nothing_lost and (self.dry_run or self.after.grade in ("well", "drifted"))


def heal(
    path: str | os.PathLike,
    *,
    backups: Path | None = None,
    dry_run: bool = False,
    progress: Progress | None = None,
    reference: Reference | None = None,
) -> HealReport:
    """Heal a database, or say why not. Raises WatchdogError, with the reason, when it must not be touched."""
    with _lent(path, backups) as lent, swap.alone(path) as real:
        work = swap.rehearsal_of(real) if dry_run else swap.work_of(real)
        healing = _Healing(real, work, lent, reference, progress or (lambda text: None))
        return healing.rehearse() if dry_run else healing.heal()


@contextmanager
def _lent(path: str | os.PathLike, backups: Path | None) -> Iterator[Path | None]:
    """As the owner of the database, with the newest good backup where they can read it.

    Root's own folder is closed to them.
    """
    releases()  # read while this program's own files may be read
    good = backup.newest(path, backups) if backups and owner_of(path) else None
    with ExitStack() as opened:
        source = opened.enter_context(open(good.file, "rb")) if good else None
        opened.enter_context(as_owner(path))
        if good is None or source is None:
            yield backups
            return
        beside = os.path.dirname(os.path.realpath(path))
        folder = opened.enter_context(
            tempfile.TemporaryDirectory(prefix=f".{os.path.basename(path)}.lent-", dir=beside)
        )
        copy = Path(folder, os.path.basename(good.file))
        with copy.open("wb") as target:
            shutil.copyfileobj(source, target)
        write_json(copy.with_suffix(".json"), {**asdict(good), "file": str(copy)})
        yield Path(folder)


class _Healing:
    """One repair, from the first look to the swap."""

    def __init__(
        self, path: str, work: Path, backups: Path | None, reference: Reference | None, tick: Progress
    ):
        self.path, self.work, self.backups, self.reference, self.tick = path, work, backups, reference, tick
        self.now = datetime.now(UTC)

    def rehearse(self) -> HealReport:
        """Everything but the swap, on copies."""
        if swap.journal_of(self.path).exists() or swap.work_of(self.path).exists():
            raise refused(DatabaseRefusal.UNTOUCHED, self.path, Obstacle.CUT_SHORT())
        return self._guarded(dry_run=True)

    def heal(self) -> HealReport:
        swap.clean(swap.rehearsal_of(self.path))  # of a dry run that was killed
        return self._resumed() or self._guarded(dry_run=False)

    def _resumed(self) -> HealReport | None:
        """The report of a repair that was cut short and is finished now, with what it lost."""
        finished = swap.finish(self.path)
        if finished is None:
            return None
        swap.clean(self.work)
        saved, done = finished
        after = self._look()
        before = replace(after, grade="damaged", fault=done.why)
        tables = {name: TableResult(**rows) for name, rows in done.tables.items()}
        named = sum(rows.doubtful for rows in tables.values())
        says = (note(RepairNote.REPAIR_FINISHED), *done.says)
        return HealReport(
            self.path,
            before,
            after,
            done.rung,
            tables,
            str(saved),
            says,
            contradicted=max(0, done.doubtful - named),
            uncounted=done.uncounted,
        )

    def _look(self) -> Verdict:
        before = known(self.path, self.backups)
        return look(self.path, deep=True, known=before, reference=self.reference)

    def _guarded(self, dry_run: bool) -> HealReport:
        try:
            swap.clean(self.work)
            self.tick("looking")
            before = self._look()
            if before.grade == "well" and not before.anew:
                return HealReport(
                    self.path, before, before, says=(note(RepairNote.NOTHING_TO_HEAL),), dry_run=dry_run
                )
            self._refuse(before, dry_run)
            return self._heal(before, dry_run)
        except (OSError, sqlite3.Error) as error:
            raise refused(DatabaseRefusal.UNTOUCHED, self.path, why_of(error, self.path)) from error
        finally:
            swap.clean(self.work)

    def _refuse(self, before: Verdict, dry_run: bool) -> None:
        """Everything that speaks against touching the file."""
        if before.grade == "unknown":
            raise refused(DatabaseRefusal.NOT_CHANGED, self.path, before.fault)
        swap.refuse_if_open(self.path, None if dry_run else self.now)
        folder = os.path.dirname(self.path)
        if not os.access(folder, os.W_OK) or os.statvfs(folder).f_flag & os.ST_RDONLY:
            raise refused(DatabaseRefusal.UNTOUCHED, self.path, Obstacle.FOLDER_CLOSED())
        size = sum(
            os.path.getsize(self.path + part) for part in quarantine.PARTS if os.path.exists(self.path + part)
        )
        free, need = free_bytes(folder) or 0, 4 * size + (1 << 20)
        if free < need:
            fields = {"need": megabytes(need), "free": megabytes(free), "missing": megabytes(need - free)}
            raise refused(DatabaseRefusal.UNTOUCHED, self.path, Obstacle.NO_ROOM(**fields))

    def _heal(self, before: Verdict, dry_run: bool) -> HealReport:
        seen = observe(self.path)
        lacks_history = before.anew and before.grade in ("well", "drifted")
        self.work.mkdir(mode=0o700)
        self.tick("copying to quarantine")
        if dry_run:
            saved = self.work / "original"
            saved.mkdir()
            unreadable = sum(copy.unreadable for copy in quarantine.copy_parts(self.path, saved).values())
        else:
            saved = quarantine.save(
                self.path, self.now, before.fault or (LACKS_HISTORY if lacks_history else "")
            )
            manifest = quarantine.read_manifest(saved)
            unreadable = manifest.unreadable if manifest else 0
        job = self._job(before, seen.schema, saved)
        job = replace(job, stale_wal=bool(seen.stale_wal), unreadable=unreadable)
        try:
            answer = sandbox.run(
                "watchdog.sqlite.from_backup:repair" if lacks_history else "watchdog.sqlite.choose:repair",
                job,
                sandbox.limits_for(seen.size + seen.wal_size),
                self.tick,
            )
        except WatchdogError as error:
            raise refused(DatabaseRefusal.UNTOUCHED, self.path, str(error)) from None
        result = RepairResult(**answer)
        report = self._reported(before, result, dry_run)
        if _only_to_report(before, result):
            only_columns = before.grade == "drifted"
            altered = any(reason.key == Fault.CONTENT for reason in before.faults)
            why = note(
                RepairNote.ONLY_COLUMNS
                if only_columns
                else RepairNote.ALTERED_STAY
                if altered
                else RepairNote.ORPHANS_STAY
            )
            return HealReport(self.path, before, before, says=(why, *_said(result.tried)), dry_run=dry_run)
        if lacks_history and not result.strategy:
            return HealReport(self.path, before, before, says=_said(result.tried), dry_run=dry_run)
        if not result.strategy:
            return self._nothing_found(report, saved, seen.size, result)
        if dry_run:
            return report
        return self._swap(report, result, saved)

    def _job(self, before: Verdict, schema: tuple[SchemaObject, ...], saved: Path) -> DatabaseRepair:
        good = backup.newest(self.path, self.backups)
        known = KnownRows(
            good.file if good else "",
            dict(good.rows) if good else {},
            frozenset(table for table in observe(self.path).empty if good and good.rows.get(table)),
        )
        objects = [(entry.type, entry.name, entry.sql) for entry in schema]
        extra = _extra(self.reference or nearest(before.kind, objects), before, schema)
        original = saved / os.path.basename(self.path)
        if not original.exists():  # only a -wal is left of it: its pages are better than nothing
            only = self.work / "only-wal.db"
            only.touch()
            for part in quarantine.PARTS[1:]:
                if os.path.exists(f"{original}{part}"):
                    shutil.copyfile(f"{original}{part}", f"{only}{part}")
            original = only
        return DatabaseRepair(str(original), str(self.work), before.kind, self.reference, known, extra=extra)

    def _reported(self, before: Verdict, result: RepairResult, dry_run: bool) -> HealReport:
        says = (*_said(result.tried), *_said(result.says))
        return HealReport(
            self.path,
            before,
            before,
            result.strategy or SET_ASIDE,
            {name: TableResult(**rows) for name, rows in result.tables.items()},
            says=says,
            doubtful={name: tuple(rowids) for name, rowids in result.doubtful.items()},
            contradicted=result.contradicted,
            uncounted=result.uncounted,
            dry_run=dry_run,
        )

    def _swap(self, report: HealReport, result: RepairResult, saved: Path) -> HealReport:
        says = [*report.says, *_keep(result.side, saved, self.path)]
        manifest = quarantine.read_manifest(saved)
        if manifest is None:
            raise refused(DatabaseRefusal.UNTOUCHED, self.path, Obstacle.NO_QUARANTINE(folder=str(saved)))
        if manifest.healed and not manifest.undone:
            says.append(note(RepairNote.HEALED_BEFORE, at=manifest.at))
        done = replace(
            manifest,
            why=report.before.fault,
            rung=report.strategy,
            undone="",
            tables={name: asdict(rows) for name, rows in report.tables.items()},
            says=tuple(says),
            doubtful=report.in_doubt,
            uncounted=report.uncounted,
        )
        self.tick("swapping")
        if not swap.put_in_place(self.path, result.file, saved, done):
            raise refused(DatabaseRefusal.WRITTEN, self.path)
        swap.clean(self.work)
        # the gate has checked these very bytes: their hash was taken before the swap
        checked = Deep(orphans=result.orphans, sqlite=sqlite3.sqlite_version)
        after = look(self.path, deep=lambda path: checked, reference=self.reference)
        return replace(report, after=after, quarantine=str(saved), says=tuple(says))

    def _nothing_found(self, report: HealReport, saved: Path, size: int, result: RepairResult) -> HealReport:
        """Nothing readable and no backup: an empty name lets Hermes start, the bytes stay in quarantine."""
        before, said = report.before, _said(result.tried)
        if not size or not os.path.exists(self.path):
            says = (*said, note(RepairNote.NOTHING_THERE))
            return HealReport(self.path, before, before, says=says, dry_run=report.dry_run)
        if report.dry_run:
            return report
        says = (*said, *_keep(result.side, saved, self.path))
        swap.set_aside(self.path)
        after = replace(before, grade="unknown", fault=note(RepairNote.EMPTY_START), detail=(), faults=())
        loud = note(RepairNote.SET_ASIDE, path=str(saved))
        return HealReport(self.path, before, after, SET_ASIDE, {}, str(saved), (*says, loud))


def _said(packed: Sequence[Any]) -> tuple[str, ...]:
    """What a child said."""
    return tuple(map(as_phrase, unpacked(list(packed))))


def _only_to_report(before: Verdict, result: RepairResult) -> bool:
    """Orphans are rows too, and altered content without a second copy stays what it is: reported, not touched."""
    if before.only(Fault.DRIFT):
        return result.strategy in ("", AS_IT_IS)
    if before.only(Fault.ORPHANS, Fault.DRIFT):
        return True
    return before.only(Fault.CONTENT, Fault.ORPHANS, Fault.DRIFT) and not result.corrected


def _extra(
    reference: Reference | None, before: Verdict, schema: tuple[SchemaObject, ...]
) -> tuple[SchemaObject, ...]:
    """Indexes, triggers and full-text tables the file has lost, if its tables have all columns these need."""
    if reference is None or not schema or any(reason.key == Fault.NEWER for reason in before.faults):
        return ()
    short = {table.lower() for table, _, _ in before.missing}
    have = {entry.name.lower() for entry in schema if entry.type == "table"}
    return tuple(
        item
        for item in drift(reference, before.kind, schema).objects
        if (item.type in ("index", "trigger") and item.table.lower() in have - short)
        or (item.type == "table" and is_virtual(item.sql))
    )


def _keep(side: str, saved: Path, path: str) -> list[str]:
    """What has no place in the tables goes to quarantine, beside the original."""
    if not side or not os.path.exists(side):
        return []
    kept = saved / "salvaged.db"
    shutil.copyfile(side, kept)
    give(kept, quarantine.owner_of(path), 0o600)
    return [note(RepairNote.KEPT_ASIDE, path=str(kept))]
