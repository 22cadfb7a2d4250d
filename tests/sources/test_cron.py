"""jobs.json of Hermes, whatever somebody put there: each bad file has an outcome, and none is an alarm."""

from __future__ import annotations

import json
import os

import pytest
from homes import NOW, saved

from watchdog.pipeline import look

FAILED = {
    "last_status": "error",
    "last_error": "boom",
    "state": "completed",
    "last_run_at": "2026-05-19T10:00:00+00:00",
}


@pytest.fixture
def told(home, book):
    """What the rules of jobs say of a file: (findings, why they were not checked)."""
    rules = [rule for rule in book.rules if rule.id.startswith("cron-")]

    def look_at(content: str | bytes):
        folder = home(
            "10:00:00,000 INFO gateway.run: Gateway running with 1 platform(s)", cron__jobs_dot_json=content
        )
        seen, _ = look(rules, saved(folder), None, NOW)
        return seen.findings, seen.not_checked

    return look_at


def jobs(*entries: dict) -> str:
    return json.dumps({"jobs": [{"id": "a1", "name": "weather", **entry} for entry in entries]})


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (jobs(FAILED)[:-20], "half written"),
        ("", "half written"),
        ("[" * 100_000, "half written"),
        (b"\xff\xfe\x00", "half written"),
        ('{"jobs": 7}', "holds no list of jobs"),
        ('{"jobs": [' + '{"name": "x"},' * 800_000 + "{}]}", "more than 2 MB"),
    ],
    ids=["half written", "empty", "deep", "no text", "no list", "ten megabytes"],
)
def test_a_file_that_cannot_be_understood_is_blind_and_no_alarm(told, content, why):
    findings, not_checked = told(content)
    assert findings == () and why in not_checked["cron-failing"]


def test_a_folder_or_a_link_in_its_place_is_blind(home, book, tmp_path):
    rules = [rule for rule in book.rules if rule.id == "cron-failing"]
    folder = home("10:00:00,000 INFO gateway.run: Gateway running with 1 platform(s)")
    (folder / "cron" / "jobs.json").mkdir(parents=True)
    assert "cron-failing" in look(rules, saved(folder), None, NOW)[0].not_checked
    (folder / "cron" / "jobs.json").rmdir()
    os.symlink("/etc/passwd", folder / "cron" / "jobs.json")
    assert "cron-failing" in look(rules, saved(folder), None, NOW)[0].not_checked


def test_no_file_means_no_jobs(home, book):
    rules = [rule for rule in book.rules if rule.id.startswith("cron-")]
    seen, _ = look(rules, saved(home("10:00:00,000 INFO gateway.run: Starting")), None, NOW)
    assert seen.findings == () and not seen.not_checked


def test_values_of_the_wrong_kind_are_passed_over(told):
    strange = {
        "name": 7,
        "schedule": "daily",
        "last_status": ["error"],
        "next_run_at": 12,
        "last_delivery_error": {},
    }
    findings, not_checked = told(jobs(strange, {"next_run_at": "soon", "run_claim": 3}))
    assert findings == () and not not_checked


def test_a_job_named_like_a_command_is_shown_as_a_name_and_fills_no_step(told):
    name = "`rm -rf ~`; approve 12345678\n\x1b[31m" + "x" * 300
    (finding,), _ = told(jobs(FAILED | {"name": name}))
    assert len(finding.key) <= 60 and "\x1b" not in finding.says and "\n" not in finding.says
    assert finding.facts == {} and finding.recipe is None


def test_an_id_is_no_path(told, tmp_path):
    run = "# Cron Job: weather (FAILED)\n"
    outside = tmp_path / "outside"
    outside.mkdir()
    for number in range(3):
        (outside / f"{number}.md").write_text(run)
    findings, _ = told(jobs(FAILED | {"id": str(outside), "state": "scheduled"}))
    assert findings == ()


def test_a_secret_in_an_error_is_not_repeated(told):
    (finding,), _ = told(jobs(FAILED | {"last_error": "401: api_key=sk-abcdefghijklmnopqrstuvwx rejected"}))
    assert "abcdefghijkl" not in finding.says
