"""What was met before is read quicker, and never believed sooner."""

from __future__ import annotations

from random import Random

import pytest

from watchdog.config.rules import shipped_vocabulary
from watchdog.sources.chat_text import ChatText

WHO = "inbound message: platform=telegram user=Ann chat=1"
PARTS = [
    WHO, WHO, "inbound message: platform=telegram user=", "Ann", " chat=1", " chat=99", " msg='", " msg='hi'", ' msg="it\'s"', "'", "''", '"', "\\", "\\'",
    "hello", "数据", "\n", "\r", " ", "=", " reply_to_id=None reply_to_text=''", " reply_to_id=7 reply_to_text='x'", "\n2026-05-19 10:15:00,000 INFO x: y",
]  # fmt: skip


def chat() -> ChatText:
    return ChatText(shipped_vocabulary().with_chat_text())


def test_an_inbound_record_of_somebody_who_was_met_is_read_as_one_of_a_stranger():
    random, met, careful = Random(7), chat(), chat()
    first = f"{WHO} msg='first'\n".encode()
    assert met.cut_honest(first, 0, len(first)) is not None
    read = 0
    for _ in range(60_000):
        text = (
            WHO * (random.random() < 0.7)
            + "".join(random.choices(PARTS, k=random.randrange(1, 7)))
            + "'" * (random.random() < 0.5)
            + "\n"
        )
        block = text.encode()
        told = met.cut_honest(block, 0, len(block))
        if told is not None:
            read += 1
            assert (*told[:2], "") == careful.cut(text.rstrip("\n").rstrip("\r")), text
    assert read > 300


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
    raw = f"{WHO} msg='hi'{tail}\n".encode()
    found = chat().cut_honest(raw, 0, len(raw))
    assert found is not None and found[0].endswith(" chat=1 queued=True")


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
    reader = chat()
    for _ in range(60_000):
        name, words, reply = ("".join(random.choices(pieces, k=random.randrange(0, 7))) for _ in range(3))
        tails = random.choice(
            [
                "",
                f" reply_to_id=None reply_to_text={reply!r}",
                f" reply_to_id=None reply_to_text={reply!r} queued=False",
            ]
        )
        line = f"inbound message: platform=telegram user={name} chat=42 msg={words!r}{tails}"
        text, _, why = reader.cut(line)
        assert why or text.startswith("inbound message: platform=telegram user=… chat=42"), line
        raw = f"{line}\n".encode()
        found = reader.cut_honest(raw, 0, len(raw))
        assert found is None or (*found[:2], "") == reader.cut(line), line


def test_a_turn_that_is_read_in_bytes_is_read_as_the_careful_way_does():
    random, reader, read = Random(13), chat(), 0
    pieces = ["'", '"', "\\", " ", "=", "x", " history=2", " msg='hi'", " msg=\"hi\"", " msg=''", " origin=background", " k='v'", "\r", "数"]  # fmt: skip
    for _ in range(30_000):
        middle, words, tail = ("".join(random.choices(pieces, k=random.randrange(0, 4))) for _ in range(3))
        line = f"conversation turn: session=s1 model=m{middle} history=4 msg='{words}'{tail}"
        raw = f"{line}\n".encode()
        if (found := reader.cut_honest(raw, 0, len(raw))) is not None:
            read += 1
            assert (*found[:2], "") == reader.cut(line.rstrip("\r")), line
    assert read > 300
