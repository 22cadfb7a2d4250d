"""Homes and plans of a fleet for a terminal and as JSON. Every text was written by a host and is made harmless."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from watchdog.fleet.mailbox import HomeStatus
from watchdog.fleet.mailbox_plan import MailboxPlan
from watchdog.notify.sanitize import exact
from watchdog.text import paint, spell

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
        "host": home.host,
        "home": home.home,
        "instance": home.instance,
        "profile": home.profile,
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
        "code": plan.code,
        "host": plan.host,
        "home": plan.home,
        "machine": plan.machine,
        "plan": plan.plan,
        "title": plan.title,
        "words": list(plan.words),
        "digest": plan.digest,
        "state": "expired" if plan.state == "pending" and not is_open(plan) else plan.state,
        "seconds_left": max(0, round(plan.left.total_seconds())),
        "answered_by": plan.answered_by or None,
        "outcome": plan.outcome or None,
        "about": dict(plan.about),
    }
