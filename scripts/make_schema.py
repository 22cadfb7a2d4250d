#!/usr/bin/env python3
"""Write rules/rule.schema.json, the JSON Schema that editors use for rule files.

    python scripts/make_schema.py [--check]

Nothing about a key is written here: the readers of rules and of kinds of conditions are run over small made-up
files, and what they ask for is recorded (`Recorder`). A key that a reader begins to ask for is in the schema after
`make schema`; `--check` fails when the file on disk is not what would be written.

The schema helps while writing and never refuses what `rules lint` accepts. What depends on several keys at once is
left to lint.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

from watchdog.config import rules
from watchdog.config.rulebook import ANY, Vocabulary
from watchdog.config.rules import shipped_vocabulary
from watchdog.config.yaml import Section
from watchdog.detect import KINDS
from watchdog.job import rule_kinds
from watchdog.model import MISSING

FILE = Path(__file__).resolve().parent.parent / "rules" / "rule.schema.json"
MADE_UP = "made-up"
VARIED = ("title", "headline", "severity", "say", "recipe", "advice", "restart", "zh")
FORMS: tuple[Any, ...] = (MADE_UP, [MADE_UP], {})  # a word, a list, a mapping
PATTERN = {
    "type": "string",
    "minLength": 1,
    "description": "a word of rules/lines, or a regular expression that is matched from the start of the message",
}
DURATION = {
    "type": "string",
    "pattern": r"^(\d+(\.\d+)?(ms|s|m|h|d|w))+$",
    "description": "a duration: 90s, 15m, 2h, 1d",
}
Schema = dict[str, Any]
Keys = tuple[str, ...]


class Recorder(Section):
    """A section that remembers how each of its keys is read. Keys of sections below it are paths."""

    def __init__(self, node: Any, seen: Seen, at: Keys = ()):
        super().__init__(node, "made-up.yaml", [])
        self.seen, self.at = seen, at
        self.vocabulary = seen.vocabulary
        self.needed: set[str] = set()  # keys that must be there, in this run
        if self.whole:
            seen.read.append((at, set(self.nodes), self.needed))

    def _saw(self, key: str, form: Schema | None) -> None:
        forms = self.seen.forms.setdefault((*self.at, key), [])
        if form is not None and form not in forms:
            forms.append(form)

    def has(self, key: str) -> bool:
        self._saw(key, None)
        return super().has(key)

    def wrong_at(self, key: str, says: str) -> None:
        self.seen.refused.add((*self.at, key))
        super().wrong_at(key, says)

    def _get(self, key: str, default: Any) -> Any:
        if default is MISSING:
            self.needed.add(key)
        return super()._get(key, default)

    def text(self, key: str, default: Any = MISSING) -> Any:
        self._saw(key, {"type": "string"})
        return super().text(key, default)

    def choice(self, key: str, options: Any, default: Any = MISSING) -> Any:
        self._saw(key, {"enum": list(options)})
        return self._typed(key, options[0], default)

    def number(self, key: str, default: Any = MISSING, least: int = 0, most: int = 1_000_000) -> Any:
        self._saw(key, {"type": "integer", "minimum": least, "maximum": most})
        return self._typed(key, least, default)

    def flag(self, key: str, default: Any = MISSING) -> Any:
        self._saw(key, {"type": "boolean"})
        return self._typed(key, False, default)

    def duration(self, key: str, default: Any = MISSING, **limits: Any) -> Any:
        self._saw(key, {"$ref": "#/$defs/duration"})
        return self._typed(key, timedelta(minutes=1), default)

    def _typed(self, key: str, value: Any, default: Any) -> Any:
        node = self._get(key, default)
        return default if node is None and default is not MISSING else value

    def pattern(self, key: str, default: Any = MISSING) -> Any:
        self._saw(key, {"$ref": "#/$defs/pattern"})
        return super().pattern(key, default)

    def compile(self, node: Any) -> Any:
        if path := self.seen.made.get(id(node)):
            self.seen.patterns.add(path)
        return super().compile(node)

    def items(self, key: str, default: Any = MISSING) -> list[Any]:
        self._saw(key, {"words": True})
        return super().items(key, default)

    def lists(self, key: str) -> list[list[Any]]:
        self._saw(key, {"lists": True})
        return super().lists(key)

    def section(self, key: str, default: Any = MISSING) -> Section | None:
        self._saw(key, {"type": "object"})
        node = self._get(key, default)
        if node is None and default is not MISSING:
            return None
        return Recorder(node, self.seen, (*self.at, key))

    def sections(self, key: str, default: Any = MISSING) -> list[Section]:
        self._saw(key, {"type": "array"})
        self._get(key, default)
        return []


class Seen:
    """What a reader did in all the runs over made-up files."""

    def __init__(self) -> None:
        self.forms: dict[Keys, list[Schema]] = {}
        self.read: list[tuple[Keys, set[str], set[str]]] = []  # a mapping: its keys, and those it needed
        self.patterns: set[Keys] = set()
        self.refused: set[Keys] = set()
        self.made: dict[int, Keys] = {}
        self.vocabulary = Vocabulary()

    @property
    def required(self) -> set[Keys]:
        """Keys that were needed in every run in which they were not there."""
        needed = {(*at, key) for at, _, keys in self.read for key in keys}
        spared = {
            path
            for at, given, keys in self.read
            for path in needed
            if path[:-1] == at and path[-1] not in given and path[-1] not in keys
        }
        return needed - spared


def watch(read: Callable[[Any], Any]) -> Seen:
    """Run a reader over an empty mapping, then over each key it asks for in each form, until nothing new is asked."""
    seen, tried = Seen(), set()
    _run(read, seen, {})
    while left := [path for path in seen.forms if path not in tried]:
        for path in left:
            tried.add(path)
            for form in FORMS:
                _run(read, seen, _nested(path, form, set()))
                _run(read, seen, _nested(path, form, seen.required))
    return seen


def accepts(read: Callable[[Any], Any], path: Keys, word: str, required: set[Keys]) -> bool:
    seen = Seen()
    _run(read, seen, _nested(path, [word], required))
    return path not in seen.refused


def _run(read: Callable[[Any], Any], seen: Seen, content: Any) -> None:
    node = yaml.compose(yaml.safe_dump(content))
    seen.made = {}
    _name(node, (), seen.made)
    # A made-up name is a pattern where no line is called so, and a word with causes where one is.
    for words in ({}, {MADE_UP: shipped_vocabulary().words["api-failed"]}):
        seen.vocabulary = Vocabulary(words)
        read(Recorder(node, seen))


def _name(node: Any, path: Keys, made: dict[int, Keys]) -> None:
    """Remember which key each word of a made-up file belongs to."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            _name(value, (*path, key.value), made)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _name(item, path, made)
    else:
        made[id(node)] = path


