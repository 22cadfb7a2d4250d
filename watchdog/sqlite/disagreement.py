"""What disagrees with a healed copy, and the sentence for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class WitnessKind(StrEnum):
    """What disagrees with a healed copy."""

    INDEX = "index"
    SEQUENCE = "sequence"
    FOREIGN_KEYS = "foreign-keys"
    STRAY_PAGES = "stray-pages"
    FREE_PAGES = "free-pages"
    EMPTY = "empty"
    BACKUP = "backup"
    BACKUP_ALONE = "backup-alone"
    WAL = "wal"
    WAL_END = "wal-end"
    WAL_HEADER = "wal-header"
    JOURNAL = "journal"
    SECTORS = "sectors"
    SCHEMA = "schema"
    TABLE = "table"
    HOMELESS = "homeless"


# These tell that something is missing, not how many rows.
UNCOUNTED = frozenset(
    {
        WitnessKind.JOURNAL,
        WitnessKind.WAL,
        WitnessKind.WAL_END,
        WitnessKind.WAL_HEADER,
        WitnessKind.SCHEMA,
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
        _SENTENCES[item.witness].format(table=item.table or UNKNOWN, rows=item.rows, name=item.name)
        for item in disagreements
    ]


_SENTENCES = {
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
    WitnessKind.TABLE: "{table}: an index or a trigger names it, but how it was made is lost; its rows are not in the new file",
    WitnessKind.HOMELESS: "{table}: {rows} rows could be of any of these; they are in salvaged.db beside the broken file",
    WitnessKind.SECTORS: "{rows} bytes of the file could not be read from the disk",
}
