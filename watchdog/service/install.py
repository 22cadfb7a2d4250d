"""The entry that makes checks happen: a cron line, a systemd timer or a service, for one user and one home.

The first half makes texts and decides; the second half reads and writes the crontab and the unit files. An
entry is recognised by its mark, which names the home, so that it is replaced in place and taken away exactly.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from watchdog.config.schedule import every_problem, is_cron
from watchdog.errors import WatchdogError
from watchdog.job import user_home
from watchdog.service import hardening
from watchdog.service.daemon_note import STOP_LIMIT
from watchdog.service.hardening import Sandbox
from watchdog.system.commands import NOT_ALLOWED, NOT_THERE, TOO_LONG, Captured, capture
from watchdog.system.files import replace_file
from watchdog.text import duration

CRON, TIMER, DAEMON = "cron", "systemd-timer", "daemon"
# cron gives /usr/bin:/bin; sudo, systemctl and docker are not always there.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PATIENCE = 120  # seconds for one command; systemctl waits until a service says that it is ready


@dataclass(frozen=True)
class Entry:
    """The user that runs the checks, and the program that does."""

    home: Path
    python: str
    every: str = "15m"
    config: Path | None = None  # only when not the default
    state: Path | None = None
    root: bool = False  # system units instead of the user's
    sandbox: Sandbox = Sandbox.NONE_FOR_PROCESS
    writes: tuple[Path, ...] = ()  # the folders in which a unit that is locked up may write
    environment: tuple[
        tuple[str, str], ...
    ] = ()  # where settings and store are, when cron would look elsewhere

    def command(self, *words: str) -> list[str]:
        # -P: a file called watchdog.py in the folder where cron starts us must not become the program.
        given = [("--home", self.home), ("--config", self.config), ("--state", self.state)]
        return [
            self.python,
            "-P",
            "-m",
            "watchdog",
            *words,
            *(str(word) for pair in given if pair[1] for word in pair),
        ]


@dataclass(frozen=True)
class UnitFile:
    name: str
    text: str


def marks(home: Path) -> tuple[str, str]:
    return f"# >>> hermes-watchdog {home} >>>", f"# <<< hermes-watchdog {home} <<<"


def tag(home: Path) -> str:
    """Short and different for each home."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "-", home.name.lstrip(".")) or "home"
    return f"{name}-{sha256(str(home).encode()).hexdigest()[:8]}"


def unit_name(home: Path) -> str:
    # Not hermes-…: units of that name are looked at as gateways, by Hermes and by us.
    return f"gateway-watchdog-{tag(home)}"


def cron_entry(entry: Entry) -> str:
    """The lines for the crontab, marks included."""
    _refuse_odd(entry.home)
    begin, end = marks(entry.home)
    words = " ".join(shlex.quote(word) for word in entry.command("check", "--quiet"))
    # A percent sign ends the command in a crontab; a locale keeps Chinese and arrows readable in cron's mail.
    given = "".join(f"{name}={shlex.quote(value)} " for name, value in entry.environment)
    line = f"{cron_fields(entry.every)} PATH={PATH} LC_ALL=C.UTF-8 {given}{words}".replace("%", r"\%")
    return f"{begin}\n{line}\n{end}\n"