def _nested(path: Keys, content: Any, required: set[Keys]) -> Any:
    """A made-up file with this content at this path, and a word at every required key beside the way to it."""
    for depth in range(len(path), 0, -1):
        beside = {key[-1]: MADE_UP for key in required if key[:-1] == path[: depth - 1]}
        content = {**beside, path[depth - 1]: content}
    return content


# -- what was seen → JSON Schema ---------------------------------------------------------------------------------------


def vocabularies(modules: Iterable[ModuleType]) -> list[tuple[str, ...]]:
    """The lists of words in the modules that read rules, such as the names of logs."""
    found = {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, tuple) and len(value) > 1 and all(isinstance(word, str) for word in value)
    }
    return sorted(found)


def mapping(read: Callable[[Any], Any], seen: Seen, at: Keys, words: list[tuple[str, ...]]) -> Schema:
    """The schema of the section at this path, with its keys in the order in which they are asked for."""
    keys = [path for path in seen.forms if path[:-1] == at and seen.forms[path]]
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [path[-1] for path in keys if path in seen.required],
        "properties": {path[-1]: value(read, seen, path, words) for path in keys},
    }


def value(read: Callable[[Any], Any], seen: Seen, path: Keys, words: list[tuple[str, ...]]) -> Schema:
    forms: list[Schema] = []
    for form in seen.forms[path]:
        if form.get("words"):
            item: Schema = {"type": "string"}
            if path in seen.patterns:
                item = {"$ref": "#/$defs/pattern"}
            elif path in seen.refused:
                known = [
                    each for each in words if all(accepts(read, path, word, seen.required) for word in each)
                ]
                item = {"enum": list(max(known, key=len))} if known else item
            forms += [item, {"type": "array", "items": item}]
        elif form.get("lists"):
            item = {"$ref": "#/$defs/pattern"} if path in seen.patterns else {"type": "string"}
            forms.append({"type": "array", "items": {"anyOf": [item, {"type": "array", "items": item}]}})
        elif form == {"type": "object"}:
            forms.append(mapping(read, seen, path, words))
        else:
            forms.append(form)
    if any("enum" in form for form in forms):  # read as text first and as a choice afterwards
        forms = [form for form in forms if form != {"type": "string"}]
    return forms[0] if len(forms) == 1 else {"anyOf": forms}


