"""Making checks happen: run, install, uninstall; and the live page: serve."""

from __future__ import annotations

import argparse
import os
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from watchdog import web
from watchdog.cli.command import PROFILES, OneOf, Option, a_duration, command, flag, option
from watchdog.cli.context import WELL, job_of, jobs_of, need_home, print_json
from watchdog.errors import ConfigError, WatchdogError
from watchdog.gateway.machine import measure_machine
from watchdog.job import Job
from watchdog.reports.language import reader_anyhow
from watchdog.service import failure, install
from watchdog.service.check import check_once
from watchdog.service.daemon import Daemon, heard, say
from watchdog.service.daemon_note import STOP_LIMIT
from watchdog.service.hardening import sandbox_for, written_elsewhere
from watchdog.service.install import Entry
from watchdog.system.users import folder_of
from watchdog.text import colours, paint
from watchdog.web.listen import DEFAULT, listening

SHOW = flag("--dry-run", "show it, change nothing"), PROFILES


def _kind(name: str, about: str) -> Option:
    return flag(name, about, dest="kind", action="store_const", const=name[2:])


@command(
    "run",
    option(
        "--stop-limit",
        "10m",
        "how long a stop waits for a repair (default 10m)",
        type=a_duration,
        default=STOP_LIMIT,
    ),
    json=False,
)
def run_daemon(args: argparse.Namespace) -> int:
    """
    Each rule's 'every:' is a trigger; rules that are due at the same moment make one check. Edited rules and settings are
    used within seconds; an edit with a mistake is reported with its line and the last good set stays in force. While a
    question is open, answers are read every 20 seconds. SIGTERM stops it: at once between checks, after a repair that has
    begun. Under systemd it reports that it is ready and alive.

    examples:
      hermes-watchdog run                       in a terminal; Ctrl-C ends it
      hermes-watchdog install --daemon          as a service, started at boot
    """
    need_home(job_of(args).home)

    def load() -> Job:
        job = job_of(args, datetime.now(UTC))
        assert job.settings is not None and job.book is not None  # read now: a mistake is reported now
        return job

    daemon = Daemon(load, check_once, say, heard=heard, edited=failure.tell_edit, stop_limit=args.stop_limit)
    try:
        return daemon.run()
    except ConfigError as error:  # at the start; later the last good rules stay in force
        job = job_of(args)
        failure.tell_failure(job, error, job.now)
        raise


@command(
    "install",
    OneOf(
        (
            _kind("--cron", "a line in this user's crontab"),
            _kind("--systemd-timer", "a systemd timer"),
            _kind("--daemon", "the long-running mode as a systemd service"),
        ),
        required=True,
    ),
    option(
        "--every", "15m", "the pace (default 15m): a duration or a cron expression in quotes", default="15m"
    ),
    *SHOW,
)
def run_install(args: argparse.Namespace) -> int:
    """
    Shows the entry, then writes it for this user and this home. Doing it twice changes nothing; 'uninstall' removes exactly it.

    examples:
      hermes-watchdog install --cron --dry-run           show the line, write nothing
      hermes-watchdog install --cron                     every 15 minutes
      hermes-watchdog install --cron --every '0 8,14,22 * * *'
      hermes-watchdog install --systemd-timer --every 5m
      hermes-watchdog install --daemon                   the long-running mode as a service
      hermes-watchdog install --cron --all-profiles      one entry for each profile of the home
    """
    need_home(job_of(args).home)
    results = [_install(args, job) for job in jobs_of(args)]
    if args.json:
        print_json({"entries": results, "written": not args.dry_run})
    return WELL


def _install(args: argparse.Namespace, job: Job) -> dict[str, Any]:
    """Show the entry of one home, then write it."""
    reader, entry = reader_anyhow(job, args.language), _entry(args, job)
    if args.kind == install.CRON:
        text = install.cron_entry(entry)
        before = "" if args.dry_run else install.read_crontab()
        after = install.with_entry(before, entry.home, text)
        changed = before != after
        _show(args, reader("install.crontab"), text)
        if not args.dry_run and changed:
            install.write_crontab(after)
        files = {"crontab": text}
    else:
        entry = _locked_up(job, entry)
        units = install.unit_files(entry, args.kind)
        folder = install.unit_folder(entry.root)
        files = {str(folder / unit.name): unit.text for unit in units}
        changed = any(_text(Path(path)) != text for path, text in files.items())
        for path, text in files.items():
            _show(args, f"{path}:", text)
        if not args.dry_run and changed:
            install.make_folders(entry)
            install.write_units(units, folder, entry.root)
    if not args.json:
        done = "dry-run" if args.dry_run else "written" if changed else "there"
        print(reader(f"install.{done}", home=entry.home))
    return {
        "home": str(entry.home),
        "kind": args.kind,
        "changed": changed and not args.dry_run,
        "files": files,
    }


