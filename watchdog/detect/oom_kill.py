"""Whether the gateway was killed for memory: by systemd's word, the kernel's, Hermes' own, or the count of its group."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from itertools import pairwise

from watchdog.detect.common import Captures, keep, lines_of
from watchdog.model import Event, Line, Reason, Span
from watchdog.values import TYPE_CHECKING, Any, dataclass

if TYPE_CHECKING:
    from watchdog.config.yaml import Section

KIND = "oom_kill"


@dataclass(frozen=True)
class OomKill:
    told_by: tuple[Line, ...]  # lines that alone are enough
    process: tuple[Line, ...]  # lines that count for the gateway's pid only; capture pid
    # It has ended when the gateway runs and nothing was killed for so long. The usual window holds that; reaching back an hour
    # would make every check read half as much again.
    settles_after: timedelta


def read(section: Section) -> OomKill:
    return OomKill(
        lines_of(section, section.items("told_by", ())),
        lines_of(section, section.items("process", ())),
        section.duration("settles_after"),
    )


def lines(want: OomKill) -> list[tuple[str, Line, bool]]:
    return [
        ("gateway", Line("gateway"), True),
        ("reading", Line("memory"), False),
        *(("told", line, False) for line in want.told_by),
        *(("process", line, False) for line in want.process),
    ]


def says(want: OomKill) -> frozenset[str]:
    return frozenset({"killed_at", "times"})


class Detector:
    def __init__(self, want: OomKill):
        self.want = want
        self.kills: list[Event] = []
        self.by_pid: list[tuple[str, Event]] = []
        self.readings: list[Event] = []
        self.fact: Event | None = None

    def see(self, roles: Mapping[str, Captures], event: Event) -> None:
        if "gateway" in roles:
            self.fact = event
        elif "reading" in roles:
            self.readings.append(event)
        elif "told" in roles:
            self.kills.append(event)
        elif "process" in roles:
            self.by_pid.append((roles["process"].get("pid", ""), event))

    def spans(self, now: datetime) -> list[Span]:
        facts = self.fact.facts if self.fact else {}
        kills = sorted(
            [*self.kills, *self._of_our_process(facts), *self._counted()], key=lambda event: event.at
        )
        if not kills:
            return []
        evidence: tuple[Event, ...] = (kills[0],)
        for event in kills[1:]:
            evidence = keep(evidence, event)
        first, last = kills[0], kills[-1]
        runs = facts.get("state") in ("running", "frozen")
        over_at = last.at + self.want.settles_after
        quotes: dict[str, Any] = {"killed_at": last.at, "times": len(kills)}
        ended = over_at if runs and over_at <= now else None
        return [Span("gateway", first.at, first.at, last.at, ended, quotes, {}, evidence)]

    def _of_our_process(self, facts: Mapping[str, str]) -> list[Event]:
        """The kernel's words about a pid that was the gateway's, as it left it behind or as an earlier check saw it."""
        ours = {facts.get("pid", ""), *(event.facts.get("pid", "") for event in self.readings)} - {""}
        return [event for pid, event in self.by_pid if pid in ours]

    def _counted(self) -> list[Event]:
        """Readings after which the group's count had risen and the process was another, or gone."""
        readings = sorted(
            (event for event in self.readings if event.facts.get("oom_kills")), key=lambda event: event.at
        )
        found = []
        for before, after in pairwise(readings):
            same_group = before.facts.get("cgroup") == after.facts.get("cgroup")
            rose = int(after.facts["oom_kills"]) > int(before.facts["oom_kills"])
            if (
                same_group
                and rose
                and before.facts.get("pid")
                and after.facts.get("pid") != before.facts.get("pid")
            ):
                found.append(after)
        return found

    def state(self, now: datetime) -> list[Reason | str]:
        """For explain: what was seen."""
        return [f"{event.at:%F %T} {event.text}" for event in self.kills[-5:]] or [Reason("explain.no-kill")]
