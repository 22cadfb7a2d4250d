"""Measure what runs the gateway: /proc, systemctl show, docker inspect, launchd files. Decides nothing, changes nothing."""

from __future__ import annotations

import json
import os
import pwd
import re
import shlex
import shutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from watchdog import unitfiles
from watchdog.hands import hands
from watchdog.running import NOT_THERE, Runner
from watchdog.supervisor import SYSTEM, USER, Container, Facts, Supervisor, Unit, decide, with_permission

_SHOWN = "Id,LoadState,MainPID,ExecStart,Environment,User,TimeoutStopUSec,Restart,ActiveState,ExecMainStatus,NRestarts"
_QUICK = 10  # seconds; asking takes milliseconds, a hung bus must not hold a check


def find_supervisor(home: Path, pid: int, argv: tuple[str, ...], run: Runner, unit: str = "", inside: str = "") -> Supervisor:
    """Look at the machine, decide, and try (without doing anything) whether we would be let."""
    facts = measure(home, pid, argv, run, unit, inside)
    found = decide(facts)
    refused = _refused(found, run) if found.may_act else ""
    return (_by_polkit(found, run) if refused else None) or with_permission(found, facts.user, refused)


def measure(home: Path, pid: int, argv: tuple[str, ...], run: Runner, unit: str = "", inside: str = "") -> Facts:
    uid = os.getuid()
    owner_uid = home.stat().st_uid if home.exists() else uid
    cgroup = _text(Path(f"/proc/{pid}/cgroup")) if pid else ""
    systemctl = shutil.which("systemctl") or ""
    units: list[Unit] = []
    if systemctl:
        named = {unit if unit.endswith(".service") else f"{unit}.service"} if unit else set()
        named |= set(re.findall(r"[A-Za-z0-9:_.@\\-]+\.service", cgroup))
        units += _units(SYSTEM, (systemctl,), named | _speaking_of_hermes(unitfiles.SYSTEM), run)
        if os.path.exists(f"/run/user/{owner_uid}/bus") and uid in (0, owner_uid):
            own = os.path.join(_home_of(owner_uid), unitfiles.OWN_USER)
            units += _units(USER, _user_systemctl(systemctl, uid, owner_uid), named | _speaking_of_hermes((own, unitfiles.USER)), run)
    return Facts(
        home=os.path.realpath(home),
        uid=uid,
        user=_name(uid),
        owner=_name(owner_uid),
        owner_uid=owner_uid,
        pid=pid,
        pid_uid=_uid_of(pid),
        cgroup=cgroup,
        our_cgroup=_text(Path("/proc/self/cgroup")),
        units=tuple(units),
        containers=_containers(run),
        agents=_agents(home, owner_uid),
        bus=os.path.exists(f"/run/user/{owner_uid}/bus"),
        systemctl=systemctl or "/usr/bin/systemctl",
        argv=argv,
        drain=drain_of(home, argv),
        chosen=unit,
        inside=inside,
        told_by=_owner(home / "gateway.pid"),
        others=bool(hands(home)),
    )


def _speaking_of_hermes(folders: Iterable[str | Path]) -> set[str]:
    """A gateway that is down has no cgroup to tell its unit's name."""
    return {name for name, _ in unitfiles.speaking_of_hermes(folders)}


def _user_systemctl(systemctl: str, uid: int, owner_uid: int) -> tuple[str, ...]:
    run = f"/run/user/{owner_uid}"
    base = ("env", f"XDG_RUNTIME_DIR={run}", f"DBUS_SESSION_BUS_ADDRESS=unix:path={run}/bus", systemctl, "--user")
    return base if uid == owner_uid else ("runuser", "-u", _name(owner_uid), "--", *base)


def _units(scope: str, systemctl: tuple[str, ...], named: set[str], run: Runner) -> list[Unit]:
    listed = run((*systemctl, "list-unit-files", "--no-legend", "--no-pager", "--plain", "hermes*.service"), _QUICK)
    names = named | {line.split()[0] for line in listed.output.splitlines() if listed.code == 0 and line.split()}
    names = {name for name in names if name.endswith(".service") and "@." not in name and not name.startswith("user@")}
    if not names:
        return []
    shown = run((*systemctl, "show", "--no-pager", f"--property={_SHOWN}", *sorted(names)), _QUICK)
    return units_from(shown.output, scope) if shown.code == 0 else []


