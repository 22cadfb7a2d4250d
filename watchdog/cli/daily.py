"""Every day: run, status, install, uninstall, doctor, demo, report, completion."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watchdog.cli.common import CONFIG, WELL, WRONG, Context, a_duration, add_command, add_common, colours, context, paint, print_json
from watchdog.cli.place import need_home
from watchdog.errors import WatchdogError

if TYPE_CHECKING:
    from watchdog.install import Entry

HELP = {
    "run": ("checks on APScheduler's clock, until stopped", """\
Each rule's 'every:' is a trigger; rules that are due at the same moment make one check. Edited rules and settings are
taken within seconds; a broken edit is told with its line and the last good set stays in force. While a question is open,
an answer is heard within half a minute. SIGTERM stops it: at once between checks, after a repair that has begun. Under
systemd it says when it is ready and that it lives.

examples:
  hermes-watchdog run                       in a terminal; Ctrl-C ends it
  hermes-watchdog install --daemon          as a service, started at boot"""),
    "status": ("last and next check, what is open, armed or not", """\
examples:
  hermes-watchdog status
  hermes-watchdog status --json

exit codes: 0 well · 1 something is open, cannot be seen, disarmed, cut off or failing"""),
    "install": ("make checks happen: a cron line, a systemd timer or a service", """\
Shows the entry, then writes it for this user and this home. Doing it twice changes nothing; 'uninstall' takes exactly it away.

examples:
  hermes-watchdog install --cron --dry-run           show the line, write nothing
  hermes-watchdog install --cron                     every 15 minutes
  hermes-watchdog install --cron --every '0 8,14,22 * * *'
  hermes-watchdog install --systemd-timer --every 5m
  hermes-watchdog install --daemon                   the long-running mode as a service
  hermes-watchdog install --cron --all-profiles      one entry for each profile of the home"""),
    "uninstall": ("take the entry away again, and nothing else", """\
examples:
  hermes-watchdog uninstall --dry-run
  hermes-watchdog uninstall                          cron line, timer and service of this home
  hermes-watchdog uninstall --all-profiles"""),
    "doctor": ("can the watchdog see, act, remember and tell here? with the command that helps", """\
Looks only: writes nothing, restarts nothing, sends nothing.

examples:
  hermes-watchdog doctor
  hermes-watchdog doctor --home /home/me/.hermes --json

exit codes: 0 all is well · 1 something keeps it from working · 2 the rules or settings are wrong"""),
    "demo": ("a broken gateway in a temporary folder, found, asked about, healed and told; 20 seconds", """\
Nothing outside the temporary folder is touched, and it is gone afterwards.

examples:
  hermes-watchdog demo
  hermes-watchdog demo --fast               without pauses for reading
  hermes-watchdog demo --keep               leave the folder for a look around"""),
    "report": ("what happened over days, as text, Markdown, HTML or JSON", """\
Incidents over time, how soon they were noticed and healed, what was done, and what was not seen and why.
The HTML is one file with a timeline, readable on a phone; it asks nobody for anything.

examples:
  hermes-watchdog report
  hermes-watchdog report --since 30d --format markdown
  hermes-watchdog report --format html --output week.html"""),
    "completion": ("completion for bash, zsh or fish", """\
