"""YAML files → typed values; every problem keeps its line, and all of them are told at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from watchdog.config.pattern import Pattern
from watchdog.errors import Problem
from watchdog.model import MISSING
from watchdog.text import duration, harmless
from watchdog.values import Any

ALIASES, DEPTH = 50, 40  # in one file
_BIG = 1_000_000  # bytes; no rule file is longer


class Section:
    """A mapping of a YAML file, read key by key; a key that is never asked for is a mistake."""

    def __init__(self, node: Any, path: str, problems: list[Problem], name: str = "", vocabulary: Any = None):
        self.node, self.path, self.problems, self.name = node, path, problems, name
        self.vocabulary = vocabulary  # the words that patterns may be written in
        self.line: int = node.start_mark.line + 1 if node is not None else 0
        self.asked: set[str] = set()
        self.nodes: dict[str, tuple[Any, Any]] = {}
        self.missing: dict[str, Problem] = {}
        self.whole = type(node).__name__ == "MappingNode"
        if node is None:
            return
        if not self.whole:
            self.wrong(f"expected 'key: value' lines, found {_kind(node)}")
            return
        for key, value in node.value:
            if type(key).__name__ != "ScalarNode":
                self.wrong("a key must be a word", key)
            elif key.value in self.nodes:
                first = self.nodes[key.value][0].start_mark.line + 1
                self.wrong(f"'{harmless(key.value, 40)}' appears twice (first on line {first})", key)
            else:
                self.nodes[key.value] = key, value

    def wrong(self, says: str, node: Any = None) -> None:
        """Remember a mistake at this section or at one of its nodes."""
        line = node.start_mark.line + 1 if node is not None else self.line
        self.problems.append(Problem(self.path, line, f"{self.name}: {says}" if self.name else says))

    def wrong_at(self, key: str, says: str) -> None:
        """Remember a mistake at the value of one key."""
        self.wrong(f"{key}: {says}", self.nodes[key][0] if key in self.nodes else None)

    def has(self, key: str) -> bool:
        return key in self.nodes

    def keys(self) -> Iterator[str]:
        return iter(self.nodes)

    def line_of(self, key: str) -> int:
        return self.nodes[key][0].start_mark.line + 1 if key in self.nodes else self.line

    def _get(self, key: str, default: Any) -> Any:
        self.asked.add(key)
        if key not in self.nodes:
            if default is MISSING and self.whole and key not in self.missing:
                self.wrong(f"'{key}' is missing")
                self.missing[key] = self.problems[-1]
            return None
        return self.nodes[key][1]

    def text(self, key: str, default: Any = MISSING) -> Any:
        node = self._get(key, default)
        if node is None:
            return "" if default is MISSING else default
        if type(node).__name__ != "ScalarNode":
            self.wrong_at(key, f"expected text, found {_kind(node)}")
            return ""
        return node.value

    def choice(self, key: str, options: Sequence[str], default: Any = MISSING) -> Any:
        value = self.text(key, default)
        if key in self.nodes and value not in options:
            shown = harmless(str(value), 40)
            self.wrong_at(key, f"'{shown}' is not one of {', '.join(options)}{_near(str(value), options)}")
            return options[0]
        return value

    def number(self, key: str, default: Any = MISSING, least: int = 0, most: int = 1_000_000) -> Any:
        value = self.text(key, default)
        if key not in self.nodes:
            return 0 if default is MISSING else value
        try:
            number = int(value)
        except (TypeError, ValueError):
            self.wrong_at(key, f"'{harmless(str(value), 40)}' is not a whole number")
            return least
        if not least <= number <= most:
            self.wrong_at(key, f"{number} is out of range; write {least} to {most}")
            return least
        return number

    def flag(self, key: str, default: Any = MISSING) -> Any:
        value = self.text(key, default)
        if key not in self.nodes:
            return False if default is MISSING else value
        if value.lower() not in ("true", "false", "yes", "no", "on", "off"):
            self.wrong_at(key, f"'{harmless(value, 40)}' is neither true nor false")
        return value.lower() in ("true", "yes", "on")

    def duration(
        self,
        key: str,
        default: Any = MISSING,
        least: timedelta = timedelta(seconds=1),
        most: timedelta = timedelta(days=31),
    ) -> Any:
        value = self.text(key, default)
        if key not in self.nodes:
            return timedelta(0) if default is MISSING else value
        try:
            span = duration(value)
        except ValueError as error:
            self.wrong_at(key, harmless(str(error)))
            return least
        if not least <= span <= most:
            shortest = f"{least.days}d" if least.days else f"{least.total_seconds():g}s"
            self.wrong_at(
                key, f"'{value}' is out of range; a window may last from {shortest} to {most.days}d"
            )
        return span

    def pattern(self, key: str, default: Any = MISSING) -> Any:
        node = self._get(key, default)
        if node is None:
            return Pattern("") if default is MISSING else default
        if type(node).__name__ != "ScalarNode":
            self.wrong_at(key, f"expected a pattern, found {_kind(node)}")
            return Pattern("")
        return self.compile(node)

    def compile(self, node: Any) -> Pattern:
        """A pattern from a scalar node, with its mistakes told at its line."""
        where = f"{self.path}:{node.start_mark.line + 1}"
        pattern = Pattern(node.value, where)
        if pattern.plain and (pattern.words or pattern.names):
            return pattern  # as most are; the regex package takes longer to load than all rules together
        try:
            if pattern.compiled.match("") is not None and not pattern.names:
                why = "matches everything; say what the line starts with"
                self.wrong(f"pattern '{harmless(node.value, 60)}' {why}", node)
        except (OverflowError, RecursionError, ValueError, TypeError, IndexError, KeyError) as error:
            why = f"is not a regular expression: {harmless(str(error), 80)}"
            self.wrong(f"pattern '{harmless(node.value, 60)}' {why}", node)
            return Pattern("")
        return pattern

    def names(self, key: str, default: Any = MISSING) -> tuple[str, ...]:
        """A list of words, or one word."""
        return tuple(item.value for item in self.items(key, default))

    def items(self, key: str, default: Any = MISSING) -> list[Any]:
        """The scalar nodes of a list, or of one word."""
        node = self._get(key, default)
        if node is None:
            return []
        nodes = node.value if type(node).__name__ == "SequenceNode" else [node]
        for item in nodes:
            if type(item).__name__ != "ScalarNode":
                self.wrong(f"{key}: expected a word, found {_kind(item)}", item)
        return [item for item in nodes if type(item).__name__ == "ScalarNode"]

    def lists(self, key: str) -> list[list[Any]]:
        """A list whose items are words or lists of words: the scalar nodes of each."""
        node = self._get(key, MISSING)
        if node is None:
            return []
        found = []
        for item in node.value if type(node).__name__ == "SequenceNode" else [node]:
            words = item.value if type(item).__name__ == "SequenceNode" else [item]
            for word in words:
                if type(word).__name__ != "ScalarNode":
                    self.wrong(f"{key}: expected a word, found {_kind(word)}", word)
            found.append([word for word in words if type(word).__name__ == "ScalarNode"])
        return found

    def section(self, key: str, default: Any = MISSING) -> Section | None:
        """A mapping below this one; None when it is not there and may be missing."""
        node = self._get(key, default)
        if node is None and default is not MISSING:
            return None
        name = f"{self.name}: {key}" if self.name else key
        return Section(node, self.path, self.problems, name, self.vocabulary)

    def sections(self, key: str, default: Any = MISSING) -> list[Section]:
        """A list of mappings."""
        node = self._get(key, default)
        if node is None:
            return []
        if type(node).__name__ != "SequenceNode":
            self.wrong_at(key, f"expected a list ('- …' lines), found {_kind(node)}")
            return []
        return [Section(item, self.path, self.problems, key, self.vocabulary) for item in node.value]

    def done(self) -> None:
        """Report the keys that were not asked for."""
        for key, (node, _) in self.nodes.items():
            if key not in self.asked:
                meant = _nearest(key, self.asked - set(self.nodes))
                if meant in self.missing:
                    self.problems.remove(self.missing.pop(meant))  # one message per mistake
                instead = _near(key, self.asked - set(self.nodes))
                self.wrong(f"unknown key '{harmless(key, 40)}'{instead}", node)

    def only(self, options: Iterable[str], what: str) -> str | None:
        """The single key of this mapping, which must be one of the options."""
        names = tuple(options)
        if len(self.nodes) != 1:
            if self.node is not None and type(self.node).__name__ == "MappingNode":
                self.wrong(f"expected exactly one {what} ({', '.join(names)}), found {len(self.nodes)}")
            return None
        key = next(iter(self.nodes))
        self.asked.add(key)
        if key not in names:
            instead = _near(key, names) or "; there are " + ", ".join(names)
            self.wrong(f"unknown {what} '{harmless(key, 40)}'{instead}", self.nodes[key][0])
            return None
        return key


OTHER_LANGUAGES = ("zh",)  # besides English, in which rules and recipes are written


def read_translations(section: Section, keys: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """`zh: {title: …, say: …}`: what a rule or recipe says in other languages, by language and key."""
    found: dict[str, dict[str, str]] = {}
    for language in OTHER_LANGUAGES:
        if (inner := section.section(language, None)) is not None:
            found[language] = {key: inner.text(key) for key in keys if inner.has(key)}
            inner.asked.update(keys)
            inner.done()
    for key in keys:  # titles: {zh: …} is the older form
        if (inner := section.section(f"{key}s", None)) is not None:
            for language in OTHER_LANGUAGES:
                if inner.has(language):
                    found.setdefault(language, {}).setdefault(key, inner.text(language))
            inner.asked.add("en")
            inner.done()
    return found


def _too_much(events: Iterable[Any]) -> str:
    """Why a file is not composed; the parser counts without recursion, composing 40,000 levels ends the process."""
    aliases = depth = 0
    for event in events:
        kind = type(event).__name__
        aliases += kind == "AliasEvent"  # for writing less; ten levels of ten would be for hanging us
        depth += kind.endswith("StartEvent") and kind[:3] in ("Seq", "Map")
        depth -= kind.endswith("EndEvent") and kind[:3] in ("Seq", "Map")
        if aliases > ALIASES:
            return f"more than {ALIASES} aliases (*name); write the values out"
        if depth > DEPTH:
            return f"more than {DEPTH} levels of lists and mappings in one another"
    return ""


def read_documents(path: str, content: bytes, problems: list[Problem]) -> list[Section]:
    """The mappings of one YAML file; what is not YAML becomes a problem with its line."""
    import yaml

    if len(content) > _BIG:
        problems.append(Problem(path, 1, f"{len(content)} bytes is too long for a rule file"))
        return []
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        problems.append(Problem(path, line, "not UTF-8 text; save the file as UTF-8"))
        return []
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        if why := _too_much(yaml.parse(text, Loader=loader)):
            problems.append(Problem(path, 1, why))
            return []
        nodes = list(yaml.compose_all(text, Loader=loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        wrong = "".join(text.splitlines()[line - 1 : line])
        if "\t" in wrong[: len(wrong) - len(wrong.lstrip())]:
            problems.append(Problem(path, line, "a tab in the indentation; YAML wants spaces"))
        else:
            why = harmless(str(error.problem or error.context), 120)
            problems.append(Problem(path, line, f"not YAML: {why}"))
        return []
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        problems.append(Problem(path, 1, f"not YAML: {harmless(str(error), 120)}"))
        return []
    return [Section(node, path, problems) for node in nodes if node is not None]


def _kind(node: Any) -> str:
    return {
        "ScalarNode": f"'{harmless(str(node.value), 40)}'",
        "SequenceNode": "a list",
        "MappingNode": "a mapping",
    }[type(node).__name__]


def _near(word: str, options: Iterable[str]) -> str:
    near = _nearest(word, options)
    return f"; did you mean '{near}'?" if near else ""


def _nearest(word: str, options: Iterable[str]) -> str:
    from difflib import get_close_matches

    return next(iter(get_close_matches(word[:60], sorted(options), n=1, cutoff=0.6)), "")
