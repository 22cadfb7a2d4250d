"""Hermes' own scheduled jobs (cron/jobs.json) → one event each: how the last runs ended, when the next one is due.

Names, errors and prompts in there were written by people and models: they are shown, bounded, and nothing else.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

from watchdog.later import regex
from watchdog.model import Event, phrase
from watchdog.system.files import read_small
from watchdog.text import harmless, redact, size
from watchdog.values import Any, StrPath

SOURCE = "cron"
MOST_BYTES = 2_000_000  # a few thousand jobs; more is no file of Hermes
MOST_JOBS = 500
RUNS = 5  # of one job that are looked at
_HEAD = 400  # bytes of a run's output that say whether it failed
_ID = regex(r"[A-Za-z0-9_-]{1,64}")
_FAILED = regex(r"(?m)^\*\*Status:\*\* (?:BLOCKED|script failed)")


class JobsUnreadable(Exception):
    """The file is there and cannot be understood; the text says why."""


def observe(home: StrPath, now: datetime) -> list[Event]:
    """Every job; none where Hermes keeps no jobs. OSError or JobsUnreadable where that cannot be told."""
    path = os.path.join(home, "cron", "jobs.json")
    if not os.path.lexists(path) and os.path.isfile(os.path.join(home, "jobs.json")):
        path = os.path.join(home, "jobs.json")  # a folder of saved files
    try:
        content = read_small(path, MOST_BYTES + 1, follow=False)
    except FileNotFoundError:
        return []
    file = os.path.basename(path)
    if len(content) > MOST_BYTES:
        raise JobsUnreadable(
            phrase(
                "blind.jobs-long",
                "{file} has more than {most}; no list of jobs is so long",
                file=file,
                most=size(MOST_BYTES),
            )
        )
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise JobsUnreadable(
            phrase("blind.jobs-damaged", "{file} is not JSON: half written, or damaged", file=file)
        ) from None
    jobs = value.get("jobs") if isinstance(value, dict) else value
    if not isinstance(jobs, list):
        raise JobsUnreadable(phrase("blind.no-jobs", "{file} holds no list of jobs", file=file))
    found = [job for job in jobs[:MOST_JOBS] if isinstance(job, dict)]
    return [_event(job, path, now) for job in found]


def _event(job: dict[str, Any], path: str, now: datetime) -> Event:
    name = _text(job.get("name"), 60) or _text(job.get("id"), 60) or "?"
    schedule = job.get("schedule")
    kind = schedule.get("kind") if isinstance(schedule, dict) else ""
    state = _text(job.get("state"), 20)
    off = job.get("enabled") is False or state == "paused" or bool(job.get("paused_at"))
    failed = job.get("last_status") == "error"
    facts = {
        "job": name,
        "off": "yes" if off else "",
        "over": "yes"
        if state in ("completed", "error") or kind == "once"
        else "",  # no run follows by itself
        "failures": str(_failures(job, os.path.join(os.path.dirname(path), "output"))) if failed else "",
        "error": redact(_text(job.get("last_error"), 300)) if failed else "",
        "delivery_error": redact(_text(job.get("last_delivery_error"), 300)),
        "last_run": _time(job.get("last_run_at")),
        "next_run": _time(job.get("next_run_at")),
        "running": _time(_claimed_at(job)),
    }
    facts = {key: value for key, value in facts.items() if value}
    ending = "failed" if failed else "was well" if job.get("last_status") == "ok" else "has not run"
    ending = "paused" if off else ending
    text = phrase(f"event.job.{ending.replace(' ', '-')}", f"{{job}}: {ending}", job=name)
    return Event(now, SOURCE, text, f"cron/{os.path.basename(path)}", facts=facts)


def _failures(job: dict[str, Any], outputs: str) -> int:
    """How many of the last runs failed in a row, by what each left in cron/output; 1 where that cannot be told."""
    number, name = job.get("id"), job.get("name")
    if not isinstance(number, str) or not _ID.fullmatch(number):
        return 1  # the id is part of a path: nothing but letters and digits
    try:
        runs = sorted(
            (run for run in os.listdir(os.path.join(outputs, number)) if run.endswith(".md")), reverse=True
        )[:RUNS]
    except OSError:
        return 1
    count = 0
    for run in runs:
        try:
            head = read_small(os.path.join(outputs, number, run), _HEAD, follow=False).decode(
                "utf-8", "replace"
            )
        except OSError:
            break
        if not (head.startswith(f"# Cron Job: {name} (FAILED)\n") or _FAILED.search(head)):
            break
        count += 1
    return max(count, 1)


def _claimed_at(job: dict[str, Any]) -> Any:
    """Since when a run is under way, where the release says so."""
    for name in ("run_claim", "fire_claim"):
        claim = job.get(name)
        if isinstance(claim, dict):
            return claim.get("at")
    return None


def _text(value: Any, limit: int) -> str:
    return harmless(value, limit) if isinstance(value, str) else ""


def _time(value: Any) -> str:
    """A moment of the file in UTC; '' where it is none. Times without a zone are the machine's."""
    try:
        return datetime.fromisoformat(value).astimezone(UTC).isoformat() if isinstance(value, str) else ""
    except (ValueError, OverflowError):
        return ""