def shared(kinds: dict[str, Schema]) -> dict[str, Schema]:
    """Definitions of what is the same at many keys, such as a line in another log; the places refer to them."""
    written = Counter(json.dumps(schema) for kind in kinds.values() for schema in _values(kind))
    often = [text for text, times in written.most_common() if times > 1 and len(text) > 300]
    names = {text: f"lines{number or ''}" for number, text in enumerate(often)}
    for kind in kinds.values():
        _refer(kind, names)
    return {name: json.loads(text) for text, name in names.items()}


def _values(schema: Schema) -> Iterable[Schema]:
    for each in schema.get("properties", {}).values():
        yield each
        yield from _values(each)


def _refer(schema: Schema, names: dict[str, str]) -> None:
    for key, each in schema.get("properties", {}).items():
        if name := names.get(json.dumps(each)):
            schema["properties"][key] = {"$ref": f"#/$defs/{name}"}
        else:
            _refer(each, names)


def read_rule(section: Section) -> Any:
    return rules.read_rule(section, rule_kinds())


def check_methods() -> None:
    """A new way to read a key must be recorded, too: otherwise keys would be lost in silence."""
    ways = {name for name, method in vars(Section).items() if callable(method) and not name.startswith("_")}
    # names() reads by items(), only() by its own options; the others read nothing
    silent = {"done", "keys", "line_of", "names", "only", "wrong"}
    if lost := sorted(ways - silent - set(vars(Recorder))):
        sys.exit(f"Section has ways to read that Recorder does not know: {', '.join(lost)}")


def make() -> Schema:
    check_methods()
    places = ("watchdog.detect", "watchdog.config", "watchdog.model")
    words = vocabularies(module for name, module in sorted(sys.modules.items()) if name.startswith(places))
    kinds = {name: mapping(kind.read, watch(kind.read), (), words) for name, kind in KINDS.items()}
    common = shared(kinds)
    rule = mapping(read_rule, watch(read_rule), (), words)
    properties = rule["properties"]
    properties["id"]["pattern"] = "^[a-z][a-z0-9-]{1,60}$"
    # By the names of causes, which are the vocabulary's.
    varied = {key: properties[key] for key in VARIED}
    properties["if_cause"] = {
        "type": "object",
        "additionalProperties": {"type": "object", "additionalProperties": False, "properties": varied},
    }
    properties["when"] = {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/condition"}}
    whole = [key for key in rule["required"] if key != "id"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A rule of Hermes Watchdog",
        "description": "When all conditions hold, say this, and perhaps propose that. Written by scripts/make_schema.py.",
        "type": "object",
        "additionalProperties": False,
        "required": ["id"],
        "properties": properties,
        "oneOf": [
            {"required": whole, "anyOf": [{"required": ["recipe"]}, {"required": ["advice"]}]},
            {"properties": {"enabled": {"const": False}}, "required": ["enabled"], "maxProperties": 2},
        ],
        "$defs": {
            "condition": {
                "type": "object",
                "minProperties": 1,
                "maxProperties": 1,
                "additionalProperties": False,
                "properties": {
                    **{name: {"$ref": f"#/$defs/{name}"} for name in kinds},
                    ANY: {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/condition"}},
                },
            },
            **kinds,
            **common,
            "pattern": PATTERN,
            "duration": DURATION,
        },
    }


def text() -> str:
    return json.dumps(make(), indent=1, ensure_ascii=False) + "\n"


def main(arguments: list[str]) -> int:
    if arguments == ["--check"]:
        if FILE.read_text("utf-8") == text():
            return 0
        print(f"{FILE.name} is not what the rule reader accepts; run: make schema", file=sys.stderr)
        return 1
    if arguments:
        print(__doc__, file=sys.stderr)
        return 2
    FILE.write_text(text(), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
