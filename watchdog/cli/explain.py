"""explain: why a rule fires or does not; what a log line means to the rules."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from watchdog.cli.command import a_time, command, gateway_state, option
from watchdog.cli.context import WELL, WRONG, in_zone, job_of, need_home, show
from watchdog.config.rulebook import Rulebook
from watchdog.config.yaml import _near
from watchdog.detect.evaluate import Seen, lines_by_source
from watchdog.detect.explain import Explanation, LineUse, explain, explain_record
from watchdog.errors import WatchdogError
from watchdog.job import Job
from watchdog.model import Event, Rule
from watchdog.reports.language import Reader, reader_for
from watchdog.sources.read import read_all, read_line
from watchdog.text import clock, harmless, iso, picked, redact


@command(
    "explain",
    option("what", "RULE|LINE", "the id of a rule, or a line of a log in quotes"),
    option("--now", "TIME", "as of this time (default: now)", type=a_time),
    gateway_state("take the process as this, as replay does"),
)
def run(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog explain session-stuck                 each condition: met or not, how far from its limit
      hermes-watchdog explain session-stuck --home ~/.hermes --now '2026-05-19 10:41:00'
      hermes-watchdog explain '2026-05-19 10:15:00,123 INFO gateway.run: response ready: platform=telegram chat=42 time=3.1s'

    exit codes: 0 it does not fire · 1 it fires
    """
    job = job_of(args)
    rule = job.book.rule(args.what)
    if rule is not None:
        return explain_rule(args, job, rule)
    if " " not in args.what.strip():
        off = f" ({job.book.off[args.what]} switched it off)" if args.what in job.book.off else ""
        near = _near(args.what, [rule.id for rule in job.book.rules]) or "; all rules: {watchdog} rules list"
        raise WatchdogError(f"there is no rule '{args.what}'{off}{near}")
    return explain_line(args, job)


def explain_rule(args: argparse.Namespace, job: Job, rule: Rule) -> int:
    need_home(job.home)
    now = in_zone(args.now, job) if args.now else job.now
    start = job.run(job.look_at_store(), now).start
    sources = job.sources(stated=args.gateway or "")
    with read_all(sources, lines_by_source([rule]), start, now) as reading:
        seen = Seen(reading.blind, reading.traces, reading.slow, reading.lost, sources.tool_calls)
        found = explain(rule, reading.events, seen, now)
    then = replace(job, now=now)
    value = _explanation_json(found, reader_for(then, "en"))
    show(args, value, lambda: rule_lines(rule, found, reader_for(then, args.language)))
    return WRONG if found.fires else WELL


def rule_lines(rule: Rule, found: Explanation, reader: Reader) -> list[str]:
    """How near a rule is to firing, condition by condition."""
    title = reader.texts[f"rule.{rule.id}.title"]
    name, severity = reader.paint(rule.id, "bold"), reader(f"severity.{rule.severity}")
    lines = [reader("explain.rule", rule=name, title=title, severity=severity, where=rule.where)]
    if found.not_checked:
        lines.append("  " + reader("explain.not-checked", why=reader.phrase(found.not_checked)))
    for condition in found.conditions:
        met = reader("explain.holds" if condition.holds else "explain.fails")
        met = reader.paint(met, "high" if condition.holds else "good")
        key = "explain.condition-since" if condition.since else "explain.condition"
        since = clock(condition.since) if condition.since else ""
        lines.append("  " + reader(key, kind=condition.kind, met=met, at=since))
        lines += [reader.paint(f"      {reader.reason(state)}", "dim") for state in condition.state]
    lines += ["  " + reader("explain.fires", what=reader.says(finding)) for finding in found.fires]
    if not found.fires and not found.not_checked:
        lines.append("  " + reader("explain.quiet"))
    return lines


def _explanation_json(found: Explanation, reader: Reader) -> dict[str, Any]:
    return {
        "rule": found.rule,
        "at": iso(reader.now),
        "not_checked": found.not_checked,
        "witnesses": [
            picked(condition, "kind holds since") | {"state": [*map(reader.reason, condition.state)]}
            for condition in found.conditions
        ],
        "fires": [redact(finding.says) for finding in found.fires],
    }


def explain_line(args: argparse.Namespace, job: Job) -> int:
    event, cut = read_line(args.what, job.settings.zone, job.book.vocabulary)
    words, uses = explain_record(job.book, event)
    record = {
        "at": iso(event.at) if _has_time(event) else None,
        **picked(event, "level logger session"),
        "text": redact(harmless(event.text)),
        "cut": cut,
        "ambiguous": event.ambiguous,
    }
    value = {"record": record, "words": words, "matches": [_use_json(use) for use in uses]}
    read = words, uses
    show(args, value, lambda: _record_lines(event, cut, job.book, read, reader_for(job, args.language)))
    return WELL


def _record_lines(
    event: Event, cut: bool, book: Rulebook, read: tuple[Sequence[str], Sequence[LineUse]], reader: Reader
) -> list[str]:
    """What a line is to the rules: its parts, the words of the vocabulary, who wants it."""
    words, uses = read
    session = f" [{event.session}]" if event.session else ""
    record = f"{clock(event.at)} {event.level} {event.logger}{session}"
    lines = [reader("explain.record", record=record) if _has_time(event) else reader("explain.no-time")]
    lines.append(reader("explain.message", text=redact(harmless(event.text))))
    if cut:
        lines.append("  " + reader("explain.cut"))
    if event.ambiguous:
        mark = reader.paint(reader("explain.ambiguous"), "high")
        lines.append("  " + reader("explain.unused", ambiguous=mark, why=reader.phrase(event.ambiguous)))
    about = {word.id: word.about for word in book.vocabulary.words.values()}
    for word in words:
        lines.append(
            reader("explain.word", word=reader.paint(word, "bold"), about=about[word.partition("/")[0]])
        )
    for use in uses:
        captured = ", ".join(f"{name}={value}" for name, value in use.captured.items())
        name = reader.paint(use.rule, "bold")
        wanted = reader("explain.use", rule=name, kind=use.kind, role=use.role, source=use.source)
        lines.append(f"  {wanted}" + (f": {captured}" if captured else ""))
    return lines if uses else [*lines, "  " + reader("explain.unmatched")]


def _has_time(event: Event) -> bool:
    """Whether the line had a time stamp: without one its time is the beginning of time."""
    return event.at.year > 1


def _use_json(use: Any) -> dict[str, Any]:
    found = {"rule": use.rule, "kind": use.kind, "role": use.role, "in": use.source, "captured": use.captured}
    return found | ({"slow": use.slow} if use.slow else {})