def _locked_up(job: Job, entry: Entry) -> Entry:
    """The entry with as much of a sandbox as looking after this gateway allows."""
    machine = measure_machine(job.home, job.state, job.settings)
    sandbox = sandbox_for(machine.supervisor, entry.root)
    return replace(entry, sandbox=sandbox, writes=(job.home, job.state, *written_elsewhere(job.settings)))


@command("uninstall", *SHOW)
def run_uninstall(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog uninstall --dry-run
      hermes-watchdog uninstall                          cron line, timer and service of this home
      hermes-watchdog uninstall --all-profiles
    """
    first = job_of(args)
    gone = [what for job in jobs_of(args) for what in _uninstall(args, job)]
    if args.json:
        print_json({"removed": gone, "written": not args.dry_run})
    elif not gone:
        print(reader_anyhow(first, args.language)("install.nothing", home=first.home))
    return WELL


def _uninstall(args: argparse.Namespace, job: Job) -> list[str]:
    gone, reader = [], reader_anyhow(job, args.language)
    try:
        crontab = install.read_crontab()
    except WatchdogError:
        crontab = ""  # no cron, no entry in it
    left, found = install.without_entry(crontab, job.home)
    if found:
        _show(args, reader(f"install.from-crontab{'-dry' if args.dry_run else ''}"), found)
        gone.append("crontab")
        if not args.dry_run:
            install.write_crontab(left)
    for root in (False, True) if os.getuid() == 0 else (False,):
        folder = install.unit_folder(root)
        find = install.units_of if args.dry_run else partial(install.remove_units, root=root)
        gone += [str(path) for path in find(job.home, folder)]
    if gone and not args.json:
        key = "install.would-remove" if args.dry_run else "install.removed"
        print(reader(key, home=job.home, what=reader.joined(gone)))
    return gone


def _entry(args: argparse.Namespace, job: Job) -> Entry:
    def given(name: str, variable: str) -> str | None:
        return getattr(args, name) or os.environ.get(variable)

    state = given("state", "HERMES_WATCHDOG_STATE")
    return Entry(
        job.home,
        install.interpreter(),
        args.every,
        job.config if given("config", "HERMES_WATCHDOG_CONFIG") else None,
        Path(os.path.abspath(os.path.expanduser(state))) if state else None,
        root=os.getuid() == 0,
        environment=install.places(os.environ, folder_of(os.getuid())),
    )


def _show(args: argparse.Namespace, where: str, text: str) -> None:
    if not args.json:
        print(paint(where, "dim", colours()))
        print("\n".join(f"  {line}" for line in text.splitlines()))


def _text(path: Path) -> str | None:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError):
        return None


@command(
    "serve",
    OneOf(
        (
            option("--listen", "ADDRESS", f"where to listen (default {DEFAULT})", default=DEFAULT),
            option("--socket", "PATH", "listen on a Unix socket instead, mode 0600", default=""),
        )
    ),
    option("--host", "NAME", "a further name that browsers may use for it", action="append", default=[]),
    option(
        "--login-header",
        "HEADER",
        "the header in which your reverse proxy says who logged in; who comes without it is refused",
        default="",
    ),
    json=False,
)
def run_serve(args: argparse.Namespace) -> int:
    """
    Only on this machine: on loopback, or on a Unix socket for you alone. From elsewhere you come by ssh or tailscale. Looking
    needs no login; answering a plan needs its code from the message, or from 'plan ID --code'. Ctrl-C ends it.

    examples:
      hermes-watchdog serve                                      http://127.0.0.1:8790/
      ssh -L 8790:127.0.0.1:8790 server                          then the same address on your own machine
      hermes-watchdog serve --host server.tail1234.ts.net        after: tailscale serve 8790
      hermes-watchdog serve --socket ~/hermes.sock               for a reverse proxy on this machine
      hermes-watchdog serve --listen 0.0.0.0:8790 --login-header Remote-User --host hermes.example.org
    """
    need_home(job_of(args).home)
    if unspecified := [name for name in args.host if name in ("0.0.0.0", "::", "*")]:
        raise WatchdogError(
            f"--host {unspecified[0]} is no name that a browser uses; where to listen is --listen {unspecified[0]}:8790"
        )

    def load(now: datetime) -> Job:
        return job_of(args, now)

    with listening(args.listen, args.socket, bool(args.login_header)) as (listener, address):
        try:
            view, door = web.View(load), web.Door(tuple(args.host), args.login_header)
            serve = web.serve
        except ModuleNotFoundError as error:
            raise WatchdogError(
                f"{error.name} is not installed; run: pipx install --force 'hermes-watchdog[web]' (or: uv tool install 'hermes-watchdog[web]')"
            ) from None
        print(f"{view.job()[0].home}: the page is at {address}", flush=True)
        serve(view, door, listener)
    return WELL
