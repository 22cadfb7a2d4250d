"""`hermes-watchdog status`: last and next check, what is open, armed or not; from what others wrote, writing nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from watchdog.errors import WatchdogError
from watchdog.terminal import paint
from watchdog.text import ago, clock, spell

if TYPE_CHECKING:
    from watchdog.cli.common import Context


@dataclass(frozen=True)
class Status:
    home: str
    now: datetime
    runs_by: str = ""  # "cron (*/15 * * * *)", "a daemon (pid 812)"; '': nothing
    last: datetime | None = None
    next: datetime | None = None
    at_work: str = ""
    open: tuple[tuple[str, str, str], ...] = ()  # severity, rule, what it says
    suspected: int = 0
    waiting: tuple[int, ...] = ()  # plans that wait for an answer
    cut_off: tuple[int, ...] = ()  # plans that were begun and not finished
    blind: tuple[tuple[str, str], ...] = ()  # what the last check could not see, and why
    disarmed: str = ""
    problem: str = ""  # with an edit of the files that the daemon does not use
    last_error: str = ""

    @property
    def well(self) -> bool:
        return not (self.open or self.blind or self.cut_off or self.disarmed or self.problem or self.last_error)


def gather(ctx: Context, crontab: Callable[[], str] | None = None) -> Status:
    """Look at the store, the daemon's note and the crontab."""
    from watchdog.daemon_note import read_note
    from watchdog.lock import at_work
    from watchdog.store.incidents import all_incidents, last_blind, last_check, last_runs

    note = read_note(ctx.state)
    store = ctx.look_at_store()
    told: dict[str, Any] = {}
    runs: dict[str, datetime] = {}
    if store is not None:
        from watchdog.store import plans as rows

        with store:
            runs, told["last"] = last_runs(store), last_check(store)
            told["blind"] = tuple(sorted(last_blind(store).items()))
            known = all_incidents(store, only_open=True)
            told["open"] = tuple((one.severity, one.rule, one.says) for one in known if one.status == "open")
            told["suspected"] = sum(one.status == "suspected" for one in known)
            history = rows.history(store, ctx.now)
            told["waiting"] = tuple(one.id for one in rows.in_state(store, "pending") if one.expires_at > ctx.now)
            told["cut_off"] = history.unfinished
            if history.disarmed:
                told["disarmed"] = f"since {clock(history.disarmed.at)} by {history.disarmed.by}: {history.disarmed.why}"
    if note is not None:
        from watchdog.schedule import next_due

        told |= {"runs_by": f"the long-running mode (pid {note['pid']})", "problem": note["config_problem"]}
        told["last_error"] = note["last_error"]
        told["next"] = next_due(ctx.book.rules, runs, ctx.now, ctx.settings.zone)
    else:
        told["runs_by"], told["next"] = entry_of(ctx, crontab or _crontab)
    return Status(str(ctx.home), ctx.now, at_work=at_work(ctx.state, ctx.now), **told)


def entry_of(ctx: Context, crontab: Callable[[], str]) -> tuple[str, datetime | None]:
    """Which entry makes checks happen, and when it next does."""
    from watchdog.install import unit_folder, unit_name, without_entry
    from watchdog.schedule import next_fire

    for root in (False, True):
        path = unit_folder(root) / f"{unit_name(ctx.home)}.timer"
        if path.exists():
            return f"a systemd timer ({path.name})", None
    try:
        found = without_entry(crontab(), ctx.home)[1].splitlines()
    except WatchdogError:
        return "", None
    if len(found) < 2:
        return "", None
    fields = " ".join(found[1].split()[:5])
    return f"cron ({fields})", next_fire(fields, ctx.now)


def _crontab() -> str:
    from watchdog.install import read_crontab

    return read_crontab()


def as_text(told: Status, colour: bool = False) -> str:
    lines = [paint(told.home, "bold", colour)]
    last = f"{clock(told.last)} ({ago(told.last, told.now)})" if told.last else "none yet"
    lines.append(f"  last check   {last}")
    if told.at_work:
        lines.append(f"  right now    {told.at_work} is at work")
    if told.runs_by:
        when = f"{clock(told.next)} (in {spell(told.next - told.now)})" if told.next and told.next > told.now else "due now"
        lines.append(f"  next check   {when if told.next else 'by the timer'}, by {told.runs_by}")
    else:
        lines.append(f"  next check   {paint('none', 'medium', colour)}: nothing makes checks happen; hermes-watchdog install --cron")
    lines.append(f"  acting       {paint('disarmed', 'high', colour) + ' ' + told.disarmed if told.disarmed else 'armed'}")
    for number in told.cut_off:
        lines.append(f"  {paint('cut off', 'high', colour)}      plan {number}; see: hermes-watchdog plan {number}, then resume or abandon")
    for number in told.waiting:
        lines.append(f"  asked        plan {number} waits for an answer; see: hermes-watchdog plan {number}")
    for source, why in told.blind:
        lines.append(f"  {paint('cannot see', 'high', colour)}   {source}: {why}")
    for severity, rule, says in told.open:
        lines.append(f"  {paint(severity, severity, colour):<12} {rule}: {says}")
    if not told.open:
        more = f" ({told.suspected} suspected)" if told.suspected else ""
        lines.append(f"  open         {paint('nothing', 'good', colour)}{more}")
    if told.problem:
        lines.append(f"  {paint('not used', 'high', colour)}     an edit of the rules: {told.problem.splitlines()[0]}")
    if told.last_error:
        lines.append(f"  {paint('failed', 'high', colour)}       the last check: {told.last_error}")
    return "\n".join(lines)


def as_json(told: Status) -> dict[str, Any]:
    return {
        "home": told.home,
        "now": told.now.isoformat(),
        "runs_by": told.runs_by or None,
        "last_check": told.last.isoformat() if told.last else None,
        "next_check": told.next.isoformat() if told.next else None,
        "at_work": told.at_work or None,
        "armed": not told.disarmed,
        "disarmed": told.disarmed or None,
        "blind": dict(told.blind),
        "open": [{"severity": severity, "rule": rule, "says": says} for severity, rule, says in told.open],
        "suspected": told.suspected,
        "plans_waiting": list(told.waiting),
        "plans_cut_off": list(told.cut_off),
        "config_problem": told.problem or None,
        "last_error": told.last_error or None,
    }
