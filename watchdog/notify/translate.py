"""Sentences in the reader's language, made last, from a key and its fields.

locale/<language>/<package>.yaml holds the sentences of one package: a tree whose leaves are templates, each
named by its path ("hold.cooling-down"). A leaf with the forms `one` and `other` is chosen by the field `count`.

    {at}       a datetime: the reader's clock        {at:ago}     "26 minutes ago", "just now"
    {at:exact} with seconds
    {span}     a timedelta: "26 minutes"             {span:short} "26 min"; {span:ago} "26 minutes ago", "just now"
    {recipe:title}   the title of that recipe, or {rule:title}
    {why}      a reason: its own sentence            {names}      a tuple: a list
    {count:chat|chats}   "1 chat", "3 chats"         {text}       text, made harmless
    {watchdog} how a person calls this watchdog, with the options that this home needs; {program} without them
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from pathlib import Path
from typing import Any

from watchdog.errors import PROGRAM
from watchdog.model import RULE_SAY, Phrase, Reason, Recipe, Rule, plain
from watchdog.text import counted, fill, harmless, units
from watchdog.values import dataclass, replace

FOLDER = Path(__file__).with_name("locale")
FORMS = {"one", "other"}
_SAID = {"rule": ("title", "headline", "say", "advice", "cleared"), "recipe": ("title", "ask", "done")}

Template = str | Mapping[str, str]  # one sentence, or its forms
Clean = Callable[[str, str], str]  # (name of the field, text of others) -> text that may be shown


def _harmless(name: str, text: str) -> str:
    return harmless(text)


def sentence(reason: Reason, words: Words, now: datetime, clean: Clean = _harmless) -> str:
    """What a reason says to this reader; `clean` decides what becomes of text that is not ours."""
    fields = reason.fields
    match reason.key:
        case "rule.title" | "rule.advice":
            part = reason.key.partition(".")[2]
            return words.rule_text(fields["rule"], part, fields) or clean(part, fields[part])
        case "plan.title":
            return words.recipe_titles(fields["recipes"]) or clean("title", fields["title"])
    key = words.rule_key(fields["rule"], "say", fields) if reason.key == RULE_SAY else str(reason.key)
    template = words.texts.get(key)
    if template is None and "text" in fields:  # a phrase, whose English goes along
        return clean("text", str(fields["text"]))
    if template is None:  # written by a newer version: better its name than silence
        template = " ".join([str(reason.key), *(f"{name}={{{name}}}" for name in reason.fields)])
    fields = {**reason.fields, **words.ourselves}
    return fill(_form(template, reason.fields), fields, _Show(words, now, clean))


def in_english(reason: Reason | None, command: str = PROGRAM) -> str:
    """A reason for terminals, scripts and the audit: whole dates, long commands; '' without one.

    `command` is how a person calls the watchdog for the home that this is about.
    """
    if reason is None:
        return ""
    return sentence(reason, _terminal(command), _LONG_AGO, lambda _, text: harmless(text, 5000))


_LONG_AGO = datetime(1970, 1, 2, tzinfo=UTC)  # no moment is of the same day: each is told with its date


@cache
def _terminal(command: str) -> Words:
    words = read_words("en")
    return replace(words, command=command, texts={**words.texts, "date": "%Y-%m-%d %H:%M:%S"})


def _form(template: Template, fields: Mapping[str, Any]) -> str:
    if isinstance(template, str):
        return template
    return template["one" if fields.get("count") == 1 and "one" in template else "other"]


_NAMED = {
    "via": "via",
    "state": "report.state",
    "grade": "db.grade",
}  # fields whose values have words of their own


@dataclass(frozen=True)
class _Show:
    """How the fields of a sentence are shown to one reader; `clean` is for text that is not ours."""

    words: Words
    now: datetime
    clean: Clean

    def __call__(self, name: str, value: Any, spec: str) -> str:
        words, now = self.words, self.now
        if name in words.ourselves:
            return str(value)
        if spec == "title" and (title := words.texts.get(f"{name.rstrip('s')}.{value}.title")):
            return str(title)
        match value:
            case Reason():
                return sentence(value, words, now, self.clean)
            case Phrase():
                return sentence(value.reason, words, now, self.clean)
            case datetime():
                return words.ago(value, now) if spec == "ago" else words.at(value, now, exact=spec == "exact")
            case timedelta() if spec == "ago":
                return words.ago(now - value, now)
            case timedelta():
                return words.short(value) if spec == "short" else words.span(value)
            case tuple() | list():
                return words.joined([self(name, each, spec) for each in value])
            case bool() | int() | float():
                return counted(value, spec) if "|" in spec else str(value)
        own = f"{_NAMED.get(name, '')}.{str(value).partition('/')[0]}"
        shown = str(words.texts[own]) if own in words.texts else self.clean(name, str(value))
        return counted(shown, spec) if "|" in spec else shown


@dataclass(frozen=True)
class Words:
    """All sentences of one language."""

    language: str
    texts: Mapping[str, Template]  # "title.ask" -> "needs your leave: {what}"
    zone: tzinfo | None = None  # where the reader is; None: where the machine is
    command: str = PROGRAM  # how a person calls this watchdog for this home
    program: str = PROGRAM  # the same without the options of a home
    profile: str = ""  # the profile that messages are about

    def __call__(self, key: str, /, **fields: object) -> str:
        """The sentence of a key; a form with `one` and `other` is chosen by `count`."""
        return _form(self.texts[key], fields).format(**{**self.ourselves, **fields})

    @property
    def ourselves(self) -> dict[str, str]:
        return {"watchdog": self.command, "program": self.program}

    def rule_key(self, rule: str, part: str, fields: Mapping[str, Any]) -> str:
        """The key of what a rule says here, which may differ by the cause among the fields."""
        key = f"rule.{rule}/{fields.get('cause', '')}.{part}"
        return key if key in self.texts else f"rule.{rule}.{part}"

    def rule_text(self, rule: str, part: str, fields: Mapping[str, Any]) -> str:
        """What a rule's file says, in this language where it has it; '' where the rule is gone."""
        return str(self.texts.get(self.rule_key(rule, part, fields), ""))

    def recipe_titles(self, recipes: Sequence[str]) -> str:
        """The titles of a plan's recipes; '' where one of them is gone."""
        titles = [str(self.texts.get(f"recipe.{recipe}.title", "")) for recipe in recipes]
        return self.joined(titles) if all(titles) else ""

    def found_by(self, rule: str, says: str, fields: Mapping[str, Any]) -> Reason:
        """What a rule found, as its sentence here; as it was stored where the rule or its fields are gone."""
        key = self.rule_key(rule, "say", fields)
        template = str(self.texts.get(key, ""))
        return Reason(key, fields) if template and (fields or "{" not in template) else plain(says)

    def has(self, key: str) -> bool:
        return key in self.texts

    def span(self, span: timedelta) -> str:
        """'26 minutes', '26 分钟'; 'just now' for less than a second."""
        counts = units(span)
        return " ".join(self(f"unit.{unit}", count=count) for count, unit in counts) or self("unit.now")

    def short(self, span: timedelta) -> str:
        """'18 min', '2 h': one unit, for a headline."""
        count, unit = next(iter(units(span)), (0, "second"))
        return self(f"unit.short_{unit}", count=count)

    def ago(self, at: datetime, now: datetime) -> str:
        """'26 minutes ago', 'just now'."""
        return self("unit.ago", span=self.span(now - at)) if units(now - at) else self("unit.now")

    def joined(self, texts: Sequence[str]) -> str:
        return str(self.texts["list"]).join(texts)

    def at(self, at: datetime, now: datetime, exact: bool = False) -> str:
        """The reader's time of the day; with the date when it is not today, with seconds when exact."""
        there, here = at.astimezone(self.zone), now.astimezone(self.zone)
        shown = "%H:%M" if there.date() == here.date() else self("date")
        return there.strftime(shown.replace("%H:%M", "%H:%M:%S") if exact and "%S" not in shown else shown)


