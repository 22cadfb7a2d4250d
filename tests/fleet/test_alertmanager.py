"""One Alertmanager that answers well, badly, late, or without end."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from watchdog.errors import FleetError
from watchdog.fleet.alertmanager import Alert, Post
from watchdog.fleet.publishing import run_all

NOW = datetime(2026, 5, 19, 8, 41, tzinfo=UTC)


def alert() -> Alert:
    return Alert({"alertname": "HermesIncident"}, {}, NOW - timedelta(minutes=1), NOW + timedelta(minutes=50))


def test_what_is_posted_is_the_version_2_format(alertmanager):
    alertmanager.clock = NOW
    assert Post(alertmanager.url, [alert()], NOW, 3).run() == ""
    ((posted,),) = alertmanager.posted
    assert posted == {
        "labels": {"alertname": "HermesIncident"},
        "annotations": {},
        "startsAt": "2026-05-19T08:40:00+00:00",
        "endsAt": "2026-05-19T09:31:00+00:00",
    }


@pytest.mark.parametrize("hours", [1, -1])
def test_a_clock_one_hour_off_is_told_and_the_times_are_those_of_the_server(alertmanager, hours: int):
    alertmanager.clock = NOW + timedelta(hours=hours)
    note = Post(alertmanager.url, [alert()], NOW, 3).run()
    assert ("60 minutes behind" if hours > 0 else "60 minutes ahead of") in note
    ((posted,),) = alertmanager.posted
    off = datetime.fromisoformat(posted["endsAt"]) - (NOW + timedelta(minutes=50, hours=hours))
    assert abs(off) < timedelta(seconds=5)


def test_a_password_goes_into_the_header_and_not_into_the_name(alertmanager):
    url = alertmanager.url.replace("http://", "http://anna:p%40ss@")
    post = Post(url, [], NOW, 3)
    post.run()
    assert alertmanager.headers[0]["Authorization"] == "Basic YW5uYTpwQHNz"
    assert "p%40ss" not in post.name and "anna" not in post.name


@pytest.mark.parametrize("status", [400, 301, 500, 503])
def test_another_answer_than_200_is_told(alertmanager, status: int):
    alertmanager.status = status
    with pytest.raises(FleetError, match=f"it answered {status}"):
        Post(alertmanager.url, [alert()], NOW, 3).run()


def test_an_answer_of_a_gigabyte_is_not_read(alertmanager):
    sent = 0

    def gigabyte() -> Iterator[bytes]:
        nonlocal sent
        for _ in range(1024):
            sent += 1
            yield bytes(1_000_000)

    alertmanager.body = gigabyte()
    assert "minutes" in Post(alertmanager.url, [alert()], NOW, 3).run()
    assert sent < 64


def test_an_answer_that_never_comes_costs_the_limit_and_no_more(alertmanager):
    def never() -> Iterator[bytes]:
        alertmanager.over.wait(30)
        yield b"late"

    alertmanager.body = never()
    began = time.monotonic()
    failed, _ = run_all([Post(alertmanager.url, [alert()], NOW, 0.5)], 0.5)
    assert time.monotonic() - began < 15
    assert "within 0.5 s" in next(iter(failed.values()))


def test_an_answer_that_drips_is_cut_off(alertmanager):
    def drips() -> Iterator[bytes]:
        for _ in itertools.count():
            if alertmanager.over.wait(0.05):
                return
            yield b"."

    alertmanager.body = drips()
    began = time.monotonic()
    failed, _ = run_all([Post(alertmanager.url, [alert()], NOW, 0.5)], 0.5)
    assert time.monotonic() - began < 15 and failed


def test_nobody_there_is_told():
    with pytest.raises(FleetError, match="refused"):
        Post("http://127.0.0.1:9", [], NOW, 1).run()


def test_one_that_hangs_does_not_keep_the_others_waiting(alertmanager):
    class Hangs:
        name = "hangs"

        def run(self) -> str:
            alertmanager.over.wait(30)
            return ""

        def stop(self) -> None:
            alertmanager.over.set()

    began = time.monotonic()
    failed, _ = run_all([Hangs(), Post(alertmanager.url, [alert()], NOW, 3)], 3)
    assert time.monotonic() - began < 15
    assert failed == {"hangs": "not done within 3 s"} and alertmanager.posted
