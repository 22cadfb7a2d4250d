"""The watchdog's own memory: check, repair or export the store; the audit in it."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from watchdog.cli.command import command, flag, number_of, option, parts_of
from watchdog.cli.context import WELL, WRONG, job_of, need_known, show
from watchdog.errors import WatchdogError
from watchdog.job import Job
from watchdog.reports.language import Reader, reader_anyhow
from watchdog.reports.plans import for_scripts
from watchdog.service import memory
from watchdog.store import Store, audit
from watchdog.store import plans as rows
from watchdog.store.recovery import goes_on, marker_path, read_marker
from watchdog.store.rows import when
from watchdog.text import clock, harmless, picked

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
    value = {"store": job.store_file, **picked(health, "there well problems rows")}
    show(args, value, lambda: _health_lines(job, health, reader_anyhow(job, args.language)))
    return WELL if health.well else WRONG


def _health_lines(job: Job, health: memory.Health, reader: Reader) -> Iterator[str]:
    ours = health.there and not health.foreign
    for problem in health.problems:
        yield f"{reader('memory.damaged' if ours else 'memory.unusable')}  {harmless(problem, 500)}"
    if health.well:
        total = sum(health.rows.values())
        key = "memory.well" if health.there else "memory.not-yet"
        yield reader(key, path=job.store_path, count=total, tables=len(health.rows))
    elif ours:
        yield reader("memory.next")


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
    aside = str(result.aside) if result.aside else None
    value = {"store": job.store_file, "repaired": result.repaired, "set_aside": aside}
    value |= picked(result, "problems")
    show(args, value, lambda: _repair_lines(job, result, args.dry_run, reader_anyhow(job, args.language)))
    return WRONG if result.problems else WELL


def _repair_lines(job: Job, result: memory.Repair, dry_run: bool, reader: Reader) -> list[str]:
    if not result.problems:
        return [reader("memory.untouched", path=job.store_path)]
    if dry_run:
        would = "memory.would-start" if result.gone else "memory.would"
        return [reader(would, path=job.store_path, problems=reader("check.and").join(result.problems))]
    if not result.aside:
        return [reader("memory.started")]
    return [reader("memory.kept", path=result.aside), reader("memory.started"), reader("memory.past")]


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
        return _verify_audit(args, job, store)
    found = rows.audit_lines(store, args.plan) if store else []
    if args.json:
        for entry in for_scripts(found):
            print(json.dumps(entry, ensure_ascii=False))
        return WELL
    reader = reader_anyhow(job, args.language)
    if not found:
        print(reader("audit.none-plan", plan=args.plan) if args.plan else reader("audit.none"))
    for entry in found:
        print(_audit_line(entry, reader))
        output = (entry["more"] or {}).get("output") if isinstance(entry["more"], dict) else ""
        for row in (output or "").splitlines()[:20]:
            print(f"    | {harmless(row)}")
    return WELL


def _audit_line(entry: Mapping[str, Any], reader: Reader) -> str:
    """'2026-11-18 20:30:47  approved plan 1 by anna via ntfy: Start the gateway'."""
    at, by, via = when(entry["at"]), harmless(entry["by"] or ""), reader.via(entry["via"] or "")
    text = harmless(reader.reason(entry["reason"]), 2000)
    key = f"audit.what.{entry['what']}"
    return reader(
        "audit.line",
        at=clock(at) if at else "?",
        what=reader(key) if reader.has(key) else entry["what"],
        plan=reader("audit.plan", plan=entry["plan"]) if entry["plan"] else "",
        who=reader("audit.by-via" if via else "audit.by", by=by, via=via) if by else "",
        says=reader("audit.says", says=text) if text else "",
    )


def _verify_audit(args: argparse.Namespace, job: Job, store: Store | None) -> int:
    wanted = args.verify.strip().lower()
    if wanted and (len(wanted) < 8 or set(wanted) - set("0123456789abcdef")):
        raise WatchdogError(
            f"'{harmless(wanted, 40)}' is not from a message: what stands there has eight characters, 0-9 and a-f"
        )
    chain = audit.verify(store, wanted) if store else audit.AuditChain(0, "", found=False if wanted else None)
    chain = replace(chain, breaks=(*chain.breaks, *_cut_off(store, chain, marker_path(job.store_path))))
    holds = not chain.breaks and not chain.absent and not chain.unlinked and chain.found is not False
    breaks = [picked(broken, "line fault where") for broken in chain.breaks]
    value = {"holds": holds, **picked(chain, "lines head"), "breaks": breaks, **picked(chain, "absent found")}
    show(args, value, lambda: _chain_lines(chain, holds, wanted, reader_anyhow(job, args.language)))
    return WELL if holds else WRONG


def _chain_lines(chain: audit.AuditChain, holds: bool, wanted: str, reader: Reader) -> Iterator[str]:
    for broken in chain.breaks[:BREAKS]:
        key = f"audit.{broken.fault.replace(' ', '-')}"
        yield reader(key, line=broken.line, where=harmless(broken.where))
    if more := max(0, len(chain.breaks) - BREAKS):
        yield reader("audit.more", count=more)
    if chain.unlinked:
        yield reader("audit.not-linked", count=chain.lines)
    for name in chain.absent:
        yield reader("audit.absent", name=harmless(name))
    if chain.found is False:
        yield reader("audit.not-found", wanted=wanted)
    if holds:
        found = reader("audit.found", wanted=wanted) if wanted else ""
        newest = reader("audit.newest", head=chain.head[: audit.SHOWN]) if chain.head else ""
        yield reader("audit.holds", count=chain.lines, found=found, newest=newest)


def _cut_off(store: Store | None, chain: audit.AuditChain, mark: str) -> tuple[audit.Break, ...]:
    """A break where the marker beside the store knows a newest line that the store does not have."""
    known = read_marker(mark)
    if store is None or known is None or chain.unlinked or goes_on(store, known.lines, known.head):
        return ()
    return (audit.Break(known.lines, audit.AuditFault.CUT_OFF, os.path.basename(mark)),)
