"""Never exit 0 with a difference: databases made, damaged, healed and compared row by row."""

from __future__ import annotations

import generated
import pytest
from effort import rounds

ROUNDS = rounds(50)


def told_of(seeds: range, folder, level: str = generated.PLAIN) -> None:
    for seed in seeds:
        place = folder / str(seed)
        place.mkdir()
        outcome = generated.play(seed, place, level)
        assert outcome.lies == [], f"seed {seed}: {outcome.label}, {outcome.faults}, {outcome.strategy}"


@pytest.mark.parametrize("seeds", [range(start, ROUNDS, 10) for start in range(10)], ids=str)
@pytest.mark.usefixtures("in_process")
def test_what_a_heal_says_is_true(tmp_path, seeds):
    told_of(seeds, tmp_path, generated.LEVELS[seeds.start % 4])


def test_what_a_heal_in_its_own_process_says_is_true(tmp_path):
    told_of(range(ROUNDS, ROUNDS + 3), tmp_path)


@pytest.mark.parametrize(
    ("seed", "harder"),
    [
        (300283, False),  # a -wal with a bad frame, and a header whose two bytes for the journal mode differ
        (101283, False),  # two indexes of two tables have exchanged their first pages
        (7000228, False),  # a page that could be of two tables whose definition is lost
        (
            7001184,
            False,
        ),  # a table that nothing names any more, and whose rows could be texts of a full-text index
        (
            11000128,
            False,
        ),  # an overflow page of a row without rowid was written over: its key, too, is another
        (28, True),  # a -journal whose header counts too few records
        (38, True),  # a table whose name in the list of tables is damaged
        (1363, True),  # one leaf is left of a table whose first page is gone
        (1395, True),  # tables are gone with the pages that named them
        (60001, True),  # a page that counts three cells too few
        (60392, True),  # a page whose head is wrong by one byte
        (60517, True),  # a leaf over the first page of a table: its rows with long texts are on no other page
        (1284, True),  # a table is empty, and an index that no schema names any more knows better
        (1530, True),  # one bit of a number in an index
        (60124, True),  # a page whose bytes have all moved by one
        (60418, True),  # the first page of another database, in which a table is not named
        (80302, True),  # the first page of another database: rows pass for those of other tables
        (930172, True),  # a destroyed row whose number is destroyed, too
        (930238, True),  # copies of the first pages behind the place where the file was cut off
        (1300631, True),  # one bit of a key of a table without rowid and without an index
        (1300273, True),  # the first page of another database, and the page of a table that it does not count
        (8100039, True),  # the schema gives an index the first page of a table: its own names another key
        (7500019, True),  # a leaf written over the first leaf of a table, whose rows fit another's
        (
            9100181,
            True,
        ),  # the beginning of the file behind its end: indexes and interior pages of other tables
        (9100505, True),  # the same: an interior page of another table leads to rows that were never there
        (9100857, True),  # an index that no schema names any more agrees with one row of a table by chance
        (14100124, True),  # indexes lie where those of other tables should: they name rows that never were
        (1378, True),  # rows that are there twice: the rest of the file has moved
    ],
)
@pytest.mark.usefixtures("in_process")
def test_what_a_heal_once_said_wrongly_is_true_now(tmp_path, seed, harder):
    told_of(range(seed, seed + 1), tmp_path, generated.HARDER if harder else generated.PLAIN)


@pytest.mark.parametrize(
    "seed",
    [
        43,  # the end of a long entry of a torn index is another's: it names a number that never was
        13000019,  # the last frame of the -wal was written over
        13000045,  # a sector of zeros in a content
        13001103,  # page 1 of a database in DELETE mode, and a sound -wal
        13001114,  # rows out of their place whose numbers others have
    ],
)
@pytest.mark.usefixtures("in_process")
def test_what_a_heal_once_said_wrongly_of_a_wild_fault_is_true_now(tmp_path, seed):
    told_of(range(seed, seed + 1), tmp_path, generated.WILD)


@pytest.mark.parametrize(
    "seed",
    [
        910184,  # an empty table whose first page was written over another, and leaves in no tree
        1200258,  # a schema that is no text, with which SQLite cannot read the old full text
        900126,  # an interior page of a table without rowid, which has rows of its own, is in no tree
        1200534,  # a table without rowid that nothing names any more, and whose rows could be entries of an index
        7400094,  # a row was written over another
        9200606,  # half of a leaf is old: its list of free bytes leads nowhere
        9200504,  # two tables have exchanged a leaf: the rows of one are short rows of the other
        9200584,  # a leaf without a tree whose first row is destroyed
        11200096,  # a table and a table of a full-text index have exchanged a leaf
        11200251,  # an index that no schema names any more, and a table whose rows it does not name
        11200268,  # two tables of one shape have exchanged a leaf
        12500020,  # an index over a generated column that is a copy of another index
        14200147,  # an entry of a torn index whose record is longer than it says: what follows it is no number of a row
        900291,  # a page in no tree that could be of a table without an index, and of one that misses nothing
    ],
)
@pytest.mark.usefixtures("in_process")
def test_what_a_heal_once_said_wrongly_of_a_rare_fault_is_true_now(tmp_path, seed):
    told_of(range(seed, seed + 1), tmp_path, generated.RARE)
