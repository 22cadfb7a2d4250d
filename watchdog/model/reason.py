"""Why something is so, as a key and fields: the sentence is made at the edge, in the reader's language."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from types import MappingProxyType

from watchdog.values import Any, dataclass, field

EMPTY: Mapping[str, Any] = MappingProxyType({})
PLAIN = "plain"  # the key of text that has none: shown as it is
RULE_TITLE, RULE_SAY, RULE_ADVICE = (
    "rule.title",
    "rule.say",
    "rule.advice",
)  # what a rule's file says, in the reader's language
PLAN_TITLE = "plan.title"  # the titles of a plan's recipes, in the reader's language


def nothing() -> Mapping[str, Any]:
    """The empty mapping, shared."""
    return EMPTY


@dataclass(frozen=True)
class Reason:
    """Why something is so: a key of the locale files and the fields of its sentence, which is made at the edge.

    Fields are text, numbers, datetimes, timedeltas, other reasons, or tuples of them.
    """

    key: str  # a StrEnum of the package that decides: "hold.cooling-down"
    fields: Mapping[str, Any] = field(default_factory=nothing)


class Phrase(str):
    """An English sentence that remembers its key and fields, so that it can be said in another language.

    Everywhere else it is the text that it looks like: in JSON, in a log, in a comparison.
    """

    reason: Reason

    def __str__(self) -> str:
        return self  # str() keeps the reason, also of an exception that holds a phrase


def phrase(key: str, english: str, **fields: Any) -> Phrase:
    """The English sentence for these fields; locale/<other language>/ has those of the other languages by key."""
    made = Phrase(english.format(**fields))
    # The English text goes along: a version that does not know the key shows that.
    made.reason = Reason(key, {**fields, "text": str.__str__(made)})
    return made


class Sentence(StrEnum):
    """A key of the locale files with its English sentence; called with fields, it is the phrase of both."""

    english: str

    def __new__(cls, key: str, english: str) -> Sentence:
        member = str.__new__(cls, key)
        member._value_, member.english = key, english
        return member

    def __call__(self, **fields: Any) -> Phrase:
        return phrase(self, self.english, **fields)


def plain(text: str) -> Reason:
    """A reason for text that has no key, which is shown as it is; of a phrase, its own reason."""
    return text.reason if isinstance(text, Phrase) else Reason(PLAIN, {"text": text})


def as_phrase(value: Reason | str) -> str:
    """The phrase that a reason was made from; text as it is."""
    if isinstance(value, str):
        return value
    made = Phrase(value.fields.get("text", value.key))
    made.reason = value
    return made


def packed(value: Any, clean: Callable[[str], str] | None = None) -> Any:
    """A reason, or a field of one, as values that JSON holds exactly; `clean` is applied to each text in it."""
    match value:
        case Phrase():
            return packed(value.reason, clean)
        case Reason():
            fields = {name: packed(part, clean) for name, part in value.fields.items()}
            return {"key": str(value.key), "fields": fields}
        case datetime():
            return {"at": value.isoformat()}
        case timedelta():
            return {"seconds": value.total_seconds()}
        case tuple() | list():
            return [packed(part, clean) for part in value]
        case bool() | int() | float() | None:
            return value
        case str():
            return clean(value) if clean else value
    if clean:
        return clean(str(value))
    raise TypeError(f"{type(value).__name__} is no field of a reason")


def unpacked(value: Any) -> Any:
    """What `packed` was given."""
    match value:
        case {"key": str(key), "fields": dict(fields)}:
            return Reason(key, {name: unpacked(part) for name, part in fields.items()})
        case {"at": str(at)}:
            return datetime.fromisoformat(at)
        case {"seconds": int(seconds) | float(seconds)}:
            return timedelta(seconds=seconds)
        case list():
            return tuple(unpacked(part) for part in value)
    return value
