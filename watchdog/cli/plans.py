"""What the watchdog would do, and the leave to do it: plans, plan, approve, refuse, arm, disarm, resume, abandon, audit."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from watchdog.cli.common import WELL, WRONG, Context, add_command, add_common, colours, context, paint, print_json
from watchdog.cli.place import need_known, store_of
from watchdog.cli.plans_shown import line, plan_json, shown
from watchdog.errors import WatchdogError

if TYPE_CHECKING:
    from watchdog.model import Outcome
    from watchdog.store import Store
    from watchdog.store.plans import Stored
    from watchdog.world import World

HELP = {
    "plans": (
        "what is proposed, asked, done",
        """\
examples:
  hermes-watchdog plans               open questions first, then what became of the others
  hermes-watchdog plans --json

exit codes: 0 nothing waits for you · 1 a question is open, or a plan was cut off in the middle""",
    ),
    "plan": (
        "one plan: the exact commands, why, and what became of it",
        """\
examples:
  hermes-watchdog plan 7              steps, costs, evidence, output of what was done
  hermes-watchdog plan 7 --code       also make a fresh code to answer with, for this shell""",
    ),
    "approve": (
        "let a plan be carried out, with the code from its message; acts at once",
        """\
The code is for exactly the commands that 'plan ID' shows, works once, and is void after the time in the message.
Before acting the watchdog looks again: when the fault is gone, or the plan would be another one by now, nothing is done.

examples:
  hermes-watchdog approve K7MNPQRS
  hermes-watchdog approve -           read the code from standard input, so that no process list shows it

exit codes: 0 done, and verified by every rule that is switched on · 1 not done, or it did not help · 2 the code or the arguments are wrong""",
    ),
    "refuse": (
        "say no; the recipe is not proposed again for some hours",
        """\
examples:
  hermes-watchdog refuse K7MNPQRS
  hermes-watchdog refuse - """,
    ),
    "arm": (
        "let the watchdog act again after it disarmed itself",
        """\
It disarms itself when health is not better after an action, or when a cure does not last. Look at the cause first.

examples:
  hermes-watchdog arm --because 'disk replaced'
  hermes-watchdog arm --forget        cures that failed may be tried again too""",
    ),
    "disarm": (
        "only look and tell from now on, until armed again",
        """\
examples:
  hermes-watchdog disarm --because 'migrating the server this week'""",
    ),
    "resume": (
        "go on with a plan that was cut off in the middle",
        """\
Steps that were finished are not repeated. A command that may have run half way is not begun again.

examples:
  hermes-watchdog plan 7              first see where it was cut off
  hermes-watchdog resume 7""",
    ),
    "abandon": (
        "leave a plan that was cut off as it is",
        """\
examples:
  hermes-watchdog abandon 7""",
    ),
    "audit": (
        "who asked, answered and did what, when and why; nobody can change it",
        """\
