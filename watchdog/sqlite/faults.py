"""What a look at a database can find, with the English sentence of each."""

from __future__ import annotations

from watchdog.model import Phrase, Reason, Sentence
from watchdog.values import Any


class Fault(Sentence):
    """What is wrong with a database."""

    # fmt: off
    DELETED_FILE = "database.deleted-file", "process {pid} ({name}) has a deleted {what} open: what it writes is lost when it stops; copy it from /proc/{pid}/fd before you stop it"
    CANNOT_LOOK = "database.cannot-look", "{why}"
    NO_SUCH_FILE = "database.no-such-file", "no such file; check the name"
    ONLY_WAL = "database.only-wal", "the file is gone but its -wal is still there ({size} bytes): do not start the gateway, and keep the -wal"
    GONE = "database.gone", "the file is gone; it held {rows} rows{when}"
    EMPTIED = "database.emptied", "the file is empty (0 bytes); it held {rows} rows{when}"
    EMPTY = "database.empty", "the file is empty (0 bytes): Hermes would silently start anew; if it held anything before, restore it"
    HEADER = "database.header", "{why}"
    SCHEMA = "database.schema", "{why}"
    STALE_WAL = "database.stale-wal", "the -wal is older than the file: opening them together loses what is newer (change {change} of {pages} pages against {file_change} of {file_pages})"
    TORN_WAL = "database.torn-wal", "frame {frame} of the -wal is damaged: SQLite ignores it and {behind} committed frames behind it; do not start the gateway, heal it first"
    TORN_WAL_END = "database.torn-wal-end", "frame {frame} of the -wal was written over: the last transaction in it is lost, if it was finished"
    ROOTS = "database.roots", "the first page is destroyed of {names}"
    CUT_OFF = "database.cut-off", "the file is cut off: {size} bytes, but its header counts {pages} pages of {page_size} ({whole} bytes)"
    LONGER = "database.longer", "the header counts {pages} pages, but the file has {there}: SQLite does not see what lies behind"
    UNFINISHED = "database.unfinished-repair", "a repair was cut short; run db heal again to finish it"
    NO_ROWS = "database.no-rows", "{table} has no rows; it had {rows}{when}"
    DRIFT = "database.drift", "lacks {what} of {reference}"
    NEWER = "database.newer", "its schema (version {version}) is newer than the newest that is known here ({known})"
    CANNOT_OPEN = "database.cannot-open", "{why}"
    INTEGRITY = "database.integrity", "integrity_check finds {count}, the first: {first}"
    FULL_TEXT = "database.full-text", "{why}"
    CONTENT = "database.content", "the content of {count} is altered, the first: {first}"
    ORPHANS = "database.orphans", "{rows} rows refer to a row that does not exist (foreign keys)"
    # fmt: on


