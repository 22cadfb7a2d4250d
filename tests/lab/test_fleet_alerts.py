"""Real Alertmanagers and a real Prometheus: a cluster that loses an instance, a host that dies, a full disk."""

from __future__ import annotations

import json
import subprocess
import threading
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from . import parts
from .engines import Alertmanager, Program, folder, get, needs, node_exporter, prometheus, send, until
from .fleet_home import Host

CONTRIB = parts.CHECKOUT / "contrib"
ROUTE = """
route: {{receiver: team, group_by: [instance, profile, alertname, rule], group_wait: 1s, group_interval: 2s, repeat_interval: 4h}}
receivers: [{{name: team, webhook_configs: [{{url: 'http://127.0.0.1:{port}/', send_resolved: true}}]}}]
"""


class Pager(ThreadingHTTPServer):
    """Who is told by Alertmanager: (instance, alert, firing or resolved), as often as it was said."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Page)
        self.told: Counter[tuple[str, str, str]] = Counter()
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()

    def of(self, status: str) -> set[str]:
        return {instance for instance, _, said in list(self.told) if said == status}

    def heard(self, instances: set[str], status: str) -> None:
        until(lambda: instances <= self.of(status), f"{status}: {sorted(instances)}", 90)


class _Page(BaseHTTPRequestHandler):
    server: Pager

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        for alert in body["alerts"]:
            labels = alert["labels"]
            self.server.told[labels.get("instance", ""), labels["alertname"], alert["status"]] += 1
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def pager() -> Iterator[Pager]:
    made = Pager()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def place() -> Iterator[Path]:
    with folder() as made:
        yield made


@pytest.fixture
def cluster(place: Path, pager: Pager) -> Iterator[list[Alertmanager]]:
    needs("prometheus-alertmanager")
    config = place / "alertmanager.yml"
    config.write_text(ROUTE.format(port=pager.server_port))
    first = Alertmanager(place, config, "am1")
    second = Alertmanager(place, config, "am2", [first])
    first.peers = [second]
    for each in (first, second):
        until(
            lambda each=each: len(get(f"{each.url}/api/v2/status")["cluster"]["peers"]) == 2,
            "they are a cluster",
        )
    yield [first, second]
    first.program.kill()
    second.program.kill()


def check_all(hosts: list[Host]) -> list[dict[str, Any]]:
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda host: host.check(), hosts))


def test_twenty_hosts_two_alertmanagers_one_dies_nothing_is_lost_and_nothing_told_twice(
    cluster: list[Alertmanager], pager: Pager, tmp_path: Path
):
    first, second = cluster
    settings = f"alertmanager: {{urls: ['{first.url}', '{second.url}']}}\n"
    hosts = [Host(tmp_path, f"web{number}", settings) for number in range(1, 21)]
    for report in check_all(hosts):
        assert report["notes"] == []
    names = {host.name for host in hosts}
    for each in cluster:
        assert {alert["labels"]["instance"] for alert in each.alerts()} == names
    pager.heard(names, "firing")

    second.learn()  # what an instance sent just before it dies is sent again by the other, and should be
    first.program.kill()
    healed, new = hosts[:10], [Host(tmp_path, f"new{number}", settings) for number in range(1, 6)]
    for host in healed:
        host.heal_by_hand()
    for report in check_all([*hosts, *new]):
        assert any("refused" in note for note in report["notes"]), "one that is down is said"
    pager.heard({host.name for host in new}, "firing")
    pager.heard({host.name for host in healed}, "resolved")

    first.start()  # with an empty memory of alerts; the next checks fill it
    until(
        lambda: len(get(f"{first.url}/api/v2/status")["cluster"]["peers"]) == 2, "it is back in the cluster"
    )
    for report in check_all([*hosts, *new]):
        assert report["notes"] == []
    open_now = names - {host.name for host in healed} | {host.name for host in new}
    assert {alert["labels"]["instance"] for alert in first.alerts()} == open_now
    # One more incident and its message: by then the instance that came back has had its turn with the old ones.
    last = Host(tmp_path, "last", settings)
    last.check()
    pager.heard({"last"}, "firing")
    once = {key: times for key, times in pager.told.items() if times != 1}
    assert once == {}, "nothing was told twice"
    assert pager.of("firing") == names | {host.name for host in new} | {"last"}
    assert pager.of("resolved") == {host.name for host in healed}


def test_a_silence_made_on_one_holds_on_both_and_outlives_the_one_it_was_made_on(
    cluster: list[Alertmanager], pager: Pager, tmp_path: Path
):
    first, second = cluster
    now = datetime.now(UTC)
    send(
        f"{second.url}/api/v2/silences",
        {
            "matchers": [{"name": "instance", "value": "quiet", "isRegex": False, "isEqual": True}],
            "startsAt": now.isoformat(), "endsAt": (now + timedelta(hours=1)).isoformat(),
            "createdBy": "anna", "comment": "planned work",
        },
    )  # fmt: skip
    until(lambda: get(f"{first.url}/api/v2/silences"), "the other instance knows it")
    settings = f"alertmanager: {{urls: ['{first.url}', '{second.url}']}}\n"
    quiet, loud = Host(tmp_path, "quiet", settings), Host(tmp_path, "loud", settings)
    quiet.check()
    loud.check()
    for each in cluster:
        states = {alert["labels"]["instance"]: alert["status"]["state"] for alert in each.alerts()}
        assert states["quiet"] == "suppressed" and states["loud"] != "suppressed"
    pager.heard({"loud"}, "firing")
    second.program.kill()
    quiet.check()
    late = Host(tmp_path, "late", settings)
    late.check()
    pager.heard({"late"}, "firing")
    assert "quiet" not in pager.of("firing")


@pytest.mark.parametrize("off", ["-1h", "+1h"])
def test_a_host_whose_clock_is_an_hour_off_fires_and_resolves_like_any_other(
    cluster: list[Alertmanager], pager: Pager, tmp_path: Path, off: str
):
    needs("faketime")
    host = Host(tmp_path, "web1", f"alertmanager: {{urls: ['{cluster[0].url}']}}\n", clock=off)
    assert any("clock" in note for note in host.check()["notes"])
    (alert,) = cluster[0].alerts()
    assert alert["status"]["state"] in ("active", "unprocessed")
    ends = datetime.fromisoformat(alert["endsAt"].replace("Z", "+00:00"))
    assert abs(ends - datetime.now(UTC) - timedelta(minutes=50)) < timedelta(minutes=2)
    pager.heard({"web1"}, "firing")
    host.heal_by_hand()
    host.check()
    pager.heard({"web1"}, "resolved")


@pytest.fixture
def watched(place: Path, pager: Pager, tmp_path: Path) -> Iterator[tuple[str, list[Host], list[Program]]]:
    """Three hosts with node_exporter, Prometheus with the rules of contrib/, one Alertmanager."""
    needs("prometheus", "prometheus-node-exporter", "prometheus-alertmanager", "faketime")
    config = place / "alertmanager.yml"
    config.write_text(ROUTE.format(port=pager.server_port))
    manager = Alertmanager(place, config, "am")
    hosts, exporters, targets = [], [], []
    for name in ("web1", "web2", "dead"):
        files = place / name
        files.mkdir(mode=0o755)
        host = Host(tmp_path, name, f"metrics: {{textfile: {files}}}\n", broken=name == "web1",
                    clock="-1h" if name == "dead" else "")  # fmt: skip
        exporter, port = node_exporter(place, files)
        hosts.append(host)
        exporters.append(exporter)
        targets.append({"targets": [f"127.0.0.1:{port}"], "labels": {"instance": name}})
    made, url = prometheus(
        place,
        json.dumps(
            {
                "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                "rule_files": [str(CONTRIB / "prometheus" / "hermes-watchdog.rules.yml")],
                "alerting": {"alertmanagers": [{"static_configs": [{"targets": [manager.url[7:]]}]}]},
                "scrape_configs": [{"job_name": "node", "static_configs": targets}],
            }
        ),
    )
    yield url, hosts, exporters
    for program in (made, manager.program, *exporters):
        program.kill()


def query(url: str, expression: str) -> list[dict[str, Any]]:
    answer = get(f"{url}/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
    assert answer["status"] == "success", answer
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


def test_a_host_that_dies_is_noticed_and_the_dashboard_shows_real_data(watched, pager: Pager):
    """`dead` was last checked an hour ago; then it is gone, its node_exporter with it."""
    url, hosts, exporters = watched
    for host in hosts:
        assert host.check()["notes"] == []
    until(
        lambda: len(query(url, "hermes_watchdog_last_check_timestamp_seconds")) == 3, "all three are scraped"
    )
    assert query(url, "node_textfile_scrape_error > 0") == []
    exporters[2].kill()
    until(lambda: query(url, 'up{instance="dead"} == 0'), "Prometheus sees that it is gone")
    until(lambda: query(url, "hermes_watchdog_last_check_timestamp_seconds") and
          len(query(url, "hermes_watchdog_last_check_timestamp_seconds")) == 2, "its series ended")  # fmt: skip
    pager.heard({"dead", "web1"}, "firing")
    stale = {instance for instance, alert, said in pager.told if alert == "HermesWatchdogStale"}
    assert stale == {"dead"}
    opened = {instance for instance, alert, said in pager.told if alert == "HermesIncidentOpen"}
    assert opened == {"web1"}

    groups = get(f"{url}/api/v1/rules")["data"]["groups"]
    assert {rule["health"] for group in groups for rule in group["rules"]} == {"ok"}

    board = json.loads((CONTRIB / "grafana" / "hermes-gateways.json").read_text())

    def panels() -> dict[str, list[list[dict[str, Any]]]]:
        """Title → what each query of the panel finds."""
        return {
            panel["title"]: [
                query(url, target["expr"].replace("$instance", ".*").replace("$profile", ".*"))
                for target in panel["targets"]
            ]
            for panel in board["panels"]
        }

    def number(title: str) -> str:
        (found,) = panels()[title][0]
        return str(found["value"][1])

    empty = {title for title, queries in panels().items() for found in queries if not found}
    assert empty == {"Age of backups", "Repairs per hour"}
    assert [number(title) for title in ("Gateways", "Stale", "Open incidents")] == ["3", "1", "1"]
    assert {row["metric"]["instance"] for row in panels()["Hosts"][0]} == {"web1", "web2", "dead"}
    code = json.loads(hosts[0].run("plan", "1", "--code", "--json").stdout)["code"]
    assert hosts[0].run("approve", code).returncode == 0
    hosts[0].check()
    until(lambda: query(url, "hermes_watchdog_actions_total"), "the repair is scraped")
    assert number("Repairs per hour") == "1", "the first of its kind, too"
    until(lambda: number("Open incidents") == "0", "it is resolved")


def test_a_full_disk_leaves_the_old_metrics_as_they_were(place: Path, tmp_path: Path):
    files = place / "full"
    files.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", files], check=True)
    try:
        host = Host(tmp_path, "web1", f"metrics: {{textfile: {files}}}\n", broken=False)
        host.check()
        (path,) = files.glob("*.prom")
        before = path.read_bytes()
        with pytest.raises(OSError), open(files / "ballast", "wb") as ballast:
            while True:
                ballast.write(bytes(4096))
                ballast.flush()
        assert any("No space left" in note for note in host.check()["notes"])
        assert path.read_bytes() == before
        assert sorted(each.name for each in files.iterdir()) == ["ballast", path.name]
    finally:
        subprocess.run(["umount", files], check=True)
