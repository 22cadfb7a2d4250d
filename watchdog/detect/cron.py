"""Scheduled jobs of Hermes that fail again and again, are long overdue, or whose result reached no one."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from watchdog.detect.common import Captures, lines_of
from watchdog.model import Event, Line, Reason, Span
from watchdog.text import harmless, redact
from watchdog.values import TYPE_CHECKING, Any, dataclass

if TYPE_CHECKING:
    from watchdog.config.yaml import Section

KIND = "cron"
WAYS = ("failing", "overdue", "undelivered")
LONGEST_RUN = timedelta(hours=6)  # a run that was begun longer ago than this is not under way any more


@dataclass(frozen=True)
class Cron:
    way: str
    at_least: int = 2  # failures in a row
    longer_than: timedelta | None = None  # for overdue
    failed: tuple[Line, ...] = ()  # capture job and error
    done: tuple[Line, ...] = ()


def read(section: Section) -> Cron:
    way = section.choice("is", WAYS)
    return Cron(
        way,
        section.number("at_least", 2, least=1, most=5),
        section.duration("longer_than") if way == "overdue" else section.duration("longer_than", None),
        lines_of(section, section.items("failed", ())),
        lines_of(section, section.items("done", ())),
    )


def lines(want: Cron) -> list[tuple[str, Line, bool]]:
    return [
        ("job", Line("cron"), True),
        ("gateway", Line("gateway"), False),
        *(("failed", line, False) for line in want.failed),
        *(("done", line, False) for line in want.done),
    ]


def says(want: Cron) -> frozenset[str]:
    return frozenset({"job", "failures", "error", "next_run", "last_run", "at_least", "longer_than"})


class Detector:
    def __init__(self, want: Cron):
        self.want = want
        self.jobs: list[Event] = []
        self.up_since: datetime | None = None  # the gateway
        self.logged: dict[str, list[Event]] = {}  # job → failures since its last success

    def see(self, roles: Mapping[str, Captures], event: Event) -> None:
        if "job" in roles:
            self.jobs.append(event)
        elif "gateway" in roles:
            self.up_since = None if event.facts.get("stated") else _moment(event.facts, "since")
        elif "failed" in roles:
            job = harmless(roles["failed"].get("job", ""), 60)
            self.logged.setdefault(job, []).append(event)
        elif "done" in roles:
            self.logged.pop(harmless(roles["done"].get("job", ""), 60), None)

    def spans(self, now: datetime) -> list[Span]:
        found = [
            span
            for job in self.jobs
            if not job.facts.get("off") and (span := self._span(job, now)) is not None
        ]
        return _apart(found)

    def _span(self, job: Event, now: datetime) -> Span | None:
        facts = job.facts
        since, quotes = None, self._quotes(job)
        if self.want.way == "failing":
            failures = max(int(facts.get("failures", 0)), self._failures_in_log(facts))
            if failures >= self.want.at_least or (failures and facts.get("over")):
                since = _moment(facts, "last_run") or now
                quotes["failures"] = failures
        elif self.want.way == "undelivered":
            if facts.get("delivery_error"):
                since = _moment(facts, "last_run") or now
                quotes["error"] = facts["delivery_error"]
        else:
            since = self._overdue_since(facts, now)
        if since is None or since > now:
            return None
        evidence = (*self.logged.get(facts["job"], [])[-2:], job)
        return Span(facts["job"], since, since, job.at, None, quotes, {}, evidence)

    def _failures_in_log(self, facts: Mapping[str, str]) -> int:
        """Failures in a row that the log holds; none where the file says that the last run was well."""
        return len(self.logged.get(facts["job"], ())) if facts.get("failures") else 0

    def _overdue_since(self, facts: Mapping[str, str], now: datetime) -> datetime | None:
        """Since when the job is overdue; a gateway that has just started first makes up for what it missed."""
        assert self.want.longer_than is not None
        due, running = _moment(facts, "next_run"), _moment(facts, "running")
        if due is None or (running is not None and now - running < LONGEST_RUN):
            return None
        waits_since = max(due, self.up_since) if self.up_since is not None else due
        return waits_since + self.want.longer_than

    def _quotes(self, job: Event) -> dict[str, Any]:
        """What its sentence shows: text of others, and times."""
        facts = job.facts
        quotes: dict[str, Any] = {
            "job": facts["job"],
            "failures": facts.get("failures", "0"),
            "error": facts.get("error", "—"),
        }
        for name in ("next_run", "last_run"):
            if (at := _moment(facts, name)) is not None:
                quotes[name] = at
        if "error" not in facts and (logged := self.logged.get(facts["job"])):
            quotes["error"] = redact(harmless(logged[-1].text, 300))
        return quotes

    def state(self, now: datetime) -> list[Reason | str]:
        """For explain: each job with its last ending."""
        return [job.text for job in self.jobs[:20]] or [Reason("explain.no-jobs")]


def _apart(spans: list[Span]) -> list[Span]:
    """One span per key: two jobs of one name are told as one, with the newest run."""
    found: dict[str, Span] = {}
    for span in spans:
        if span.key not in found or span.opened_at > found[span.key].opened_at:
            found[span.key] = span
    return list(found.values())


def _moment(facts: Mapping[str, str], name: str) -> datetime | None:
    return datetime.fromisoformat(facts[name]) if facts.get(name) else None
