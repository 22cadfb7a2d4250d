"""The first hour: setup, drill, settings, demo."""

from __future__ import annotations

import argparse
import getpass
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from watchdog.cli.command import a_duration, command, flag, option, parts_of
from watchdog.cli.context import WELL, WRONG, command_of, complain, job_of, need_home, print_json
from watchdog.cli.main import main
from watchdog.config.rules import shipped_folder
from watchdog.config.settings import NAME
from watchdog.demo import story
from watchdog.errors import WatchdogError
from watchdog.job import Job, profiles
from watchdog.notify.translate import in_english
from watchdog.service import setup
from watchdog.service.drill import DrillResult, drill, need_somebody
from watchdog.service.setup import Phone
from watchdog.service.status import machine_of
from watchdog.text import colours, counted, paint, picked, spell

FIVE_MINUTES = timedelta(minutes=5)

parts_of(
    "settings",
    """\
examples:
  hermes-watchdog settings show              every setting with its default and what it means
  hermes-watchdog settings show > ~/.config/hermes-watchdog/settings.yaml""",
)


@dataclass(frozen=True)
class Dialogue:
    """How questions are put to the person; tests answer by a list."""

    ask: Callable[[str], str] = input
    ask_secret: Callable[[str], str] = getpass.getpass
    say: Callable[[str], None] = print

    def choice(self, question: str, options: list[str], default: int = 1) -> int:
        """The number of the chosen option, from 1."""
        self.say(question)
        for number, shown in enumerate(options, 1):
            self.say(f"  {number}  {shown}")
        while True:
            typed = self.ask(f"number [{default}]: ").strip() or str(default)
            if typed.isdigit() and 1 <= int(typed) <= len(options):
                return int(typed)
            self.say(f"write a number from 1 to {len(options)}")

    def text(self, question: str, default: str = "") -> str:
        hint = f" [{default}]" if default else ""
        return self.ask(f"{question}{hint}: ").strip() or default

    def yes(self, question: str) -> bool:
        return self.ask(f"{question} [Y/n] ").strip().lower() in ("", "y", "yes")


@command("setup", flag("--dry-run", "write and send nothing"), json=False)
def run_setup(args: argparse.Namespace, dialogue: Dialogue | None = None) -> int:
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
    talk = dialogue or Dialogue()
    job = _choose_home(args, talk)
    args.home = str(job.home)
    _show_gateway(job, talk)
    if (job.config / NAME).exists():
        talk.say(f"\n{job.config / NAME} is there already and stays as it is.")
    else:
        _write_settings(args, job, talk)
    if args.dry_run:
        talk.say("\nNothing was written, scheduled or sent (dry run).")
        return WELL
    _schedule(args, talk)
    job = job_of(args)
    if not job.settings.notify.targets and not job.settings.notify.replies.channels:
        talk.say(
            f"\nDone. No notification target yet: add one to the settings, then: {command_of(job)} drill"
        )
        return WELL
    if not talk.yes("\nSend a harmless test question to your phone now (a drill)?"):
        talk.say(f"Later: {command_of(job)} drill")
        return WELL
    return _run_drill(job, timedelta(minutes=5), talk)


def _choose_home(args: argparse.Namespace, talk: Dialogue) -> Job:
    job = job_of(args)
    if args.home:
        need_home(job.home)
        return job
    homes = setup.find_homes(job.home)
    if not homes:
        raise WatchdogError("no Hermes home was found; give --home DIR")
    number = 1
    if len(homes) > 1:
        number = talk.choice("Which Hermes home?", [str(home) for home in homes])
    args.home = str(homes[number - 1])
    return job_of(args)


def _show_gateway(job: Job, talk: Dialogue) -> None:
    machine = machine_of(job)
    running = {
        True: f"running, process {machine.gateway.pid}",
        False: "not running",
        None: "cannot be seen from here",
    }
    talk.say(f"\nHermes home  {job.home}")
    talk.say(f"gateway      {running[machine.gateway.alive]}; {in_english(machine.supervisor.name)}")
    if machine.supervisor.why_not:
        talk.say(f"note         repairs are not possible yet: {in_english(machine.supervisor.why_not)}")


