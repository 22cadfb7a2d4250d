"""What can be wrong with a database: a key with fields, and the English sentence for each."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from watchdog.model import Phrase, Reason, phrase
from watchdog.values import Any


class Fault(StrEnum):
    DELETED_FILE = "database.deleted-file"
    CANNOT_LOOK = "database.cannot-look"
    NO_SUCH_FILE = "database.no-such-file"
    ONLY_WAL = "database.only-wal"
    GONE = "database.gone"
    EMPTIED = "database.emptied"
    EMPTY = "database.empty"
    HEADER = "database.header"
    SCHEMA = "database.schema"
    STALE_WAL = "database.stale-wal"
    TORN_WAL = "database.torn-wal"
    ROOTS = "database.roots"
    CUT_OFF = "database.cut-off"
    LONGER = "database.longer"
    UNFINISHED = "database.unfinished-repair"
    NO_ROWS = "database.no-rows"
    DRIFT = "database.drift"
    NEWER = "database.newer"
    CANNOT_OPEN = "database.cannot-open"
    INTEGRITY = "database.integrity"
    FULL_TEXT = "database.full-text"
    CONTENT = "database.content"
    ORPHANS = "database.orphans"


class Detail(StrEnum):
    """What exactly is wrong, where a fault names it."""

    TLS = "database.detail.tls"
    FOREIGN = "database.detail.foreign"
    ZEROS = "database.detail.zeros"
    MAGIC = "database.detail.magic"
    MAGIC_BYTE = "database.detail.magic-byte"
    TOO_SHORT = "database.detail.too-short"
    PAGE_SIZE = "database.detail.page-size"
    FILE_FORMAT = "database.detail.file-format"
    FIXED_BYTES = "database.detail.fixed-bytes"
    ENCODING = "database.detail.encoding"
    SCHEMA_TWICE = "database.detail.schema-twice"
    SCHEMA_STRANGE = "database.detail.schema-strange"
    SCHEMA_UNREADABLE = "database.detail.schema-unreadable"
    SCHEMA_TREE = "database.detail.schema-tree"
    SCHEMA_ROW = "database.detail.schema-row"
    NO_BTREE_PAGE = "database.detail.no-btree-page"
    PAGE_HEADER = "database.detail.page-header"
    CELL_POINTERS = "database.detail.cell-pointers"
    CELL = "database.detail.cell"
    CHAIN_BROKEN = "database.detail.chain-broken"
    CHAIN_LENGTH = "database.detail.chain-length"
    CHAIN_CIRCLE = "database.detail.chain-circle"
    OVERFLOW_CUT = "database.detail.overflow-cut"
    RECORD_HEADER = "database.detail.record-header"
    RECORD_LONGER = "database.detail.record-longer"
    RECORD_LENGTH = "database.detail.record-length"
    RECORD_TYPE = "database.detail.record-type"
    AT_BACKUP = "database.detail.at-backup"
    AT_DATED_BACKUP = "database.detail.at-dated-backup"
    REPAIR_RUNS = "database.detail.repair-runs"
    DANGLING_LINK = "database.detail.dangling-link"
    NO_FILE = "database.detail.no-file"
    NO_PERMISSION = "database.detail.no-permission"
    EXCHANGED = "database.detail.exchanged"
    LED_ASTRAY = "database.detail.led-astray"
    BUSY = "database.detail.busy"
    CHANGING = "database.detail.changing"
    SQLITE_CANNOT = "database.detail.sqlite-cannot"
    ENDLESS = "database.detail.endless"
    CHECK_DIED = "database.detail.check-died"
    ONE_FAULT = "database.detail.one-fault"
    FAULTS = "database.detail.faults"
    MANY_FAULTS = "database.detail.many-faults"
    ONE_ROW = "database.detail.one-row"
    ROWS = "database.detail.rows"
    MANY_ROWS = "database.detail.many-rows"
    CANNOT_READ = "database.detail.cannot-read"
    CANNOT_SEE = "database.detail.cannot-see"
    IN_GATEWAY = "database.detail.in-gateway"
    HOT_JOURNAL = "database.detail.hot-journal"
    LONG_WAL = "database.detail.long-wal"
    WAL_SAVES = "database.detail.wal-saves"
    SQLITE_SAYS = "database.detail.sqlite-says"
    KEEP_WAL = "database.detail.keep-wal"
    WAL_SHORT = "database.detail.wal-short"
    WAL_IGNORED = "database.detail.wal-ignored"


ENGLISH: Mapping[Fault, str] = {
    Fault.DELETED_FILE: (
        "process {pid} ({name}) has a deleted {what} open: what it writes is lost when it stops; "
        "copy it from /proc/{pid}/fd before you stop it"
    ),
    Fault.CANNOT_LOOK: "{why}",
    Fault.NO_SUCH_FILE: "no such file",
    Fault.ONLY_WAL: "the file is gone but its -wal is still there ({size} bytes): do not start the gateway, and keep the -wal",
    Fault.GONE: "the file is gone; it held {rows} rows{when}",
    Fault.EMPTIED: "the file is empty (0 bytes); it held {rows} rows{when}",
    Fault.EMPTY: (
        "the file is empty (0 bytes): Hermes would silently start anew; if it held anything before, restore it"
    ),
    Fault.HEADER: "{why}",
    Fault.SCHEMA: "{why}",
    Fault.STALE_WAL: (
        "the -wal is older than the file: opening them together loses what is newer "
        "(change {change} of {pages} pages against {file_change} of {file_pages})"
    ),
    Fault.TORN_WAL: (
        "frame {frame} of the -wal is damaged: SQLite ignores it and {behind} committed frames behind it; "
        "do not start the gateway, heal it first"
    ),
    Fault.ROOTS: "the first page is destroyed of {names}",
    Fault.CUT_OFF: (
        "the file is cut off: {size} bytes, but its header counts {pages} pages of {page_size} ({whole} bytes)"
    ),
    Fault.LONGER: (
        "the header counts {pages} pages, but the file has {there}: SQLite does not see what lies behind"
    ),
    Fault.UNFINISHED: "a repair was cut short; run db heal again to finish it",
    Fault.NO_ROWS: "{table} has no rows; it had {rows}{when}",
    Fault.DRIFT: "lacks {what} of {reference}",
    Fault.NEWER: "its schema (version {version}) is newer than the newest that is known here ({known})",
    Fault.CANNOT_OPEN: "{why}",
    Fault.INTEGRITY: "integrity_check finds {count}, the first: {first}",
    Fault.FULL_TEXT: "{why}",
    Fault.CONTENT: "the content of {count} is altered, the first: {first}",
    Fault.ORPHANS: "{rows} rows refer to a row that does not exist (foreign keys)",
}


def fault(kind: Fault, **fields: Any) -> Reason:
    return Reason(kind, fields)


def sentence(reason: Reason) -> Phrase:
    """What a fault says in English."""
    return phrase(reason.key, ENGLISH[Fault(reason.key)], **reason.fields)
