"""The watchdog's own memory: check, repair or export the store; the audit in it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from dataclasses import replace

from watchdog.cli.command import command, flag, number_of, option, parts_of
from watchdog.cli.context import WELL, WRONG, command_of, job_of, need_known, print_json
from watchdog.errors import WatchdogError
from watchdog.reports.plans import for_scripts
from watchdog.service import memory
from watchdog.store import Store, audit
from watchdog.store import plans as rows
from watchdog.store.marker import goes_on, marker_path, read_marker
from watchdog.store.times import when
from watchdog.text import clock, counted, harmless

parts_of(
    "store",
    """\
The store holds incidents, plans, approvals, the audit and what was sent. It is one SQLite file.

examples:
  hermes-watchdog store check             is it readable, whole, and of this version?
  hermes-watchdog store repair            set a damaged one aside and start anew, disarmed; a whole one stays as it is
  hermes-watchdog store export            every row as JSON lines, as sqlite-utils would print them

exit codes: 0 it is whole · 1 it is damaged, or was and has been replaced""",
)


@command("store check", about="is the store readable, whole, and of this version?")
def run_check(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog store check
    """
    job = job_of(args)
    need_known(job)
    health = memory.check(job.store_path)
    if args.json:
        print_json({"store": str(job.store_path), "there": health.there, "well": health.well, "problems": list(health.problems), "rows": health.rows})  # fmt: skip
        return WELL if health.well else WRONG
    if not health.there and health.well:
        print(f"{job.store_path} is not there yet; the first check makes it.")
        return WELL
    for problem in health.problems:
        print(f"{'damaged' if health.there and not health.foreign else 'unusable'}  {harmless(problem, 500)}")
    if health.well:
        total = sum(health.rows.values())
        print(f"well  {job.store_path}: {total:,} rows in {len(health.rows)} tables")
    elif health.there and not health.foreign:
        command = command_of(job)
        print(f"next: {command} store export > store.jsonl (what can be read), then: {command} store repair")
    return WELL if health.well else WRONG