def with_rules(words: Words, rules: Iterable[Rule], recipes: Iterable[Recipe]) -> Words:
    """The same words with what rules and recipes say in this language, else in English: `rule.<id>.say`."""
    texts = dict(words.texts)
    for kind, files in (("rule", rules), ("recipe", recipes)):
        for file in files:
            texts_of = {key: getattr(file, key, "") for key in _SAID[kind]}
            texts_of |= file.translations.get(words.language, {})
            texts |= {f"{kind}.{file.id}.{key}": text for key, text in texts_of.items() if text}
            for cause, other in getattr(file, "if_cause", {}).items():
                texts_of = {key: getattr(other, key, "") for key in _SAID[kind]}
                texts_of |= other.translations.get(words.language, {})
                texts |= {f"{kind}.{file.id}/{cause}.{key}": text for key, text in texts_of.items() if text}
    return replace(words, texts=texts)


@cache
def read_words(language: str, zone: tzinfo | None = None) -> Words:
    """The words of one language, from all of its files."""
    texts: dict[str, Template] = {}
    for path in sorted((FOLDER / language).glob("*.yaml")):
        found = dict(leaves(_read(path)))
        if twice := texts.keys() & found.keys():
            raise ValueError(f"{path}: {', '.join(sorted(twice))} also stands in another file")
        texts |= found
    return Words(language, texts, zone)


def _read(path: Path) -> dict[str, Any]:
    import yaml  # slow to import, and only messages need it

    tree: dict[str, Any] = yaml.load(path.read_text("utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return tree


def leaves(tree: Mapping[str, Any], above: str = "") -> list[tuple[str, Template]]:
    """Each template of a locale file with its key."""
    found: list[tuple[str, Template]] = []
    for key, value in tree.items():
        if not isinstance(value, dict):
            found.append((f"{above}{key}", str(value)))
        elif value.keys() <= FORMS:
            found.append((f"{above}{key}", {form: str(text) for form, text in value.items()}))
        else:
            found += leaves(value, f"{above}{key}.")
    return found
