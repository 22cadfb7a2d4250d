"""From what was seen to a verdict: pure, worst first, every grade with its reason in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from watchdog.model import Reason
from watchdog.sqlite.faults import Detail, Fault, fault, sentence
from watchdog.sqlite.format import SchemaObject
from watchdog.sqlite.header import Header
from watchdog.sqlite.lineage import Numbering, began_anew
from watchdog.sqlite.schema import CORE, columns_of, is_virtual
from watchdog.values import TYPE_CHECKING, dataclass, field

if TYPE_CHECKING:
    from watchdog.sqlite.schema import Reference, SchemaObject

SHOWN = 4  # names in one sentence; the rest is a number


@dataclass(frozen=True)
class Verdict:
    """How one database is."""

    path: str
    grade: str  # 'well' 'drifted' 'damaged' 'broken' 'unknown'
    fault: str  # one sentence, '' when well
    detail: tuple[str, ...] = ()
    sqlite: str = ""  # the SQLite version that gave it
    kind: str = ""  # 'state' 'kanban' 'response_store' or ''
    missing: tuple[tuple[str, str, str], ...] = ()  # (table, column, type) lacking against the reference
    holders: tuple[tuple[int, str], ...] = ()  # processes with a deleted -wal or database: (pid, name)
    reference: str = ""
    faults: tuple[Reason, ...] = ()  # every fault, the worst first
    anew: bool = False  # it does not go on from its last verified backup

    def only(self, *kinds: Fault) -> bool:
        """Whether nothing else is wrong."""
        return bool(self.faults) and all(reason.key in kinds for reason in self.faults)


@dataclass(frozen=True)
class Deep:
    """What SQLite itself said, in a process of its own."""

    unknown: str = ""  # why it could not be asked
    broken: str = ""  # why it could not be opened
    integrity: tuple[str, ...] = ()  # the rows of integrity_check other than 'ok'
    orphans: int = 0  # rows whose parent is gone
    fts: tuple[str, ...] = ()  # what is wrong with the full-text indexes
    rows: Mapping[str, int] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()  # rows whose content cannot be what was written
    says: tuple[str, ...] = ()
    sqlite: str = ""
    torn_wal: tuple[int, int] = (0, 0)  # the first bad frame, and how many committed ones follow


@dataclass(frozen=True)
class Observation:
    """What the bytes told."""

    path: str
    kind: str = ""
    version: int = 0  # of the schema, where the database keeps one
    unknown: str = ""  # permission, a directory, a FIFO: no verdict possible
    absent: bool = False
    size: int = 0
    header: Header | None = None
    header_fault: str = ""
    wal_size: int = 0
    wal_fault: str = ""
    wal_saves: bool = False  # the header on disk is bad, the WAL has a good one
    stale_wal: Reason | None = None
    journal: int = 0  # bytes of a rollback journal that the next opener will take back
    unfinished: bool = False  # a repair of ours was cut short
    repairing: bool = False  # one is running
    schema_fault: str = ""
    schema: tuple[SchemaObject, ...] = ()
    bad_roots: tuple[str, ...] = ()  # tables and indexes whose first page is no b-tree page
    empty: tuple[str, ...] = ()  # main tables without a row
    numbering: Numbering | None = None  # of the table that tells whether it began anew
    deleted: tuple[tuple[int, str, str], ...] = ()  # (pid, name, what)
    says: tuple[str, ...] = ()


@dataclass(frozen=True)
class Drift:
    """What a schema lacks against a reference."""

    columns: tuple[tuple[str, str, str], ...] = ()
    objects: tuple[SchemaObject, ...] = ()
    newer: tuple[str, str] | None = None  # its schema version and the newest known one, when that is older

    def words(self) -> str:
        parts = [f"{table}.{column}" for table, column, _ in self.columns]
        parts += [f"{item.type} {item.name}" for item in self.objects]
        return listed(parts)


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def drift(reference: Reference | None, kind: str, schema: Sequence[SchemaObject]) -> Drift:
    """Columns, tables, indexes and triggers that the reference has and the file lacks."""
    if reference is None or kind not in reference.objects:
        return Drift()
    have = {(entry.type, entry.name.lower()): entry for entry in schema}
    columns, objects = [], []
    for item in reference.objects[kind]:
        entry = have.get((item.type, item.name.lower()))
        if entry is None:
            objects.append(item)
        elif item.type == "table" and not is_virtual(item.sql) and entry.sql != item.sql:
            names = {column.name.lower() for column in columns_of(entry.sql)}
            if names:  # SQL that we cannot read is no proof of a missing column
                columns += [
                    (item.name, column.name, column.type)
                    for column in columns_of(item.sql)
                    if column.name.lower() not in names
                ]
    return Drift(tuple(columns), tuple(objects))


NO_DRIFT = Drift()


def grade(
    seen: Observation,
    lack: Drift = NO_DRIFT,
    known: Mapping | None = None,
    deep: Deep | None = None,
    reference: str = "",
) -> Verdict:
    """The worst item that is true decides; everything else that is worth knowing is detail."""
    found = list(_faults(seen, lack, known or {}, deep, reference))
    found.sort(key=lambda fault: ("unknown", "broken", "damaged", "drifted", "well").index(fault[0]))
    if found and found[0][0] == "unknown" and len(found) > 1 and found[1][0] == "broken":
        found.append(found.pop(0))  # what the bytes prove needs no second witness
    best = found[0][0] if found else "well"
    faults = tuple(reason for _, reason in found)
    texts: list[str] = [sentence(reason) for reason in faults]
    first, *rest = texts or [""]
    if best == "well":
        first, rest = "", [text for text in (first, *rest) if text]
    detail = [*rest, *seen.says, *(deep.says if deep else ())]
    if seen.wal_saves:
        detail.append(Detail.WAL_SAVES())
    if deep:
        detail += [Detail.SQLITE_SAYS(row=row) for row in deep.integrity[:20]]
    if seen.wal_fault:
        detail.append(Detail.KEEP_WAL(why=seen.wal_fault))
    return Verdict(
        seen.path,
        best,
        first,
        tuple(detail),
        deep.sqlite if deep else "",
        seen.kind,
        lack.columns,
        tuple(dict.fromkeys((pid, name) for pid, name, _ in seen.deleted)),
        reference,
        faults,
        began_anew(seen.kind, seen.numbering, seen.empty, known or {}),
    )


def _faults(
    seen: Observation, lack: Drift, known: Mapping, deep: Deep | None, reference: str
) -> Iterator[tuple[str, Reason]]:
    """Each (grade, fault) that holds."""
    # A table that numbers its rows tells better than their count whether they were deleted on purpose.
    before = known.get("rows") or {}
    counted = {} if known.get("mark") else before
    held = sum(before.values())
    when = Detail.AT_BACKUP()
    if known.get("at"):
        when = Detail.AT_DATED_BACKUP(at=known["at"])
    for pid, name, what in seen.deleted:
        yield "damaged", fault(Fault.DELETED_FILE, pid=pid, name=name, what=what)
    if seen.repairing:
        yield (
            "unknown",
            fault(Fault.CANNOT_LOOK, why=Detail.REPAIR_RUNS()),
        )
        return
    if seen.unfinished:
        yield "damaged", fault(Fault.UNFINISHED)
    if seen.unknown:
        yield "unknown", fault(Fault.CANNOT_LOOK, why=seen.unknown)
        return
    if seen.absent:
        if seen.wal_size:
            yield "broken", fault(Fault.ONLY_WAL, size=seen.wal_size)
        elif held:
            yield "broken", fault(Fault.GONE, rows=held, when=when)
        else:
            yield "unknown", fault(Fault.NO_SUCH_FILE)
        return
    if seen.size == 0:
        if held:
            yield "broken", fault(Fault.EMPTIED, rows=held, when=when)
        else:
            yield "damaged", fault(Fault.EMPTY)
        return
    if seen.header_fault and not seen.wal_saves:
        yield "broken", fault(Fault.HEADER, why=seen.header_fault)
        return
    if seen.schema_fault:
        yield "broken", fault(Fault.SCHEMA, why=seen.schema_fault)
    if seen.stale_wal:
        yield "damaged", seen.stale_wal
    if seen.bad_roots:
        yield "damaged", fault(Fault.ROOTS, names=listed(seen.bad_roots))
    yield from size_faults(seen)
    if deep:
        yield from _deep_faults(deep, counted, when)
    emptied = [table for table in seen.empty if counted.get(table, 0)]
    if emptied and not (deep and deep.rows):
        yield "damaged", fault(Fault.NO_ROWS, table=listed(emptied), rows=before[emptied[0]], when=when)
    if lack.newer:
        yield "well", fault(Fault.NEWER, version=lack.newer[0], known=lack.newer[1])
    elif lack.columns or lack.objects:
        objects = tuple(dict.fromkeys(item.type for item in lack.objects))
        yield "drifted", fault(Fault.DRIFT, what=lack.words(), reference=reference, objects=objects)


def size_faults(seen: Observation) -> Iterator[tuple[str, Reason]]:
    """Where the header and the file do not agree about its size."""
    header = seen.header
    if not header or not header.counts_itself or seen.wal_size or seen.journal:
        return
    whole = header.pages * header.page_size
    if seen.size < whole:
        yield (
            "broken",
            fault(Fault.CUT_OFF, size=seen.size, pages=header.pages, page_size=header.page_size, whole=whole),
        )
    elif seen.size >= whole + header.page_size:
        there = seen.size // header.page_size
        yield "damaged", fault(Fault.LONGER, pages=header.pages, there=there)


def _deep_faults(deep: Deep, before: Mapping, when: str) -> Iterator[tuple[str, Reason]]:
    if deep.broken:
        yield "broken", fault(Fault.CANNOT_OPEN, why=deep.broken)
    if deep.unknown:
        yield "unknown", fault(Fault.CANNOT_LOOK, why=deep.unknown)
    frame, behind = deep.torn_wal
    if frame:
        yield "damaged", fault(Fault.TORN_WAL if behind else Fault.TORN_WAL_END, frame=frame, behind=behind)
    if deep.integrity:
        yield (
            "damaged",
            fault(Fault.INTEGRITY, count=_count(deep.integrity, _FAULTS), first=deep.integrity[0]),
        )
    for text in deep.fts:
        yield "damaged", fault(Fault.FULL_TEXT, why=text)
    if deep.doubts:
        yield "damaged", fault(Fault.CONTENT, count=_count(deep.doubts, _ROWS), first=deep.doubts[0])
    if deep.orphans:
        yield "damaged", fault(Fault.ORPHANS, rows=deep.orphans)
    for table, rows in before.items():
        now = deep.rows.get(table)
        if rows and now == 0 and table in {name for names in CORE.values() for name in names}:
            yield "damaged", fault(Fault.NO_ROWS, table=table, rows=rows, when=when)


_FAULTS = (Detail.ONE_FAULT, Detail.FAULTS, Detail.MANY_FAULTS)
_ROWS = (Detail.ONE_ROW, Detail.ROWS, Detail.MANY_ROWS)


def _count(rows: Sequence[str], forms: Sequence[Detail]) -> str:
    return forms[0 if len(rows) == 1 else 1 if len(rows) < 100 else 2](count=len(rows))
