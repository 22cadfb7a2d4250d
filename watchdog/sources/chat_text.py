"""Chat text is cut out of a record before any pattern sees it; a record that imitates log fields is ambiguous.

How a line with chat text in it is written stands in rules/lines/ (`text:`). Its {quoted} field is a Python
literal, its {name} is raw: a person who chooses a name can write fields, and even whole lines, into the log. What
does not parse exactly as Hermes writes it is not believed.

After the quoted text, releases append ` key=value` fields. Any are read, as long as they are none of the
line's own: the last quote of a record is Hermes' own, and no text that a person chose can hold it, so that a
name cannot pass the real fields off as such an appendix.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from watchdog.config.rulebook import Word
from watchdog.later import regex
from watchdog.model import phrase

_LITERAL = r"""(?:'[^'\\]*(?:\\.[^'\\]*)*'|"[^"\\]*(?:\\.[^"\\]*)*")"""
_KEYS = "msg|content|text|preview|reply_to_text|query|prompt"
_QUOTED = regex(rf"\s(?:{_KEYS})=['\"]")
# Quoted text with nothing but appended fields behind it.
QUOTED_END = regex(
    rf"\s(?:{_KEYS})=(?P<quoted>{_LITERAL})(?: \w+=(?:{_LITERAL}|[^\s'\"]++))*\r?\n?\Z".encode()
)
_FIELD = regex(r"(\w+)=\{(\w+)\}")
IMITATED = phrase("ambiguous.name", "a user name that imitates log fields")
_CAREFUL = {
    "word": r"\S+",
    "number": r"\d+",
    "any": ".*?",
    "name": "(?P<name>.*?)",
    "quoted": f"(?P<quoted>{_LITERAL})",
}
# What holds nothing odd, as most records: nothing in such a name can imitate a field, and the first quote behind these
# fields is that of the quoted text.
_PLAIN = {
    "word": "[!#-&(-<>-~]+",
    "number": r"\d+",
    "any": r"[^=\n]*",
    "name": r"(?P<name>[^=\n]*)",
}
_NAMELESS = {**_PLAIN, "any": r"[^'\"\n]*"}
MEMORY = 2000  # kinds of fields remembered
LONG = 1000  # bytes of fields that are not remembered


class Closing:
    """The end of a record with a name in it, or what looks like one."""

    __slots__ = ("end", "kept", "words")

    def __init__(self, end: int, words: bytes, kept: bool):
        self.end, self.words = end, words
        self.kept = kept  # it has an appended field that changes what the line means


class Shape:
    """How one word with chat text in it is written."""

    def __init__(self, word: Word):
        text = word.text
        self.head = text[: text.index("{")].rpartition(" ")[0] + " "
        self.raw_head = self.head.encode()
        keys = "|".join(key for key, _ in _FIELD.findall(text))
        tails = rf"(?P<tails>(?: (?!(?:{keys})=)\w+=(?:{_LITERAL}|[^\s'\"]++))*)"
        fields, _, quoted = text.rpartition(" ")
        self.quoted_key = quoted.partition("=")[0]
        self.careful = regex(
            f"(?s)(?P<fields>{_filled(fields, _CAREFUL)}) {_filled(quoted, _CAREFUL)}{tails}$"
        )
        self.has_name = "{name}" in text
        # In bytes, and only of records of one line: what stands before the quoted text, how that begins, what may follow.
        self.plain_fields = regex(_filled(fields, _PLAIN if self.has_name else _NAMELESS).encode())
        self.opens = f" {self.quoted_key}='".encode()
        self.plain_tails = regex(rf"(?: (?!(?:{keys})=)\w+=(?:[!#-&(-<>-~]+|'[^'\\\n]*'))*".encode())
        self.known_tails: set[bytes] = set()  # those that change nothing
        self.known_fields: set[bytes] = set()  # plain ones, each digit as 0
        self.tells_digits = any(char.isdigit() for char in text)
        self.imitated = regex(rf"(?:^|\s)(?:{keys})=")
        # Where a record ends at last, however many line breaks the name in it holds.
        rest = f"{text.partition('{name}')[2] or ' ' + quoted}"
        self.end = regex(f"(?m){_filled(rest, _CAREFUL)}{tails}\r?$".encode())
        before, _, after = fields.partition("{name}")
        self.begin = regex(_filled(before, _CAREFUL))
        self.raw_begin = regex(_filled(before, _CAREFUL).encode())
        self.rest = regex(_filled(after, _CAREFUL))
        self.keep = regex(rf" (?:{'|'.join(_kept(field) for field in word.keep)})") if word.keep else None

    def cut(self, text: str) -> tuple[str, dict[str, str], str]:
        found = self.careful.match(text)
        if not found:
            name = self.head.rstrip(": ")
            why = ""
            if self.has_name:
                english = f"{'an' if name[:1] in 'aeiou' else 'a'} {{name}} whose fields do not parse"
                why = phrase("ambiguous.fields", english, name=name)
            return self.head, {"shape": _shape(text[len(self.head) :])}, why
        fields, said = found["fields"], found["quoted"][1:-1]
        facts = {"said": digest(said)}
        if self.has_name:
            if self.imitated.search(found["name"]):
                # Whatever the name is, the last fields of the line are Hermes' own.
                begin, end = self.begin.match(fields), self.rest.findall(fields)[-1]
                text = f"{begin[0] if begin else self.head}…{end}"
                return text + self.tail(said, found["tails"]), facts, IMITATED
            start, end = found.span("name")
            fields = f"{fields[:start]}…{fields[end:]}"
            facts["user"] = digest_of(found["name"])
        return f"{fields}{self.tail(said, found['tails'])}", facts, ""

    def tail(self, said: str, tails: str) -> str:
        """What is left of the end: that nothing was said, and fields that change what the line means."""
        nothing = "" if said else f" {self.quoted_key}=''"
        return nothing + ("".join(self.keep.findall(tails)) if self.keep and tails else "")

    def is_plain(self, fields: bytes, zeroed: bytes) -> bool:
        """Whether these fields before the quoted text are in plain words; then all others are, too, that differ only in
        their digits, as in `zeroed`.
        """
        if self.plain_fields.fullmatch(fields) is None:
            return False
        if not self.tells_digits and len(zeroed) < LONG:
            if len(self.known_fields) > MEMORY:
                self.known_fields.clear()
            self.known_fields.add(zeroed)
        return True

    def changes_nothing(self, tails: bytes) -> bool:
        """Whether these appended fields are in plain words, and none of them matters; '' is none."""
        if self.plain_tails.fullmatch(tails) is None or self.keeps(tails):
            return False
        if len(self.known_tails) > MEMORY:
            self.known_tails.clear()
        self.known_tails.add(tails)
        return True

    def keeps(self, tails: bytes) -> bool:
        return self.keep is not None and self.keep.search(str(tails, "utf-8", "replace")) is not None


_ANY_KEY = regex(rf"(?:^|\s)(\w{{1,40}})=(?:{_LITERAL})?")


def _shape(fields: str) -> str:
    """Which fields a line has that cannot be read, without what is in them."""
    return " ".join(f"{key}=…" for key in _ANY_KEY.findall(fields.partition("\n")[0])[:20])


def _filled(template: str, kinds: dict[str, str]) -> str:
    return "".join(
        re.escape(part) if number % 3 == 0 else f"{part}=" if number % 3 == 1 else kinds[part]
        for number, part in enumerate(_FIELD.split(template))
    )


def _kept(field: str) -> str:
    """`queued=True` is kept as it is, `origin` with whatever it is."""
    return rf"{re.escape(field)}(?!\S)" if "=" in field else rf"{re.escape(field)}=\S+"


class ChatText:
    """Cuts chat text out of records, by the shapes that the vocabulary gives."""

    def __init__(self, words: Iterable[Word]):
        self.shapes = [Shape(word) for word in words]
        self.heads = tuple(shape.head for shape in self.shapes)
        # A forged record of these casts doubt on what follows it, so each of them must be looked at.
        self.doubtful = tuple(shape.raw_head for shape in self.shapes if shape.has_name)

    def may_quote(self, text: str) -> bool:
        """Whether a record can hold chat text at all; the rest is let through untouched."""
        return "='" in text or '="' in text or text.startswith(self.heads)

    def cut(self, text: str) -> tuple[str, dict[str, str], str]:
        """(the record without chat text, digests of what was cut for linking, why it is ambiguous or '')."""
        if text.startswith(self.heads):
            return next(shape for shape in self.shapes if text.startswith(shape.head)).cut(text)
        found = _QUOTED.search(text)
        return (text[: found.end() - 1] + "…", {}, "") if found else (text, {}, "")

    def closings(self, block: bytes) -> list[Closing]:
        """Every place where a record with a name in it may end, however many line breaks the name holds."""
        found = [
            Closing(match.end(), match["quoted"], shape.keeps(match["tails"]))
            for shape in self.shapes
            if shape.has_name
            for match in shape.end.finditer(block)
        ]
        return sorted(found, key=lambda closing: closing.end)

    def before_name(self, block: bytes, message: int) -> bytes:
        """What stands before the name in the message that begins there; nothing if it does not come so far."""
        for shape in self.shapes:
            if shape.has_name and block.startswith(shape.raw_head, message):
                found = shape.raw_begin.match(block, message)
                return found[0] if found is not None else b""
        return b""

    def head_of(self, text: str) -> str:
        """How the line begins, up to its first field; that alone is left of a line that does not parse."""
        return next((head for head in self.heads if text.startswith(head)), "")


def digest(said: str) -> str:
    # The turn line cuts at 80 characters and adds dots, the inbound line only cuts.
    said = said.removesuffix("...")[:60]
    return digest_of(said) if said else ""


def digest_of(text: str) -> str:
    """A short stand-in for words that only the chat should read; good for this run only."""
    return hex(hash(text))  # formatting it takes three times as long
