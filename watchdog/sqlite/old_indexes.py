"""What the indexes and full texts of a damaged file tell of its rows.

An index whose first page nothing names is found by the rows that its entries agree with: it names what is lost.
A full text that keeps no texts of its own knows which rows of a healed copy have other words.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
from array import array
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field

from watchdog.sqlite import checks
from watchdog.sqlite.format import Bad, SchemaObject, Text, Value, read_record
from watchdog.sqlite.full_text import Fill
from watchdog.sqlite.layout import Layout, affinity
from watchdog.sqlite.page_scan import Pages, Tree
from watchdog.sqlite.readonly import connect
from watchdog.sqlite.schema import quoted
from watchdog.sqlite.survey import (
    Survey,
    is_partial,
    last_integer,
    payloads,
    stray_interiors,
    stray_leaves,
)

SAMPLE = 40  # entries of a tree that are held against the rows
Agrees = Callable[[Layout, Sequence[str], Sequence[Value]], bool]
_PARTS = {"data": "id, block", "idx": "segid, term, pgno", "docsize": "id, sz", "config": "k, v"}
_ENTRIES = "SELECT doc, col, offset FROM temp.{} WHERE term = ?1"


@dataclass(frozen=True)
class Rows:
    """What the rows that were found say of an entry, and of all numbers in an index."""

    agree: Agrees
    named: Callable[[str, Collection[int]], tuple[int, int]]  # how many of them there are, and how many rows


@dataclass
class LostIndexes:
    """What became of the index pages that nothing named."""

    unknown: int = 0  # entries of which it is not known what they name
    trees: dict[str, Tree] = field(default_factory=dict)


def find_indexes(survey: Survey, trees: Sequence[Tree], rows: Rows) -> LostIndexes:
    """Give trees that no page leads to, to the indexes that miss theirs; the others are given back."""
    wanted = _wanted(survey)
    found: dict[str, list[Tree]] = {}
    strange: list[tuple[Tree, list[str]]] = []
    for tree in trees:
        entries = list(_entries(survey.pages, tree))
        scores = {
            name: _agreeing(survey, (name, table), entries, rows)
            for name, table in wanted.items()
            if entries and all(_fits(survey.layouts[table], survey.columns[name], entry) for entry in entries)
        }
        most = max(scores.values(), default=0)
        names = [name for name, score in scores.items() if score == most]
        if most:
            found.setdefault(min(names, key=lambda name: name in found), []).append(tree)
        elif names:
            strange.append((tree, names))
        else:
            survey.pages.release(tree)
    result = LostIndexes()
    for tree, names in strange:
        ids = _ids(survey.pages, tree)
        # an index that names rows that are here, and has no value of theirs, is of another table
        free = [
            name
            for name in names
            if name not in (*found, *survey.indexes) and not rows.named(wanted[name], ids)[0]
        ]
        if len(free) == 1:
            found[free[0]] = [tree]
        else:
            result.unknown += survey.cells(tree)
    for name, parts in found.items():
        result.trees[name] = _joined(survey, (name, wanted[name]), parts, rows)
    return result


def entries_of_no_row(survey: Survey, db: sqlite3.Connection) -> bool:
    """Whether entries in no tree have the values of no row: they may be the rows of a table without rowid."""
    pages = survey.pages
    lost_text = bool(survey.inner - survey.trees.keys())
    asked = []
    for name in survey.layouts.keys() & set(checks.tables(db)):
        columns = [quoted(row[0]) for row in db.execute(f"SELECT * FROM {quoted(name)} LIMIT 0").description]
        asked.append((name, survey.layouts[name].rowid, f"? IN ({', '.join(columns)})"))

    def known(entry: Sequence[Value]) -> bool:
        if lost_text and (entry[0] == "version" or list(map(type, entry)) == [int, bytes, int]):
            return True  # of a full-text index, as its own tables without rowid have them
        values = [value.raw if isinstance(value, Text) else value for value in entry if value is not None]
        for name, rowid, among in asked:
            terms = [among] * len(values)
            if rowid:
                if not isinstance(entry[-1], int):
                    continue
                terms[-1] = "_rowid_ = ?"
            sql = f"SELECT 1 FROM {quoted(name)} WHERE {' AND '.join(terms)}"
            with suppress(sqlite3.Error):  # more values than a statement can have
                if db.execute(sql, values).fetchone():
                    return True
        return False

    for number in (*stray_leaves(pages)[1], *stray_interiors(pages)):
        page = Tree("", number, False, leaves=array("I", [number]))
        entries = [entry for entry in _entries(pages, page) if entry][::4]
        if 2 * sum(map(known, entries)) < len(entries):
            return True
    return False


def _wanted(survey: Survey) -> Mapping[str, str]:
    """The indexes of which no page was found, with their tables; also SQLite's own, which a lost schema does not list."""
    listed = {entry.name: entry for entry in survey.entries if entry.type == "index"}
    own = {f"sqlite_autoindex_{table}": table for table in survey.tables()}
    found = {}
    for name, columns in survey.columns.items():
        entry, table = listed.get(name), own.get(name.rpartition("_")[0], "")
        if entry is not None:
            tree = survey.indexes.get(name)
            table = "" if tree and (tree.leaves or tree.inner) else entry.table
        elif survey.opened.schema_whole:
            continue
        layout = survey.layouts.get(table)
        if layout is not None and layout.rowid and set(columns[:-1]) <= set(layout.names):
            found[name] = table
    return found


