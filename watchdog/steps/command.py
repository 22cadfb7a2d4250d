"""Run a program of the recipe author's choice: an argument list and a time limit, never a shell."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import PurePath

from watchdog.config.yaml import Section
from watchdog.gateway.machine import Machine
from watchdog.model import Outcome, Reason
from watchdog.model.plan_reasons import Describe, Done, What
from watchdog.steps.common import command_failure, failed, ok, written
from watchdog.text import harmless, redact
from watchdog.values import dataclass

KIND = "command"
REPEATABLE = False  # what half of it did is unknown
_SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "fish", "csh", "tcsh", "busybox", "cmd", "powershell", "pwsh"}
_LAUNCHERS = {"env", "sudo", "doas", "su", "runuser", "nohup", "setsid", "timeout", "nice", "ionice"}
_LAUNCHERS |= {"xargs", "script", "watch"}


@dataclass(frozen=True)
class Args:
    run: tuple[str, ...]
    within: timedelta


def read(section: Section) -> Args:
    node = section.nodes["run"][1] if section.has("run") else None
    if node is not None and type(node).__name__ == "ScalarNode":
        section.asked.add("run")
        words = str(node.value).split()
        section.wrong_at(
            "run",
            f"a shell string is never run; write a list: [{', '.join(harmless(word, 30) for word in words[:6])}]",
        )
        argv: tuple[str, ...] = ()
    else:
        argv = section.names("run")
        if node is not None and not argv:
            section.wrong_at("run", "the list is empty; name the program first")
    if not section.has("within"):
        section.wrong("'within' is missing: a command needs a time limit, such as within: 30s")
        within = timedelta(seconds=1)
    else:
        within = section.duration("within")
        if within > timedelta(hours=1):
            section.wrong_at("within", "longer than an hour; a check would wait for it all that time")
    section.asked.add("within")
    section.done()
    if problem := _unfit(argv):
        section.wrong_at("run", problem)
    return Args(argv, within)


def _unfit(argv: tuple[str, ...]) -> str:
    """Why this is not a command for a recipe; '' when it is."""
    for place, word in enumerate(argv):
        name = PurePath(word).name
        if (
            place
            and PurePath(argv[place - 1]).name not in _LAUNCHERS
            and not (argv and PurePath(argv[0]).name in _LAUNCHERS)
        ):
            break
        if name in _SHELLS:
            return f"'{harmless(word, 30)}' is a shell; write the program itself with its arguments as a list"
        if name in ("hermes-watchdog", "watchdog"):
            return "a recipe that runs the watchdog would loop"
        if name == "hermes" and "gateway" in argv:
            return (
                "'hermes gateway …' is not used: restart never returns without an installed service, and status deletes files; "
                "write a step 'gateway: {restart: true}'"
            )
    if argv and ("{" in argv[0] or not re.fullmatch(r"[\w./+@-]+", argv[0])):
        return f"the program '{harmless(argv[0], 40)}' must be written out in the recipe"
    if len(argv) > 2 and argv[1] == "-m" and argv[2].startswith("watchdog"):
        return "a recipe that runs the watchdog would loop"
    return ""


def describe(args: Args, machine: Machine) -> Reason:
    return Reason(Describe.COMMAND, {"within": args.within, "command": written(args.run)})


def run(args: Args, machine: Machine) -> Outcome:
    ran = machine.run(args.run, args.within.total_seconds())
    what, output = Reason(What.COMMAND, {"program": args.run[0]}), redact(ran.output)
    if ran.code == 0:
        return ok(what, Reason(Done.COMMAND), output)
    return failed(what, command_failure(ran, args.run, args.within), output)
