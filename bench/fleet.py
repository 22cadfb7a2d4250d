"""Two thousand hosts with three incidents each, posted through one real Alertmanager; docs/fleet.md gets the figures.

python bench/fleet.py                            needs the Debian package prometheus-alertmanager
python bench/fleet.py HOSTS INCIDENTS            other numbers, only printed
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from watchdog.errors import FleetError
from watchdog.fleet.alertmanager import Post, compose
from watchdog.fleet.facts import Facts
from watchdog.model import Incident

PAGE = Path(__file__).resolve().parent.parent / "docs" / "fleet.md"
BEGIN, END = "<!-- made by bench/fleet.py -->", "<!-- end -->"
AT_ONCE = 8  # hosts that post at the same moment
ROUTE = "route: {receiver: none, group_by: [instance, profile]}\nreceivers: [{name: none}]\n"


def facts(host: int, incidents: int, now: datetime) -> Facts:
    opened = tuple(
        Incident(
            number, "session-stuck", f"telegram/{number}", "high", "open", "A chat is waiting and nothing works on it",
            "telegram chat has waited 26 minutes for an answer (limit 15 minutes)", now, now, now,
        )
        for number in range(1, incidents + 1)
    )  # fmt: skip
    return Facts(
        f"web{host}", "default", "/home/hermes/.hermes", now, now, None, timedelta(minutes=15), opened, 0, (), True, {}, 0,
        {}, True, "0.19.0",
    )  # fmt: skip


def usage(pid: int) -> tuple[float, float]:
    """(MB of memory, seconds of CPU) of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return int(fields[21]) * os.sysconf("SC_PAGE_SIZE") / 1e6, cpu


@dataclass(frozen=True)
class Round:
    """All hosts posted once."""

    name: str
    seconds: float  # for all of them
    took: tuple[float, ...]  # milliseconds of each that worked, sorted
    failed: int
    alerts: int = 0  # that Alertmanager has afterwards
    memory: float = 0.0  # MB of Alertmanager
    cpu: float = 0.0  # seconds of Alertmanager in this round

    def row(self) -> str:
        p99 = self.took[int(len(self.took) * 0.99)] if self.took else 0.0
        middle = statistics.median(self.took or [0])
        return (
            f"| {self.name} | {self.seconds:.1f} s | {middle:.0f} ms | {p99:.0f} ms | {self.failed} | "
            f"{self.alerts:,} | {self.memory:.0f} MB | {self.cpu:.1f} s |"
        )


def post_round(url: str, name: str, incidents: int, states: list[dict[str, Any]]) -> Round:
    """Every host posts its incidents once; `states` is what each host keeps until its next check."""

    def post(host: int) -> float:
        now = datetime.now(UTC)
        alerts, states[host] = compose(facts(host, incidents, now), states[host], mailbox=True)
        began = time.perf_counter()
        try:
            Post(url, alerts, now, 3.0).run()
        except FleetError:
            return -1.0
        return (time.perf_counter() - began) * 1000

    began = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        took = list(pool.map(post, range(len(states))))
    seconds = time.perf_counter() - began
    worked = tuple(sorted(span for span in took if span >= 0))
    return Round(name, seconds, worked, len(took) - len(worked))


def count(url: str) -> int:
    with urllib.request.urlopen(f"{url}/api/v2/alerts", timeout=60) as answer:
        return len(json.load(answer))


def measure(url: str, pid: int, hosts: int, incidents: int) -> list[Round]:
    states: list[dict[str, Any]] = [{} for _ in range(hosts)]
    rounds = []
    for name, number in (
        ("first", incidents),
        ("the next check", incidents),
        ("all resolved", 0),
        ("repeated", 0),
    ):
        before = usage(pid)[1]
        made = post_round(url, name, number, states)
        memory, cpu = usage(pid)
        rounds.append(replace(made, alerts=count(url), memory=memory, cpu=cpu - before))
    return rounds


def table(rounds: list[Round], hosts: int, incidents: int) -> str:
    """The figures as docs/fleet.md shows them."""
    pace = max(made.seconds for made in rounds) / timedelta(minutes=15).total_seconds()
    return "\n".join(
        (
            f"{hosts:,} hosts with {incidents} incidents each through one Alertmanager, {AT_ONCE} at a time, on "
            f"{os.cpu_count()} cores (load {os.getloadavg()[0]:.0f}):",
            "",
            "| round | all hosts | per host, median | 99 % | failed | alerts there | memory of Alertmanager | its CPU time |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
            *(made.row() for made in rounds),
            "",
            f"With a check every 15 minutes, the slowest round is {pace:.1%} of the time that there is.",
        )
    )


def write(text: str) -> None:
    page = PAGE.read_text("utf-8")
    head, rest = page.split(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}", "utf-8")


def main() -> int:
    words = sys.argv[1:]
    if len(words) not in (0, 2) or not all(word.isdigit() for word in words):
        print(__doc__)
        return 2
    hosts, incidents = map(int, words) if words else (2000, 3)
    program = shutil.which("prometheus-alertmanager")
    if program is None:
        print("apt-get install --no-install-recommends prometheus-alertmanager", file=sys.stderr)
        return 2
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as place:
        Path(place, "am.yml").write_text(ROUTE)
        running = subprocess.Popen(
            [program, f"--config.file={place}/am.yml", f"--storage.path={place}", "--cluster.listen-address=",
             f"--web.listen-address=127.0.0.1:{port}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(f"{url}/-/ready")
            text = table(measure(url, running.pid, hosts, incidents), hosts, incidents)
        finally:
            running.kill()
            running.wait()
    print(text)
    if not words:
        write(text)
    return 0


def wait_for(url: str) -> None:
    for _ in range(300):
        try:
            urllib.request.urlopen(url, timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit(f"{url} does not answer")


if __name__ == "__main__":
    sys.exit(main())
