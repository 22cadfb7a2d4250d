"""A Hermes that writes its lines in another way is told once as what cannot be seen; one strange line is not."""

from __future__ import annotations

from homes import NOW, saved

from watchdog.pipeline import look

START = "10:00:00,000 INFO gateway.run: Starting Hermes Gateway..."
LINE = "{at} INFO gateway.run: inbound message: platform=telegram user=Ann chat={chat} {rest}"


def seen_of(book, home, *rests: str):
    lines = [START] + [
        LINE.format(at=f"10:1{n}:00,000", chat=42 + n, rest=rest) for n, rest in enumerate(rests)
    ]
    return look(book.rules, saved(home("\n".join(lines)), vocabulary=book.vocabulary), None, NOW)


def test_lines_of_an_unknown_release_are_told_once_and_their_rules_are_not_checked(book, home):
    seen, reading = seen_of(book, home, *["text='a secret=1 thing' lane=fast"] * 3)
    assert list(reading.blind) == ["inbound message"]
    assert reading.blind["inbound message"] == (
        "this Hermes writes lines that cannot be read here: inbound message: platform=… user=… chat=… text=… lane=…"
    )
    assert "session-stuck" in seen.not_checked and "crash-loop" not in seen.not_checked
    assert seen.findings == ()


def test_two_of_them_or_two_shapes_are_no_release(book, home):
    assert "session-stuck" not in seen_of(book, home, *["text='hi' lane=fast"] * 2)[0].not_checked
    shapes = ["text='hi'", "words='hi'", "said='hi'"]
    assert "session-stuck" not in seen_of(book, home, *shapes)[0].not_checked


def test_one_that_can_be_read_shows_that_the_release_is_known(book, home):
    seen, reading = seen_of(book, home, *["text='hi' lane=fast"] * 3, "msg='hi'")
    assert "session-stuck" not in seen.not_checked and "inbound message" not in reading.blind


def test_a_new_field_behind_the_message_is_read_over(book, home):
    seen, reading = seen_of(book, home, *["msg='hi' lane=fast shard=7"] * 3)
    assert not reading.blind and [finding.rule for finding in seen.findings] == ["session-stuck"] * 3
