"""What a log can look like, and what we make of it."""

from __future__ import annotations

import gzip
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from homes import chat_text

from watchdog.config.pattern import Pattern
from watchdog.model import Line
from watchdog.sources import logfile
from watchdog.sources.logfile import LogFile, placed
from watchdog.sources.records import Wanted

LATER = datetime(2030, 1, 1, tzinfo=UTC)


def line(at: str, text: str, level: str = "INFO", session: str = "") -> str:
    return f"{at} {level}{f' [{session}]' if session else ''} gateway.run: {text}\n"


def read(path: Path, since=None, until=LATER, zone=UTC, words=None, whole=False):
    log = LogFile(path, zone, whole=whole)
    log.open(since)
    lines = [Line(path.name, Pattern(f"(?s).*{word}"), followed=True) for word in words or ()]
    wanted = Wanted(lines or [Line(path.name, followed=True)], chat_text())
    events = [event for events in log.events(wanted, since, until) for event in events]
    log.close()
    return events, log


def texts(events) -> list[str]:
    return [event.text for event in events]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "gateway.log"


def test_a_record_keeps_its_time_level_logger_and_session(log):
    log.write_text(line("2026-05-19 10:15:00,123", "hello", "WARNING", "s1"))
    (event,), _ = read(log)
    assert (event.at, event.level, event.logger, event.session) == (
        datetime(2026, 5, 19, 10, 15, 0, 123000, tzinfo=UTC), "WARNING", "gateway.run", "s1",
    )  # fmt: skip


def test_a_traceback_is_one_event_with_its_record(log):
    log.write_text(
        line("2026-05-19 10:15:00,000", "it broke")
        + "Traceback (most recent call last):\n  File x\nKeyError: 1\n"
        + line("2026-05-19 10:15:01,000", "next")
    )
    first, second = read(log)[0]
    assert first.more.endswith("KeyError: 1")
    assert (second.text, second.more) == ("next", "")
    assert first.next_at == second.at


def test_a_word_in_a_traceback_brings_its_record(log):
    log.write_text(
        line("2026-05-19 10:15:00,000", "it broke")
        + "Traceback\nno such column: x\n"
        + line("2026-05-19 10:15:01,000", "next")
    )
    (event,), _ = read(log, words=["(?s).*no such column"])
    assert event.text == "it broke" and "no such column: x" in event.more


def test_rotated_siblings_are_read_oldest_first(log):
    log.write_text(line("2026-05-19 10:03:00,000", "new"))
    Path(f"{log}.1").write_text(line("2026-05-19 10:02:00,000", "older"))
    with gzip.open(f"{log}.2.gz", "wt") as file:
        file.write(line("2026-05-19 10:01:00,000", "oldest"))
    assert texts(read(log)[0]) == ["oldest", "older", "new"]


def test_parts_that_logrotate_named_by_date_are_read_oldest_first(log):
    log.write_text(line("2026-05-19 10:03:00,000", "new"))
    Path(f"{log}-20260519").write_text(line("2026-05-19 10:02:00,000", "older"))
    with gzip.open(f"{log}-20260518.gz", "wt") as file:
        file.write(line("2026-05-18 10:01:00,000", "oldest"))
    Path(f"{log}-notes").write_text(line("2026-05-17 10:01:00,000", "no part of it"))
    assert texts(read(log)[0]) == ["oldest", "older", "new"]


def test_parts_that_logrotate_names_by_date_are_read_oldest_first(log):
    log.write_text(line("2026-11-18 01:00:00,000", "fourth"))
    Path(f"{log}-20261118").write_text(line("2026-11-17 01:00:00,000", "third"))
    Path(f"{log}-20261117.gz").write_bytes(gzip.compress(line("2026-11-16 01:00:00,000", "second").encode()))
    Path(f"{log}-20261116-1763251200").write_text(line("2026-11-15 01:00:00,000", "first"))
    Path(f"{log}.2026-11-15T0130").write_text(line("2026-11-14 01:00:00,000", "oldest"))
    assert texts(read(log)[0]) == ["oldest", "first", "second", "third", "fourth"]


