"""Heal a database on a copy and swap it in; undo; and the one door to backups and migrations."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from watchdog.errors import WatchdogError
from watchdog.hands import as_owner, owner_of
from watchdog.sqlite import backup, checks, swap
from watchdog.sqlite.backup import SnapshotReport, snapshot
from watchdog.sqlite.grade import Verdict, drift
from watchdog.sqlite.ladder import AS_IT_IS, Candidate, climb
from watchdog.sqlite.look import look, observe
from watchdog.sqlite.migrate import MigrateReport, migrate
from watchdog.sqlite.raw import Entry
from watchdog.sqlite.reference import Reference, nearest, releases
from watchdog.sqlite.rungs import Case

__all__ = ["HealReport", "MigrateReport", "Rows", "SnapshotReport", "UndoReport", "heal", "migrate", "snapshot", "undo"]


@dataclass(frozen=True)
class Rows:
    """The rows of one table: there before, saved as they were, lost, put back or doubtful."""

    there: int
    saved: int
    lost: int
    reconstructed: int


@dataclass(frozen=True)
class HealReport:
    path: str
    before: Verdict
    after: Verdict
    rung: str = ""                                      # '' when nothing was done
    tables: Mapping[str, Rows] = field(default_factory=dict)
    quarantine: str = ""
    says: tuple[str, ...] = ()

    @property
    def lost(self) -> int:
        return sum(rows.lost for rows in self.tables.values())

    @property
    def ok(self) -> bool:
        """Well now, or lacking no more than it did before, and nothing lost on the way."""
        good = self.after.grade == "well" or (self.after.grade == "drifted" and self.rung)
        return bool(good) and not self.lost and self.rung != SET_ASIDE


@dataclass(frozen=True)
class UndoReport:
    path: str
    ok: bool
    says: tuple[str, ...]
    quarantine: str = ""        # where the file that was healed went


SET_ASIDE = "set aside"


def heal(path: str | os.PathLike, *, backups: Path | None = None, dry_run: bool = False,
         progress: Callable[[str], None] | None = None, reference: Reference | None = None,
         now: datetime | None = None) -> HealReport:
    """Heal a database, or say why not. Raises WatchdogError, with the reason, when it must not be touched."""
    now, tick = now or datetime.now(UTC), progress or (lambda text: None)
    with _lent(path, backups) as backups:
        path = os.path.realpath(path)
        return _heal_alone(path, backups, dry_run, tick, reference, now)


@contextmanager
def _lent(path: str | os.PathLike, backups: Path | None) -> Iterator[Path | None]:
    """As the owner of the database, with the newest good backup where they can read it: root's own folder is closed to them."""
    import subprocess  # noqa: F401  before we are someone who may not read this program's own files

    from watchdog.sqlite import deep  # noqa: F401
    releases()
    good = backup.newest(path, backups) if backups and owner_of(path) else None
    with ExitStack() as opened:
        source = opened.enter_context(open(good.file, "rb")) if good else None
        opened.enter_context(as_owner(path))
        if good is None or source is None:
            yield backups
            return
        beside = os.path.dirname(os.path.realpath(path))
        folder = opened.enter_context(tempfile.TemporaryDirectory(prefix=f".{os.path.basename(path)}.lent-", dir=beside))
        copy = Path(folder, os.path.basename(good.file))
        with copy.open("wb") as target:
            shutil.copyfileobj(source, target)
        backup.write_json(copy.with_suffix(".json"), {**asdict(good), "file": str(copy)})
        yield Path(folder)


def _heal_alone(path: str, backups: Path | None, dry_run: bool, tick: Callable[[str], None],
                reference: Reference | None, now: datetime) -> HealReport:
    with swap.alone(path):
        resumed = not dry_run and swap.finish(path)
        tick("looking")
        before = look(path, deep=True, known=backup.known(path, backups), reference=reference)
        if resumed or before.grade == "well":
            swap.clean(path)
            says = ("a repair that was cut short is finished now",) if resumed else ("nothing to heal",)
            return HealReport(path, before, before, says=says)
        _refuse(path, before, now if not dry_run else None)
        try:
            return _heal(path, before, backups, dry_run, tick, reference, now)
        except OSError as error:
            raise WatchdogError(f"{path}: {error.strerror or error}; the file is untouched, free space or fix the "
                                "permission and run it again") from error
        except sqlite3.Error as error:
            raise WatchdogError(f"{path}: {error}; the file is untouched") from error
        finally:
            swap.clean(path)


