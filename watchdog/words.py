"""The words a person reads, in their language: one file per language in messages/."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from functools import cache
from pathlib import Path
from typing import Any

from watchdog.text import spell
from watchdog.values import dataclass

FOLDER = Path(__file__).with_name("messages")
_CLOCK = re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\b")
_SPELLED = re.compile(r"(\d+) (day|hour|minute|second)s?\b")


@dataclass(frozen=True)
class Words:
    """All sentences of one language."""

    language: str
    texts: Mapping[str, str]  # "title.ask" -> "needs your leave: {what}"
    rules: Mapping[str, Mapping[str, str]]  # rule id -> title, say, advice; empty for English, which the rules speak
    recipes: Mapping[str, str]  # recipe id -> title
    phrases: tuple[tuple[re.Pattern[str], str], ...] = ()  # English sentences of other modules -> this language
    zone: tzinfo | None = None  # where the reader is; None: where the machine is

    def __call__(self, key: str, /, **fields: object) -> str:
        return self.texts[key].format(**fields)

    def has(self, key: str) -> bool:
        return key in self.texts

    def span(self, span: timedelta) -> str:
        """'26 minutes', '26 分钟'."""
        return self.numbers(spell(span))

    def numbers(self, text: str) -> str:
        """The same text with its durations in this language."""
        if self.language == "en":
            return text
        said = _SPELLED.sub(lambda found: f"{found[1]} {self.texts[f'unit.{found[2]}']}", text)
        return said.replace(" ago", self.texts["unit.ago"]).replace("just now", self.texts["unit.now"])

    def at(self, at: datetime, now: datetime) -> str:
        """The reader's time of the day; with the date when it is not today."""
        there, here = at.astimezone(self.zone), now.astimezone(self.zone)
        return there.strftime("%H:%M" if there.date() == here.date() else self.texts["date"])

    def title(self, rule: str, title: str) -> str:
        return self.rules.get(rule, {}).get("title", title)

    def plan(self, recipes: Sequence[str], title: str) -> str:
        """The title of a plan, from those of its recipes when this language has them all."""
        named = [self.recipes[recipe] for recipe in recipes if recipe in self.recipes]
        return "；".join(named) if recipes and len(named) == len(recipes) else title

    def advice(self, rule: str, advice: str) -> str:
        return self.rules.get(rule, {}).get("advice", advice) if advice else ""

    def sentence(self, rule: str, say: str, says: str) -> str:
        """A rule's English sentence in this language; its fields are found by its template."""
        theirs = self.rules.get(rule, {}).get("say", "")
        if not theirs or not say:
            return self.phrase(says)
        found = template(say).fullmatch(says)
        if not found:
            return says
        told = found.groupdict().items()
        fields = {name: self.phrase(value, exact=True) if name in ("fault", "why") else self.numbers(value) for name, value in told}
        try:
            return theirs.format(**fields)
        except (KeyError, IndexError, ValueError):
            return says  # the rule was changed by its owner: their words, in their language

    def phrase(self, text: str, exact: bool = False) -> str:
        """A sentence of the planner or of a step in this language, as far as it is known; exact: it holds a command."""
        if self.zone is not None and not exact:
            text = _CLOCK.sub(self._there, text)
        for pattern, theirs in self.phrases:
            if found := pattern.fullmatch(text):
                return theirs.format(**{name: self._part(name, value) for name, value in found.groupdict().items()})
        return self.numbers(text)

    def _there(self, found: re.Match[str]) -> str:
        """A moment as text.clock tells it, in the machine's zone, told in the reader's."""
        try:
            return datetime.fromisoformat(found[0]).astimezone(self.zone).strftime("%Y-%m-%d %H:%M:%S")
        except (ValueError, OverflowError):
            return found[0]

    def _part(self, name: str, value: str) -> str:
        if name in ("command", "path", "missing"):
            return value  # letter for letter
        return self.phrase(value, exact=True) if name in ("why", "via", "name") else self.numbers(value)


@cache
def template(text: str) -> re.Pattern[str]:
    """'{chat} has waited {waited}' as a pattern that gives the fields back."""
    parts = re.split(r"\{(\w+)(?:![rsa])?(?::[^{}]*)?\}", text)
    seen: set[str] = set()
    pattern = ""
    for number, part in enumerate(parts):
        if number % 2 == 0:
            pattern += re.escape(part)
        elif part in seen:
            pattern += f"(?P={part})"
        else:
            seen.add(part)
            pattern += f"(?P<{part}>.*?)"
    return re.compile(pattern, re.DOTALL)


@cache
def read_words(language: str, zone: tzinfo | None = None) -> Words:
    """The words of one language; the English ones carry every key that exists."""
    import yaml

    raw = yaml.load((FOLDER / f"{language}.yaml").read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    rules = raw.pop("rules", None) or {}
    phrases = tuple((template(english), theirs) for english, theirs in (raw.pop("phrases", None) or {}).items())
    recipes = raw.pop("recipes", None) or {}
    return Words(language, dict(_flat(raw)), rules, recipes, phrases, zone)


def _flat(tree: Mapping[str, Any], above: str = "") -> list[tuple[str, str]]:
    leaves: list[tuple[str, str]] = []
    for key, value in tree.items():
        leaves += _flat(value, f"{above}{key}.") if isinstance(value, dict) else [(f"{above}{key}", str(value))]
    return leaves