@command(
    "store repair",
    flag("--dry-run", "say what would be done, change nothing"),
    about="set a damaged store aside and start anew, disarmed; a whole one stays as it is",
)
def run_repair(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog store repair
      hermes-watchdog store repair --dry-run
    """
    job = job_of(args)
    need_known(job)
    result = memory.repair(job, args.dry_run)
    if args.json:
        print_json({"store": str(job.store_path), "repaired": result.repaired, "set_aside": str(result.aside) if result.aside else None, "problems": list(result.problems)})  # fmt: skip
    elif not result.problems:
        print(f"{job.store_path} is well; nothing was changed.")
    elif args.dry_run:
        aside = "" if result.gone else f"set {job.store_path} aside and "
        print(f"would {aside}start anew, disarmed: {'; '.join(result.problems)}")
    else:
        if result.aside:
            print(f"the damaged store is kept as {result.aside}")
        print(
            f"a new one was started. It is disarmed: watches and notifies only; re-arm with: {command_of(job)} arm"
        )
        if result.aside:
            print(
                f"silences, open questions and the audit of the past are in the old file: {command_of(job)} store export shows what can be read of the new one"
            )
    return WRONG if result.problems else WELL


@command("store export", about="every row of every table as JSON lines", json=False)
def run_export(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog store export > store.jsonl
    """
    job = job_of(args)
    memory.need_file(job)
    problems: list[str] = []
    for table, row in memory.export(job.store_path, problems):
        print(json.dumps({"table": table, **row}, ensure_ascii=False, default=str))
    for problem in problems:
        print(f"hermes-watchdog: {harmless(problem, 500)}", file=sys.stderr)
    return WRONG if problems else WELL


BREAKS = 10  # shown
FAULTS = {
    audit.AuditFault.CHANGED: "broken at line {line} ({where}): it, or the line before it, is not as it was written",
    audit.AuditFault.MISSING: "broken before line {line} ({where}): lines are missing there",
    audit.AuditFault.UNREADABLE: "broken at line {line} ({where}): it cannot be read",
    audit.AuditFault.CUT_OFF: "broken at the end: {where} knows line {line}, which is gone or is another now",
}


@command(
    "audit",
    option("--plan", "PLAN", "only the lines of this plan", type=number_of("a plan")),
    option(
        "--verify",
        "HEAD",
        "follow the chain of hashes; with the characters from a message, also look for that line",
        nargs="?",
        const="",
    ),
)
def run_audit(args: argparse.Namespace) -> int:
    """
    Who asked, answered and did what, when and why. No command changes a line. Each carries the hash of the one before;
    messages about plans show the first eight characters of the newest, so that a past that was rewritten shows.

    examples:
      hermes-watchdog audit
      hermes-watchdog audit --plan 7
      hermes-watchdog audit --verify             is every line as it was written, and none gone?
      hermes-watchdog audit --verify 1a2b3c4d    and is the line still there that a message named?
      hermes-watchdog audit --json               one JSON object per line

    exit codes of --verify: 0 the chain holds · 1 it is broken, or could not be followed to its beginning
    """
    job = job_of(args)
    need_known(job)
    store = job.look_at_store()
    if args.verify is not None:
        return _verify_audit(args, store, marker_path(job.store_path))
    entries = for_scripts(rows.audit_lines(store, args.plan)) if store else []
    if not entries and not args.json:
        print(f"Nothing is recorded about plan {args.plan}." if args.plan else "Nothing is recorded yet.")
    for entry in entries:
        if args.json:
            print(json.dumps(entry, ensure_ascii=False))
            continue
        who = f" by {entry['by']}" + (f" via {entry['via']}" if entry["via"] else "") if entry["by"] else ""
        plan = f" plan {entry['plan']}" if entry["plan"] else ""
        at = when(entry["at"])
        says = f": {harmless(entry['says'], 2000)}" if entry["says"] else ""
        print(f"{clock(at) if at else '?'}  {entry['what']}{plan}{harmless(who)}{says}")
        output = (entry["more"] or {}).get("output") if isinstance(entry["more"], dict) else ""
        for row in (output or "").splitlines()[:20]:
            print(f"    | {harmless(row)}")
    return WELL


def _verify_audit(args: argparse.Namespace, store: Store | None, mark: str) -> int:
    wanted = args.verify.strip().lower()
    if wanted and (len(wanted) < 8 or set(wanted) - set("0123456789abcdef")):
        raise WatchdogError(
            f"'{harmless(wanted, 40)}' is not from a message: what stands there has eight characters, 0-9 and a-f"
        )
    chain = audit.verify(store, wanted) if store else audit.AuditChain(0, "", found=False if wanted else None)
    chain = replace(chain, breaks=(*chain.breaks, *_cut_off(store, chain, mark)))
    holds = not chain.breaks and not chain.absent and not chain.unlinked and chain.found is not False
    if args.json:
        breaks = [
            {"line": broken.line, "fault": str(broken.fault), "where": broken.where}
            for broken in chain.breaks
        ]
        print_json({"holds": holds, "lines": chain.lines, "head": chain.head, "breaks": breaks, "absent": list(chain.absent), "found": chain.found})  # fmt: skip
        return WELL if holds else WRONG
    for broken in chain.breaks[:BREAKS]:
        print(FAULTS[broken.fault].format(line=broken.line, where=harmless(broken.where)))
    if len(chain.breaks) > BREAKS:
        print(f"… and {len(chain.breaks) - BREAKS} more places")
    if chain.unlinked:
        print(
            f"not linked yet: an older version wrote these {chain.lines:,} lines; the next check links them"
        )
    for name in chain.absent:
        print(f"cannot see: the older lines in {harmless(name)}, which is not there or cannot be read")
    if chain.found is False:
        print(f"missing: no line has the hash {wanted}…; what that message spoke of is gone or was rewritten")
    if holds:
        seen = f", {wanted} is one of them" if wanted else ""
        print(
            f"holds: {counted(chain.lines, 'line|lines')}{seen}"
            + (f"; the newest is {chain.head[: audit.SHOWN]}" if chain.head else "")
        )
    return WELL if holds else WRONG


def _cut_off(store: Store | None, chain: audit.AuditChain, mark: str) -> tuple[audit.Break, ...]:
    """A break where the marker beside the store knows a newest line that the store does not have."""
    known = read_marker(mark)
    if store is None or known is None or chain.unlinked or goes_on(store, known.lines, known.head):
        return ()
    return (audit.Break(known.lines, audit.AuditFault.CUT_OFF, os.path.basename(mark)),)