def cron_fields(every: str) -> str:
    """'15m' → '*/15 * * * *'; a cron expression stays as it is."""
    if problem := every_problem(every):
        raise WatchdogError(f"--every: {problem}")
    if is_cron(every):
        return every
    minutes, odd = divmod(duration(every).total_seconds(), 60)
    whole = int(minutes)
    if not odd and whole < 60 and 60 % whole == 0:
        return f"*/{whole} * * * *" if whole > 1 else "* * * * *"
    if not odd and whole % 60 == 0 and 24 % (whole // 60) == 0:
        hours = whole // 60
        return "0 0 * * *" if hours == 24 else f"0 {f'*/{hours}' if hours > 1 else '*'} * * *"
    raise WatchdogError(
        f"--every: cron cannot do '{every}' evenly; write 5m, 10m, 15m, 30m, 1h or a cron expression in quotes ('*/15 * * * *')"
    )


def calendar(every: str) -> str:
    """'15m' → systemd's OnCalendar."""
    fields = cron_fields(every).split()
    minute, hour = fields[0], fields[1]
    if is_cron(every) and fields[2:] != ["*", "*", "*"]:
        raise WatchdogError(
            "--every: a systemd timer takes a duration or a daily cron expression ('0 8,14,22 * * *')"
        )

    def part(word: str) -> str:
        return word.replace("*/", "0/") if word.startswith("*/") else word.replace("-", "..")

    return f"*-*-* {part(hour)}:{part(minute)}:00"


def unit_files(entry: Entry, kind: str) -> list[UnitFile]:
    """The systemd units for a timer, or for the long-running mode."""
    _refuse_odd(entry.home)
    name, mark = unit_name(entry.home), marks(entry.home)[0]
    given = "".join(f"Environment={_quoted(f'{key}={value}')}\n" for key, value in entry.environment)
    common = (
        f"Environment=PATH={PATH}\nEnvironment=LC_ALL=C.UTF-8\n{given}"
        # A gateway that belongs to no unit and was started by us must survive our own end.
        "KillMode=process\nNice=5\nUMask=0077\n"
        f"{hardening.lines(entry.sandbox, entry.writes)}"
    )
    if kind == TIMER:
        service = (
            f"{mark}\n[Unit]\nDescription=One check of the Hermes gateway of {_plain(entry.home)}\n\n"
            "[Service]\nType=oneshot\n"
            # 1 says that something is wrong with the gateway, which is no fault of this unit.
            f"ExecStart={_exec(entry.command('check', '--quiet'))}\nSuccessExitStatus=1\nTimeoutStartSec=1h\n{common}"
        )
        timer = (
            f"{mark}\n[Unit]\nDescription=Checks of the Hermes gateway of {_plain(entry.home)}\n\n[Timer]\n"
            f"OnCalendar={calendar(entry.every)}\nAccuracySec=5s\nPersistent=true\n\n[Install]\nWantedBy=timers.target\n"
        )
        return [UnitFile(f"{name}.service", service), UnitFile(f"{name}.timer", timer)]
    wanted_by = "multi-user.target" if entry.root else "default.target"
    daemon = (
        f"{mark}\n[Unit]\nDescription=Watchdog of the Hermes gateway of {_plain(entry.home)}\n\n"
        f"[Service]\nType=notify\nNotifyAccess=main\nExecStart={_exec(entry.command('run'))}\nRestart=on-failure\nRestartSec=10\nWatchdogSec=120\n"
        f"TimeoutStopSec={int(STOP_LIMIT.total_seconds()) + 30}\n{common}\n[Install]\nWantedBy={wanted_by}\n"
    )
    return [UnitFile(f"{name}.service", daemon)]


def with_entry(crontab: str, home: Path, entry: str) -> str:
    """The crontab with this home's entry in it, in the place of an older one."""
    before, _, after = _cut(crontab, home)
    if before and not before.endswith("\n"):
        before += "\n"
    return before + entry + after


def without_entry(crontab: str, home: Path) -> tuple[str, str]:
    """The crontab without it, byte for byte as it was otherwise; and what was taken away."""
    before, found, after = _cut(crontab, home)
    return before + after, found


def _cut(crontab: str, home: Path) -> tuple[str, str, str]:
    begin, end = marks(home)
    lines = re.findall(r"[^\n]*\n|[^\n]+", crontab)  # only what cron calls a line end
    bare = [line.strip() for line in lines]
    if begin not in bare:
        return crontab, "", ""
    first = bare.index(begin)
    if end not in bare[first:]:
        raise WatchdogError(
            f"crontab line {first + 1}: the entry of {home} begins here but its end line ('{end}') is gone; "
            "put it back with 'crontab -e', or remove the entry yourself"
        )
    last = bare.index(end, first)
    return "".join(lines[:first]), "".join(lines[first : last + 1]), "".join(lines[last + 1 :])


def _refuse_odd(home: Path) -> None:
    if any(sign < " " for sign in str(home)):
        raise WatchdogError(
            "the name of the home has a control character in it; no crontab or unit can hold it"
        )


def _plain(home: Path) -> str:
    return str(home).replace("%", "%%")


def _exec(words: Sequence[str]) -> str:
    """systemd's own quoting: % and $ doubled, everything odd in double quotes."""
    return " ".join(_quoted(word).replace("$", "$$") for word in words)


def _quoted(word: str) -> str:
    safe = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return safe if re.fullmatch(r"[\w@%+=:,./-]+", safe) else f'"{safe}"'


def places(environment: Mapping[str, str], own_home: str) -> tuple[tuple[str, str], ...]:
    """What cron and systemd must be given, so that a check finds the settings and the store that this shell finds."""
    usual = {"HOME": own_home, "XDG_CONFIG_HOME": "", "XDG_STATE_HOME": ""}
    return tuple(
        (name, environment[name]) for name in usual if environment.get(name, usual[name]) != usual[name]
    )


def interpreter(path: str = sys.executable) -> str:
    """This Python by its absolute path; a version manager's shim would cost eight starts of it at each check."""
    if "/shims/" in path or not path:
        path = os.path.realpath(f"/proc/{os.getpid()}/exe")
    return os.path.abspath(path)


# From here on the machine is touched.

Ask = Callable[..., Captured]


def ask(words: Sequence[str], text: str = "") -> Captured:
    surroundings = {**os.environ, "LC_ALL": "C"}
    surroundings.setdefault("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")  # what cron and su leave out
    answer = capture(words, PATIENCE, given=os.fsencode(text), env=surroundings)
    if answer.code == NOT_THERE:
        how = "use --cron"
        if words[0] == "crontab":
            how = "install cron (Debian: apt install cron) or use --systemd-timer"
        path = os.environ.get("PATH", "")
        raise WatchdogError(f"there is no '{words[0]}' command on this machine (PATH is {path}); {how}")
    if answer.code in (NOT_ALLOWED, TOO_LONG):
        raise WatchdogError(f"{' '.join(words)}: {answer.errors.strip() or f'not done after {PATIENCE} s'}")
    return answer


def read_crontab(run: Ask = ask) -> str:
    done = run(["crontab", "-l"])
    if done.code == 0:
        return os.fsdecode(done.output)
    if "no crontab for" in done.errors:
        return ""
    raise WatchdogError(
        f"crontab -l: {done.errors.strip() or f'exit {done.code}'}; may this user use cron (/etc/cron.allow)?"
    )


def write_crontab(text: str, run: Ask = ask) -> None:
    done = run(["crontab", "-"], text) if text.strip() else run(["crontab", "-r"])
    if done.code != 0 and "no crontab for" not in done.errors:
        raise WatchdogError(f"crontab: {done.errors.strip()}; the old crontab is as it was")
    if text.strip() and read_crontab(run) != text:
        raise WatchdogError("the crontab is not what was written to it; look at it with 'crontab -l'")


def schedules_here() -> list[str]:
    """What this machine offers to make checks happen."""
    systemd = shutil.which("systemctl") and os.path.exists("/run/systemd/system")
    return [*([CRON] if shutil.which("crontab") else []), *([TIMER] if systemd else [])]


CRON_DAEMONS = {"cron", "crond", "fcron", "supercronic", "bcron-sched", "dcron", "cronie"}


def cron_runs() -> bool | None:
    """Whether a cron daemon is at work here; None where that cannot be seen."""
    names = set()
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            names.add(Path(f"/proc/{pid}/comm").read_text().strip())
    if names & CRON_DAEMONS:
        return True
    hidden = not os.path.exists("/proc/1/comm")  # hidepid: processes of others are not shown
    by_systemd = os.path.exists("/usr/lib/systemd/system-generators/systemd-crontab-generator")
    return None if hidden or by_systemd else False


def unit_folder(root: bool) -> Path:
    if root:
        return Path("/etc/systemd/system")
    base = os.environ.get("XDG_CONFIG_HOME")
    return Path(base or os.path.join(user_home(), ".config"), "systemd", "user")


def systemctl(root: bool) -> list[str]:
    return ["systemctl"] if root else ["systemctl", "--user"]


def make_folders(entry: Entry) -> None:
    """The folders that a unit which is locked up may write in, so that they are there when it starts."""
    for folder in entry.writes if entry.sandbox is Sandbox.FULL else ():
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise WatchdogError(f"cannot make {folder}: {error.strerror}") from None


def write_units(files: Sequence[UnitFile], folder: Path, root: bool, run: Ask = ask) -> None:
    """Write, reload, enable and start. A unit of that name that is not ours is left alone."""
    for file in files:
        path = folder / file.name
        if path.exists() and not _ours(path):
            raise WatchdogError(
                f"{path} exists and was not made by 'hermes-watchdog install'; move it away first"
            )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            replace_file(folder / file.name, file.text.encode(), 0o644)
    except OSError as error:
        raise WatchdogError(f"cannot write {folder}: {error.strerror}") from None
    base = systemctl(root)
    for words in ([*base, "daemon-reload"], [*base, "enable", "--now", files[-1].name]):
        done = run(words)
        if done.code != 0:
            raise WatchdogError(
                f"the units are written, but '{' '.join(words)}' says: {done.errors.strip()}"
                + ("" if root else "; a user without a session needs once: sudo loginctl enable-linger $USER")
            )


def units_of(home: Path, folder: Path) -> list[Path]:
    """The units of this home that `install` made, in a folder of units."""
    paths = [folder / f"{unit_name(home)}.{end}" for end in ("timer", "service")]
    return [path for path in paths if path.exists() and _ours(path)]


def remove_units(home: Path, folder: Path, root: bool, run: Ask = ask) -> list[Path]:
    """Stop, disable and delete the units of this home, and no others."""
    found = units_of(home, folder)
    base = systemctl(root)
    for path in found:
        run([*base, "disable", "--now", path.name])  # a unit that systemd does not know is gone all the same
    for path in found:
        path.unlink()
    if found:
        run([*base, "daemon-reload"])
    return found


def _ours(path: Path) -> bool:
    try:
        return path.read_text().startswith("# >>> hermes-watchdog ")
    except (OSError, UnicodeDecodeError):
        return False
