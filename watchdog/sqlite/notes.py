"""What a deep check and a repair say beside the faults: keys, and the English sentence of each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from watchdog.model import Phrase, phrase
from watchdog.values import Any


class RepairNote(StrEnum):
    """What was found or done."""

    REPAIR_FINISHED = "database.note.repair-finished"
    NOTHING_TO_HEAL = "database.note.nothing-to-heal"
    ONLY_COLUMNS = "database.note.only-columns"
    ALTERED_STAY = "database.note.altered-stay"
    ORPHANS_STAY = "database.note.orphans-stay"
    HEALED_BEFORE = "database.note.healed-before"
    NOTHING_THERE = "database.note.nothing-there"
    SET_ASIDE = "database.note.set-aside"
    KEPT_ASIDE = "database.note.kept-aside"
    NOT_TAKEN = "database.note.not-taken"
    IS_MISSING = "database.note.is-missing"
    FEWER_ROWS = "database.note.fewer-rows"
    NOT_ONE_ROW = "database.note.not-one-row"
    AS_AT_BACKUP = "database.note.as-at-backup"
    NOT_MADE = "database.note.not-made"
    COLUMN_ORDER = "database.note.column-order"
    LOST_BETWEEN = "database.note.lost-between"
    LOST_EXACTLY = "database.note.lost-exactly"
    PAGE_SIZES = "database.note.page-sizes"
    TOGETHER = "database.note.together"
    CORRECTED_TEXT = "database.note.corrected-text"
    CORRECTED_BACKUP = "database.note.corrected-backup"
    PUT_BACK = "database.note.put-back"
    PUT_BACK_ALL = "database.note.put-back-all"
    BACKUP_UNREADABLE = "database.note.backup-unreadable"
    HISTORY_BACK = "database.note.history-back"
    SQL_AS_KNOWN = "database.note.sql-as-known"
    SQL_GONE = "database.note.sql-gone"
    KEPT = "database.note.kept"
    KEPT_MORE = "database.note.kept-more"
    KEPT_COUNTED = "database.note.kept-counted"
    FTS_NOT_CHECKED = "database.note.fts-not-checked"
    FTS_NO_ROOM = "database.note.fts-no-room"
    JOURNAL_IGNORED = "database.note.journal-ignored"
    FOREIGN_ROWS = "database.note.foreign-rows"
    ALTERED_ROW = "database.note.altered-row"
    ALTERED_UNNUMBERED = "database.note.altered-unnumbered"
    FTS_UNREADABLE = "database.note.fts-unreadable"
    FTS_LACKS = "database.note.fts-lacks"
    FTS_OTHER = "database.note.fts-other"
    FTS_DAMAGED = "database.note.fts-damaged"
    CANNOT_OPEN = "database.note.cannot-open"
    SCHEMA_NOT_TEXT = "database.note.schema-not-text"
    NO_UNDO = "database.note.no-undo"
    UNDONE = "database.note.undone"
    DAMAGED = "database.note.damaged"
    REPLACED = "database.note.replaced"
    NO_COLUMN_MISSING = "database.note.no-column-missing"
    DRY_RUN = "database.note.dry-run"


class RowDoubt(StrEnum):
    """Why a row may not be what was written."""

    HIDDEN = "database.doubt.hidden"
    OVERLAPS = "database.doubt.overlaps"
    DOUBLE = "database.doubt.double"
    TWO_ROWS = "database.doubt.two-rows"
    FREED = "database.doubt.freed"
    MISPLACED = "database.doubt.misplaced"
    ZEROED = "database.doubt.zeroed"
    STALE = "database.doubt.stale"
    BESIDE = "database.doubt.beside"
    CHAIN_END = "database.doubt.chain-end"
    STRANGE_SIGNS = "database.doubt.strange-signs"
    HOLE = "database.doubt.hole"
    NOT_TEXT = "database.doubt.not-text"
    INDEX_ENTRY = "database.doubt.index-entry"
    AMBIGUOUS = "database.doubt.ambiguous"
    GUESS = "database.doubt.guess"
    HEADERLESS = "database.doubt.headerless"
    LISTED_FREE = "database.doubt.listed-free"
    LOOSE = "database.doubt.loose"
    OF_BACKUP = "database.doubt.of-backup"
    OTHER_TEXT = "database.doubt.other-text"
    OTHER_KEY = "database.doubt.other-key"
    NOT_NAMED = "database.doubt.not-named"
    OTHER_WORDS = "database.doubt.other-words"
    NOT_IN_TEXT = "database.doubt.not-in-text"


class WitnessKind(StrEnum):
    """What disagrees with a healed copy."""

    INDEX = "database.witness.index"
    SEQUENCE = "database.witness.sequence"
    FOREIGN_KEYS = "database.witness.foreign-keys"
    STRAY_PAGES = "database.witness.stray-pages"
    FREE_PAGES = "database.witness.free-pages"
    EMPTY = "database.witness.empty"
    BACKUP = "database.witness.backup"
    BACKUP_ALONE = "database.witness.backup-alone"
    WAL_HEADER = "database.witness.wal-header"
    WAL_END = "database.witness.wal-end"
    WAL = "database.witness.wal"
    JOURNAL = "database.witness.journal"
    SCHEMA = "database.witness.schema"
    OTHER_SCHEMA = "database.witness.other-schema"
    TABLE = "database.witness.table"
    HOMELESS = "database.witness.homeless"
    STRAY_INDEX = "database.witness.stray-index"
    SECTORS = "database.witness.sectors"


def note(kind: RepairNote | RowDoubt | WitnessKind, **fields: Any) -> Phrase:
    """The sentence of a key."""
    return phrase(kind, ENGLISH[kind], **fields)


ENGLISH: Mapping[RepairNote | RowDoubt | WitnessKind, str] = {
    RepairNote.REPAIR_FINISHED: "a repair that was cut short is finished now",
    RepairNote.NOTHING_TO_HEAL: "it is well: there is nothing to heal",
    RepairNote.ONLY_COLUMNS: "only columns are missing: db migrate adds them",
    RepairNote.ALTERED_STAY: "the altered rows have no second copy in this file, so they stay as they are; compare them with a backup",
    RepairNote.ORPHANS_STAY: "these rows stay: healing them would mean to delete them",
    RepairNote.HEALED_BEFORE: "these very bytes were healed before ({at}): something writes them again; find out what",
    RepairNote.NOTHING_THERE: "there is nothing in the file and no backup of it: nothing was done",
    RepairNote.SET_ASIDE: "NOTHING COULD BE READ and there is no backup: the file was set aside to {path}. Hermes will start empty. Keep the quarantine; db undo puts the file back",
    RepairNote.KEPT_ASIDE: "texts and keys of rows that are lost, and what could not go back into its table, are kept in {path}",
    RepairNote.NOT_TAKEN: "tried and not good enough: {strategy} ({why})",
    RepairNote.IS_MISSING: "{type} {name} is missing",
    RepairNote.FEWER_ROWS: "{table} has {rows} rows, the damaged file has {least}",
    RepairNote.NOT_ONE_ROW: "not one row was found",
    RepairNote.AS_AT_BACKUP: "every row is as it was at the backup; what came later is not in it",
    RepairNote.NOT_MADE: "{type} {name}: not made, its table {table} is not known",
    RepairNote.COLUMN_ORDER: "the order of the columns of {table} is a guess",
    RepairNote.LOST_BETWEEN: "{table}: nothing in the file names every row; between {least} and {most} rows are lost",
    RepairNote.LOST_EXACTLY: "{table}: nothing in the file names every row; {least} rows are lost",
    RepairNote.PAGE_SIZES: "the header gives a page size of {header}, the pages have {pages}",
    RepairNote.TOGETHER: "{table}: {rows} rows put together from their indexes",
    RepairNote.CORRECTED_TEXT: "{table} {rowid}: its text was put back from the full-text index",
    RepairNote.CORRECTED_BACKUP: "{table} {rowid}: its text was put back from the backup",
    RepairNote.PUT_BACK: "{table}: {rows} rows put back from the backup as they were then (rowid {names})",
    RepairNote.PUT_BACK_ALL: "{table}: {rows} rows put back from the backup as they were then; any that were deleted on purpose since then are back (rowid {names})",
    RepairNote.BACKUP_UNREADABLE: "the backup could not be read for {table}: {why}",
    RepairNote.HISTORY_BACK: "{back} rows of the backup are back, beside {since} that were written since",
    RepairNote.SQL_AS_KNOWN: "what the schema says of {type} {name} cannot be read; it is made as Hermes or the backup has it",
    RepairNote.SQL_GONE: "what the schema says of {type} {name} cannot be read; it could not be made again",
    RepairNote.KEPT: "{table} {rowids}: kept, but {why}",
    RepairNote.KEPT_MORE: "{table} {rowids} and {more} more: kept, but {why}",
    RepairNote.KEPT_COUNTED: "{table} ({rows} without a number): kept, but {why}",
    RepairNote.FTS_NOT_CHECKED: "the content of the full-text indexes was not checked: the file has {size} MB, the limit is {limit} MB",
    RepairNote.FTS_NO_ROOM: "no room for a copy: the content of the full-text indexes was not checked",
    RepairNote.JOURNAL_IGNORED: "the header of the -journal is damaged: SQLite would not take the unfinished transaction back",
    RepairNote.FOREIGN_ROWS: "{table} has rows of another table",
    RepairNote.ALTERED_ROW: "{table} {rowid}: {why}",
    RepairNote.ALTERED_UNNUMBERED: "a row of {table}: {why}",
    RepairNote.FTS_UNREADABLE: "the full-text index {name} cannot be read: {why}",
    RepairNote.FTS_LACKS: "the full-text index {name} has {indexed} of {rows} rows of {table}",
    RepairNote.FTS_OTHER: "the full-text index {name} does not agree with the texts of its rows",
    RepairNote.FTS_DAMAGED: "the full-text index {name} is damaged: {why}",
    RepairNote.CANNOT_OPEN: "SQLite cannot open it: {why}",
    RepairNote.SCHEMA_NOT_TEXT: "SQLite cannot open it: the schema is not text",
    RepairNote.NO_UNDO: "{path}: no repair of it is left to undo; nothing was done",
    RepairNote.UNDONE: "put back as it was on {at}: {why}",
    RepairNote.DAMAGED: "damaged",
    RepairNote.REPLACED: "what was there is kept in {path}",
    RepairNote.NO_COLUMN_MISSING: "no column is missing",
    RepairNote.DRY_RUN: "dry run: nothing was changed",
    RowDoubt.HIDDEN: "bytes of its page belong to no row and are not free",
    RowDoubt.OVERLAPS: "it overlaps another row",
    RowDoubt.DOUBLE: "its page is there twice: one of the two was written over another page",
    RowDoubt.TWO_ROWS: "another row that was found has its number",
    RowDoubt.FREED: "its bytes look like those of a deleted row",
    RowDoubt.MISPLACED: "its number or key does not fit its place on the page",
    RowDoubt.ZEROED: "a page of its content reads as zeros",
    RowDoubt.STALE: "its page is older than the last commit in the -wal",
    RowDoubt.BESIDE: "it lies beside destroyed bytes",
    RowDoubt.CHAIN_END: "its overflow chain does not end where the row does",
    RowDoubt.STRANGE_SIGNS: "its text has signs that do not exist",
    RowDoubt.HOLE: "its text has a hole of zeros",
    RowDoubt.NOT_TEXT: "its text is not valid UTF-8",
    RowDoubt.INDEX_ENTRY: "it may be an entry of an index, not a row",
    RowDoubt.AMBIGUOUS: "it could belong to more than one table",
    RowDoubt.GUESS: "the order of its columns is a guess",
    RowDoubt.HEADERLESS: "it was found on a page whose header is gone",
    RowDoubt.LISTED_FREE: "it was found on a page that is listed as free",
    RowDoubt.LOOSE: "its page belongs to no tree and is not listed as free",
    RowDoubt.OF_BACKUP: "it is as it was at the backup",
    RowDoubt.OTHER_TEXT: "its text differs from both copies in the full-text indexes",
    RowDoubt.OTHER_KEY: "the index {index} has another key for it",
    RowDoubt.NOT_NAMED: "the index {index} does not name it",
    RowDoubt.OTHER_WORDS: "the full text {index} has other words for it",
    RowDoubt.NOT_IN_TEXT: "the full text {index} does not name it",
    WitnessKind.INDEX: "{table}: the index {name} of the damaged file names other rows ({rows})",
    WitnessKind.SEQUENCE: "{table}: {rows} numbers were given at its end that no row has; such rows were deleted or are lost",
    WitnessKind.FOREIGN_KEYS: "{table}: other rows refer to {rows} of its rows that are not there",
    WitnessKind.STRAY_PAGES: "{table}: pages that belong to no table hold {rows} rows that fit it; they were deleted, or are lost",
    WitnessKind.FREE_PAGES: "{table}: {rows} rows lie on pages that are listed as free; they may have been deleted, and are kept",
    WitnessKind.EMPTY: "{table}: it has no rows, and the index {name} that would prove it is destroyed",
    WitnessKind.BACKUP: "{table}: the last backup has {rows} rows more; they were deleted since, or are lost",
    WitnessKind.BACKUP_ALONE: "all {rows} rows are those of the backup; what came later is lost",
    WitnessKind.WAL_HEADER: "the header of the -wal is damaged: rows that were only there are lost; it is kept beside the broken file",
    WitnessKind.WAL_END: "the last transaction in the -wal is damaged: its rows are lost, if it was finished",
    WitnessKind.WAL: "a frame of the -wal is damaged: of {rows} pages only an older state is left",
    WitnessKind.JOURNAL: "a record of the -journal is damaged: the last transaction could not be taken back as a whole",
    WitnessKind.SCHEMA: "a part of the list of tables is gone: a table that only it named is not in this report",
    WitnessKind.OTHER_SCHEMA: "the list of tables does not fit the pages of the file: it is of another database, or of another time; rows may be missing, or stand in another table of the same shape",
    WitnessKind.TABLE: "{table}: an index or a trigger names it, but how it was made is lost; its rows are not in the new file",
    WitnessKind.HOMELESS: "{table}: {rows} rows could be of any of these; they are in salvaged.db beside the broken file",
    WitnessKind.STRAY_INDEX: "an index that nothing names any more names {rows} rows; of which table is not known",
    WitnessKind.SECTORS: "{rows} bytes of the file could not be read from the disk",
}
