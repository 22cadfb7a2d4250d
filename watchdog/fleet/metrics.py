"""Facts → a file for node_exporter's textfile collector, one per home."""

from __future__ import annotations

import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

from watchdog import __version__
from watchdog.errors import FleetError
from watchdog.fleet.facts import Facts
from watchdog.fleet.postgres import NEEDS_EXTRA
from watchdog.system.files import read_small, replace_file

PREFIX = "hermes_watchdog_"
HOME = "# home: "  # the file's first line says whose it is


def exposition(facts: Facts) -> bytes:
    """The metrics of one home in Prometheus' text format."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    except ImportError:
        raise FleetError(NEEDS_EXTRA.format(module="prometheus_client")) from None
    families: list[Any] = []

    def add(kind: Any, name: str, about: str, labels: tuple[str, ...] = ()) -> Any:
        family = kind(PREFIX + name, about, labels=("profile", *labels))
        families.append(family)
        return lambda value, *more: family.add_metric((facts.profile, *more), float(value))

    gauge, counter = GaugeMetricFamily, CounterMetricFamily
    if facts.checked_at:
        began = add(gauge, "last_check_timestamp_seconds", "When the last check began.")
        began(facts.checked_at.timestamp())
    if facts.took is not None:
        add(gauge, "check_duration_seconds", "How long the last check took.")(facts.took.total_seconds())
    add(gauge, "check_interval_seconds", "How far apart checks are.")(facts.interval.total_seconds())
    sample = add(gauge, "incidents_open", "Incidents that are open.", ("rule", "severity"))
    opened = Counter((incident.rule, incident.severity) for incident in facts.incidents)
    for (rule, severity), times in sorted(opened.items()):
        sample(times, rule, severity)
    add(gauge, "unseen_sources", "Sources that the last check could not read.")(facts.unseen)
    add(gauge, "plans_pending", "Plans that wait for an answer.")(len(facts.pending))
    add(gauge, "armed", "Whether approved plans are carried out.")(facts.armed)
    sample = add(counter, "actions", "Repairs that were carried out.", ("recipe", "outcome"))
    for (recipe, outcome), times in sorted(facts.actions.items()):
        sample(times, recipe, outcome)
    add(counter, "notifications_failed", "Messages that a target did not take.")(facts.failed)
    sample = add(gauge, "backup_age_seconds", "Age of the newest good backup.", ("database",))
    for name, age in sorted(facts.backups.items()):
        sample(age.total_seconds(), name)
    if facts.gateway_up is not None:  # what cannot be told is neither up nor down
        add(gauge, "gateway_up", "Whether the gateway's process runs.")(facts.gateway_up)
    add(gauge, "build_info", "Versions.", ("version", "hermes"))(1, __version__, facts.hermes)

    class Collector:
        def collect(self) -> list[Any]:
            return families

    registry = CollectorRegistry()
    registry.register(Collector())
    return f"{HOME}{_one_line(facts.home)}\n".encode() + generate_latest(registry)


def write(folder: str, facts: Facts) -> Path:
    """Replace this home's file in one step; FleetError says why not, and leaves the old file as it was."""
    path = (
        Path(os.path.expanduser(folder))
        / f"hermes_watchdog_{re.sub(r'[^A-Za-z0-9_.-]', '_', facts.profile)}.prom"
    )
    if (owner := _owner(path)) not in ("", _one_line(facts.home)):
        raise FleetError(
            f"{path} is the file of another home ({owner}); give this one a name: fleet: {{profile: NAME}}"
        )
    content = exposition(facts)
    try:
        replace_file(path, content, 0o644)  # node_exporter is another user; it reads *.prom only
    except OSError as error:
        raise FleetError(f"cannot write {path}: {error.strerror}") from None
    return path


def _owner(path: Path) -> str:
    """The home that a file of ours belongs to; '' when there is none or it does not say."""
    try:
        line = read_small(path, 5000, follow=False).decode("utf-8", "replace").partition("\n")[0]
    except OSError:
        return ""
    return line.removeprefix(HOME) if line.startswith(HOME) else ""


def _one_line(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")
