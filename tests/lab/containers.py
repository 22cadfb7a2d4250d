"""A machine with a container engine of its own, and a real Hermes in a container on it.

The image is empty: programs and libraries are the host's, mounted read-only, so that no registry of images and no
download is needed. Everything dies with the machine's first process.
"""

from __future__ import annotations

import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import parts
from .gateway import Gateway
from .machine import ANN, HERE, NAMES, RUNTIME, Done, Machine, _child
from .waiting import until
from .world import DIES_WITH_US, World

IMAGE, NAME, INSIDE = "lab:1", "hermes-gateway", "/opt/data"
FOLDERS = ("dev", "etc", "opt/data", "opt/lab", "proc", "root", "run", "sys", "tmp", "usr", "var")
LINKS = ("bin", "sbin", "lib", "lib64")
ENGINE = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
PODMAN_SOCKET = "/run/podman.sock"
SHIFT = 231072  # what a user namespace adds to the numbers of users
BRIDGE = "172.17.0.1"


class NoEngine(Exception):
    """This machine cannot hold a container engine, and why."""


class ContainerMachine(Machine):
    """A bare machine that keeps the host's cgroups, which an engine needs."""

    def __init__(self, world: World, engine: str = "docker") -> None:
        """`engine`: docker, podman; podman-socket, where the watchdog has the docker command and podman's socket;
        docker-remap and rootless (podman of ann), where root in a container is an ordinary user outside.
        """
        super().__init__(world, systemd=False, user=engine in ("docker-remap", "rootless"))
        self.user = engine == "rootless"
        if engine == "docker-remap":  # there ann is only somebody whose numbers are used
            os.chown(self.user_home, 0, 0)
        self.engine = engine
        self.command = "docker" if engine.startswith("docker") else "podman"
        self.network: tuple[str, ...] = ("--network", "host")
        if engine == "docker-remap":  # which lets nobody into the host's network
            self.network = tuple(word for name in NAMES for word in ("--add-host", f"{name}:{BRIDGE}"))
        self.daemon: subprocess.Popen | None = None
        self.parent = f"/{self.cgroup.name}"
        (self.folder / "host-cgroups").touch()  # boot.sh

    def boot(self) -> None:
        if self.user and not Path("/dev/shm").stat().st_mode & 0o002:
            raise NoEngine(
                "podman of an ordinary user keeps its locks in /dev/shm, where only root may write here"
            )
        self.cgroup.mkdir()
        output = (self.folder / "boot.out").open("a")
        namespaces = ["-f", "-p", "-m", "-i", "--mount-proc", "--propagation", "private", "--kill-child"]
        self.outer = subprocess.Popen(
            [*DIES_WITH_US, "sh", "-c", 'echo $$ > "$0/cgroup.procs"; exec "$@"', str(self.cgroup),
             "nsenter", "-t", str(self.world.pid), "-n", "unshare", *namespaces,
             "sh", str(HERE / "boot.sh"), str(self.folder), sys.executable, str(HERE / "init.py")],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, env=ENGINE,
        )  # fmt: skip
        output.close()
        self.pid = until(lambda: _child(self.outer.pid), "the machine's PID 1", every=0.02)
        until(lambda: b"boot.sh" not in Path(f"/proc/{self.pid}/cmdline").read_bytes(), "the bare init is up")
        if self.engine in ("docker-remap", "rootless"):
            self._give_numbers_away()
        if self.command == "docker":
            self.start_engine()
        else:
            self._configure_podman()
        if self.engine == "podman-socket":
            self.daemon = self.start(
                ["podman", "system", "service", "--time=0", f"unix://{PODMAN_SOCKET}"],
                {**ENGINE, **self._podman_files()},
            )
            until(lambda: self.run(["test", "-S", PODMAN_SOCKET]).returncode == 0, "podman's socket")
        self.tool("import", str(self._empty_image()), IMAGE)
        tried = self.tool("run", "--rm", *self.network, "-v", "/usr:/usr:ro", IMAGE, "/bin/true", check=False)
        if tried.returncode:
            raise NoEngine(f"{self.command} runs no container here: {tried.text.strip()[-200:]}")

    def start(
        self, command: Sequence[str], env: Mapping[str, str] | None = None, as_root: bool = False, **more: Any
    ) -> subprocess.Popen:
        if not self.user or as_root:
            return super().start(command, env, as_root, **more)
        # Her processes are in a cgroup of hers, as in a session of hers.
        group = f"/sys/fs/cgroup{self.parent}/ann"
        rights = ("setpriv", f"--reuid={ANN}", f"--regid={ANN}", "--clear-groups")
        into = ("sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", *rights)
        env = {"LOGNAME": "ann", "USER": "ann", "XDG_RUNTIME_DIR": RUNTIME, **(env or {})}
        return super().start([*into, *map(str, command)], env, as_root=True, **more)

    def _give_ann_a_cgroup(self) -> None:
        script = f"mount -t cgroup2 cgroup2 /sys/fs/cgroup && mkdir $0/ann && chown -R {ANN}:{ANN} $0"
        self.run(["sh", "-c", script, f"/sys/fs/cgroup{self.parent}"], check=True, as_root=True)

    def _give_numbers_away(self) -> None:
        """The numbers of users that ann's user namespaces may use."""
        for name in ("subuid", "subgid"):
            (self.folder / name).write_text(f"ann:{SHIFT}:65536\n")
            self.run(["mount", "--bind", self.folder / name, f"/etc/{name}"], check=True, as_root=True)

    def start_engine(self) -> None:
        place, output = self.folder, (self.folder / "dockerd.out").open("a")
        private = ["--bridge=none"] if self.engine == "docker" else ["--userns-remap=ann:root"]
        self.daemon = self.start(
            ["dockerd", "--data-root", place / "dk", "--exec-root", place / "dkrun", "--pidfile", place / "dockerd.pid",
             "-H", "unix:///run/docker.sock", "--iptables=false", "--ip6tables=false", *private,
             f"--cgroup-parent={self.parent}"],
            ENGINE, stdout=output, stderr=output,
        )  # fmt: skip
        output.close()
        until(
            lambda: (
                self.daemon.poll() is not None or self.run(["docker", "version"], within=30).returncode == 0
            ),
            "the engine answers",
            explain=lambda: (place / "dockerd.out").read_text()[-3000:],
        )
        if self.daemon.poll() is not None:
            raise NoEngine(
                f"dockerd does not start here: {(place / 'dockerd.out').read_text().strip()[-200:]}"
            )

    def kill_engine(self) -> None:
        """As if it crashed: its containers live on."""
        inner = int((self.folder / "dockerd.pid").read_text())
        os.kill(self.inner_pids()[inner], signal.SIGKILL)
        self.daemon.wait(30)
        (self.folder / "dockerd.pid").unlink(missing_ok=True)

    @contextmanager
    def engine_halted(self) -> Iterator[None]:
        """It takes connections and answers none."""
        inner = int((self.folder / "dockerd.pid").read_text())
        engine = self.inner_pids()[inner]
        os.kill(engine, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(engine, signal.SIGCONT)
            os.killpg(self.daemon.pid, signal.SIGCONT)  # nsenter stops itself together with its child

    def _configure_podman(self) -> None:
        place = self.folder / "podman"
        place.mkdir()
        (place / "containers.conf").write_text(
            '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
            '[containers]\ndefault_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]\n'
        )
        (place / "storage.conf").write_text(
            f'[storage]\ndriver = "overlay"\ngraphroot = "{place}/graph"\nrunroot = "{place}/run"\n'
        )
        if self.user:
            self._give_ann_a_cgroup()
            os.chown(place, ANN, ANN)
            self.run(["install", "-d", "-m", "700", "-o", str(ANN), RUNTIME], check=True, as_root=True)

    def _podman_files(self) -> dict[str, str]:
        place = self.folder / "podman"
        own = {"XDG_RUNTIME_DIR": RUNTIME} if self.user else {}
        return {
            **own,
            "CONTAINERS_CONF": str(place / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(place / "storage.conf"),
        }

    def outside(self, user: int) -> int:
        """The number on the machine of a user in a container."""
        if self.engine == "rootless":
            return user + SHIFT - 1 if user else ANN
        return user + SHIFT if self.engine == "docker-remap" else user

    @property
    def environment(self) -> dict[str, str]:
        """What somebody whose engine is not the usual one gives to the watchdog."""
        if self.engine == "podman-socket":
            return {"DOCKER_HOST": f"unix://{PODMAN_SOCKET}"}
        return self._podman_files() if self.command == "podman" else {}

    def tool(self, *words: str, check: bool = True, within: float = 120) -> Done:
        files = self._podman_files() if self.command == "podman" else {}
        return self.run([self.command, *words], {**ENGINE, **files}, check=check, within=within)

    def _empty_image(self) -> Path:
        path = self.folder / "image.tar"
        with tarfile.open(path, "w") as image:
            for name in FOLDERS:
                folder = tarfile.TarInfo(name)
                folder.type, folder.mode = tarfile.DIRTYPE, 0o755
                image.addfile(folder)
            for name in LINKS:
                link = tarfile.TarInfo(name)
                link.type, link.linkname = tarfile.SYMTYPE, f"usr/{name}"
                image.addfile(link)
            users = b"root:x:0:0:root:/root:/bin/sh\n"
            file = tarfile.TarInfo("etc/passwd")
            file.size = len(users)
            image.addfile(file, io.BytesIO(users))
        return path

    def kill(self, *frozen: subprocess.Popen) -> None:
        super().kill(*frozen)
        if self.daemon:
            self.daemon.wait(30)
        for folder in Path("/sys/fs/cgroup").glob(f"*{self.parent}"):
            for place, _, _ in os.walk(folder, topdown=False):
                if Path(place).exists():
                    os.rmdir(place)
        shutil.rmtree(self.folder / "dk", ignore_errors=True)


class ContainerGateway(Gateway):
    """A Hermes whose home is a volume; with `s6` it is one of two services below s6-svscan."""

    def __init__(
        self,
        machine: ContainerMachine,
        version: str,
        s6: bool = False,
        options: tuple[str, ...] = (),
        user: int = 0,
    ) -> None:
        """`user`: the one that the gateway runs as and that owns the home, as in the official image."""
        super().__init__(machine, version)
        self.user = user
        self.volume = self.home  # or a link to it
        for path in (self.home, *self.home.rglob("*")):
            os.chown(path, machine.outside(user), machine.outside(user))
        self.machine: ContainerMachine = machine
        self.s6 = s6
        self.options = options if s6 or not user else (*options, "--user", f"{user}:{user}")
        self.extra = machine.folder / "inside"  # /opt/lab
        self.extra.mkdir()

    def create(self) -> str:
        """A new container, running; its id."""
        hermes, python = parts.hermes(self.version), Path(sys.base_prefix)
        read_only = ["/usr", "/etc/ssl", "/etc/ld.so.cache", *map(str, {hermes, python} - {Path("/usr")})]
        volumes = [
            f"{self.volume}:{INSIDE}",
            f"{self.extra}:/opt/lab:ro",
            *(f"{path}:{path}:ro" for path in read_only),
        ]
        command = [*self.command, "gateway", "run"]
        if self.s6:
            command = ["/bin/sh", "/opt/lab/init", *command]
            self._write_services()
        done = self.machine.tool(
            "run", "-d", "--name", NAME, *self.machine.network, *self.options,
            *(word for volume in volumes for word in ("-v", volume)),
            *(word for name, value in self._variables().items() for word in ("-e", f"{name}={value}")),
            IMAGE, *command,
        )  # fmt: skip
        return done.stdout.split()[-1]

    def _variables(self) -> dict[str, str]:
        return {"HERMES_HOME": INSIDE, "HOME": INSIDE, "PATH": "/usr/bin", "PYTHONPATH": "/opt/lab"}

    def _write_services(self) -> None:
        """The layout of the official image: one folder per profile below /run/service."""
        (self.extra / "init").write_text(
            "for name in gateway-default gateway-work; do mkdir -p /run/service/$name; done\n"
            f"printf '#!/bin/sh\\nexec s6-applyuidgid -u {self.user} -g {self.user} %s\\n' \"$*\""
            " > /run/service/gateway-default/run\n"
            "printf '#!/bin/sh\\nexec sleep 100000\\n' > /run/service/gateway-work/run\n"
            "chmod 755 /run/service/*/run\nexec s6-svscan /run/service\n"
        )

    def start(self) -> None:
        self.id = self.create()
        self.wait_until_running()

    @property
    def pid(self) -> int:
        """Outside: of the process that holds the lock."""
        words = self.machine.run(
            [self.python, "-c", "import sys\nfrom pathlib import Path\nino = Path(sys.argv[1]).stat().st_ino\n"
             "print(*[l.split()[4] for l in open('/proc/locks') if l.split()[5].endswith(f':{ino}')])",
             self.home / "gateway.lock"], as_root=True,
        ).stdout.split()  # fmt: skip
        return int(words[0]) if words else 0

    def state_of_container(self) -> str:
        return self.machine.tool("inspect", "--format", "{{.State.Status}}", NAME).stdout.strip()

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        self.machine.run(["kill", f"-{int(number)}", str(self.pid)], check=True, as_root=True)
