"""What contrib/ promises an operator: promtool, amtool and ansible-lint are content, and the role rolls out twice."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from watchdog.fleet import mailbox, postgres, setup

from . import parts
from .engines import Postgres, Program, folder, free_port, needs, until

CONTRIB = parts.CHECKOUT / "contrib"
ANSIBLE = CONTRIB / "ansible"


def run(*argv: str | Path, limit: float = 120, **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in argv],
        capture_output=True,
        text=True,
        timeout=limit,
        stdin=subprocess.DEVNULL,
        **more,
    )


@pytest.mark.parametrize(
    ("package", "argv"),
    [
        ("prometheus", ["promtool", "check", "rules", "hermes-watchdog.rules.yml"]),
        ("prometheus", ["promtool", "test", "rules", "hermes-watchdog.test.yml"]),
        ("prometheus", ["promtool", "check", "config", "prometheus.example.yml"]),
        ("prometheus-alertmanager", ["amtool", "check-config", "../alertmanager/alertmanager.example.yml"]),
    ],
    ids=lambda value: value[2] if isinstance(value, list) else value,
)
def test_the_engines_own_tools_accept_the_examples(package: str, argv: list[str]):
    needs(package)
    done = run(*argv, cwd=CONTRIB / "prometheus")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("alert", "other", "inhibited"),
    [
        ({"alertname": "HermesIncident", "rule": "gateway-down"}, {"alertname": "HermesIncident", "rule": "tls-burst"}, True),
        ({"alertname": "HermesIncident", "rule": "tls-burst"}, {"alertname": "HermesIncident", "rule": "gateway-down"}, False),
        ({"alertname": "HermesWatchdogStale"}, {"alertname": "HermesIncidentOpen", "rule": "tls-burst"}, True),
        ({"alertname": "HermesIncident", "rule": "tls-burst"}, {"alertname": "HermesIncidentOpen", "rule": "tls-burst"}, True),
        ({"alertname": "HermesIncident", "rule": "tls-burst"}, {"alertname": "HermesIncidentOpen", "rule": "qq-dead"}, False),
    ],
)  # fmt: skip
def test_one_alert_silences_another_as_the_example_says(
    tmp_path: Path, alert: dict[str, str], other: dict[str, str], inhibited: bool
):
    from .engines import Alertmanager, send

    needs("prometheus-alertmanager")
    manager = Alertmanager(tmp_path, CONTRIB / "alertmanager" / "alertmanager.example.yml", "am")
    try:
        where = {"instance": "web1", "profile": "default", "severity": "warning"}
        elsewhere = where | {"instance": "web2"}
        down, burst = (
            {"alertname": "HermesIncident", "rule": rule} for rule in ("gateway-down", "tls-burst")
        )
        sent = [alert | where, other | where, burst | elsewhere, down | elsewhere]
        send(f"{manager.url}/api/v2/alerts", [{"labels": labels} for labels in sent])

        def state(labels: dict[str, str]) -> str:
            states = [each["status"]["state"] for each in manager.alerts() if each["labels"] == labels]
            return str(states[0]) if states else ""

        # Alerts are taken up one after the other: where the last of them holds another down, the first one can.
        until(lambda: state(burst | elsewhere) == "suppressed", "all alerts are taken up")
        assert state(other | where) == ("suppressed" if inhibited else "active")
    finally:
        manager.program.kill()


def test_the_role_is_clean():
    needs("ansible-lint")
    done = run(
        "ansible-lint", "--offline", "--strict", "--profile", "production", ".", cwd=ANSIBLE, limit=280
    )
    assert done.returncode == 0, done.stdout + done.stderr


class Box:
    """A machine of its own as far as the role can see: its folders, its processes, its name; reached by ssh."""

    PRIVATE = ("/opt", "/media", "/var/spool/cron", "/var/lib/prometheus", "/run")

    def __init__(self, base: Path, name: str, key: Path):
        self.name, self.port = name, free_port()
        place = base / name
        place.mkdir()
        host_key = place / "host"
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", host_key)
        config = place / "sshd_config"
        config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {host_key}\nAuthorizedKeysFile {key}.pub\n"
            "PermitRootLogin prohibit-password\nUsePAM no\nStrictModes no\nPidFile none\n"
            "Subsystem sftp internal-sftp\n"
        )
        mounts = "; ".join(f"mkdir -p {path}; mount -t tmpfs tmpfs {path}" for path in self.PRIVATE)
        self.program = Program(
            place,
            ["unshare", "-f", "-p", "-m", "-u", "--mount-proc", "--propagation", "private", "--kill-child", "sh", "-c",
             f"hostname {name}; {mounts}; mkdir -p /run/sshd /var/spool/cron/crontabs; exec /usr/sbin/sshd -D -e -f {config}"],
        )  # fmt: skip
        self.ssh = [
            "ssh", "-i", str(key), "-p", str(self.port), "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
            "-o", "LogLevel=ERROR", "root@127.0.0.1",
        ]  # fmt: skip
        until(lambda: self.run("true").returncode == 0, f"{name} answers")

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        return run(*self.ssh, command)


@pytest.fixture
def boxes() -> Iterator[tuple[Path, list[Box]]]:
    needs("ansible-core", "openssh-server", "postgresql")
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    with folder() as base:
        key = base / "key"
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
        made = [Box(base, name, key) for name in ("web1", "web2")]
        yield base, made
        for box in made:
            box.program.kill()


@pytest.mark.thorough
@pytest.mark.takes_at_most(600)
def test_the_role_rolls_out_to_two_machines_and_changes_nothing_the_second_time(boxes):
    base, machines = boxes
    wheels = base / "wheels"
    built = run(
        sys.executable, "-m", "pip", "wheel", "-q", "-c", parts.CHECKOUT / "constraints.txt", "-w", wheels,
        f"{parts.CHECKOUT}[fleet]", limit=280,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    server = Postgres(base)
    try:
        admin = base / "admin"
        admin.mkdir()
        (admin / "settings.yaml").write_text(f"fleet: {{postgres: '{server.dsn('postgres')}'}}\n")
        (admin / "settings.yaml").chmod(0o600)
        with postgres.connected(server.dsn("postgres"), check=False) as db:
            setup.initialise(db)
            setup.add_role(db, "anna", approver=True)
        inventory = {
            "gateways": {
                "hosts": {box.name: {"ansible_port": box.port} for box in machines},
                "vars": {
                    "ansible_host": "127.0.0.1",
                    "ansible_user": "root",
                    "ansible_ssh_private_key_file": str(base / "key"),
                    "ansible_ssh_common_args": "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null",
                    "ansible_python_interpreter": "/usr/bin/python3",
                    "hermes_watchdog_package": "hermes-watchdog[fleet]",
                    "hermes_watchdog_pip_args": f"--no-index --find-links {wheels}",
                    "hermes_watchdog_python": sys.executable,
                    "hermes_watchdog_system_packages": [],
                    "hermes_watchdog_user": "root",
                    "hermes_watchdog_home": "/media/hermes/.hermes",
                    "hermes_watchdog_config": "/media/hermes/config",
                    "hermes_watchdog_state": "/media/hermes/state",
                    "hermes_watchdog_postgres": f"host=127.0.0.1 port={server.port} dbname=postgres",
                    "hermes_watchdog_approvers": ["anna"],
                    "hermes_watchdog_alertmanagers": ["http://127.0.0.1:9"],
                    "hermes_watchdog_settings": {"backups": False, "replies": {"wait": "0s"}},
                    "hermes_watchdog_admin_command": str(parts.COMMAND),
                    "hermes_watchdog_admin_config": str(admin),
                },
            }
        }
        (base / "inventory.json").write_text(json.dumps(inventory))
        for box in machines:
            box.run("mkdir -p /media/hermes/.hermes/logs; touch /media/hermes/.hermes/logs/gateway.log")
        play = ["ansible-playbook", "-i", base / "inventory.json", ANSIBLE / "site.yml"]
        quiet = {**os.environ, "ANSIBLE_NOCOLOR": "1", "ANSIBLE_PIPELINING": "1", "ANSIBLE_HOST_KEY_CHECKING": "False",
                 "ANSIBLE_HOME": str(base / "ansible")}  # fmt: skip
        for changes in (True, False):
            done = run(*play, limit=280, env=quiet)
            assert done.returncode == 0, done.stdout[-6000:] + done.stderr
            recap = re.findall(r"(?m)^(\w+) +: ok=\d+ +changed=(\d+) ", done.stdout)
            assert {name: int(count) > 0 for name, count in recap} == {"web1": changes, "web2": changes}, (
                done.stdout
            )
            assert "password=" not in done.stdout.replace("password=***", "")
        command = "/opt/hermes-watchdog/bin/hermes-watchdog"
        where = "--home /media/hermes/.hermes --config /media/hermes/config --state /media/hermes/state"
        for box in machines:
            assert box.run("crontab -l").stdout.count("hermes") >= 1
            assert (
                box.run("stat -c %a /media/hermes/config/settings.yaml /media/hermes/config/postgres").stdout
                == "600\n600\n"
            )
            checked = box.run(f"{command} check {where}")
            assert checked.returncode in (0, 1), checked.stderr
            metrics = box.run("cat /var/lib/prometheus/node-exporter/*.prom").stdout
            assert "hermes_watchdog_last_check_timestamp_seconds" in metrics
        with postgres.connected(server.dsn("postgres")) as db:
            assert [(home.host, home.instance) for home in mailbox.homes(db)] == [
                ("web1", "web1"),
                ("web2", "web2"),
            ]
    finally:
        server.stop()