def _refuse(path: str, before: Verdict, now: datetime | None) -> None:
    """Everything that speaks against touching the file."""
    if before.grade == "unknown":
        raise WatchdogError(f"{path}: {before.fault}; nothing to heal, the file is untouched")
    swap.refuse_if_open(path, now)
    size = sum(os.path.getsize(path + part) for part in swap.PARTS if os.path.exists(path + part))
    free, need = checks.free_space(os.path.dirname(path)), 3 * size + (1 << 20)
    if free < need:
        raise WatchdogError(f"{path}: no room to heal: it needs {need >> 10} KB beside the file, there are "
                            f"{free >> 10} KB; the file is untouched")


def _heal(path: str, before: Verdict, backups: Path | None, dry_run: bool, tick: Callable[[str], None],
          reference: Reference | None, now: datetime) -> HealReport:
    good = backup.newest(path, backups)
    seen = observe(path)
    work = swap.work_of(path)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(mode=0o700)
    tick("copying to quarantine")
    saved = work / "original" if dry_run else swap.save(path, now, before.fault)
    if dry_run:
        saved.mkdir()
        for part in swap.PARTS:
            if os.path.exists(path + part):
                shutil.copyfile(path + part, saved / (os.path.basename(path) + part))
    ref = reference or nearest(before.kind, [(entry.type, entry.name, entry.sql) for entry in seen.schema])
    emptied = frozenset(table for table in seen.empty if good and good.rows.get(table))
    case = Case(str(saved / os.path.basename(path)), work, before.kind, reference,
                good.file if good else "", bool(seen.stale_wal), emptied, good.rows if good else {},
                _extra(ref, before, seen.schema), tick)
    if not os.path.exists(case.original):       # only a -wal is left of it: its pages are better than nothing
        case = replace(case, original=str(work / "only-wal.db"))
        Path(case.original).touch()
        for part in swap.PARTS[1:]:
            if os.path.exists(saved / (os.path.basename(path) + part)):
                shutil.copyfile(saved / (os.path.basename(path) + part), case.original + part)
    chosen, tried, side = _choose(case, seen.size + seen.wal_size)
    if _only_to_report(before, chosen):
        why = "only columns are missing: db migrate adds them" if before.grade == "drifted" else (
            "nothing here can be healed without deleting rows")
        return HealReport(path, before, before, says=(why, *tried))
    if dry_run:
        rung = chosen.rung if chosen else SET_ASIDE
        return HealReport(path, before, before, rung, _rows(chosen), says=(*tried, *(chosen.says if chosen else ()),
                                                                          "dry run: the file is untouched"))
    if chosen is None:
        return _last_rung(path, before, saved, seen.size, (*tried, *_keep(side, saved, path)))
    says = [*tried, *chosen.says, *_keep(side, saved, path)]
    manifest = swap.read_manifest(saved)
    if manifest and manifest.healed and not manifest.undone:
        says.append(f"these very bytes were healed before ({manifest.at}): something writes them again; find out what")
    tables = _rows(chosen)
    healed = backup.sha256(chosen.file)
    if manifest:
        swap.write_manifest(saved, replace(manifest, why=before.fault, rung=chosen.rung, healed=healed, undone="",
                                           tables={name: asdict(rows) for name, rows in tables.items()},
                                           says=tuple(says)))
    swap.step("manifest")
    tick("swapping")
    swap.put_in_place(path, chosen.file, saved)
    after = look(path, deep=True, known=None, reference=reference)
    return HealReport(path, before, after, chosen.rung, tables, str(saved), tuple(says))


def _keep(side: str, saved: Path, path: str) -> list[str]:
    """What has no place in the tables goes to quarantine, beside the original."""
    if not side or not os.path.exists(side) or not _worth(side):
        return []
    kept = saved / "salvaged.db"
    shutil.copyfile(side, kept)
    backup.give(kept, swap.owner_of(path), 0o600)
    return [f"texts and keys of rows that are lost, and what could not go back into its table, are kept in {kept}"]


def _choose(case: Case, size: int) -> tuple[Candidate | None, tuple[str, ...], str]:
    """The first candidate that passed the gate, why the ones before did not, and the side file of the scan."""
    tried: list[str] = []
    side = ""
    for candidate in climb(case):
        if not size and not candidate.rung.startswith("restored"):
            continue        # SQLite calls an empty file well
        side = candidate.salvage or side
        if not candidate.refused:
            return candidate, tuple(tried), side
        tried.append(f"{candidate.rung}: refused at the gate: {candidate.refused[0]}")
    return None, tuple(tried), side


