"""What was met before is read quicker, and never believed sooner."""

from __future__ import annotations

from random import Random

from watchdog.sources.chattext import HONEST, Inbounds, cut

WHO = "inbound message: platform=telegram user=Ann chat=1"
PARTS = [
    WHO, WHO, "inbound message: platform=telegram user=", "Ann", " chat=1", " chat=99", " msg='", " msg='hi'", ' msg="it\'s"', "'", "''", '"', "\\", "\\'",
    "hello", "数据", "\n", "\r", " ", "=", " reply_to_id=None reply_to_text=''", " reply_to_id=7 reply_to_text='x'", "\n2026-05-19 10:15:00,000 INFO x: y",
]  # fmt: skip


def test_an_inbound_record_of_somebody_who_was_met_is_read_as_one_of_a_stranger():
    random, met = Random(7), Inbounds()
    first = f"{WHO} msg='first'\n".encode()
    assert met.cut(first, 0, len(first)) is not None
    read = 0
    for _ in range(60_000):
        text = WHO * (random.random() < 0.7) + "".join(random.choices(PARTS, k=random.randrange(1, 7))) + "'" * (random.random() < 0.5) + "\n"
        block = text.encode()
        told = met.cut(block, 0, len(block))
        assert told == Inbounds().cut(block, 0, len(block)), text
        if told is not None:
            read += 1
            found = HONEST.match(block)
            assert found is not None and found.end() == len(block), text
            assert (*told, "") == cut(text.rstrip("\n").rstrip("\r")), text
    assert read > 300
