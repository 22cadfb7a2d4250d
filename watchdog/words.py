"""The words a person reads, in their language: one file per language in messages/."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from watchdog.text import spell
from watchdog.values import dataclass

FOLDER = Path(__file__).with_name("messages")
_SPELLED = re.compile(r"(\d+) (day|hour|minute|second)s?\b")


@dataclass(frozen=True)
class Words:
    """All sentences of one language."""

    language: str
    texts: Mapping[str, str]  # "title.ask" -> "needs your leave: {what}"
    rules: Mapping[str, Mapping[str, str]]  # rule id -> title, say, advice; empty for English, which the rules speak
    recipes: Mapping[str, str]  # recipe id -> title
    phrases: tuple[tuple[re.Pattern[str], str], ...] = ()  # English sentences of other modules -> this language

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
        """Local time of the day; with the date when it is not today."""
        there, here = at.astimezone(), now.astimezone()
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
        fields = {name: self.numbers(value) for name, value in found.groupdict().items()}
        try:
            return theirs.format(**fields)
        except (KeyError, IndexError, ValueError):
            return says  # the rule was changed by its owner: their words, in their language

    def phrase(self, text: str) -> str:
        """A sentence of the planner or of a step in this language, as far as it is known."""
        for pattern, theirs in self.phrases:
            if found := pattern.fullmatch(text):
                return theirs.format(**{name: self._part(name, value) for name, value in found.groupdict().items()})
        return self.numbers(text)

    def _part(self, name: str, value: str) -> str:
        if name in ("command", "path", "missing"):
            return value  # letter for letter
        return self.phrase(value) if name in ("why", "via", "name") else self.numbers(value)


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
def read_words(language: str) -> Words:
    """The words of one language; the English ones carry every key that exists."""
    import yaml

    raw = yaml.load((FOLDER / f"{language}.yaml").read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    rules = raw.pop("rules", None) or {}
    phrases = tuple((template(english), theirs) for english, theirs in (raw.pop("phrases", None) or {}).items())
    recipes = raw.pop("recipes", None) or {}
    return Words(language, dict(_flat(raw)), rules, recipes, phrases)


def _flat(tree: Mapping[str, Any], above: str = "") -> list[tuple[str, str]]:
    leaves: list[tuple[str, str]] = []
    for key, value in tree.items():
        leaves += _flat(value, f"{above}{key}.") if isinstance(value, dict) else [(f"{above}{key}", str(value))]
    return leaves