def _last_rung(path: str, before: Verdict, saved: Path, size: int, tried: tuple[str, ...]) -> HealReport:
    """Nothing readable and no backup: an empty name lets Hermes start, the bytes stay in quarantine."""
    if not size or not os.path.exists(path):
        return HealReport(path, before, before, quarantine=str(saved), says=(
            *tried, "there is nothing in the file and no backup of it: nothing was done"))
    swap.set_aside(path)
    after = Verdict(path, "unknown", "set aside; Hermes will start with an EMPTY database", sqlite=before.sqlite,
                    kind=before.kind)
    return HealReport(path, before, after, SET_ASIDE, {}, str(saved), (
        *tried, f"NOTHING COULD BE READ and there is no backup: the file was set aside to {saved}. Hermes will start "
        "empty. Keep the quarantine; db undo puts the file back"))


def _only_to_report(before: Verdict, chosen: Candidate | None) -> bool:
    """Orphans are rows too, and altered content without a second copy stays what it is: reported, not touched."""
    if chosen is None:
        return "foreign keys" in before.fault or before.grade == "drifted"
    if before.grade == "drifted" and chosen.rung == AS_IT_IS:
        return True
    altered = before.fault.startswith("the content of ") and not any(
        text.startswith(("integrity_check", "the full-text index", "lacks")) for text in before.detail)
    return (altered and not chosen.mended) or "foreign keys" in before.fault


def _extra(reference: Reference | None, before: Verdict, schema: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Indexes, triggers and full-text tables the file has lost, if its tables have all columns that these need."""
    if reference is None or not schema:
        return ()
    short = {table.lower() for table, _, _ in before.missing}
    have = {entry.name.lower() for entry in schema if entry.type == "table"}
    return tuple(Entry(thing.type, thing.name, thing.table, 0, thing.sql)
                 for thing in drift(reference, before.kind, schema).things
                 if (thing.type in ("index", "trigger") and thing.table.lower() in have - short)
                 or (thing.type == "table" and "VIRTUAL" in thing.sql[:20].upper()))


def _rows(candidate: Candidate | None) -> dict[str, Rows]:
    if candidate is None:
        return {}
    return {name: Rows(tally.there, tally.saved, tally.lost, tally.reconstructed)
            for name, tally in candidate.tallies.items()}


def _worth(salvage: str) -> bool:
    db = sqlite3.connect(salvage)
    try:
        return db.execute("SELECT 1 FROM salvaged LIMIT 1").fetchone() is not None
    finally:
        db.close()


def undo(path: str | os.PathLike, *, now: datetime | None = None) -> UndoReport:
    """Put back what the last heal replaced; what is there now goes to quarantine first."""
    with as_owner(path):
        return _undo(os.path.realpath(path), now or datetime.now(UTC))


def _undo(path: str, now: datetime) -> UndoReport:
    with swap.alone(path):
        swap.finish(path)
        folders = sorted(swap.quarantine_of(path).glob("*/manifest.json"), reverse=True)
        manifests = [(one.parent, manifest) for one in folders if (manifest := swap.read_manifest(one.parent))]
        healed = [(folder, manifest) for folder, manifest in manifests
                  if not manifest.undone and (manifest.healed or not os.path.exists(path))]
        if not healed:
            return UndoReport(path, False, (f"no heal of {path} to undo",))
        folder, manifest = healed[0]
        name = os.path.basename(path)
        if swap.hashes_of(str(folder / name)) != manifest.hashes:
            raise WatchdogError(f"{folder}: the quarantined files are not what the manifest says; nothing was done")
        swap.refuse_if_open(path)
        kept = ""
        if os.path.exists(path):
            kept = str(swap.save(path, now, "replaced by undo"))
        for part in swap.PARTS:         # copies first: the swap itself is renames alone
            if part in manifest.hashes:
                shutil.copy2(folder / (name + part), _beside(path, part))
                backup.give(_beside(path, part), os.stat(folder / (name + part)))
                backup.fsync(_beside(path, part))
        swap.step("undo copied")
        for part in swap.PARTS[1:]:
            with suppress(FileNotFoundError):
                os.unlink(path + part)
        for part in swap.PARTS:
            if part in manifest.hashes:
                os.replace(_beside(path, part), path + part)
                swap.step(f"undo {part or 'main'}")
        backup.fsync(os.path.dirname(path))
        swap.write_manifest(folder, replace(manifest, undone=now.isoformat()))
        return UndoReport(path, True, (f"put back as it was on {manifest.at}: {manifest.why or 'damaged'}",
                                       *([f"what was there is kept in {kept}"] if kept else [])), kept)


def _beside(path: str, part: str) -> str:
    return os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.undo{part}")
