"""A full-text index of a damaged file as a witness: which rows of a healed copy have other words than it names."""

from __future__ import annotations

import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from watchdog.sqlite.checks import Fill
from watchdog.sqlite.readonly import connect
from watchdog.sqlite.schema import quoted
from watchdog.sqlite.survey import Survey

_PARTS = {"data": "id, block", "idx": "segid, term, pgno", "docsize": "id, sz", "config": "k, v"}
_ENTRIES = "SELECT doc, col, offset FROM temp.{} WHERE term = ?1"


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
    ids = [
        {row[0] for row in db.execute(f"SELECT id FROM {name}.{quoted(fts + '_docsize')}")}
        for name in ("old", "main")
    ]
    altered: set[int] = set()
    for term in _terms(db):
        before, now = (set(db.execute(_ENTRIES.format(f"words_{name}"), (term,))) for name in ("old", "main"))
        altered.update(entry[0] for entry in before ^ now)
    named = ids[0] & ids[1]
    return OtherWords(frozenset(named), frozenset(altered & named), frozenset(ids[1] - ids[0]))


def _terms(db: sqlite3.Connection) -> Iterator[str]:
    """The words whose places differ: by a sum over all of them, which SQLite makes in one pass."""
    sums = "SELECT term, count(*), total(doc), total(doc % 65521 * (coalesce(offset, 0) + 7)), min(col), max(col)"
    before, now = (
        {row[0]: row[1:] for row in db.execute(f"{sums} FROM temp.words_{name} GROUP BY term")}
        for name in ("old", "main")
    )
    yield from (term for term in before.keys() | now.keys() if before.get(term) != now.get(term))