examples:
  source <(hermes-watchdog completion bash)          for this shell; put it into ~/.bashrc to keep it
  source <(hermes-watchdog completion zsh)
  hermes-watchdog completion fish > ~/.config/fish/completions/hermes-watchdog.fish"""),
}  # fmt: skip


def add_arguments(commands: Any) -> None:
    made = {}
    for name, (says, examples) in HELP.items():
        made[name] = add_command(commands, name, says, examples, RUN[name])
        if name not in ("demo", "completion"):
            add_common(made[name], json=name in ("status", "doctor", "install", "uninstall"))
    made["run"].add_argument(
        "--stop-limit",
        type=a_duration,
        default=timedelta(minutes=10),
        metavar="10m",
        help="how long a stop waits for a repair (default 10m)",
    )
    kinds = made["install"].add_mutually_exclusive_group(required=True)
    kinds.add_argument("--cron", dest="kind", action="store_const", const="cron", help="a line in this user's crontab")
    kinds.add_argument("--systemd-timer", dest="kind", action="store_const", const="systemd-timer", help="a systemd timer")
    kinds.add_argument("--daemon", dest="kind", action="store_const", const="daemon", help="the long-running mode as a systemd service")
    made["install"].add_argument(
        "--every", default="15m", metavar="15m", help="the pace (default 15m): a duration or a cron expression in quotes"
    )
    for name in ("install", "uninstall"):
        made[name].add_argument("--dry-run", action="store_true", help="show it, change nothing")
        made[name].add_argument("--all-profiles", action="store_true", help="for the home and each of its profiles")
    made["demo"].add_argument("--fast", action="store_true", help="no pauses for reading")
    made["demo"].add_argument("--keep", action="store_true", help="leave the temporary folder behind")
    made["report"].add_argument(
        "--format", choices=("text", "markdown", "html", "json"), default="text", help="text (default), markdown, html or json"
    )
    made["report"].add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")
    made["report"].add_argument("--since", type=a_duration, default=timedelta(days=7), metavar="7d", help="how far back (default 7d)")
    made["report"].add_argument("--output", metavar="FILE", help="write it there instead of printing it")
    made["completion"].add_argument("shell", choices=("bash", "zsh", "fish"), help="for which shell")


def run_daemon(args: argparse.Namespace) -> int:
    from watchdog.cli.check import run_once
    from watchdog.daemon import Daemon, heard, say

    need_home(context(args).home)

    def load() -> Context:
        ctx = context(args, datetime.now(UTC))
        assert ctx.settings is not None and ctx.book is not None  # read now, so that a mistake is told now
        return ctx

    return Daemon(load, run_once, say, heard=heard, stop_limit=args.stop_limit).run()


def run_status(args: argparse.Namespace) -> int:
    from watchdog.status import as_json, as_text, gather

    told = gather(context(args))
    if args.json:
        print_json(as_json(told))
    else:
        print(as_text(told, colours()))
    return WELL if told.well else WRONG


def run_install(args: argparse.Namespace) -> int:
    from watchdog import install

    ctx = context(args)
    need_home(ctx.home)
    results = [_install(args, entry, install) for entry in _entries(args, ctx)]
    if args.json:
        print_json({"entries": results, "written": not args.dry_run})
    return WELL


def _install(args: argparse.Namespace, entry: Entry, install: Any) -> dict[str, Any]:
    """Show one entry, then write it."""
    if args.kind == install.CRON:
        text = install.cron_entry(entry)
        before = "" if args.dry_run else install.read_crontab()
        after = install.with_entry(before, entry.home, text)
        changed = before != after
        _show(args, "to the crontab of this user", text)
        if not args.dry_run and changed:
            install.write_crontab(after)
        files = {"crontab": text}
    else:
        units = install.unit_files(entry, args.kind)
        folder = install.unit_folder(entry.root)
        files = {str(folder / unit.name): unit.text for unit in units}
        changed = any(_text(Path(path)) != text for path, text in files.items())
        for path, text in files.items():
            _show(args, path, text)
        if not args.dry_run and changed:
            install.write_units(units, folder, entry.root)
    if not args.json:
        done = "nothing was written (dry run)" if args.dry_run else "written" if changed else "already there; nothing changed"
        print(f"{entry.home}: {done}." + ("" if args.dry_run else " See: hermes-watchdog status"))
    return {"home": str(entry.home), "kind": args.kind, "changed": changed and not args.dry_run, "files": files}


def run_uninstall(args: argparse.Namespace) -> int:
    from watchdog import install

    ctx, gone = context(args), []
    for entry in _entries(args, ctx):
        gone += _uninstall(args, entry, install)
    if args.json:
        print_json({"removed": gone, "written": not args.dry_run})
    elif not gone:
        print(f"There is nothing to take away for {ctx.home}.")
    return WELL


def _uninstall(args: argparse.Namespace, entry: Entry, install: Any) -> list[str]:
    gone = []
    try:
        crontab = install.read_crontab()
    except WatchdogError:
        crontab = ""  # no cron, no entry in it
    left, found = install.without_entry(crontab, entry.home)
    if found:
        _show(args, "away from the crontab of this user", found)
        gone.append("crontab")
        if not args.dry_run:
            install.write_crontab(left)
    for root in (False, True) if entry.root else (False,):
        folder = install.unit_folder(root)
        there = [path for end in ("timer", "service") if (path := folder / f"{install.unit_name(entry.home)}.{end}").exists()]
        removed = there if args.dry_run else install.remove_units(entry.home, folder, root)
        gone += [str(path) for path in removed]
    if gone and not args.json:
        print(f"{entry.home}: {'would be taken away' if args.dry_run else 'taken away'}: {', '.join(gone)}")
    return gone


def _entries(args: argparse.Namespace, ctx: Context) -> list[Entry]:
    from watchdog import install

    def given(name: str, variable: str, path: Path) -> Path | None:
        return path if getattr(args, name, None) or os.environ.get(variable) else None

    state = getattr(args, "state", None) or os.environ.get("HERMES_WATCHDOG_STATE")
    first = install.Entry(
        ctx.home,
        install.interpreter(),
        getattr(args, "every", "15m"),
        given("config", "HERMES_WATCHDOG_CONFIG", ctx.config),
        Path(os.path.abspath(os.path.expanduser(state))) if state else None,
        root=os.getuid() == 0,
    )
    return [replace(first, home=home) for home in (install.profiles(ctx.home) if args.all_profiles else [ctx.home])]


def _show(args: argparse.Namespace, where: str, text: str) -> None:
    if not args.json:
        print(paint(f"{where}:", "dim", colours()))
        print("\n".join(f"  {line}" for line in text.splitlines()))


def run_doctor(args: argparse.Namespace) -> int:
    from watchdog.selfcheck import BAD, UNKNOWN, examine

    found = examine(context(args))
    bad = [one for one in found if one.state == BAD]
    code = WELL if not bad else CONFIG if any(one.name in ("rules", "settings") for one in bad) else WRONG
    if args.json:
        print_json({"well": not bad, "checks": [vars(one) for one in found]})
        return code
    width = max(len(one.name) for one in found)
    paints = {"ok": "good", BAD: "high", UNKNOWN: "medium"}
    for one in found:
        first, *more = one.says.splitlines() or [""]
        print(f"{paint(f'{one.state:<7}', paints[one.state], colours())} {one.name:<{width}}  {first}")
        print(
            *(f"{'':<{width + 10}}{line}" for line in [*more, *([f"→ {one.fix}"] if one.fix else [])]),
            sep="\n",
            end="\n" if more or one.fix else "",
        )
    print(f"\n{len(bad)} of {len(found)} answers keep the watchdog from working." if bad else "\nThe watchdog can work here.")
    return code


def run_demo(args: argparse.Namespace) -> int:
    from watchdog.demo import Stage, run

    pause = 0.0 if args.fast or not sys.stdout.isatty() else 0.7
    return run(Stage(colours(), pause), args.keep)


def run_report(args: argparse.Namespace) -> int:
    from watchdog import history_report

    ctx = context(args)
    store = ctx.look_at_store()
    past = history_report.gather(store, str(ctx.home), ctx.now - args.since, ctx.now)
    if args.format == "json":
        import json

        text = json.dumps(history_report.as_json(past), indent=2, ensure_ascii=False)
    elif args.format == "html":
        from watchdog.history_page import as_html

        text = as_html(past)
    else:
        text = history_report.as_markdown(past) if args.format == "markdown" else history_report.as_text(past)
    if args.output:
        try:
            Path(args.output).write_text(text.rstrip("\n") + "\n", "utf-8")
        except OSError as error:
            raise WatchdogError(f"--output {args.output}: {error.strerror}") from None
        print(f"{args.output}: {len(past.incidents)} incidents since {ctx.now - args.since:%Y-%m-%d}")
    else:
        print(text)
    return WELL


def run_completion(args: argparse.Namespace) -> int:
    from watchdog.cli import parser
    from watchdog.completion import script

    print(script(args.shell, parser()), end="")
    return WELL


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return None


RUN = {
    "run": run_daemon,
    "status": run_status,
    "install": run_install,
    "uninstall": run_uninstall,
    "doctor": run_doctor,
    "demo": run_demo,
    "report": run_report,
    "completion": run_completion,
}