def units_from(shown: str, scope: str) -> list[Unit]:
    """`systemctl show` of several units: blocks of NAME=value."""
    units = []
    for block in shown.split("\n\n"):
        told = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        if told.get("LoadState") != "loaded":
            continue
        user = told.get("User", "")
        homes = [word[12:] for word in _words(told.get("Environment", "")) if word.startswith("HERMES_HOME=")]
        profile = unitfiles.PROFILE.search(told.get("ExecStart", ""))
        home = homes[-1] if homes else _default_home(user if scope == SYSTEM else "", profile[1] if profile else "")
        units.append(
            Unit(
                told.get("Id", ""),
                scope,
                _int(told.get("MainPID", "")),
                told.get("ExecStart", ""),
                os.path.realpath(home) if home else "",
                user,
                systemd_span(told.get("TimeoutStopUSec", "")),
                told.get("Restart", ""),
                told.get("ActiveState", ""),
                _int(told.get("ExecMainStatus", "")),
                _int(told.get("NRestarts", "")),
            )
        )
    return units


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _default_home(user: str, profile: str) -> str:
    try:
        folder = pwd.getpwnam(user).pw_dir if user else os.path.expanduser("~")
    except KeyError:
        return ""
    return os.path.join(folder, ".hermes", *(("profiles", profile) if profile else ()))


def systemd_span(text: str) -> timedelta | None:
    """'3min 30s', '1min 30s', '500ms'; None for infinity or nothing."""
    units = {"us": 1e-6, "ms": 1e-3, "s": 1, "min": 60, "h": 3600, "d": 86400, "w": 604800}
    parts = re.findall(r"([\d.]+)\s*(us|ms|min|s|h|d|w)\b", text)
    return timedelta(seconds=sum(float(number) * units[unit] for number, unit in parts)) if parts else None


def _containers(run: Runner) -> tuple[Container, ...]:
    found = []
    wanted = '{"Id":{{json .Id}},"Name":{{json .Name}},"Sources":[{{range $i, $m := .Mounts}}{{if $i}},{{end}}{{json $m.Source}}{{end}}]}'
    for tool in ("docker", "podman"):
        if not shutil.which(tool):
            continue
        listed = run((tool, "ps", "--all", "--quiet", "--no-trunc"), _QUICK)
        ids = [line for line in listed.output.split() if re.fullmatch(r"[0-9a-f]{64}", line)][:200] if listed.code == 0 else []
        for first in range(0, len(ids), 20):  # some at a time: of a longer answer only beginning and end would be kept
            for line in run((tool, "inspect", "--format", wanted, *ids[first : first + 20]), _QUICK).output.splitlines():
                try:
                    box = json.loads(line)
                    found.append(Container(str(box["Id"]), str(box["Name"]).lstrip("/"), tool, tuple(map(str, box["Sources"]))))
                except (ValueError, KeyError, TypeError):
                    continue
    return tuple(found)


def _agents(home: Path, owner_uid: int) -> tuple[tuple[str, str], ...]:
    if sys.platform != "darwin":
        return ()
    import plistlib

    found = []
    for plist in sorted(Path(_home_of(owner_uid), "Library/LaunchAgents").glob("ai.hermes.gateway*.plist")):
        try:
            told = plistlib.loads(plist.read_bytes())
            if os.path.realpath(told.get("EnvironmentVariables", {}).get("HERMES_HOME", "")) == os.path.realpath(home):
                found.append((str(told["Label"]), str(plist)))
        except (OSError, ValueError, KeyError, AttributeError, plistlib.InvalidFileException):
            continue
    return tuple(found)


