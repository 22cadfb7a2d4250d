"""The first hour: setup, drill, settings, demo."""

from __future__ import annotations

import argparse
import getpass
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from watchdog.cli.command import a_duration, command, flag, option, parts_of
from watchdog.cli.context import WELL, WRONG, complain, job_of, need_home, print_json
from watchdog.cli.main import main
from watchdog.config.rules import shipped_folder
from watchdog.config.settings import NAME
from watchdog.demo import story
from watchdog.errors import WatchdogError
from watchdog.job import Job, profiles
from watchdog.reports.language import Reader, command_of, reader_anyhow, reader_for
from watchdog.service import install, setup
from watchdog.service.drill import DrillResult, drill, need_somebody
from watchdog.service.setup import Phone
from watchdog.service.status import machine_of
from watchdog.text import colours, picked

FIVE_MINUTES = timedelta(minutes=5)

parts_of(
    "settings",
    """\
examples:
  hermes-watchdog settings show              every setting with its default and what it means
  hermes-watchdog settings show > ~/.config/hermes-watchdog/settings.yaml""",
)


@dataclass
class Dialogue:
    """How questions are put to the person, in which words, and what setup finds and does here; tests hand in theirs."""

    words: Reader
    ask: Callable[[str], str] = input
    ask_secret: Callable[[str], str] = getpass.getpass
    say: Callable[[str], None] = print
    homes: Callable[[Path], list[Path]] = setup.find_homes
    schedules: Callable[[], list[str]] = install.schedules_here
    run: Callable[[list[str]], int] = main  # another command of ours

    def choice(self, question: str, options: list[str], default: int = 1) -> int:
        """The number of the chosen option, from 1."""
        self.say(question)
        for number, shown in enumerate(options, 1):
            self.say(f"  {number}  {shown}")
        while True:
            typed = self.ask(f"{self.words('setup.number')} [{default}]: ").strip() or str(default)
            if typed.isdigit() and 1 <= int(typed) <= len(options):
                return int(typed)
            self.say(self.words("setup.from-to", last=len(options)))

    def text(self, question: str, default: str = "") -> str:
        hint = f" [{default}]" if default else ""
        return self.ask(f"{question}{hint}: ").strip() or default

    def yes(self, question: str) -> bool:
        typed = self.ask(self.words("setup.yes-no", question=question)).strip().lower()
        return typed in ("", "y", "yes", "是")


@command("setup", flag("--dry-run", "write and send nothing"), json=False)
def run_setup(args: argparse.Namespace, dialogue: Callable[[Reader], Dialogue] | None = None) -> int:
    """
    Finds the gateway, asks how to reach you (three questions), writes settings.yaml with comments, schedules checks, and
    ends with a drill: a harmless question to your phone. Nothing that is there already is replaced.

    examples:
      hermes-watchdog setup
      hermes-watchdog setup --home /opt/hermes
      hermes-watchdog setup --dry-run            ask, and show what would be written
    """
    if dialogue is None and not sys.stdin.isatty():
        raise WatchdogError(
            "setup asks questions; run it in a terminal. Without one: {watchdog} settings show, and {watchdog} install --cron"
        )
    words = _reader(args, job_of(args))
    talk = (dialogue or Dialogue)(words)
    job = _choose_home(args, talk)
    args.home, talk.words = str(job.home), _reader(args, job)
    _show_gateway(job, talk)
    if (job.config / NAME).exists():
        talk.say("\n" + talk.words("setup.settings-stay", path=job.config / NAME))
    else:
        _write_settings(args, job, talk)
    if args.dry_run:
        talk.say("\n" + talk.words("setup.dry-run"))
        return WELL
    _schedule(args, talk)
    job = job_of(args)
    if not job.settings.notify.targets and not job.settings.notify.replies.channels:
        talk.say("\n" + talk.words("setup.no-target"))
        return WELL
    if not talk.yes("\n" + talk.words("setup.drill")):
        talk.say(talk.words("setup.later", what=f"{command_of(job)} drill"))
        return WELL
    return _run_drill(job, timedelta(minutes=5), talk)


def _reader(args: argparse.Namespace, job: Job) -> Reader:
    """The reader in the language of the settings; before there are any, in that of the terminal."""
    terminal = next(filter(None, map(os.environ.get, ("LC_ALL", "LC_MESSAGES", "LANG"))), "")
    spoken = None if (job.config / NAME).exists() else "zh" if terminal.startswith("zh") else "en"
    return reader_anyhow(job, args.language or spoken)


def _choose_home(args: argparse.Namespace, talk: Dialogue) -> Job:
    job = job_of(args)
    if args.home:
        need_home(job.home)
        return job
    homes = talk.homes(job.home)
    if not homes:
        raise WatchdogError("no Hermes home was found; give --home DIR")
    number = 1
    if len(homes) > 1:
        number = talk.choice(talk.words("setup.which-home"), [str(home) for home in homes])
    args.home = str(homes[number - 1])
    return job_of(args)


def _show_gateway(job: Job, talk: Dialogue) -> None:
    machine, words = machine_of(job), talk.words
    alive = {True: "setup.running", False: "setup.down", None: "setup.hidden"}[machine.gateway.alive]
    gateway, where = words(alive, pid=machine.gateway.pid), words.reason(machine.supervisor.name)
    talk.say("\n" + words("setup.home", home=job.home))
    talk.say(words("setup.gateway", gateway=gateway, where=where))
    if machine.supervisor.why_not:
        talk.say(words("setup.no-repairs", why=words.reason(machine.supervisor.why_not)))