examples:
  hermes-watchdog audit
  hermes-watchdog audit --plan 7
  hermes-watchdog audit --json        one JSON object per line""",
    ),
}


def add_arguments(commands: Any) -> None:
    made = {}
    for name, (says, examples) in HELP.items():
        made[name] = add_command(commands, name, says, examples, RUN[name])
        add_common(made[name])
    for name in ("plan", "resume", "abandon"):
        made[name].add_argument("id", metavar="ID", type=int, help="number of the plan")
    made["plan"].add_argument("--code", action="store_true", help="make a code to answer with in this shell")
    for name in ("approve", "refuse"):
        made[name].add_argument("code", metavar="CODE", help="the eight characters from the message; - reads them from standard input")
    for name in ("arm", "disarm"):
        made[name].add_argument("--because", metavar="WORDS", default="", help="for the audit, and for whoever looks next")
    made["arm"].add_argument("--forget", action="store_true", help="cures that failed for a key may be tried again for it")
    made["audit"].add_argument("--plan", metavar="ID", type=int, help="only the lines of this plan")


def run_plans(args: argparse.Namespace) -> int:
    from watchdog.store import plans as rows

    ctx = context(args)
    store = ctx.look_at_store()
    every = rows.newest(store) if store else ()
    waiting = [one for one in every if one.state in (*rows.OPEN, *rows.UNFINISHED)]
    armed = rows.history(store, ctx.now).disarmed
    if args.json:
        print_json(
            {"plans": [plan_json(one) for one in every], "disarmed": {"at": armed.at, "by": armed.by, "why": armed.why} if armed else None}
        )
        return WRONG if waiting else WELL
    if armed:
        print(f"{paint('disarmed', 'high', colours())} by {armed.by}: {armed.why}\n  after a look: hermes-watchdog arm")
    for one in [*waiting, *(one for one in every if one not in waiting)]:
        print(line(one))
    if not every:
        print("No plans. The watchdog proposes one when a rule with a recipe finds something.")
    return WRONG if waiting or armed else WELL


def run_plan(args: argparse.Namespace) -> int:
    from watchdog.store import plans as rows

    ctx = context(args)
    store = ctx.look_at_store()
    one = _get(store, args.id)
    code = ""
    if args.code:
        from watchdog.approval import COMMAND_LINE, new_code

        if one.state != "pending" or one.expires_at <= ctx.now:
            raise WatchdogError(f"plan {one.id} is {'expired' if one.state == 'pending' else one.state}; there is nothing to answer")
        with store_of(ctx) as written:
            code = new_code(written, one.id, COMMAND_LINE, ctx.now)
    assert store is not None
    steps = rows.steps_of(store, one.id)
    if args.json:
        print_json({**plan_json(one), "done": steps, "audit": rows.audit_lines(store, one.id), **({"code": code} if code else {})})
        return WELL
    print(*shown(one, steps, code), sep="\n")
    return WELL


def run_answer(args: argparse.Namespace) -> int:
    from watchdog.approval import COMMAND_LINE, answer

    ctx = context(args)
    word = sys.stdin.readline(200).strip() if args.code == "-" else args.code
    if not word:
        raise WatchdogError("no code was given; it is in the message, or make one: hermes-watchdog plan ID --code")
    with store_of(ctx) as store:
        told = answer(store, word, args.command == "approve", _user(), COMMAND_LINE, ctx.now, limits=ctx.settings.limits)
        if not told.ok or not told.approved:
            _say(args, told.says, told.ok, told.plan_id)
            return WELL if told.ok else (WRONG if told.plan_id else 2)
        if not args.json:
            print(told.says, flush=True)
        return _act(args, ctx, store, told.plan_id)


def _act(args: argparse.Namespace, ctx: Context, store: Store, plan_id: int, going_on: bool = False) -> int:
    """Carry it out here and now; what is cut off by Ctrl-C is told as what it is."""
    from watchdog.acting import looking
    from watchdog.interrupted import find_interrupted, resume
    from watchdog.pipeline import tell_outcomes
    from watchdog.remedy import carry_out

    world = _world(ctx)
    look_again = looking(ctx.book, ctx.sources(), store, world)
    try:
        outcomes = resume(plan_id, store, world, look_again, _user()) if going_on else carry_out(plan_id, store, world, look_again)
    except KeyboardInterrupt:
        outcomes = find_interrupted(store, world)
    code = _tell(args, outcomes, plan_id)  # first here: what was done is said even when nothing can be recorded any more
    tell_outcomes(outcomes, ctx.book, ctx.sources(), store, ctx.settings, world.clock())
    return code


def _tell(args: argparse.Namespace, outcomes: tuple[Outcome, ...], plan_id: int) -> int:
    if args.json:
        print_json(
            {
                "plan": plan_id,
                "ok": bool(outcomes) and outcomes[-1].ok,
                "outcomes": [{"step": one.step, "ok": one.ok, "says": one.says, "took": one.took.total_seconds()} for one in outcomes],
            }
        )
    else:
        for one in outcomes:
            print(f"{paint('done', 'good', colours()) if one.ok else paint('failed', 'high', colours())}  {one.step}: {one.says}")
    return WELL if outcomes and outcomes[-1].ok else WRONG


def run_arm(args: argparse.Namespace) -> int:
    from watchdog import approval

    ctx = context(args)
    need_known(ctx)
    with store_of(ctx) as store:
        if args.command == "arm":
            changed = approval.arm(store, _user(), ctx.now, args.because, args.forget)
            says = "armed: approved plans are carried out again" if changed else "it was armed already"
        else:
            changed = approval.disarm(store, args.because or "by hand", ctx.now, _user())
            says = (
                "disarmed: from now on it only looks and tells; again with: hermes-watchdog arm" if changed else "it was disarmed already"
            )
    _say(args, says, True)
    return WELL


def run_resume(args: argparse.Namespace) -> int:
    ctx = context(args)
    with store_of(ctx) as store:
        _get(store, args.id)
        return _act(args, ctx, store, args.id, going_on=True)


def run_abandon(args: argparse.Namespace) -> int:
    from watchdog.interrupted import abandon

    ctx = context(args)
    with store_of(ctx) as store:
        _get(store, args.id)
        told = abandon(args.id, store, _world(ctx), _user())
    _say(args, told.says, True, args.id)
    return WELL


def run_audit(args: argparse.Namespace) -> int:
    import json

    from watchdog.store import plans as rows
    from watchdog.text import harmless

    store = context(args).look_at_store()
    for entry in rows.audit_lines(store, args.plan) if store else ():
        if args.json:
            print(json.dumps(entry, ensure_ascii=False))
            continue
        who = f" by {entry['by']}" + (f" via {entry['via']}" if entry["via"] else "") if entry["by"] else ""
        plan = f" plan {entry['plan']}" if entry["plan"] else ""
        print(f"{entry['at'][:19]}Z  {entry['what']}{plan}{harmless(who)}: {harmless(entry['says'], 2000)}")
        output = (entry["more"] or {}).get("output") if isinstance(entry["more"], dict) else ""
        for row in (output or "").splitlines()[:20]:
            print(f"    | {harmless(row)}")
    return WELL


RUN = {
    "plans": run_plans,
    "plan": run_plan,
    "approve": run_answer,
    "refuse": run_answer,
    "arm": run_arm,
    "disarm": run_arm,
    "resume": run_resume,
    "abandon": run_abandon,
    "audit": run_audit,
}


def _get(store: Store | None, number: int) -> Stored:
    from watchdog.store import plans as rows

    one = rows.get(store, number) if store else None
    if one is None:
        raise WatchdogError(f"there is no plan {number}; see: hermes-watchdog plans")
    return one


def _world(ctx: Context) -> World:
    from watchdog.world import measure_world

    return measure_world(ctx.home, ctx.state, ctx.settings.limits, ctx.settings.unit, zone=ctx.settings.zone)


def _say(args: argparse.Namespace, says: str, ok: bool, plan_id: int = 0) -> None:
    if args.json:
        print_json({"ok": ok, "says": says, "plan": plan_id or None})
    else:
        print(says, file=sys.stdout if ok else sys.stderr)


def _user() -> str:
    """Who sits at this shell; under sudo, who called it."""
    import os
    import pwd

    try:
        uid = int(os.environ.get("SUDO_UID", "")) if os.getuid() == 0 else os.getuid()
    except ValueError:
        uid = os.getuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