def drain_of(home: Path, argv: tuple[str, ...]) -> timedelta | None:
    """How long this Hermes waits for running turns before it stops: its setting, else what its release does."""
    given = re.search(r"(?m)[\s{,]restart_drain_timeout:\s*([\d.]+)\s*(?:[,}#].*)?$", _text(home / "config.yaml"))
    if given:
        with suppress(ValueError, OverflowError):
            return timedelta(seconds=float(given[1]))
    for program in argv[:2]:
        root = Path(program).parent.parent
        for info in sorted(root.glob("lib/python*/site-packages/hermes_agent-*.dist-info")) if program.startswith("/") else ():
            version = re.match(r"hermes_agent-(\d+)\.(\d+)", info.name)
            if version:
                return timedelta(seconds=180) if (int(version[1]), int(version[2])) < (0, 15) else timedelta(0)
    return None


def _refused(found: Supervisor, run: Runner) -> str:
    """Why the host would not let us, without trying it in earnest; '' when it would."""
    if found.restart[:2] != ("sudo", "-n"):
        return ""
    listed = run(("sudo", "-n", "-l"), _QUICK)
    if listed.code == NOT_THERE:
        return "sudo is not installed; run the watchdog as root"
    for command in (found.stop, found.start, found.restart):
        if listed.code != 0 or not lets(listed.output, " ".join(command[2:])):
            return f"sudo asks for a password or refuses ({' '.join(command[2:])})"
    return ""


def lets(listing: str, command: str) -> bool:
    """Whether `sudo -l` says that root's command needs no password. `sudo -l COMMAND` would not do: it says yes with a password, too."""
    free = False
    for line in listing.replace("\\\n", "").splitlines():
        rule = re.match(r"\s+\(([^)]*)\)\s*(.*)", line)
        if rule is None or not {"root", "ALL"} & set(re.split(r"[\s,:]+", rule[1])):
            continue
        asks = True
        for part in re.split(r"(?<!\\),\s*", rule[2]):
            tagged = re.match(r"((?:[A-Z_]+:\s*)*)(.*)", part)
            assert tagged is not None
            tags = tagged[1].replace(" ", "").split(":")
            asks = False if "NOPASSWD" in tags else True if "PASSWD" in tags else asks
            named = re.sub(r"\\(.)", r"\1", tagged[2].strip())
            if named in ("ALL", command, command.split(" ")[0]):
                free = not asks  # the last rule that fits counts
            elif named == f"!{command}":
                free = False
    return free


def _by_polkit(found: Supervisor, run: Runner) -> Supervisor | None:
    """The same commands without sudo, when polkit lets this process manage units without asking anyone."""
    told = run(("pkcheck", "--action-id", "org.freedesktop.systemd1.manage-units", "--process", str(os.getpid())), _QUICK)
    if told.code != 0 or found.restart[:2] != ("sudo", "-n"):
        return None
    return replace(found, stop=found.stop[2:], start=found.start[2:], restart=found.restart[2:])


def inside_gateway(pid: int) -> str:
    """Why we seem to be a child of the gateway that we would stop; '' when we are not."""
    if os.environ.get("_HERMES_GATEWAY") == "1":
        return (
            "this process was started by the gateway itself (_HERMES_GATEWAY=1): stopping the gateway would stop us half way; "
            "run the watchdog from the system's cron or as a service of its own"
        )
    above, seen = os.getpid(), 0
    while pid and above > 1 and seen < 100:
        if above == pid:
            return (
                f"this process is a child of the gateway (pid {pid}): stopping it would stop us half way; run the watchdog "
                "from the system's cron or as a service of its own"
            )
        above, seen = _parent(above), seen + 1
    return ""


def _parent(pid: int) -> int:
    fields = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return int(fields[1]) if len(fields) > 1 else 0


def _text(path: Path) -> str:
    try:
        # Not to wait for whoever would write into a pipe of that name.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return file.read(200_000).decode("utf-8", "replace")
    except OSError:
        return ""


def _uid_of(pid: int) -> int:
    try:
        return os.stat(f"/proc/{pid}").st_uid if pid else -1
    except OSError:
        return -1


def _owner(path: Path) -> int | None:
    try:
        return os.lstat(path).st_uid
    except OSError:
        return None


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _home_of(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return os.path.expanduser("~")


def _int(text: str) -> int:
    return int(text) if text.isdigit() else 0