def _write_settings(args: argparse.Namespace, job: Job, talk: Dialogue) -> None:
    phone = _ask_phone(job.config, talk)
    text = setup.settings_text(phone, talk.words, job.config)
    talk.say(f"\n{job.config / NAME}:")
    talk.say("\n".join(f"  {line}" for line in text.splitlines()))
    if args.dry_run:
        return
    written = setup.write_settings(job.config, phone, text)
    talk.say(talk.words("setup.written", paths=", ".join(str(path) for path in written)))


def _ask_phone(config: Path, talk: Dialogue) -> Phone:
    """Three questions: by what, where, who."""
    words = talk.words
    kinds = [words(f"setup.{kind}") for kind in ("ntfy", "telegram", "apprise", "nothing")]
    while True:
        try:
            number = talk.choice("\n" + words("setup.how"), kinds)
            if number == 1:
                server = talk.text(words("setup.server"), "https://ntfy.sh")
                phone = setup.ntfy(config, server, talk.text(words("setup.name"), "me"))
                topic = phone.files["phone.topic"]
                talk.say("\n" + words("setup.subscribe", server=server, topic=topic))
                talk.ask(words("setup.subscribed"))
                return phone
            if number == 2:
                token = talk.ask_secret(words("setup.token")).strip()
                user = talk.text(words("setup.user"))
                talk.say(words("setup.write-first"))
                return setup.telegram(config, token, user)
            if number == 3:
                return setup.apprise(talk.ask_secret(words("setup.url")).strip())
            return Phone()
        except WatchdogError as error:
            complain(error)


def _schedule(args: argparse.Namespace, talk: Dialogue) -> None:
    words = talk.words
    kinds = talk.schedules()
    options = [words(f"setup.{'cron' if kind == install.CRON else 'timer'}") for kind in kinds]
    number = talk.choice("\n" + words("setup.schedule"), [*options, words("setup.nothing")])
    if number > len(kinds):
        talk.say(words("setup.later", what=f"{command_of(job_of(args))} install --cron"))
        return
    homes = profiles(args.home)
    every = len(homes) > 1 and talk.yes(words("setup.every-profile", count=len(homes), home=args.home))
    where = [
        word
        for name in ("home", "config", "state")
        if getattr(args, name)
        for word in (f"--{name}", getattr(args, name))
    ]
    kind = kinds[number - 1]
    talk.run(["install", f"--{kind}", *where, *(["--all-profiles"] if every else [])])
    if kind == install.CRON and install.cron_runs() is False:
        talk.say(words("setup.no-cron-daemon"))


@command(
    "drill",
    option(
        "--wait", "5m", "how long to wait for the answer (default 5m)", type=a_duration, default=FIVE_MINUTES
    ),
)
def run_drill(args: argparse.Namespace) -> int:
    """
    Sends a real question that does nothing, by the same way as every question, and waits for your answer. The watchdog's
    memory, budgets and audit do not know of it.

    examples:
      hermes-watchdog drill
      hermes-watchdog drill --wait 10m

    exit codes: 0 the answer arrived · 1 it did not · 2 no target and no channel is set up
    """
    job = job_of(args)
    need_home(job.home)
    if args.json:
        result = drill(job, args.wait)
        who = {"approved": result.yes, "by": result.by or None, "via": result.via or None}
        print_json(picked(result, "sent problems answered") | who)
        return WELL if result.answered else WRONG
    ask = input if sys.stdin.isatty() else lambda question: ""
    return _run_drill(job, args.wait, Dialogue(reader_for(job, args.language), ask))


def _run_drill(job: Job, wait: timedelta, talk: Dialogue) -> int:
    need_somebody(job)
    talk.say(talk.words("drill.sent", wait=talk.words.span(wait)))
    result = drill(job, wait, lambda: talk.ask(talk.words("drill.code")).strip())
    talk.say("\n".join(drill_lines(result, talk.words)))
    return WELL if result.answered else WRONG


def drill_lines(result: DrillResult, words: Reader) -> list[str]:
    """What a drill showed, and what to do where it did not work."""
    places = words.joined([words.phrase(place) for place in result.sent])
    lines = [words("drill.sent-to", count=len(result.sent), places=places)]
    problem = words.paint(words("drill.problem"), "high")
    lines += [f"{problem}  {words.phrase(text)}" for text in result.problems]
    if not result.answered:
        return [*lines, words("drill.no-answer")]
    worked = words.paint(words("drill.worked"), "good")
    answer = "drill.yes" if result.yes else "drill.no"
    return [*lines, words(answer, worked=worked, by=result.by, via=words.via(result.via.partition("/")[0]))]


@command("settings show", about="every setting with its default and what it means", json=False)
def run_settings(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog settings show              every setting with its default and what it means
      hermes-watchdog settings show > ~/.config/hermes-watchdog/settings.yaml
    """
    job = job_of(args)
    yours = job.config / NAME
    print((shipped_folder() / NAME).read_text("utf-8"), end="")
    there = "is in use over these defaults" if yours.exists() else "is not there: the defaults are in use"
    print(f"\n# {yours} {there}")
    return WELL


@command(
    "demo", flag("--fast", "no pauses for reading"), flag("--keep", "keep the temporary folder"), where=False
)
def run_demo(args: argparse.Namespace) -> int:
    """
    Nothing outside the temporary folder is touched, and it is removed afterwards.

    examples:
      hermes-watchdog demo
      hermes-watchdog demo --fast               without pauses for reading
      hermes-watchdog demo --keep               keep the folder for a look around
    """
    pause = 0.0 if args.fast or not sys.stdout.isatty() else 0.7
    return story.run(story.Stage(main, colours(), pause), args.keep)