def _write_settings(args: argparse.Namespace, job: Job, talk: Dialogue) -> None:
    phone = _ask_phone(job.config, talk)
    language = "zh" if os.environ.get("LANG", "").startswith("zh") else "en"
    text = setup.settings_text(phone, language, job.config)
    talk.say(f"\n{job.config / NAME}:")
    talk.say("\n".join(f"  {line}" for line in text.splitlines()))
    if args.dry_run:
        return
    written = setup.write_settings(job.config, phone, text)
    talk.say(f"written, readable by you alone: {', '.join(str(path) for path in written)}")


def _ask_phone(config: Path, talk: Dialogue) -> Phone:
    """Three questions: by what, where, who."""
    while True:
        try:
            number = talk.choice(
                "\nHow should it reach you?",
                [
                    "ntfy: an app, no account, answers by two buttons",
                    "Telegram: a bot of the watchdog's own, answers by two buttons",
                    "something else, by an Apprise URL (mail, Slack, …); answers on the host",
                    "not at all for now",
                ],
            )
            if number == 1:
                server = talk.text("server", "https://ntfy.sh")
                phone = setup.ntfy(config, server, talk.text("your name", "me"))
                talk.say(
                    f"\nIn the ntfy app, subscribe on {server} to the topic: {phone.files['phone.topic']}"
                )
                talk.ask("press Enter when you have: ")
                return phone
            if number == 2:
                token = talk.ask_secret("the bot's token from @BotFather (not shown): ").strip()
                user = talk.text("your own user id, a number (@userinfobot says it)")
                talk.say("Write any message to the bot now: a bot may write only to those who wrote to it.")
                return setup.telegram(config, token, user)
            if number == 3:
                return setup.apprise(talk.ask_secret("Apprise URL (not shown): ").strip())
            return Phone()
        except WatchdogError as error:
            complain(error)


def _schedule(args: argparse.Namespace, talk: Dialogue) -> None:
    kinds = [("--cron", "cron, every 15 minutes")] if shutil.which("crontab") else []
    kinds += [("--systemd-timer", "a systemd timer, every 15 minutes")] if shutil.which("systemctl") else []
    number = talk.choice(
        "\nHow are checks scheduled?", [*(about for _, about in kinds), "not at all for now"]
    )
    if number > len(kinds):
        talk.say(f"Later: {command_of(job_of(args))} install --cron")
        return
    homes = profiles(args.home)
    every = len(homes) > 1 and talk.yes(f"For all {len(homes)} profiles of {args.home}?")
    where = [
        word
        for name in ("home", "config", "state")
        if getattr(args, name)
        for word in (f"--{name}", getattr(args, name))
    ]
    main(["install", kinds[number - 1][0], *where, *(["--all-profiles"] if every else [])])


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
    return _run_drill(job, args.wait, Dialogue())


def _run_drill(job: Job, wait: timedelta, talk: Dialogue) -> int:
    def code() -> str:
        return (
            talk.ask("the code that arrived (Enter: none did): ").strip()
            if sys.stdin.isatty() or talk.ask is not input
            else ""
        )

    need_somebody(job)
    talk.say(f"A harmless question is on its way; answer it on your phone within {spell(wait)}.")
    result = drill(job, wait, code)
    talk.say("\n".join(drill_lines(result, command_of(job))))
    return WELL if result.answered else WRONG


def drill_lines(result: DrillResult, command: str) -> list[str]:
    """What a drill showed, and what to do where it did not work."""
    lines = [f"sent to {counted(len(result.sent), 'place|places')}: {', '.join(result.sent)}"]
    lines += [f"{paint('problem', 'high', colours())}  {problem}" for problem in result.problems]
    if result.answered:
        answer = "yes" if result.yes else "no"
        good = paint("The drill worked", "good", colours())
        lines.append(
            f"{good}: {result.by} said {answer} via {result.via.partition('/')[0]}. Nothing was done."
        )
    else:
        lines.append(f"No answer arrived. Look at the targets with: {command} notify --test, and doctor")
    return lines


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
