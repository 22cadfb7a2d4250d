"""From what was seen to a verdict: pure, worst first, every grade with its reason in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from watchdog.sqlite.kinds import CORE, is_virtual
from watchdog.sqlite.raw import Entry, Header
from watchdog.values import TYPE_CHECKING, dataclass, field

if TYPE_CHECKING:
    from watchdog.sqlite.reference import Reference, Thing

SHOWN = 4       # names in one sentence; the rest is a number


@dataclass(frozen=True)
class Verdict:
    """How one database is."""

    path: str
    grade: str                                          # 'well' 'drifted' 'damaged' 'broken' 'unknown'
    fault: str                                          # one sentence, '' when well
    detail: tuple[str, ...] = ()
    sqlite: str = ""                                    # the SQLite version that gave it
    kind: str = ""                                      # 'state' 'kanban' 'response_store' or ''
    missing: tuple[tuple[str, str, str], ...] = ()      # (table, column, type) lacking against the reference
    holders: tuple[tuple[int, str], ...] = ()           # processes with a deleted -wal or database: (pid, name)
    reference: str = ""


@dataclass(frozen=True)
class Deep:
    """What SQLite itself said, in a process of its own."""

    unknown: str = ""                   # why it could not be asked
    broken: str = ""                    # why it could not be opened
    integrity: tuple[str, ...] = ()     # the rows of integrity_check other than 'ok'
    orphans: int = 0                    # rows whose parent is gone
    fts: tuple[str, ...] = ()           # what is wrong with the full-text indexes
    rows: Mapping[str, int] = field(default_factory=dict)
    doubts: tuple[str, ...] = ()        # rows whose content cannot be what was written
    says: tuple[str, ...] = ()
    sqlite: str = ""


@dataclass(frozen=True)
class Seen:
    """What the bytes told."""

    path: str
    kind: str = ""
    unknown: str = ""                   # permission, a directory, a FIFO: no verdict possible
    absent: bool = False
    size: int = 0
    header: Header | None = None
    header_fault: str = ""
    wal_size: int = 0
    wal_fault: str = ""
    wal_saves: bool = False             # the header on disk is bad, the WAL has a good one
    stale_wal: str = ""
    schema_fault: str = ""
    schema: tuple[Entry, ...] = ()
    bad_roots: tuple[str, ...] = ()     # tables and indexes whose first page is no b-tree page
    empty: tuple[str, ...] = ()         # main tables without a row
    deleted: tuple[tuple[int, str, str], ...] = ()      # (pid, name, what)
    says: tuple[str, ...] = ()


@dataclass(frozen=True)
class Drift:
    """What a schema lacks against a reference."""

    columns: tuple[tuple[str, str, str], ...] = ()
    things: tuple[Thing, ...] = ()

    def words(self) -> str:
        parts = [f"{table}.{column}" for table, column, _ in self.columns]
        parts += [f"{thing.type} {thing.name}" for thing in self.things]
        return listed(parts)


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def drift(reference: Reference | None, kind: str, schema: Sequence[Entry]) -> Drift:
    """Columns, tables, indexes and triggers that the reference has and the file lacks."""
    if reference is None or kind not in reference.things:
        return Drift()
    from watchdog.sqlite.reference import columns_of

    have = {(entry.type, entry.name.lower()): entry for entry in schema}
    columns, things = [], []
    for thing in reference.things[kind]:
        entry = have.get((thing.type, thing.name.lower()))
        if entry is None:
            things.append(thing)
        elif thing.type == "table" and not is_virtual(thing.sql) and entry.sql != thing.sql:
            names = {column.name.lower() for column in columns_of(entry.sql)}
            if names:       # SQL that we cannot read is no proof of a missing column
                columns += [(thing.name, column.name, column.type) for column in columns_of(thing.sql)
                            if column.name.lower() not in names]
    return Drift(tuple(columns), tuple(things))


NO_DRIFT = Drift()


def grade(seen: Seen, lack: Drift = NO_DRIFT, known: Mapping | None = None, deep: Deep | None = None,
          reference: str = "", sqlite: str = "") -> Verdict:
    """The worst thing that is true decides; everything else that is worth knowing is detail."""
    found = list(_faults(seen, lack, known or {}, deep, reference))
    found.sort(key=lambda fault: ("unknown", "broken", "damaged", "drifted").index(fault[0]))
    if found and found[0][0] == "unknown" and len(found) > 1 and found[1][0] == "broken":
        found.append(found.pop(0))      # what the bytes prove needs no second witness
    best, fault = found[0] if found else ("well", "")
    detail = [text for _, text in found[1:]] + list(seen.says) + list(deep.says if deep else ())
    if seen.wal_saves:
        detail.append("the header in the file is bad, but the -wal holds a good page 1: it heals at the next "
                      "checkpoint; do nothing, and never remove the -wal")
    if deep:
        detail += [f"integrity_check: {row}" for row in deep.integrity[:20]]
    if seen.wal_fault:
        detail.append(seen.wal_fault + "; keep the file")
    return Verdict(seen.path, best, fault, tuple(detail), (deep and deep.sqlite) or sqlite, seen.kind, lack.columns,
                   tuple(dict.fromkeys((pid, name) for pid, name, _ in seen.deleted)), reference)


def _faults(seen: Seen, lack: Drift, known: Mapping, deep: Deep | None, reference: str):
    """Each (grade, sentence) that holds."""
    before = known.get("rows") or {}
    held = sum(before.get(table, 0) for table in before)
    when = f" at the last good backup ({known['at']})" if known.get("at") else " at the last good backup"
    for pid, name, what in seen.deleted:
        yield "damaged", (f"process {pid} ({name}) has a deleted {what} open: what it writes is lost when it stops; "
                          f"copy it from /proc/{pid}/fd before you stop it")
    if seen.unknown:
        yield "unknown", seen.unknown
        return
    if seen.absent:
        if seen.wal_size:
            yield "broken", f"the file is gone but its -wal is still there ({seen.wal_size} bytes); keep the -wal"
        elif held:
            yield "broken", f"the file is gone; it held {held} rows{when}"
        else:
            yield "unknown", "no such file"
        return
    if seen.size == 0:
        if held:
            yield "broken", f"the file is empty (0 bytes); it held {held} rows{when}"
        else:
            yield "damaged", ("the file is empty (0 bytes): Hermes would silently start anew; "
                              "if it held anything before, restore it")
        return
    if seen.header_fault and not seen.wal_saves:
        yield "broken", seen.header_fault
        return
    if seen.schema_fault:
        yield "broken", seen.schema_fault
    if seen.stale_wal:
        yield "damaged", seen.stale_wal
    if seen.bad_roots:
        yield "damaged", f"the first page is destroyed of {listed(seen.bad_roots)}"
    header = seen.header
    if header and header.counts_itself and not seen.wal_size and seen.size < header.pages * header.page_size:
        yield "broken", (f"the file is cut off: {seen.size} bytes, but its header counts {header.pages} pages of "
                         f"{header.page_size} ({header.pages * header.page_size} bytes)")
    if deep:
        yield from _deep_faults(deep, before, when)
    emptied = [table for table in seen.empty if before.get(table, 0)]
    if emptied and not (deep and deep.rows):
        yield "damaged", f"{listed(emptied)} has no rows; it had {before[emptied[0]]}{when}"
    if lack.columns or lack.things:
        yield "drifted", f"lacks {lack.words()} of {reference}"


def _deep_faults(deep: Deep, before: Mapping, when: str):
    if deep.broken:
        yield "broken", deep.broken
    if deep.unknown:
        yield "unknown", deep.unknown
    if deep.integrity:
        yield "damaged", f"integrity_check finds {_count(deep.integrity)}, the first: {deep.integrity[0]}"
    for text in deep.fts:
        yield "damaged", text
    if deep.doubts:
        yield "damaged", f"the content of {_count(deep.doubts, 'row')} is altered, the first: {deep.doubts[0]}"
    if deep.orphans:
        yield "damaged", f"{deep.orphans} rows refer to a row that does not exist (foreign keys)"
    for table, rows in before.items():
        now = deep.rows.get(table)
        if rows and now == 0 and table in {name for names in CORE.values() for name in names}:
            yield "damaged", f"{table} has no rows; it had {rows}{when}"


def _count(rows: Sequence[str], what: str = "fault") -> str:
    return f"1 {what}" if len(rows) == 1 else f"{len(rows)} {what}s" if len(rows) < 100 else f"100 {what}s or more"
