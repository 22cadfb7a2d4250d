"""Everything in a damaged file that can testify about its rows, held against a healed copy; and the sentences for it."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from watchdog.sqlite import checks, full_text
from watchdog.sqlite.damaged_file import open_damaged
from watchdog.sqlite.format import Bad, read_record
from watchdog.sqlite.layout import best
from watchdog.sqlite.notes import RowDoubt, WitnessKind, note
from watchdog.sqlite.old_indexes import OtherWords, compare_words, entries_of_no_row
from watchdog.sqlite.page_scan import MISPLACED, ZEROED, Pages, Tree
from watchdog.sqlite.readonly import connect
from watchdog.sqlite.schema import quoted
from watchdog.sqlite.survey import Survey, is_partial, last_integer, payloads, stray_interiors, stray_leaves

MOST = 100_000  # differences of one index that are kept apart; more is an index of something else
NAMED = 1000  # doubtful rows of one table that are named


@dataclass
class Testimony:
    """What the witnesses say about a healed copy."""

    # rows that an index or the full text names and that are not there, with how many do
    lost: dict[str, Counter[int]] = field(default_factory=dict)
    # of tables without rowid only their number is known: at least and at most
    lost_more: dict[str, tuple[int, int]] = field(default_factory=dict)
    exact: dict[str, int] = field(
        default_factory=dict
    )  # lost rows of such a table, where a whole index names all
    doubtful: dict[str, dict[int, str]] = field(default_factory=dict)  # rows that a witness disproves
    disagreements: list[Disagreement] = field(default_factory=list)
    proven: set[str] = field(default_factory=set)  # tables whose rows a whole index names one by one


def testify(survey: Survey, candidate: str, rebuilt: bool, known: Mapping[str, int]) -> Testimony:
    """Hold a healed copy against the file it came from.

    `rebuilt`: its indexes were made anew; else SQLite itself has proved that the old ones agree with the rows.
    `known`: rows per table at the last backup.
    """
    found = Testimony()
    with ExitStack() as files:
        copy = open_damaged(candidate, files, use_wal=False).pages if rebuilt else None
        db = connect(candidate, "mode=ro&immutable=1")
        files.callback(db.close)
        _hear_indexes(survey, copy, candidate, found)
        if rebuilt:
            _hear_full_text(survey, db, candidate, found)
        else:
            _ask_full_text(db, found)
        _hear_pages(survey, found)
        if rebuilt:  # else SQLite has read the rows in their order
            _hear_order(survey, db, found)
        for number, (table, rowid) in enumerate(survey.zeroed()):
            found.doubtful.setdefault(table, {}).setdefault(rowid or -1 - number, ZEROED)
        _hear_sequence(survey, db, found)
        _hear_foreign_keys(db, found)
        for table, rows in checks.counts(db).items():
            torn = [index.name for index in survey.indexes_of(table) if survey.indexes[index.name].missing]
            if not rows and torn and not survey.trees[table].missing:
                found.disagreements.append(Disagreement(WitnessKind.EMPTY, table, 0, torn[0]))
            if rows < known.get(table, 0) and table not in found.proven:
                found.disagreements.append(Disagreement(WitnessKind.BACKUP, table, known[table] - rows))
        opened = survey.opened
        unread = opened.schema_gaps or (survey.pages.claims[1] and not opened.schema_whole)
        # pages are gone, or hold rows of no table: what named them may have been in the schema
        if unread and (survey.pages_gone() or stray_leaves(survey.pages)[0] or entries_of_no_row(survey, db)):
            found.disagreements.append(Disagreement(WitnessKind.SCHEMA, ""))
    if survey.misfits():
        found.disagreements.append(Disagreement(WitnessKind.OTHER_SCHEMA, ""))
    wal = survey.opened.wal
    if wal.unfinished:
        found.disagreements.append(Disagreement(WitnessKind.WAL_END, "", 1))
    if wal.fault and wal.size > 32:
        found.disagreements.append(Disagreement(WitnessKind.WAL_HEADER, "", 1))
    if wal.stale:
        found.disagreements.append(Disagreement(WitnessKind.WAL, "", len(wal.stale)))
    journal = survey.opened.journal
    if journal.torn or (journal.hot and not journal.counted and rebuilt):
        found.disagreements.append(Disagreement(WitnessKind.JOURNAL, ""))
    return found


# --- indexes


def _hear_indexes(survey: Survey, copy: Pages | None, candidate: str, found: Testimony) -> None:
    roots = _roots(candidate) if copy else {}
    for table in survey.tables():
        for index in survey.indexes_of(table):
            tree = survey.indexes[index.name]
            if copy is None:
                if not tree.missing and not is_partial(index.sql):
                    found.proven.add(table)
                continue
            if index.name not in roots or not survey.columns.get(index.name):
                continue
            theirs = Tree(index.name, roots[index.name], False)
            copy.walk(theirs)
            _compare(survey, (index.name, table), (copy, theirs), found)


def _roots(candidate: str) -> dict[str, int]:
    db = connect(candidate, "mode=ro&immutable=1")
    try:
        rows = db.execute("SELECT name, rootpage FROM sqlite_schema WHERE type = 'index'").fetchall()
        return {checks.text(name): root for name, root in rows}
    finally:
        db.close()


def _compare(survey: Survey, of: tuple[str, str], other: tuple[Pages, Tree], found: Testimony) -> None:
    """Entries that only the old index has, and entries that only the new one has."""
    index, table = of
    tree = survey.indexes[index]
    old, new, unread = _difference(payloads(survey.pages, tree), payloads(*other))
    layout, width = survey.layouts[table], len(survey.columns[index])
    if len(old) + len(new) > MOST:
        found.disagreements.append(Disagreement(WitnessKind.INDEX, table, len(old), index))
        return
    whole = survey.whole(index) and not unread
    sql = next(entry.sql for entry in survey.entries if entry.type == "index" and entry.name == index)
    if not old and not new:
        if whole and not is_partial(sql):
            found.proven.add(table)
            if not layout.rowid:
                found.exact.setdefault(table, 0)
        return
    fits = [record for record in old if _width(record, survey.pages.encoding) == width]
    if not layout.rowid:
        # An entry that only one side has is of a lost row, or of one whose key was altered.
        fits_too = [record for record in new if _width(record, survey.pages.encoding) == width]
        altered = _altered(survey, of, fits, fits_too)
        doubtful = found.doubtful.setdefault(table, {})
        doubtful.update((-1 - MOST - at, note(RowDoubt.OTHER_KEY, index=index)) for at in range(altered))
        least, most = found.lost_more.get(table, (0, 0))
        found.lost_more[table] = (max(least, len(fits) - len(new)), max(most, len(fits)))
        if whole and not new and len(fits) == len(old) and not is_partial(sql):
            found.exact[table] = len(old)
        if new and whole:
            found.disagreements.append(Disagreement(WitnessKind.INDEX, table, len(new), index))
        return
    named = {number for record in fits if (number := last_integer(record)) is not None}
    here = {number for record in new if (number := last_integer(record)) is not None}
    present = _present(other[0], table, named)
    found.lost.setdefault(table, Counter()).update(named - present)
    doubtful = found.doubtful.setdefault(table, {})
    for number in sorted(named & present if tree.root and index not in survey.unsure else ()):
        doubtful.setdefault(number, note(RowDoubt.OTHER_KEY, index=index))
    if whole:
        for number in sorted(here - named):
            doubtful.setdefault(number, note(RowDoubt.NOT_NAMED, index=index))


def _altered(survey: Survey, of: tuple[str, str], old: Sequence[bytes], new: Sequence[bytes]) -> int:
    """How many entries of two indexes share a part of the key of their row, or all values but one: one was altered."""
    index, table = of
    if len(old) + len(new) > MOST // 10:
        return min(len(old), len(new))
    keyed = {column.name for column in survey.layouts[table].stored if column.pk}
    keys = [at for at, name in enumerate(survey.columns[index]) if name in keyed]

    def parts(records: Sequence[bytes]) -> Counter[tuple]:
        found: Counter[tuple] = Counter()
        for values in (read_record(record, survey.pages.encoding) for record in records):
            found.update((-1 - at, values[at]) for at in keys)
            found.update((at, *values[:at], *values[at + 1 :]) for at in range(len(values)))
        return found

    both = parts(old) & parts(new)
    return max(Counter(at for at, *_ in both.elements()).values(), default=0)


def _width(record: bytes, encoding: str) -> int:
    try:
        return len(read_record(record, encoding))
    except Bad:
        return -1


def _difference(
    old: Iterable[bytes | None], new: Iterable[bytes | None]
) -> tuple[list[bytes], list[bytes], int]:
    """Records that only one of two streams has, and how many of the first could not be read.

    Both come in about the same order, so hardly any wait for their match.
    """
    waiting: dict[bytes, int] = {}  # record -> how often more in the old one
    unread = 0
    left, right = iter(old), iter(new)
    ends = [False, False]
    while not all(ends):
        for side, stream in enumerate((left, right)):
            if ends[side]:
                continue
            try:
                record = next(stream)
            except StopIteration:
                ends[side] = True
                continue
            if record is None:
                unread += side == 0
                continue
            balance = waiting.get(record, 0) + (1 if side == 0 else -1)
            if balance:
                waiting[record] = balance
            else:
                del waiting[record]
        if len(waiting) > 4 * MOST:
            break
    return (
        [record for record, balance in waiting.items() if balance > 0],
        [record for record, balance in waiting.items() if balance < 0],
        unread,
    )


def _present(copy: Pages, table: str, rowids: set[int]) -> set[int]:
    """Those of these rows that the healed copy has."""
    path = f"/proc/self/fd/{copy.image.fd}"
    db = connect(path, "mode=ro&immutable=1")
    try:
        sql = f"SELECT 1 FROM {quoted(table)} WHERE _rowid_ = ?"
        return {number for number in rowids if db.execute(sql, (number,)).fetchone()}
    finally:
        db.close()


# --- other witnesses


def _hear_full_text(survey: Survey, db: sqlite3.Connection, candidate: str, found: Testimony) -> None:
    """Rows that the full text names, and rows it has other words for.

    One that it does not name proves nothing where an index does: it may lag behind.
    """
    heard: dict[str, list[tuple[str, OtherWords]]] = {}
    for fill in full_text.fills_of(survey.entries):
        tree = survey.trees.get(fill.fts + "_docsize")
        if tree is None or fill.table not in survey.layouts:
            continue
        sql = f"SELECT 1 FROM {quoted(fill.table)} WHERE _rowid_ = ?"
        gone = {rowid for rowid in survey.pages.rowids(tree) if not db.execute(sql, (rowid,)).fetchone()}
        if gone and fill.table not in found.proven:
            found.lost.setdefault(fill.table, Counter()).update(gone)
        words = compare_words(survey, candidate, fill) if fill.external else None
        if words is not None:
            heard.setdefault(fill.table, []).append((fill.fts, words))
    for table, texts in heard.items():
        doubtful = found.doubtful.setdefault(table, {})
        for fts, words in texts:
            for rowid in sorted(words.altered):
                # where another full text has the same words as the row, this one is the damaged copy
                if all(rowid in other.altered for _, other in texts if rowid in other.named):
                    doubtful.setdefault(rowid, note(RowDoubt.OTHER_WORDS, index=fts))
            for rowid in sorted(words.unnamed if table not in found.proven else ()):
                doubtful.setdefault(rowid, note(RowDoubt.NOT_IN_TEXT, index=fts))


def _ask_full_text(db: sqlite3.Connection, found: Testimony) -> None:
    """The same where the full text in the healed copy is still the old one."""
    for fill in full_text.fills(checks.schema(db)):
        gone = db.execute(
            f"SELECT id FROM {quoted(fill.fts + '_docsize')} EXCEPT SELECT _rowid_ FROM {quoted(fill.table)}"
        ).fetchall()
        if gone and fill.table not in found.proven:
            found.lost.setdefault(fill.table, Counter()).update(rowid for (rowid,) in gone)


def _hear_pages(survey: Survey, found: Testimony) -> None:
    """Leaves with rows that belong to no tree, and pages that are both free and in use."""
    pages = survey.pages
    strays: dict[str, int] = {}
    tables, indexes = stray_leaves(pages)
    for kind, numbers in enumerate((tables, [*indexes, *stray_interiors(pages)])):
        layouts = [layout for layout in survey.layouts.values() if layout.rowid is (kind == 0)]
        for number in numbers:
            tree = Tree("", number, kind == 0)
            tree.leaves.append(number)
            rows = [row.values for row in pages.rows(tree) if row.values is not None]
            fitting = {layout.table for layout in best(layouts, rows)} if rows else set()
            if not fitting and kind:
                continue  # of an index
            if fitting & survey.inner or (fitting and fitting <= found.proven):
                continue
            fitting -= found.proven
            table = min(fitting) if len(fitting) == 1 else ""
            # with those whose long contents no tree claims
            strays[table] = strays.get(table, 0) + len(pages.image.btree(number).pointers)
    for table, count in strays.items():
        found.disagreements.append(Disagreement(WitnessKind.STRAY_PAGES, table, count))
    if pages.freed:
        for name in survey.tables():
            tree = survey.trees[name]
            twice = [number for number in tree.leaves if number in pages.freed]
            if twice and name not in found.proven:
                image = pages.image
                cells = sum(len(image.btree(n).pointers) for n in twice)
                found.disagreements.append(Disagreement(WitnessKind.FREE_PAGES, name, cells))


def _hear_order(survey: Survey, db: sqlite3.Connection, found: Testimony) -> None:
    """Rows of a table without rowid that do not lie in the order of their keys: one of two neighbours has another."""
    for name in survey.tables():
        if survey.layouts[name].rowid or name in found.proven:
            continue
        lists = db.execute(f"PRAGMA index_list({quoted(name)})").fetchall()
        own = next((checks.text(row[1]) for row in lists if checks.text(row[3]) == "pk"), "")
        keys = [row for row in db.execute(f"PRAGMA index_xinfo({quoted(own)})") if row[5]]
        if all(checks.text(row[4]) == "BINARY" for row in keys):
            count = survey.out_of_order(name, [bool(row[3]) for row in keys])
            found.doubtful.setdefault(name, {}).update((-1 - number, MISPLACED) for number in range(count))


def _hear_sequence(survey: Survey, db: sqlite3.Connection, found: Testimony) -> None:
    """Numbers that AUTOINCREMENT gave and no row has: deleted, or lost where nothing proves the rest."""
    tree = survey.trees.get("sqlite_sequence")
    for row in survey.pages.rows(tree) if tree is not None else ():
        if not row.values or len(row.values) != 2 or not isinstance(row.values[1], int):
            continue
        table, number = str(row.values[0]), row.values[1]
        if table not in survey.tables() or table in found.proven:
            continue
        try:
            most = db.execute(f"SELECT max(_rowid_) FROM {quoted(table)}").fetchone()[0] or 0
        except sqlite3.Error:
            continue
        if number > most:
            found.disagreements.append(Disagreement(WitnessKind.SEQUENCE, table, number - most))


def _hear_foreign_keys(db: sqlite3.Connection, found: Testimony) -> None:
    """Parents that rows refer to and that are not there."""
    gone: dict[str, set] = {}
    for table in checks.tables(db):
        keys = {row[0]: row for row in db.execute(f"PRAGMA foreign_key_list({quoted(table)})").fetchall()}
        if not keys:
            continue
        for _, rowid, parent, number in db.execute(f"PRAGMA foreign_key_check({quoted(table)})"):
            column = checks.text(keys[number][3])
            key = None
            if rowid is not None:
                key = db.execute(
                    f"SELECT {quoted(column)} FROM {quoted(table)} WHERE _rowid_ = ?", (rowid,)
                ).fetchone()
            gone.setdefault(checks.text(parent), set()).add(key or (rowid,))
    for parent, missing in gone.items():
        if parent not in found.proven:
            found.disagreements.append(Disagreement(WitnessKind.FOREIGN_KEYS, parent, len(missing)))


# These tell that something is missing, not how many rows.
UNCOUNTED = frozenset(
    {
        WitnessKind.JOURNAL,
        WitnessKind.WAL,
        WitnessKind.WAL_END,
        WitnessKind.WAL_HEADER,
        WitnessKind.SCHEMA,
        WitnessKind.OTHER_SCHEMA,
        WitnessKind.TABLE,
        WitnessKind.SECTORS,
    }
)


@dataclass(frozen=True)
class Disagreement:
    """One witness that tells something else than the healed copy."""

    witness: WitnessKind
    table: str  # '' when it is not known which
    rows: int = 0  # at most so many rows are concerned
    name: str = ""  # of the index, or of what else testifies


UNKNOWN = "a table that is not known"


def sentences(disagreements: Sequence[Disagreement]) -> list[str]:
    """Each disagreement for people."""
    return [
        note(item.witness, table=item.table or UNKNOWN, rows=item.rows, name=item.name)
        for item in disagreements
    ]
