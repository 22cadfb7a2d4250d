"""fleet: many homes at once, through the mailbox in PostgreSQL; and this home's metrics.

Every text of another host is made harmless before it is shown.
"""

from __future__ import annotations

import argparse
from datetime import timedelta
from typing import Any

from watchdog.cli.command import command, flag, option, parts_of
from watchdog.cli.context import WELL, WRONG, job_of, print_json, show, typed_code
from watchdog.errors import WatchdogError
from watchdog.fleet import mailbox, setup
from watchdog.fleet.facts import gather, load_memory
from watchdog.fleet.mailbox import HomeStatus
from watchdog.fleet.mailbox_plan import MailboxPlan, digest_of_row
from watchdog.fleet.metrics import exposition
from watchdog.fleet.postgres import connected
from watchdog.job import Job
from watchdog.notify.sanitize import exact
from watchdog.text import colours, paint, picked, spell

NAME = {"action": "append", "default": []}
CODE = option("code", "CODE", "the eight characters from 'fleet plans'; - reads them")

parts_of(
    "fleet",
    """\
examples:
  hermes-watchdog fleet status                 all hosts
  hermes-watchdog fleet plans                  what waits for an answer
  hermes-watchdog fleet approve K7MNPQRS""",
    "Many homes at once. The address of PostgreSQL is `fleet: {postgres: …}` in settings.yaml.",
)


@command(
    "fleet init",
    option("--host", "NAME", "a role for this host", **NAME),
    option("--approver", "NAME", "a role for this person", **NAME),
    about="make or update the tables in PostgreSQL, and roles for hosts and approvers",
)
def run_init(args: argparse.Namespace) -> int:
    """
    Run it as a role that may create roles; it can be run again at any time. A new role's password is printed once.

    examples:
      hermes-watchdog fleet init
      hermes-watchdog fleet init --host web1 --host web2 --approver anna
    """
    with connected(_address(job_of(args)), limit=30, check=False) as connection:
        before, now = setup.initialise(connection)
        made = [
            (name, approver, setup.add_role(connection, name, approver))
            for names, approver in ((args.host, False), (args.approver, True))
            for name in names
        ]
    roles = [
        {"name": name, "approver": approver, "created": bool(password), "password": password or None}
        for name, approver, password in made
    ]
    tables = "as they were" if before == now else "made" if not before else "updated"
    lines = [f"tables: {tables} (version {now})"]
    for name, approver, password in made:
        kind = "approver" if approver else "host"
        lines.append(
            f"{kind} {name}: {f'password {password}' if password else 'was there; its password stays'}"
        )
    if any(password for _, _, password in made):
        lines.append(
            "A password is shown once. Write it into a file of mode 600 and name it with postgres_file."
        )
    show(args, {"tables_before": before, "tables": now, "roles": roles}, lambda: lines)
    return WELL


