"""What a deep check and a repair say beside the faults, with the English sentence of each."""

from __future__ import annotations

from watchdog.model import Phrase, Sentence
from watchdog.values import Any


class RepairNote(Sentence):
    """What was found or done."""

    # fmt: off
    REPAIR_FINISHED = "database.note.repair-finished", "a repair that was cut short is finished now"
    NOTHING_TO_HEAL = "database.note.nothing-to-heal", "it is well: there is nothing to heal"
    ONLY_COLUMNS = "database.note.only-columns", "only columns are missing: db migrate adds them"
    ALTERED_STAY = "database.note.altered-stay", "the altered rows have no second copy in this file, so they stay as they are; compare them with a backup"
    ORPHANS_STAY = "database.note.orphans-stay", "these rows stay: healing them would mean to delete them"
    HEALED_BEFORE = "database.note.healed-before", "these very bytes were healed before ({at}): something writes them again; find out what"
    NOTHING_THERE = "database.note.nothing-there", "there is nothing in the file and no backup of it: nothing was done"
    EMPTY_START = "database.note.empty-start", "set aside; Hermes will start with an EMPTY database"
    SET_ASIDE = "database.note.set-aside", "NOTHING COULD BE READ and there is no backup: the file was set aside to {path}. Hermes will start empty. Keep the quarantine; db undo puts the file back"
    KEPT_ASIDE = "database.note.kept-aside", "texts and keys of rows that are lost, and what could not go back into its table, are kept in {path}"
    NOT_TAKEN = "database.note.not-taken", "tried and not good enough: {strategy} ({why})"
    IS_MISSING = "database.note.is-missing", "{type} {name} is missing"
    FEWER_ROWS = "database.note.fewer-rows", "{table} has {rows} rows, the damaged file has {least}"
    NOT_ONE_ROW = "database.note.not-one-row", "not one row was found"
    AS_AT_BACKUP = "database.note.as-at-backup", "every row is as it was at the backup; what came later is not in it"
    NOT_MADE = "database.note.not-made", "{type} {name}: not made, its table {table} is not known"
    COLUMN_ORDER = "database.note.column-order", "the order of the columns of {table} is a guess"
    LOST_BETWEEN = "database.note.lost-between", "{table}: nothing in the file names every row; between {least} and {most} rows are lost"
    LOST_EXACTLY = "database.note.lost-exactly", "{table}: nothing in the file names every row; {least} rows are lost"
    PAGE_SIZES = "database.note.page-sizes", "the header gives a page size of {header}, the pages have {pages}"
    TOGETHER = "database.note.together", "{table}: {rows} rows put together from their indexes"
    CORRECTED_TEXT = "database.note.corrected-text", "{table} {rowid}: its text was put back from the full-text index"
    CORRECTED_BACKUP = "database.note.corrected-backup", "{table} {rowid}: its text was put back from the backup"
    PUT_BACK = "database.note.put-back", "{table}: {rows} rows put back from the backup as they were then (rowid {names})"
    PUT_BACK_ALL = "database.note.put-back-all", "{table}: {rows} rows put back from the backup as they were then; any that were deleted on purpose since then are back (rowid {names})"
    BACKUP_UNREADABLE = "database.note.backup-unreadable", "the backup could not be read for {table}: {why}"
    HISTORY_BACK = "database.note.history-back", "{back} rows of the backup are back, beside {since} that were written since"
    SQL_AS_KNOWN = "database.note.sql-as-known", "what the schema says of {type} {name} cannot be read; it is made as Hermes or the backup has it"
    SQL_GONE = "database.note.sql-gone", "what the schema says of {type} {name} cannot be read; it could not be made again"
    KEPT = "database.note.kept", "{table} {rowids}: kept, but {why}"
    KEPT_MORE = "database.note.kept-more", "{table} {rowids} and {more} more: kept, but {why}"
    KEPT_COUNTED = "database.note.kept-counted", "{table} ({rows} without a number): kept, but {why}"
    FTS_NOT_CHECKED = "database.note.fts-not-checked", "the content of the full-text indexes was not checked: the file has {size} MB, the limit is {limit} MB"
    FTS_NO_ROOM = "database.note.fts-no-room", "no room for a copy: the content of the full-text indexes was not checked"
    JOURNAL_IGNORED = "database.note.journal-ignored", "the header of the -journal is damaged: SQLite would not take the unfinished transaction back"
    FOREIGN_ROWS = "database.note.foreign-rows", "{table} has rows of another table"
    ALTERED_ROW = "database.note.altered-row", "{table} {rowid}: {why}"
    ALTERED_UNNUMBERED = "database.note.altered-unnumbered", "a row of {table}: {why}"
    FTS_UNREADABLE = "database.note.fts-unreadable", "the full-text index {name} cannot be read: {why}"
    FTS_LACKS = "database.note.fts-lacks", "the full-text index {name} has {indexed} of {rows} rows of {table}"
    FTS_OTHER = "database.note.fts-other", "the full-text index {name} does not agree with the texts of its rows"
    FTS_DAMAGED = "database.note.fts-damaged", "the full-text index {name} is damaged: {why}"
    CANNOT_OPEN = "database.note.cannot-open", "SQLite cannot open it: {why}"
    SCHEMA_NOT_TEXT = "database.note.schema-not-text", "SQLite cannot open it: the schema is not text"
    NO_UNDO = "database.note.no-undo", "{path}: no repair of it is left to undo; nothing was done"
    UNDONE = "database.note.undone", "put back as it was on {at}: {why}"
    DAMAGED = "database.note.damaged", "damaged"
    REPLACED = "database.note.replaced", "what was there is kept in {path}"
    NO_COLUMN_MISSING = "database.note.no-column-missing", "no column is missing"
    DRY_RUN = "database.note.dry-run", "dry run: nothing was changed"
    # fmt: on