def test_a_log_that_is_copied_and_then_truncated_is_read_once(log):
    written = line("2026-05-19 10:00:00,000", "a record that is longer than what is compared") * 2
    log.write_text(written)
    Path(f"{log}.1").write_text(written)  # copied, not yet truncated
    assert len(read(log)[0]) == 2
    log.write_text("")  # truncated
    assert len(read(log)[0]) == 2
    log.write_text(line("2026-05-19 10:05:00,000", "after"))
    assert len(read(log)[0]) == 3


def test_a_log_that_is_truncated_while_it_is_read_is_told_as_not_seen(log):
    """logrotate's copytruncate in the middle of a check: what was not read yet is in the copy by now."""
    written = line("2026-05-19 10:00:00,000", "a record that is longer than what is compared") * 2
    log.write_text(written)
    reader = LogFile(log, UTC)
    reader.open(None)
    Path(f"{log}.1").write_text(written)
    os.truncate(log, 0)
    assert list(reader.events(Wanted([Line(log.name)], chat_text()), None, LATER)) == []
    assert reader.lost == ["gateway.log was cut short while it was read"]
    reader.close()
    events, opened = read(log)
    assert len(events) == 2 and opened.lost == [], "the next check reads it all"


def test_siblings_that_the_window_does_not_need_are_not_opened(log):
    log.write_text(line("2026-05-19 10:00:00,000", "first") + line("2026-05-19 10:03:00,000", "new"))
    Path(f"{log}.1").write_bytes(b"\xff" * 100)
    events, opened = read(log, since=datetime(2026, 5, 19, 10, 2, tzinfo=UTC))
    assert texts(events) == ["new"] and opened.notes == []


def test_a_log_that_does_not_reach_back_far_enough_says_so(log):
    log.write_text(line("2026-05-19 10:03:00,000", "new"))
    Path(f"{log}.1").write_text(line("2026-05-19 10:02:00,000", "older"))
    _, opened = read(log, since=datetime(2026, 5, 19, 9, 0, tzinfo=UTC))
    assert opened.notes == ["gateway.log reaches back only to 2026-05-19T10:02:00+00:00"]


def test_the_record_after_a_rotation_is_the_next_record(log):
    log.write_text(line("2026-05-19 10:03:00,000", "new"))
    Path(f"{log}.1").write_text(line("2026-05-19 10:02:00,000", "last before the rotation"))
    assert read(log)[0][0].next_at == datetime(2026, 5, 19, 10, 3, tzinfo=UTC)


def test_a_log_replaced_while_it_is_read_is_read_to_its_end(log):
    log.write_text("".join(line(f"2026-05-19 10:{minute:02d}:00,000", f"n{minute}") for minute in range(30)))
    reader = LogFile(log, UTC)
    reader.open(None)
    os.rename(log, f"{log}.1")
    log.write_text(line("2026-05-19 11:00:00,000", "after"))
    assert sum(map(len, reader.events(Wanted([Line(log.name)], chat_text()), None, LATER))) == 30
    reader.close()
    assert len(read(log)[0]) == 31


def test_a_rotation_between_two_opens_does_not_double_a_file(log, monkeypatch):
    log.write_text(line("2026-05-19 10:00:00,000", "one"))
    from watchdog.sources import logfile

    siblings = logfile._siblings

    def rotate_then_list(path):
        if not Path(f"{path}.1").exists():
            os.rename(path, f"{path}.1")
            Path(path).write_text(line("2026-05-19 10:01:00,000", "two"))
        return siblings(path)

    monkeypatch.setattr(logfile, "_siblings", rotate_then_list)
    assert texts(read(log)[0]) == ["one", "two"]


def test_half_a_last_line_waits_for_the_next_check(log):
    log.write_text(line("2026-05-19 10:00:00,000", "whole") + "2026-05-19 10:00:01,000 INFO gateway.run: hal")
    assert texts(read(log)[0]) == ["whole"]
    assert texts(read(log, whole=True)[0]) == ["whole", "hal"]


