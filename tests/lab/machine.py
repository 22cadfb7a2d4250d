"""A machine: PID, mount, IPC and cgroup namespaces with a real systemd and journald, or with a bare init."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import parts
from .waiting import until
from .world import DIES_WITH_US, World

HERE = Path(__file__).parent
JOURNALD = ("systemd-journald.service", "systemd-journald.socket", "systemd-journald-dev-log.socket")
# What Debian's packages would bring; empty, because nothing of it is needed, but Hermes' unit refers to it.
TARGETS = ("sysinit.target", "basic.target", "network-online.target", "shutdown.target", "timers.target")
NAMES = ("api.telegram.org", "api.sgroup.qq.com", "bots.qq.com", "llm.lab.test", "ntfy.lab.test", "lab.test")
ANN = 1001
RUNTIME = f"/run/user/{ANN}"
CRON_ENVIRONMENT = {"SHELL": "/bin/sh", "PATH": "/usr/bin:/bin", "LOGNAME": "root", "USER": "root"}


class Done(subprocess.CompletedProcess):
    @property
    def text(self) -> str:
        return (self.stdout or "") + (self.stderr or "")


class Machine:
    def __init__(self, world: World, systemd: bool = True, user: bool = False) -> None:
        """With `user` there is ann, with a systemd of her own that runs without a login; what is run inside
        is run by her.
        """
        self.world = world
        self.systemd = systemd
        self.user = user
        self.folder = world.folder
        self.user_home = self.folder / "h"
        self.units = self.folder / "units"
        self.cgroup = _cgroup_root() / f"hw-lab-{uuid.uuid4().hex[:8]}"
        self.outer: subprocess.Popen | None = None
        self.pid = 0
        for folder in (self.user_home, self.units, self.folder / "journal"):
            folder.mkdir()
        (self.folder / "hosts").write_text("".join(f"127.0.0.1 {name}\n" for name in ("localhost", *NAMES)))
        if user:
            self._make_room_for_ann()
        else:
            (self.folder / "passwd").write_text(f"root:x:0:0:root:{self.user_home}:/bin/sh\n")
        (self.folder / "bundles").write_text("".join(f"{bundle}\n" for bundle in parts.certificates()))
        # Hermes 0.19.0 calls a list of authorities with few in it corrupted, so ours joins the usual ones
        usual, ours = parts.certificates()[0], self.folder / "lab-ca.pem"
        (self.folder / "bundle.pem").write_bytes(usual.read_bytes() + ours.read_bytes())
        for name in JOURNALD:
            shutil.copy(f"/lib/systemd/system/{name}", self.units / name)
        for name in TARGETS:
            (self.units / name).write_text("[Unit]\nDefaultDependencies=no\n")
        (self.units / "multi-user.target").write_text(
            "[Unit]\nDefaultDependencies=no\nWants=systemd-journald.service\nAfter=systemd-journald.service\n"
        )

    def _make_room_for_ann(self) -> None:
        (self.folder / "passwd").write_text(
            f"root:x:0:0:root:/root:/bin/sh\nann:x:{ANN}:{ANN}:Ann:{self.user_home}:/bin/sh\n"
        )
        self.folder.chmod(0o711)
        os.chown(self.user_home, ANN, ANN)
        (self.units / f"user@{ANN}.service").write_text(
            "[Unit]\nDefaultDependencies=no\nAfter=systemd-journald.service\n"
            f"[Service]\nUser={ANN}\nType=notify\nExecStartPre=+/bin/install -d -m 700 -o {ANN} -g {ANN} {RUNTIME}\n"
            f"Environment=XDG_RUNTIME_DIR={RUNTIME}\nUnsetEnvironment=SYSTEMD_UNIT_PATH\nExecStart=/lib/systemd/systemd --user\n"
            f"Slice=user-{ANN}.slice\nKillMode=mixed\nDelegate=yes\n"
        )
        wants = self.units / "multi-user.target.wants"
        wants.mkdir()
        (wants / f"user@{ANN}.service").symlink_to(self.units / f"user@{ANN}.service")
        # A folder of root's own hides the programs from her; inside it is covered, with only what she needs
        # in it.
        needed = {
            parts.CACHE,
            parts.COMMAND.parent.parent,
            *(
                Path(one).resolve().parent.parent
                for one in (
                    sys.executable,
                    parts.COMMAND.parent / "python",
                    parts.hermes("0.19.0") / "bin/python",
                )
            ),
        }
        (self.folder / "shown").write_text(
            "".join(f"{path}\n" for path in sorted(needed) if path.is_relative_to("/root"))
        )

    environment: Mapping[str, str] = {}  # what every command of a person on this machine gets

    # life and death

    def boot(self) -> None:
        self.cgroup.mkdir()
        init = (
            ["/lib/systemd/systemd", "--system", "--unit=multi-user.target", "--log-target=journal"]
            if self.systemd
            else [sys.executable, str(HERE / "init.py")]
        )
        output = (self.folder / "boot.out").open("a")
        self.outer = subprocess.Popen(
            [
                *DIES_WITH_US,
                "sh",
                "-c",
                'echo $$ > "$0/cgroup.procs"; exec "$@"',
                str(self.cgroup),
                "nsenter",
                "-t",
                str(self.world.pid),
                "-n",
                "unshare",
                "-f",
                "-p",
                "-m",
                "-i",
                "-C",
                "--mount-proc",
                "--propagation",
                "private",
                "--kill-child",
                "sh",
                str(HERE / "boot.sh"),
                str(self.folder),
                *init,
            ],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
        )
        output.close()
        self.pid = until(lambda: _child(self.outer.pid), "the machine's PID 1", every=0.02)
        if self.systemd:
            until(
                lambda: (
                    self.systemctl("is-active", "multi-user.target", check=False).stdout.strip() == "active"
                ),
                "systemd is up",
                explain=lambda: (self.folder / "boot.out").read_text(),
            )
        else:
            until(
                lambda: b"boot.sh" not in Path(f"/proc/{self.pid}/cmdline").read_bytes(),
                "the bare init is up",
            )

    def kill(self, *frozen: subprocess.Popen) -> None:
        """As if the power went:

        PID 1 goes and takes all its processes along; a frozen one's parent outside must not keep its remains.
        """
        if self.pid and self.outer and self.outer.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
        for process in frozen:
            os.killpg(process.pid, signal.SIGKILL)
        if self.outer:
            self.outer.wait(60)
        self.pid = 0
        if self.cgroup.exists():
            until(self._cgroup_gone, "the machine's cgroup is empty", within=60)

    def reboot(self, *frozen: subprocess.Popen) -> None:
        self.kill(*frozen)
        self.boot()

    def _cgroup_gone(self) -> bool:
        for folder, _, _ in os.walk(self.cgroup, topdown=False):
            try:
                os.rmdir(folder)
            except OSError:
                return False
        return True

    # inside

    def start(
        self, command: Sequence[str], env: Mapping[str, str] | None = None, as_root: bool = False, **more
    ) -> subprocess.Popen:
        """A command inside, not waited for; its process group is its own."""
        settings = {**CRON_ENVIRONMENT, "HOME": str(self.user_home), **(env or {})}
        who = []
        if self.user and not as_root:
            settings |= {"LOGNAME": "ann", "USER": "ann"}
            who = ["setpriv", f"--reuid={ANN}", f"--regid={ANN}", "--clear-groups"]
        return subprocess.Popen(
            [
                *DIES_WITH_US,
                "nsenter",
                "-t",
                str(self.pid),
                "-p",
                "-m",
                "-i",
                "-n",
                "-C",
                "--wd=/",
                *who,
                *map(str, command),
            ],
            env=settings,
            start_new_session=True,
            **{"stdin": subprocess.DEVNULL, **more},
        )

    def run(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        within: float = 150,
        check: bool = False,
        as_root: bool = False,
    ) -> Done:
        process = self.start(command, env, as_root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            out, err = process.communicate(timeout=within)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise AssertionError(f"not done within {within:.0f} s: {list(command)}\n{out}\n{err}") from None
        done = Done(list(command), process.returncode, out, err)
        if check and done.returncode:
            raise AssertionError(f"{list(command)} ended with {done.returncode}\n{done.text}")
        return done

    def systemctl(self, *words: str, check: bool = True, within: float = 150) -> Done:
        return self.run(["systemctl", "--no-pager", *words], within=within, check=check, as_root=True)

    def systemctl_of_the_user(self, *words: str, check: bool = True, within: float = 150) -> Done:
        bus = {"XDG_RUNTIME_DIR": RUNTIME, "DBUS_SESSION_BUS_ADDRESS": f"unix:path={RUNTIME}/bus"}
        return self.run(["systemctl", "--user", "--no-pager", *words], bus, within=within, check=check)

    def show(self, unit: str, *names: str) -> dict[str, str]:
        ask = self.systemctl_of_the_user if self.user else self.systemctl
        lines = ask("show", unit, "-p", ",".join(names)).stdout.splitlines()
        return dict(line.split("=", 1) for line in lines)

    def journal(self, *words: str) -> list[dict]:
        text = self.run(["journalctl", "--no-pager", "-o", "json", *words], check=True, as_root=True).stdout
        return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def journal_text(self, unit: str) -> str:
        which = "--user-unit" if self.user else "-u"
        return self.run(
            ["journalctl", "--no-pager", "-o", "cat", which, unit], check=True, as_root=True
        ).stdout

    def inner_pids(self) -> dict[int, int]:
        """Process ids as seen inside → outside."""
        pids = {}
        for entry in Path("/proc").glob("[0-9]*/status"):
            try:
                fields = dict(line.split(":", 1) for line in entry.read_text().splitlines() if ":" in line)
            except OSError:
                continue
            names = fields.get("NSpid", "").split()
            if len(names) > 1 and _namespace(int(names[0])) == _namespace(self.pid):
                pids[int(names[-1])] = int(names[0])
        return pids


def _namespace(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def _child(pid: int) -> int:
    try:
        return int((Path(f"/proc/{pid}/task/{pid}/children").read_text().split() or ["0"])[0])
    except OSError:
        return 0


def _cgroup_root() -> Path:
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if kind == "cgroup2":
            return Path(place)
    raise AssertionError("no cgroup2 file system is mounted here")