class Detail(Sentence):
    """What exactly is wrong, where a fault names it."""

    # fmt: off
    TLS = "database.detail.tls", "a TLS record was written over the header: a socket and the file shared a descriptor"
    FOREIGN = "database.detail.foreign", "the file is {name}, not a database"
    GZIP = "database.detail.gzip", "gzip data"
    AGE = "database.detail.age", "an age-encrypted file"
    ZIP = "database.detail.zip", "a zip archive"
    ZSTD = "database.detail.zstd", "zstd data"
    BZIP2 = "database.detail.bzip2", "bzip2 data"
    XZ = "database.detail.xz", "xz data"
    ZEROS = "database.detail.zeros", "the header is all zeros"
    MAGIC = "database.detail.magic", "the first 16 bytes are not SQLite's: {count} wrong"
    MAGIC_BYTE = "database.detail.magic-byte", "the first 16 bytes are not SQLite's: {count} wrong (byte {number} is {value})"
    DISK = "database.detail.disk", "the disk does not give its first page (read errors)"
    TOO_SHORT = "database.detail.too-short", "the file has {count} bytes; a database has at least 512"
    PAGE_SIZE = "database.detail.page-size", "the header gives a page size of {size}, which does not exist"
    FILE_FORMAT = "database.detail.file-format", "the header gives file format {format}, which does not exist"
    FIXED_BYTES = "database.detail.fixed-bytes", "the fixed bytes of the header are wrong"
    ENCODING = "database.detail.encoding", "the header gives text encoding {encoding} and schema format {format}, which do not go together"
    SCHEMA_TWICE = "database.detail.schema-twice", "the schema names {name} twice; SQLite refuses to open such a file"
    SCHEMA_STRANGE = "database.detail.schema-strange", "what the schema says of {name} makes nothing; SQLite refuses to open such a file"
    SCHEMA_UNREADABLE = "database.detail.schema-unreadable", "the schema cannot be read: {why}"
    SCHEMA_TREE = "database.detail.schema-tree", "the tree of the schema table is damaged"
    SCHEMA_ROW = "database.detail.schema-row", "a row of the schema table is damaged"
    NO_BTREE_PAGE = "database.detail.no-btree-page", "page {number} is not a b-tree page"
    PAGE_HEADER = "database.detail.page-header", "the header of page {number} is wrong"
    CELL_POINTERS = "database.detail.cell-pointers", "the cell pointers of page {number} are wrong"
    CELL = "database.detail.cell", "a cell runs over the end of its page"
    CHAIN_BROKEN = "database.detail.chain-broken", "an overflow chain is broken"
    CHAIN_LENGTH = "database.detail.chain-length", "an overflow chain does not end where the row does"
    CHAIN_CIRCLE = "database.detail.chain-circle", "an overflow chain runs in a circle"
    OVERFLOW_CUT = "database.detail.overflow-cut", "an overflow page is cut off"
    RECORD_HEADER = "database.detail.record-header", "the header of a record is wrong"
    RECORD_LONGER = "database.detail.record-longer", "a record is longer than its payload"
    RECORD_LENGTH = "database.detail.record-length", "a record is shorter or longer than its payload"
    RECORD_TYPE = "database.detail.record-type", "a record has a type that does not exist"
    AT_BACKUP = "database.detail.at-backup", " at the last good backup"
    AT_DATED_BACKUP = "database.detail.at-dated-backup", " at the last good backup ({at})"
    REPAIR_RUNS = "database.detail.repair-runs", "a repair is running; look again when it is done"
    DANGLING_LINK = "database.detail.dangling-link", "a link to {path}, which does not exist; put the database there, or remove the link"
    NO_FILE = "database.detail.no-file", "{what} where a database should be; move it away"
    FOLDER = "database.detail.folder", "a directory"
    FIFO = "database.detail.fifo", "a FIFO"
    SOCKET = "database.detail.socket", "a socket"
    DEVICE = "database.detail.device", "a device"
    ODD_FILE = "database.detail.odd-file", "no file"
    NO_PERMISSION = "database.detail.no-permission", "no permission to read it; run as its owner or as root, and if that is you: chmod u+r"
    EXCHANGED = "database.detail.exchanged", "it was exchanged for another file while it was looked at"
    LED_ASTRAY = "database.detail.led-astray", "a link of {who}'s leads to a file of another user; root does not look at it. Put the file itself there"
    BUSY = "database.detail.busy", "busy: another process holds a lock, so it could not be checked, which is no fault of it; look again later"
    CHANGING = "database.detail.changing", "it keeps changing while it is looked at; look again in a minute"
    SQLITE_CANNOT = "database.detail.sqlite-cannot", "SQLite could not look ({why}): check the permissions and the free space; that is no fault of the file"
    ENDLESS = "database.detail.endless", "SQLite did not finish its checks in {seconds} s; look again when the machine is idle, or put back a backup"
    CHECK_DIED = "database.detail.check-died", "the process that checks it died, most likely for lack of memory; free some and look again"
    ONE_FAULT = "database.detail.one-fault", "1 fault"
    FAULTS = "database.detail.faults", "{count} faults"
    MANY_FAULTS = "database.detail.many-faults", "100 faults or more"
    ONE_ROW = "database.detail.one-row", "1 row"
    ROWS = "database.detail.rows", "{count} rows"
    MANY_ROWS = "database.detail.many-rows", "100 rows or more"
    CANNOT_READ = "database.detail.cannot-read", "cannot read it: {why}"
    CANNOT_SEE = "database.detail.cannot-see", "cannot look: {why}"
    IN_GATEWAY = "database.detail.in-gateway", "started from inside the gateway: closing a file there drops the gateway's own locks on it; run the watchdog from system cron"
    HOT_JOURNAL = "database.detail.hot-journal", "a crash left a -journal: the next opener takes the unfinished transaction back; never remove it"
    LONG_WAL = "database.detail.long-wal", "the -wal is long and has no index; the schema was not read"
    WAL_SAVES = "database.detail.wal-saves", "the header in the file is bad, but the -wal holds a good page 1: it heals at the next checkpoint; do nothing, and never remove the -wal"
    SQLITE_SAYS = "database.detail.sqlite-says", "integrity_check: {row}"
    KEEP_WAL = "database.detail.keep-wal", "{why}; keep the file"
    WAL_SHORT = "database.detail.wal-short", "the -wal has {size} bytes, less than its own header"
    WAL_IGNORED = "database.detail.wal-ignored", "the header of the -wal is damaged; SQLite ignores such a WAL"
    # fmt: on


def fault(kind: Fault, **fields: Any) -> Reason:
    return Reason(kind, fields)


def sentence(reason: Reason) -> Phrase:
    """What a fault says in English."""
    return Fault(reason.key)(**reason.fields)  # type: ignore[call-arg]  # by its value