def test_invalid_utf8_and_zero_bytes_do_not_hide_a_record(log):
    log.write_bytes(
        b"\0" * 5000
        + line("2026-05-19 10:00:00,000", "a").encode()
        + b"\xff\xfe garbage\n\0\0\0"
        + b"2026-05-19 10:00:01,000 INFO gateway.run: b\xff\n"
    )
    assert texts(read(log)[0]) == ["a", "b�"]


def test_a_line_of_ten_megabytes_costs_its_head_only(log):
    log.write_bytes(
        line("2026-05-19 10:00:00,000", "x" * 10_000_000).encode()
        + line("2026-05-19 10:00:01,000", "after").encode()
    )
    first, second = read(log)[0]
    assert len(first.text) <= 64 * 1024 and second.text == "after"


def test_lines_a_few_seconds_out_of_order_are_all_in_the_window(log):
    log.write_text(
        "".join(line(f"2026-05-19 10:00:{second:02d},000", f"s{second}") for second in (1, 4, 2, 5, 3))
    )
    since = datetime(2026, 5, 19, 10, 0, 2, tzinfo=UTC)
    assert sorted(texts(read(log, since=since)[0])) == ["s2", "s3", "s4", "s5"]


def test_records_dated_after_now_are_not_used_and_said(log):
    log.write_text(line("2026-05-19 10:00:00,000", "a") + line("2027-01-01 00:00:00,000", "from the future"))
    events, opened = read(log, until=datetime(2026, 5, 19, 11, tzinfo=UTC))
    assert texts(events) == ["a"]
    assert opened.notes == ["gateway.log: 1 records are dated after now; was the clock set?"]


def test_what_a_gateway_writes_while_it_is_looked_at_is_no_clock_that_was_set(log):
    log.write_text(line("2026-05-19 10:00:00,000", "a") + line("2026-05-19 11:00:40,000", "just now"))
    events, opened = read(log, until=datetime(2026, 5, 19, 11, tzinfo=UTC))
    assert texts(events) == ["a"] and opened.notes == []


def test_a_clock_set_back_loses_no_record_of_a_whole_reading(log):
    log.write_text(line("2026-05-19 12:00:00,000", "before") + line("2026-05-19 09:00:00,000", "after"))
    assert texts(read(log)[0]) == ["before", "after"]


BERLIN = ZoneInfo("Europe/Berlin")


def test_the_hour_that_comes_twice_becomes_two_hours_of_utc(log):
    stamps = ["01:59:00", "02:30:00", "02:59:00", "02:00:30", "02:30:00", "03:00:00"]
    log.write_text(
        "".join(line(f"2026-10-25 {stamp},000", str(number)) for number, stamp in enumerate(stamps))
    )
    times = [event.at for event in read(log, zone=BERLIN)[0]]
    assert times == sorted(times)
    assert [at.strftime("%H:%M") for at in times] == ["23:59", "00:30", "00:59", "01:00", "01:30", "02:00"]


def test_the_hour_that_never_was_leaves_no_gap(log):
    log.write_text(line("2026-03-29 01:59:59,000", "a") + line("2026-03-29 03:00:00,000", "b"))
    first, second = read(log, zone=BERLIN)[0]
    assert second.at - first.at == timedelta(seconds=1)


def test_a_window_inside_the_doubled_hour_finds_its_start(log):
    minutes = [f"02:{minute:02d}:00" for minute in range(60)]
    log.write_text(
        "".join(
            line(f"2026-10-25 {stamp},000", f"{part}{stamp}" + "x" * 2000)
            for part in ("first ", "second ")
            for stamp in minutes
        )
    )
    since = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)  # 02:30 for the first time
    events = read(log, since=since, zone=BERLIN)[0]
    assert len(events) == 90 and events[0].text.startswith("first 02:30")


def test_a_packed_part_that_unpacks_to_far_more_than_any_log_is_read_in_part_and_told(log, monkeypatch):
    monkeypatch.setattr(logfile, "UNPACKED", 100_000)
    log.write_text(line("2026-05-19 10:15:00,000", "now"))
    packed = "".join(line(f"2026-05-18 10:15:{number % 60:02d},000", "then") for number in range(60_000))
    Path(f"{log}.1.gz").write_bytes(gzip.compress(packed.encode()))
    events, found = read(log)
    assert texts(events)[-1] == "now" and len(events) < 60_000
    assert any("the rest was not read" in note for note in found.notes)


