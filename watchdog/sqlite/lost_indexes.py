"""Indexes whose first page nothing names, found by the rows that their entries agree with: they name what is lost."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from watchdog.sqlite.format import Bad, SchemaObject, Text, Value, read_record
from watchdog.sqlite.layout import Layout, affinity
from watchdog.sqlite.page_scan import Pages, Tree
from watchdog.sqlite.survey import Survey, is_partial, last_integer, payloads

SAMPLE = 40  # entries of a tree that are held against the rows
Agrees = Callable[[Layout, Sequence[str], Sequence[Value]], bool]


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


def find(survey: Survey, trees: Sequence[Tree], rows: Rows) -> LostIndexes:
    """Give trees that no page leads to, to the indexes that miss theirs; the others are given back."""
    wanted = _wanted(survey)
    found: dict[str, list[Tree]] = {}
    strange: list[tuple[Tree, list[str]]] = []
    for tree in trees:
        entries = list(_entries(survey.pages, tree))
        scores = {
            name: sum(
                rows.agree(survey.layouts[table], survey.columns[name][:-1], entry) for entry in entries
            )
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
        free = [name for name in names if name not in found]
        if len(free) == 1:
            found[free[0]] = [tree]
        elif free:
            result.unknown += survey.cells(tree)
    for name, parts in found.items():
        result.trees[name] = _joined(survey, (name, wanted[name]), parts, rows)
    return result


def _wanted(survey: Survey) -> Mapping[str, str]:
    """The indexes that have no first page, with their tables; also SQLite's own, which a lost schema does not list."""
    listed = {entry.name: entry for entry in survey.entries if entry.type == "index"}
    own = {f"sqlite_autoindex_{table}": table for table in survey.tables()}
    found = {}
    for name, columns in survey.columns.items():
        entry, table = listed.get(name), own.get(name.rpartition("_")[0], "")
        if entry is not None:
            table = "" if entry.root else entry.table
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
    entry = next((one for one in survey.entries if one.type == "index" and one.name == name), None)
    if entry is None:
        entry = SchemaObject("index", name, table, "")
        survey.entries.append(entry)
    for tree in sorted(parts, key=survey.cells, reverse=True):
        ids = {last_integer(record) for record in payloads(survey.pages, tree) if record is not None}
        named, here = rows.named(table, {number for number in ids if number is not None})
        sure = is_partial(entry.sql) or named == here or (len(parts) == 1 and 2 * named >= here > 0)
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
