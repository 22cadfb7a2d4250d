"""How it is now: status and doctor."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from watchdog.cli.command import PROFILES, command, option
from watchdog.cli.context import CONFIG, WELL, WRONG, jobs_of, need_known, print_json, show
from watchdog.job import Job
from watchdog.reports.language import Reader, reader_anyhow, reader_for
from watchdog.reports.output import write_private
from watchdog.reports.status import Light, as_json
from watchdog.reports.status_text import as_text
from watchdog.service.doctor import BAD, OK, UNKNOWN, Check, examine
from watchdog.service.page import page_of
from watchdog.service.status import gather
from watchdog.text import cells, padded, picked

PAINTS = {OK: "good", BAD: "high", UNKNOWN: "medium"}


@command("status", option("--html", "FILE", "also write the status page to this file"), PROFILES)
def run_status(args: argparse.Namespace) -> int:
    """
    Green: all is well. Yellow: something waits for you or cannot be seen. Red: something is wrong.

    examples:
      hermes-watchdog status
      hermes-watchdog status --all-profiles
      hermes-watchdog status --language zh
      hermes-watchdog status --html status.html          one page for a browser or a phone, made from the last 7 days
      hermes-watchdog status --json

    exit codes: 0 green · 1 yellow or red · 2 bad configuration, or no such home
    """
    found = []
    for job in jobs_of(args):
        need_known(job)
        status = gather(job)
        reader = reader_for(job, args.language)
        found.append((status, reader))
        if args.html:  # before a pipe that is read no further can end it
            write_private(Path(args.html), page_of(job, status, reader))
        if not args.json:
            print(as_text(status, reader))
    if args.json:
        values = [as_json(status, reader) for status, reader in found]
        print_json(values if args.all_profiles else values[0])
    return WELL if all(status.light is Light.GREEN for status, _ in found) else WRONG


@command("doctor", PROFILES)
def run_doctor(args: argparse.Namespace) -> int:
    """
    Looks only: writes nothing, restarts nothing, sends nothing. Prints the fix for each problem.

    examples:
      hermes-watchdog doctor
      hermes-watchdog doctor --home /home/me/.hermes --json
      hermes-watchdog doctor --all-profiles
      hermes-watchdog doctor --language zh

    exit codes: 0 all is well · 1 something keeps it from working · 2 the rules or settings are wrong
    """
    results = [(job, examine(job)) for job in jobs_of(args)]
    bad = [check for _, checks in results for check in checks if check.state == BAD]
    values = [
        {
            "home": job.home_dir,
            "well": all(check.state != BAD for check in checks),
            "checks": [picked(check, "name state says fix") for check in checks],
        }
        for job, checks in results
    ]
    show(args, values if args.all_profiles else values[0], lambda: _doctor_lines(args, results))
    return WELL if not bad else CONFIG if any(check.name in ("rules", "settings") for check in bad) else WRONG


def _doctor_lines(args: argparse.Namespace, results: Sequence[tuple[Job, Sequence[Check]]]) -> Iterator[str]:
    for job, checks in results:
        reader = reader_anyhow(job, args.language)
        if args.all_profiles:
            yield reader.paint(job.home_dir, "bold")
        yield from doctor_lines(checks, reader)


def doctor_lines(checks: Sequence[Check], reader: Reader) -> list[str]:
    """A line for each answer, its fix below it, and the verdict."""
    labels = [_label(check.name, reader) for check in checks]
    states = {state: reader(f"doctor.state.{state}") for state in PAINTS}
    width, first = max(map(cells, labels)), max(map(cells, states.values()))
    lines = []
    for check, label in zip(checks, labels, strict=True):
        says, *more = check.lines(reader.reason) or [""]
        state = reader.paint(padded(states[check.state], first), PAINTS[check.state])
        lines.append(f"{state} {padded(label, width)}  {says}")
        lines += [f"{'':<{first + width + 3}}{line}" for line in more]
        lines += [f"{'':<{first + width + 3}}→ {check.fix}"] if check.fix else []
    bad = sum(check.state == BAD for check in checks)
    unknown = sum(check.state == UNKNOWN for check in checks)
    key = "failed" if bad else "works-unknown" if unknown else "works"
    return [*lines, "", reader(f"doctor.{key}", count=bad or unknown, total=len(checks))]


def _label(name: str, reader: Reader) -> str:
    """What people call a check: a log or database by its file name, a target or channel with its own name."""
    kind, _, own = name.partition(" ")
    key = f"doctor.label.{kind}"
    return reader(key, name=own) if reader.has(key) else name