@command(
    "fleet status",
    about="every home: last check, open incidents, waiting plans; and roles that may do too much",
)
def run_status(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog fleet status
      hermes-watchdog fleet status --json

    exit codes: 0 all is well · 1 something is open, stale or wrong with the roles
    """
    with connected(_address(job_of(args))) as connection:
        homes = mailbox.homes(connection)
        rights = setup.too_much(connection)
        approvers = setup.who_approves(connection)
    wrong = [home for home in homes if home.stale or home.incidents or home.unseen or not home.known_host]
    value = {
        "homes": [home_json(home) for home in homes],
        "approvers": approvers,
        "too_much": [{"role": role or None, "may": may} for role, may in rights],
    }
    lines = [line for home in homes for line in home_lines(home, colours())] or ["No home has reported yet."]
    lines.append(f"approvers: {', '.join(exact(name, 70) for name in approvers) or 'none'}")
    lines += [right_line(role, may, colours()) for role, may in rights]
    show(args, value, lambda: lines)
    return WRONG if wrong or rights else WELL


@command(
    "fleet plans",
    flag("--all", "also what was answered in the last week"),
    about="the questions of all hosts, with their exact commands and codes",
)
def run_plans(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog fleet plans
      hermes-watchdog fleet plans --all        also those of the last week

    exit codes: 0 nothing waits · 1 a question is open
    """
    with connected(_address(job_of(args))) as connection:
        plans = mailbox.plans(connection, args.all)
    waiting = [plan for plan in plans if is_open(plan)]
    blocks = ["\n".join(plan_lines(plan, colours())) for plan in plans] or ["No question is open."]
    show(args, [plan_json(plan) for plan in plans], lambda: ["\n\n".join(blocks)])
    return WRONG if waiting else WELL


@command(
    "fleet approve", CODE, about="say yes to a plan of any host; that host compares it with its own and acts"
)
def run_approve(args: argparse.Namespace) -> int:
    """
    The host hears it at once in the long-running mode, at its next check under cron. It looks again before it acts.

    examples:
      hermes-watchdog fleet approve K7MNPQRS
      hermes-watchdog fleet approve -          read the code from standard input

    exit codes: 0 your answer counts · 1 it does not, and why · 2 the code or the arguments are wrong
    """
    return _answer(args, True)


@command("fleet refuse", CODE, about="say no to a plan of any host")
def run_refuse(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog fleet refuse K7MNPQRS
    """
    return _answer(args, False)


def _answer(args: argparse.Namespace, yes: bool) -> int:
    word = typed_code(args)
    code = "".join(sign for sign in word[:100].upper() if sign.isalnum())
    with connected(_address(job_of(args))) as connection:
        plan = mailbox.find(connection, code) if len(code) == 8 else None
        if plan is None:
            raise WatchdogError("that code is not known here; see: {watchdog} fleet plans")
        if not args.json:
            print("\n".join(plan_lines(plan, colours())), flush=True)
        result = mailbox.answer(connection, plan.id, yes, digest_of_row(plan))
        plan = mailbox.find(connection, code) or plan
    counts = result == "done"
    if args.json:
        print_json({**plan_json(plan), "result": result})
    elif counts:
        verb = "approved" if yes else "refused"
        print(f"{verb}: {exact(plan.host, 70)} hears it at its next look and compares it with its own plan")
    else:
        by = f" by {exact(plan.answered_by, 70)}" if plan.answered_by else ""
        print(f"nothing changed: {WHY_NOT.get(result, result)}{by}")
    return WELL if counts else WRONG


@command("fleet metrics", about="the metrics of this home, as the file for Prometheus has them", json=False)
def run_metrics(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog fleet metrics
    """
    job = job_of(args)
    store = job.look_at_store()
    if store is None:
        raise WatchdogError(f"{job.home} was never checked; run: {{watchdog}} check")
    with store:
        facts = gather(store, job.home, job.settings, load_memory(store), job.now)
    print(exposition(facts).decode(), end="")
    return WELL


def _address(job: Job) -> str:
    fleet = job.settings.fleet
    if fleet is None or fleet.postgres is None:
        raise WatchdogError(
            f"no address of PostgreSQL; write 'fleet: {{postgres: …}}' into {job.config}/settings.yaml"
        )
    return fleet.postgres.reveal()


CLOCKS = timedelta(minutes=1)  # a host's clock that is further off is told

RIGHTS = {
    "superuser": "is a superuser: it may answer and change everything",
    "bypass-rls": "may read and write the rows of every host (BYPASSRLS)",
    "create-roles": "may create roles, and so approvers (CREATEROLE)",
    "replication": "may copy the whole database (REPLICATION)",
    "server-files": "may read or write files of the database server, or run programs there",
    "create": "may create tables and functions in the mailbox",
    "owner": "is a member of the owner of the tables",
    "host-approves": "is a host and an approver: it can approve what other hosts propose",
    "change-questions": "may change or delete questions",
    "change-audit": "may write or change the audit",
    "answer": "may answer and is not an approver",
}

WHY_NOT = {
    "approved": "it was approved already",
    "refused": "it was refused already",
    "withdrawn": "the host has withdrawn it",
    "expired": "it has expired; no answer was a no",
    "unknown": "there is no such question",
    "no-host": "its host has no role in this database any more; no host would act on it",
    "not-listed": "that host does not list your role among its approvers",
}


def right_line(role: str, may: str, colour: bool) -> str:
    """What a role may do and should not, or what was switched off."""
    about = f"role {exact(role, 70)} {RIGHTS.get(may, may)}" if role else f"switched off: {exact(may)}"
    return f"{paint('too much', 'high', colour)}: {about}"


def is_open(plan: MailboxPlan) -> bool:
    return plan.state == "pending" and plan.left > timedelta(0)


def home_lines(home: HomeStatus, colour: bool) -> list[str]:
    """One home for a terminal; every text of it was written by a host and is made harmless."""
    head = f"{paint(exact(home.host, 70), 'bold', colour)}  {exact(home.profile, 70)}  last check {spell(home.ago)} ago"
    if home.waiting:
        head += f"  {home.waiting} waiting"
    if not home.armed:
        head += "  disarmed"
    lines = [head]
    if home.stale:
        lines.append(f"  {paint('stale', 'high', colour)}: no check since {spell(home.ago)}")
    if abs(home.clock_off) > CLOCKS:
        side = "ahead" if home.clock_off > timedelta(0) else "behind"
        lines.append(f"  {paint('clock', 'medium', colour)}: {spell(abs(home.clock_off))} {side}")
    if home.unseen:
        lines.append(f"  {paint('cannot see', 'high', colour)} {home.unseen} of its sources")
    if not home.known_host:
        lines.append(f"  {paint('no role', 'medium', colour)} of that name is left; its rows are history")
    for incident in home.incidents:
        severity = str(incident.get("severity", ""))
        rule, title = exact(str(incident.get("rule", "")), 70), exact(str(incident.get("title", "")), 100)
        lines.append(f"  {paint(exact(severity, 20), severity, colour)} {rule}: {title}")
    return lines


def plan_lines(plan: MailboxPlan, colour: bool) -> list[str]:
    state = f"{spell(plan.left)} left" if is_open(plan) else plan.state
    if plan.state == "pending" and not is_open(plan):
        state = "expired"
    lines = [
        f"{paint(plan.code, 'bold', colour)}  {exact(plan.host, 70)}: {exact(plan.title, 200)}  ({state})",
        f"  home {exact(plan.home, 200)} on {exact(plan.machine, 70)}, plan {plan.plan}",
        *(f"    {exact(words, 20_000)}" for words in plan.words),
    ]
    if not plan.words:
        lines.append(
            f"  {paint('mind', 'medium', colour)}: its commands cannot be read; to approve it does nothing"
        )
    for name in ("chain", "costs"):
        if text := plan.about.get(name):
            lines.append(f"  {exact(str(text), 600)}")
    for warning in _texts(plan.about.get("warnings")):
        lines.append(f"  {paint('mind', 'medium', colour)}: {exact(warning)}")
    for evidence in _texts(plan.about.get("evidence"))[:5]:
        lines.append(f"  because: {exact(evidence)}")
    if not plan.known_host:
        lines.append(f"  {paint('no role', 'medium', colour)} of that host is left; no host would act on it")
    if plan.answered_by:
        lines.append(f"  answered by {exact(plan.answered_by, 70)}")
    if plan.outcome:
        lines.append(f"  {exact(plan.outcome, 600)}")
    return lines


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def home_json(home: HomeStatus) -> dict[str, Any]:
    return {
        **picked(home, "host home instance profile"),
        "seconds_since_check": round(home.ago.total_seconds()),
        "stale": home.stale,
        "clock_off_seconds": round(home.clock_off.total_seconds()),
        "open": list(home.incidents),
        "plans_waiting": home.waiting,
        "unseen": home.unseen,
        "armed": home.armed,
        "version": home.version,
        "role_exists": home.known_host,
    }


def plan_json(plan: MailboxPlan) -> dict[str, Any]:
    return {
        **picked(plan, "code host home machine plan title words digest"),
        "state": "expired" if plan.state == "pending" and not is_open(plan) else plan.state,
        "seconds_left": max(0, round(plan.left.total_seconds())),
        "answered_by": plan.answered_by or None,
        "outcome": plan.outcome or None,
        "about": dict(plan.about),
    }