def _entries(pages: Pages, tree: Tree) -> Iterator[list[Value]]:
    records = [record for record in payloads(pages, tree) if record is not None]
    for record in records[:: len(records) // SAMPLE + 1]:
        try:
            yield read_record(record, pages.encoding)
        except Bad:
            continue


def agrees(survey: Survey, index: str, number: int, rows: Rows) -> bool:
    """Whether the entries on a page of an index are certainly of its table: they have the values of its rows."""
    table = next(entry.table for entry in survey.entries if (entry.type, entry.name) == ("index", index))
    layout, columns = survey.layouts.get(table), survey.columns.get(index, ())
    if layout is None or not layout.rowid or not set(columns[:-1]) <= set(layout.names):
        return False  # it cannot be told
    page = Tree(index, number, False, leaves=array("I", [number]))
    entries = [entry for entry in _entries(survey.pages, page) if _fits(layout, columns, entry)]
    return bool(_agreeing(survey, (index, table), entries, rows))


def _agreeing(survey: Survey, of: tuple[str, str], entries: Sequence[Sequence[Value]], rows: Rows) -> int:
    """How many entries agree with their rows; 0 when most of those whose row is here do not: chance."""
    index, table = of
    layout, columns = survey.layouts[table], survey.columns[index][:-1]
    agreeing = sum(rows.agree(layout, columns, entry) for entry in entries)
    here = rows.named(table, {entry[-1] for entry in entries if isinstance(entry[-1], int)})[0]
    return agreeing if 2 * agreeing >= here else 0


def _ids(pages: Pages, tree: Tree) -> set[int]:
    ids = {last_integer(record) for record in payloads(pages, tree) if record is not None}
    return {number for number in ids if number is not None}


def _fits(layout: Layout, columns: Sequence[str], entry: Sequence[Value]) -> bool:
    """Whether an entry can be of this index, by its width and the types of its values."""
    if len(entry) != len(columns) or not isinstance(entry[-1], int):
        return False
    for name, value in zip(columns[:-1], entry, strict=False):
        kind = affinity(layout.stored[layout.names.index(name)].type)
        if (kind == "text" and not isinstance(value, str | Text | None)) or (
            kind in ("integer", "real") and not isinstance(value, int | float | None)
        ):
            return False
    return True


def _joined(survey: Survey, of: tuple[str, str], parts: Sequence[Tree], rows: Rows) -> Tree:
    """The one tree that names every row, or the only one that names most; else all parts, which may be old."""
    name, table = of
    entry = next((item for item in survey.entries if (item.type, item.name) == ("index", name)), None)
    if entry is None:
        entry = SchemaObject("index", name, table, "")
        survey.entries.append(entry)
    for tree in sorted(parts, key=survey.cells, reverse=True):
        named, here = rows.named(table, _ids(survey.pages, tree))
        sure = here and (is_partial(entry.sql) or named == here or (len(parts) == 1 and 2 * named >= here))
        if sure and not tree.missing:
            for other in parts:
                if other is not tree:
                    survey.pages.release(other)
            tree.name = name
            return tree
    joined = Tree(name, 0, False, missing=[(None, None)])
    for tree in parts:
        joined.leaves.extend(tree.leaves)
        joined.inner.extend(tree.inner)
    return joined


# --- words


@dataclass(frozen=True)
class OtherWords:
    """What an old full-text index says of the rows that a new one was made of."""

    named: frozenset[int] = frozenset()  # rows that both name
    altered: frozenset[int] = frozenset()  # of these, with other words
    unnamed: frozenset[int] = frozenset()  # rows that the old one does not name


def compare_words(survey: Survey, candidate: str, fill: Fill) -> OtherWords | None:
    """Hold the full text of the damaged file against the one that was made anew from the rows of a healed copy.

    For an index without texts of its own, whose words are the only second copy. None when the old one is torn.
    """
    sql = next(entry.sql for entry in survey.entries if entry.type == "table" and entry.name == fill.fts)
    trees = [survey.trees.get(f"{fill.fts}_{part}") for part in _PARTS]
    if any(tree is None or tree.missing or not tree.root for tree in trees):
        return None
    with tempfile.NamedTemporaryFile(prefix="full-text-", dir=os.path.dirname(candidate)) as file:
        try:
            with closing(sqlite3.connect(file.name, isolation_level=None)) as old:
                old.execute("PRAGMA synchronous=OFF")
                old.execute(f"PRAGMA encoding='{survey.opened.encoding_name}'")
                old.execute(sql)
                old.execute("BEGIN")
                for part, columns in _PARTS.items():
                    _restore(survey, old, f"{fill.fts}_{part}", columns)
                old.execute("COMMIT")
            with closing(connect(candidate, "mode=ro&immutable=1")) as db:
                db.text_factory = lambda raw: raw.decode("utf-8", "replace")
                db.execute("ATTACH ? AS old", (file.name,))
                fts = quoted(fill.fts)
                db.execute(
                    f"INSERT INTO old.{fts}({fts}) VALUES('integrity-check')"
                )  # damaged itself, it proves nothing
                return _compare(db, fill.fts)
        except (sqlite3.Error, ValueError):
            return None  # SQLite cannot read it, or it is of another version


def _restore(survey: Survey, old: sqlite3.Connection, table: str, columns: str) -> None:
    tree, names = survey.trees[table], columns.split(", ")
    old.execute(f"DELETE FROM {quoted(table)}")
    marks = ", ".join("?" * len(names))
    for row in survey.pages.rows(tree):
        if row.values is None or row.doubt:
            raise ValueError(row.doubt)
        values = [row.rowid, *row.values[1:]] if tree.table else row.values
        old.execute(f"INSERT INTO {quoted(table)}({columns}) VALUES({marks})", values[: len(names)])


def _compare(db: sqlite3.Connection, fts: str) -> OtherWords:
    for name in ("old", "main"):
        db.execute(f"CREATE VIRTUAL TABLE temp.words_{name} USING fts5vocab({name}, {quoted(fts)}, instance)")
    old, new = (
        {row[0] for row in db.execute(f"SELECT id FROM {name}.{quoted(fts + '_docsize')}")}
        for name in ("old", "main")
    )
    db.execute("CREATE TEMP TABLE one_sided(id INTEGER PRIMARY KEY)")
    db.executemany("INSERT INTO temp.one_sided VALUES(?)", ((rowid,) for rowid in old ^ new))
    altered: set[int] = set()
    for term in _terms(db):
        for one, other in (("old", "main"), ("main", "old")):
            sql = f"{_ENTRIES.format(f'words_{one}')} EXCEPT {_ENTRIES.format(f'words_{other}')}"
            altered.update(row[0] for row in db.execute(sql, (term,)))
    return OtherWords(frozenset(old & new), frozenset(altered & old & new), frozenset(new - old))


def _terms(db: sqlite3.Connection) -> Iterator[str]:
    """The words whose places in the rows of both differ: by a sum over all of them, which SQLite makes in one pass."""
    sums = "SELECT term, count(*), total(doc), total(doc % 65521 * (coalesce(offset, 0) + 7)), min(col), max(col)"
    before, now = (
        db.execute(f"{sums} FROM temp.words_{name} WHERE doc NOT IN temp.one_sided GROUP BY term")
        for name in ("old", "main")
    )
    one, two = before.fetchone(), now.fetchone()
    while one or two:  # both come in the order of the words
        term = min(row[0] for row in (one, two) if row)
        if one != two:
            yield term
        if one and one[0] == term:
            one = before.fetchone()
        if two and two[0] == term:
            two = now.fetchone()