def test_a_time_that_a_name_made_up_does_not_hide_what_comes_before_it(log):
    """A name may hold lines with old times; wherever the search for the window looks, it meets such a line first."""
    day = datetime(2026, 5, 19, tzinfo=UTC)
    forged = "".join(line("2001-01-01 00:00:00,000", f"old {number}") for number in range(20))
    records = [
        line(f"{day + timedelta(seconds=10 * number):%Y-%m-%d %H:%M:%S},000", f"record {number}") + forged
        for number in range(300)
    ]
    log.write_text("".join(records))
    events, _ = read(log, since=day + timedelta(seconds=10 * 100))
    assert [text for text in texts(events) if text.startswith("record")] == [
        f"record {number}" for number in range(100, 300)
    ]


def test_the_start_of_a_window_is_found_without_reading_the_file(log, monkeypatch):
    with log.open("w") as file:
        for hour in range(24):
            for second in range(3600):
                file.write(line(f"2026-05-19 {hour:02d}:{second // 60:02d}:{second % 60:02d},000", "x" * 60))
    from watchdog.sources import logfile

    size = os.path.getsize(log)
    read_bytes = 0
    original = logfile.open_regular

    class Counting:
        def __init__(self, file):
            self.file = file

        def read(self, wanted):
            nonlocal read_bytes
            data = self.file.read(wanted)
            read_bytes += len(data)
            return data

        def __getattr__(self, name):
            return getattr(self.file, name)

    monkeypatch.setattr(logfile, "open_regular", lambda path: Counting(original(path)))
    events, _ = read(log, since=datetime(2026, 5, 19, 23, 50, tzinfo=UTC))
    assert len(events) == 600
    assert read_bytes < size / 30


def test_a_directory_in_place_of_a_log_is_an_error_and_no_crash(tmp_path):
    (tmp_path / "gateway.log").mkdir()
    with pytest.raises(OSError):
        read(tmp_path / "gateway.log")


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"\n",
        b"\0",
        b"no header at all\n",
        b"2026-99-99 99:99:99,999 INFO a: b\n",
        b"2026-05-19 10:00:00,000 INFO a:",
    ],
)
def test_a_file_without_a_record_has_no_events(log, junk):
    log.write_bytes(junk)
    assert read(log, whole=True)[0] == []


def test_a_packed_part_that_was_cut_short_gives_what_it_has(log):
    log.write_text(line("2026-05-19 10:03:00,000", "new"))
    packed = gzip.compress(
        "".join(
            line(f"2026-05-19 09:{minute:02d}:00,000", os.urandom(200).hex()) for minute in range(60)
        ).encode()
    )
    Path(f"{log}.1.gz").write_bytes(packed[: len(packed) // 2])
    events, _ = read(log)
    assert events[-1].text == "new" and len(events) >= 1


def test_a_packed_part_that_is_damaged_gives_what_comes_before(log):
    log.write_text(line("2026-05-19 10:30:00,000", "newest"))
    packed = gzip.compress(
        "".join(
            line(f"2026-05-19 10:{n % 60:02d}:00,{n % 1000:03d}", f"old {n * 7919}") for n in range(20_000)
        ).encode()
    )
    log.with_name("gateway.log.1.gz").write_bytes(packed[:30_000] + bytes(200) + packed[30_200:])
    assert texts(read(log)[0])[-1] == "newest"


def test_a_pipe_in_place_of_a_log_is_an_error_and_holds_nobody(tmp_path):
    os.mkfifo(tmp_path / "gateway.log")
    with pytest.raises(OSError, match="not a regular file"):
        read(tmp_path / "gateway.log")


def test_places_are_told_by_line_in_any_order_and_left_out_where_nobody_can_count(log):
    log.write_text("one\ntwo\nthree\n")
    places = ["gateway.log@8", "gateway.log@0", "gateway.log@4", "gone.log@5", "gateway.log:7"]
    assert placed(log.parent, places) == {
        "gateway.log@0": "gateway.log:1",
        "gateway.log@4": "gateway.log:2",
        "gateway.log@8": "gateway.log:3",
    }
