"""Two thousand hosts with three incidents each, posted through one real Alertmanager.

python bench/fleet.py [HOSTS] [INCIDENTS]        needs the Debian package prometheus-alertmanager
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
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from watchdog.fleet.alertmanager import Post
from watchdog.fleet.alerts import compose
from watchdog.fleet.facts import Facts
from watchdog.model import Incident

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


def post_round(
    url: str, hosts: int, incidents: int, memories: list[dict[str, Any]]
) -> tuple[float, list[float], int]:
    """(seconds for all, milliseconds for each, failures)"""

    def one(host: int) -> float:
        now = datetime.now(UTC)
        alerts, memories[host] = compose(facts(host, incidents, now), memories[host], mailbox=True)
        began = time.perf_counter()
        try:
            Post(url, alerts, now, 3.0).run()
        except Exception:
            return -1.0
        return (time.perf_counter() - began) * 1000

    began = time.perf_counter()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        took = list(pool.map(one, range(hosts)))
    return (
        time.perf_counter() - began,
        sorted(each for each in took if each >= 0),
        sum(each < 0 for each in took),
    )


def count(url: str) -> int:
    with urllib.request.urlopen(f"{url}/api/v2/alerts", timeout=60) as answer:
        return len(json.load(answer))


def main() -> int:
    hosts, incidents = (int(word) for word in (*sys.argv[1:], *("2000", "3")[len(sys.argv) - 1 :]))
    program = shutil.which("prometheus-alertmanager")
    if program is None:
        print(
            "needs prometheus-alertmanager: apt-get install --no-install-recommends prometheus-alertmanager"
        )
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
            for _ in range(300):
                try:
                    urllib.request.urlopen(f"{url}/-/ready", timeout=1).close()
                    break
                except OSError:
                    time.sleep(0.1)
            print(f"{hosts} hosts × {incidents} incidents, {AT_ONCE} at a time, {os.cpu_count()} cores")
            print("round            seconds  posts/s   p50 ms   p99 ms  failed  alerts   AM MB  AM CPU s")
            memories: list[dict[str, Any]] = [{} for _ in range(hosts)]
            for name, number in (
                ("first", incidents),
                ("again", incidents),
                ("resolved", 0),
                ("repeated", 0),
            ):
                before = usage(running.pid)[1]
                seconds, took, failed = post_round(url, hosts, number, memories)
                memory, cpu = usage(running.pid)
                p99 = took[int(len(took) * 0.99)] if took else 0.0
                print(
                    f"{name:<16} {seconds:7.1f} {hosts / seconds:8.0f} {statistics.median(took or [0]):8.1f} {p99:8.1f} "
                    f"{failed:7} {count(url):7} {memory:7.0f} {cpu - before:9.1f}"
                )
        finally:
            running.kill()
            running.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
