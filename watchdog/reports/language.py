"""What status and report say in the reader's language: the one place where reports meet notify's words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from watchdog.config.rulebook import Rulebook
from watchdog.job import Job
from watchdog.model import Incident, Reason, plain
from watchdog.notify.run import own_command
from watchdog.notify.translate import Words, read_words, sentence, with_rules
from watchdog.text import clock, harmless, redact


class WordsOnTerminal(Words):
    """The same words with every moment as commands print it: '2026-11-16 01:33:00'."""

    def at(self, at: datetime, now: datetime, exact: bool = True) -> str:
        return clock(at)


@dataclass(frozen=True)
class Reader:
    """Who reads a report: in which language, and when."""

    words: Words
    now: datetime
    command: str = "hermes-watchdog"  # how this home's watchdog is called, with what is not the default

    def __call__(self, key: str, /, **fields: object) -> str:
        """The sentence of a key; a form with `one` and `other` is chosen by `count`."""
        return self.words(key, **{"command": self.command, **fields})

    @property
    def language(self) -> str:
        return self.words.language

    def has(self, key: str) -> bool:
        return self.words.has(key)

    def span(self, span: timedelta) -> str:
        return self.words.span(span)

    def short(self, span: timedelta) -> str:
        return self.words.short(span)

    def ago(self, at: datetime) -> str:
        return self.words.ago(at, self.now)

    def joined(self, texts: Sequence[str]) -> str:
        return self.words.joined(texts)

    def reason(self, reason: Reason | None) -> str:
        """A reason as a sentence; '' without one."""
        if reason is None:
            return ""
        return sentence(reason, self.words, self.now, lambda _, text: harmless(text, 5000))

    def phrase(self, text: str) -> str:
        """A phrase in this language; other text as it is."""
        return self.reason(plain(text))

    def title(self, incident: Incident) -> str:
        key = self.words.rule_key(incident.rule, "title", incident.fields)
        return str(self.words.texts.get(key) or incident.title or incident.rule)

    def says(self, incident: Incident) -> str:
        """An incident's sentence from its rule and fields; as it was stored when one of the two is missing."""
        key = self.words.rule_key(incident.rule, "say", incident.fields)
        template = str(self.words.texts.get(key, ""))
        if template and (incident.fields or "{" not in template):
            return redact(self.reason(Reason(key, incident.fields)))
        return redact(incident.says)

    def advice(self, incident: Incident) -> str:
        key = self.words.rule_key(incident.rule, "advice", incident.fields)
        return str(self.words.texts.get(key, "")) or incident.advice

    def plan(self, recipes: Sequence[str], title: str) -> str:
        """The titles of a plan's recipes; of a plan whose recipes are gone, its own."""
        texts = self.words.texts
        titles = [str(texts[key]) for recipe in recipes if (key := f"recipe.{recipe}.title") in texts]
        return self.joined(titles) if recipes and len(titles) == len(recipes) else title


def reader_of(language: str, book: Rulebook | None, now: datetime) -> Reader:
    """A reader who knows what these rules and recipes say."""
    words = read_words(language)
    words = with_rules(words, book.rules, book.recipes.values()) if book else words
    return Reader(WordsOnTerminal(words.language, words.texts, words.zone), now)


def reader_for(job: Job, language: str | None = None) -> Reader:
    """The reader of one home's reports: in the language of the settings, with commands that work as they stand."""
    reader = reader_of(language or job.settings.notify.language, job.book, job.now)
    own = own_command(str(job.home), str(job.state), str(job.config))
    return replace(
        reader, command=str(own), words=replace(reader.words, command=str(own), program=own.program)
    )
