"""What status and report say in the reader's language: the one place where reports meet notify's words."""

from __future__ import annotations

from datetime import datetime

from watchdog.config.rulebook import Rulebook
from watchdog.errors import WatchdogError
from watchdog.job import Job
from watchdog.model import Event, Finding, Incident, Plan, Reason, plain
from watchdog.notify.context import Command, own_command
from watchdog.notify.translate import Words, read_words, sentence, with_rules
from watchdog.text import clock, colours, harmless, paint, redact
from watchdog.values import dataclass, replace


@dataclass(frozen=True)
class Reader(Words):
    """Who reads a report: the words of one language, and when they are read."""

    now: datetime = datetime.min
    colour: bool = False  # of a terminal

    def paint(self, text: str, how: str) -> str:
        return paint(text, how, self.colour)

    def at(self, at: datetime, now: datetime, exact: bool = True) -> str:
        """A moment as commands print it: '2026-11-16 01:33:00'."""
        return clock(at)

    def since(self, at: datetime) -> str:
        """'26 minutes ago', 'just now'."""
        return self.ago(at, self.now)

    def reason(self, reason: Reason | None) -> str:
        """A reason as a sentence; '' without one."""
        if reason is None:
            return ""
        return sentence(reason, self, self.now, lambda _, text: harmless(text, 5000))

    def phrase(self, text: str) -> str:
        """A phrase in this language; other text as it is."""
        return self.reason(plain(text))

    def evidence(self, event: Event, limit: int) -> str:
        """What shows a fault: a line of a log as it is, what was measured in this language."""
        return redact(harmless(self.phrase(event.text), limit))

    def via(self, way: str) -> str:
        """The way by which an answer came: 'command line' or 'ntfy/anna' of the store."""
        kind, place = way.partition("/")[::2]
        named = self(f"via.{kind}") if self.has(f"via.{kind}") else harmless(kind)
        return f"{named}/{harmless(place)}" if place else named

    def title(self, incident: Incident) -> str:
        return self.rule_text(incident.rule, "title", incident.fields) or incident.title or incident.rule

    def says(self, incident: Incident | Finding) -> str:
        """The sentence of an incident or finding."""
        return redact(self.reason(self.found_by(incident.rule, incident.says, incident.fields)))

    def advice(self, incident: Incident) -> str:
        return self.rule_text(incident.rule, "advice", incident.fields) or incident.advice

    def plan_state(self, state: str) -> str:
        """'waits for you', 'done'; a state that this version does not know, as it is."""
        return self(f"report.state.{state}") if self.has(f"report.state.{state}") else state

    def plan_title(self, plan: Plan) -> str:
        return self.recipe_titles(plan.recipes) or plan.title


def reader_of(language: str, book: Rulebook | None, now: datetime) -> Reader:
    """A reader who knows what these rules and recipes say."""
    words = read_words(language)
    words = with_rules(words, book.rules, book.recipes.values()) if book else words
    return Reader(words.language, words.texts, words.zone, now=now)


def reader_for(job: Job, language: str | None = None) -> Reader:
    """The reader of one home's reports: in the language of the settings, with commands that work as they stand."""
    return _calling(reader_of(language or job.settings.notify.language, job.book, job.now), job)


def reader_anyhow(job: Job, language: str | None = None) -> Reader:
    """The same for commands that must work where the rules or settings cannot be read: in English then."""
    try:
        return reader_for(job, language)
    except WatchdogError:
        return _calling(reader_of(language or "en", None, job.now), job)


def _calling(reader: Reader, job: Job) -> Reader:
    own = command_of(job)
    return replace(reader, command=str(own), program=own.program, colour=colours())


def command_of(job: Job) -> Command:
    """How a person calls this watchdog for this home: what is not the default is named."""
    return own_command(job.home_dir, job.state_dir, job.config_dir)


def words_of(error: BaseException, job: Job) -> str:
    """What an error says, with commands that work as they stand for this home."""
    return error.calling(str(command_of(job))) if isinstance(error, WatchdogError) else str(error)