class RowDoubt(Sentence):
    """Why a row may not be what was written."""

    # fmt: off
    HIDDEN = "database.doubt.hidden", "bytes of its page belong to no row and are not free"
    OVERLAPS = "database.doubt.overlaps", "it overlaps another row"
    DOUBLE = "database.doubt.double", "its page is there twice: one of the two was written over another page"
    TWO_ROWS = "database.doubt.two-rows", "another row that was found has its number"
    FREED = "database.doubt.freed", "its bytes look like those of a deleted row"
    MISPLACED = "database.doubt.misplaced", "its number or key does not fit its place on the page"
    ZEROED = "database.doubt.zeroed", "a part of its content reads as zeros"
    STALE = "database.doubt.stale", "its page is older than the last commit in the -wal"
    BESIDE = "database.doubt.beside", "it lies beside destroyed bytes"
    CHAIN_END = "database.doubt.chain-end", "its overflow chain does not end where the row does"
    STRANGE_SIGNS = "database.doubt.strange-signs", "its text has signs that do not exist"
    HOLE = "database.doubt.hole", "its text has a hole of zeros"
    NOT_TEXT = "database.doubt.not-text", "its text is not valid UTF-8"
    INDEX_ENTRY = "database.doubt.index-entry", "it may be an entry of an index, not a row"
    AMBIGUOUS = "database.doubt.ambiguous", "it could belong to more than one table"
    GUESS = "database.doubt.guess", "the order of its columns is a guess"
    HEADERLESS = "database.doubt.headerless", "it was found on a page whose header is gone"
    LISTED_FREE = "database.doubt.listed-free", "it was found on a page that is listed as free"
    LOOSE = "database.doubt.loose", "its page belongs to no tree and is not listed as free"
    OF_BACKUP = "database.doubt.of-backup", "it is as it was at the backup"
    OTHER_TEXT = "database.doubt.other-text", "its text differs from both copies in the full-text indexes"
    OTHER_KEY = "database.doubt.other-key", "the index {index} has another key for it"
    NOT_NAMED = "database.doubt.not-named", "the index {index} does not name it"
    OTHER_WORDS = "database.doubt.other-words", "the full text {index} has other words for it"
    NOT_IN_TEXT = "database.doubt.not-in-text", "the full text {index} does not name it"
    # fmt: on


class WitnessKind(Sentence):
    """What disagrees with a healed copy."""

    # fmt: off
    INDEX = "database.witness.index", "{table}: the index {name} of the damaged file names other rows ({rows})"
    SEQUENCE = "database.witness.sequence", "{table}: {rows} numbers were given at its end that no row has; such rows were deleted or are lost"
    FOREIGN_KEYS = "database.witness.foreign-keys", "{table}: other rows refer to {rows} of its rows that are not there"
    STRAY_PAGES = "database.witness.stray-pages", "{table}: pages that belong to no table hold {rows} rows that fit it; they were deleted, or are lost"
    FREE_PAGES = "database.witness.free-pages", "{table}: {rows} rows lie on pages that are listed as free; they may have been deleted, and are kept"
    EMPTY = "database.witness.empty", "{table}: it has no rows, and the index {name} that would prove it is destroyed"
    BACKUP = "database.witness.backup", "{table}: the last backup has {rows} rows more; they were deleted since, or are lost"
    BACKUP_ALONE = "database.witness.backup-alone", "all {rows} rows are those of the backup; what came later is lost"
    WAL_HEADER = "database.witness.wal-header", "the header of the -wal is damaged: rows that were only there are lost; it is kept beside the broken file"
    WAL_END = "database.witness.wal-end", "the last transaction in the -wal is damaged: its rows are lost, if it was finished"
    WAL = "database.witness.wal", "a frame of the -wal is damaged: of {rows} pages only an older state is left"
    JOURNAL = "database.witness.journal", "a record of the -journal is damaged: the last transaction could not be taken back as a whole"
    SCHEMA = "database.witness.schema", "a part of the list of tables is gone: a table that only it named is not in this report"
    OTHER_SCHEMA = "database.witness.other-schema", "the list of tables does not fit the pages of the file: it is of another database, or of another time; rows may be missing, or stand in another table of the same shape"
    TABLE = "database.witness.table", "{table}: an index or a trigger names it, but how it was made is lost; its rows are not in the new file"
    HOMELESS = "database.witness.homeless", "{table}: {rows} rows could be of any of these; they are in salvaged.db beside the broken file"
    STRAY_INDEX = "database.witness.stray-index", "an index that nothing names any more names {rows} rows; of which table is not known"
    SECTORS = "database.witness.sectors", "{rows} bytes of the file could not be read from the disk"
    # fmt: on


def note(kind: Sentence, **fields: Any) -> Phrase:
    return kind(**fields)
