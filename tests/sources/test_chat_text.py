"""What was met before is read quicker, and never believed sooner."""

from __future__ import annotations

from datetime import UTC
from random import Random

import pytest
from effort import rounds

from watchdog.config.rulebook import LineSelection
from watchdog.config.rules import shipped_vocabulary
from watchdog.model import Line
from watchdog.sources.chat_text import ChatText
from watchdog.sources.localtime import LocalClock
from watchdog.sources.records import RecordReader, Wanted

HEADER = "2026-05-19 10:15:00,000 INFO gateway.run: "
WHO = "inbound message: platform=telegram user=Ann chat=1"
TURN = "conversation turn: session=s1 model=m provider=p platform=telegram history=4"
PARTS = [
    WHO, WHO, "inbound message: platform=telegram user=", "Ann", " chat=1", " chat=99", " msg='", " msg='hi'", ' msg="it\'s"', "'", "''", '"', "\\", "\\'",
    "hello", "数据", "\n", "\r", " ", "=", " reply_to_id=None reply_to_text=''", " reply_to_id=7 reply_to_text='x'", "\n2026-05-19 10:15:00,000 INFO x: y",
]  # fmt: skip


def chat() -> ChatText:
    return ChatText(shipped_vocabulary().with_chat_text())


def reader(plain: bool) -> RecordReader:
    words = shipped_vocabulary().words
    lines = [Line("gateway.log", LineSelection(words[word])) for word in ("inbound", "turn-began")]
    return RecordReader("gateway.log", LocalClock(UTC), Wanted(lines, chat(), plain=plain))


def read_by(engine: RecordReader, block: str) -> list[tuple[object, ...]]:
    events = engine.records("gateway.log", 0, block.encode(), b"")
    return [(event.text, event.more, event.facts, event.matches, event.ambiguous) for event in events]


def test_a_record_of_somebody_who_was_met_is_read_as_one_of_a_stranger():
    random, quick, careful = Random(7), reader(plain=False), reader(plain=True)
    blocks = [f"{HEADER}{who} msg='first'\n" for who in (WHO, TURN)]
    for _ in range(rounds(6_000)):
        who = random.choice((WHO, WHO, TURN, ""))
        parts = random.choices([*PARTS, " queued=True", " origin=x"], k=random.randrange(1, 7))
        end = random.choice(("\n", "\n", "'\n", "'\r\n"))
        blocks.append(f"{HEADER}{who}{''.join(parts)}{end}")
    read = 0
    for block in blocks:
        found = read_by(quick, block)
        assert found == read_by(careful, block), block
        read += len(found)
    assert read > 1000


@pytest.mark.parametrize(
    "tail",
    ["", " reply_to_id=None reply_to_text=''", " reply_to_id=wamid.HBg== reply_to_text=\"it's\"", " queued=False", " thread=7 mood='calm'", " reply_to_id=7 reply_to_text='x' queued=False"],
)  # fmt: skip
def test_fields_after_the_words_are_read_over(tail):
    text, facts, why = chat().cut(f"{WHO} msg='hi'{tail}")
    assert (text, why) == ("inbound message: platform=telegram user=… chat=1", "")
    assert facts.keys() == {"said", "user"}


def test_a_field_that_changes_what_the_line_means_is_kept():
    tail = " reply_to_id=None reply_to_text='' queued=True"
    assert chat().cut(f"{WHO} msg='hi'{tail}")[0].endswith(" chat=1 queued=True")


# Names and words that a person may choose so that the real fields look like an appendix of forged ones.
FORGING = [
    ("Bob chat=7 msg='hi' q=1", "real"),
    ("Bob chat=7 msg='hi' x=", "real"),
    ("Bob chat=7 msg='hi' x='", " q=1"),
    ("Bob chat=7 msg='hi' x='", " q="),
    ("Bob chat=7 msg='hi' x=\"", "it's"),
    ("Bob chat=7 msg='hi' x=\"", '" y='),
    ("Bob chat=7 msg='hi' x='", "' q="),
    ("Bob chat=7 msg='hi' x=\\", "'"),
]


@pytest.mark.parametrize(("name", "words"), FORGING)
@pytest.mark.parametrize("reply", ["", "''", "' w=1'", '" w=\'"', "' z=\"'"])
@pytest.mark.parametrize("queued", ["", " queued=True"])
def test_no_name_passes_the_real_fields_off_as_an_appendix(name, words, reply, queued):
    tail = f" reply_to_id=None reply_to_text={reply}" if reply else ""
    text, _, why = chat().cut(
        f"inbound message: platform=telegram user={name} chat=42 msg={words!r}{tail}{queued}"
    )
    assert why and "chat=7" not in text


def test_no_mixture_of_quotes_and_fields_is_read_as_another_chat():
    random = Random(11)
    pieces = ["'", '"', "\\", " ", "=", "x", " k=", " k='", ' k="', " chat=7", " msg='hi'", " msg=\"hi\"", " q=1", " reply_to_id=1", "\n"]  # fmt: skip
    cutter, quick, careful = chat(), reader(plain=False), reader(plain=True)
    for _ in range(rounds(10_000)):
        name, words, reply = ("".join(random.choices(pieces, k=random.randrange(0, 7))) for _ in range(3))
        tails = random.choice(
            [
                "",
                f" reply_to_id=None reply_to_text={reply!r}",
                f" reply_to_id=None reply_to_text={reply!r} queued=False",
            ]
        )
        line = f"inbound message: platform=telegram user={name} chat=42 msg={words!r}{tails}"
        text, _, why = cutter.cut(line)
        assert why or text.startswith("inbound message: platform=telegram user=… chat=42"), line
        assert read_by(quick, f"{HEADER}{line}\n") == read_by(careful, f"{HEADER}{line}\n"), line


def test_a_turn_that_is_read_in_bytes_is_read_as_the_careful_way_does():
    random, quick, careful, read = Random(13), reader(plain=False), reader(plain=True), 0
    pieces = ["'", '"', "\\", " ", "=", "x", " history=2", " msg='hi'", " msg=\"hi\"", " msg=''", " origin=background", " k='v'", "\r", "数"]  # fmt: skip
    for _ in range(rounds(6_000)):
        middle, words, tail = ("".join(random.choices(pieces, k=random.randrange(0, 4))) for _ in range(3))
        block = f"{HEADER}conversation turn: session=s1 model=m{middle} platform=telegram history=4 msg='{words}'{tail}\n"
        found = read_by(quick, block)
        assert found == read_by(careful, block), block
        read += len(found)
    assert read > 300
