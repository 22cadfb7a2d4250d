"""Records that could not be believed; several in a row of one unknown shape are a release that cannot be read here."""

from __future__ import annotations

from watchdog.model import Event, Line, phrase
from watchdog.values import dataclass, field

IN_A_ROW = 3
UNREAD = "blind.unknown-shape"  # among the reasons of sources, which detectors do not know


@dataclass
class Row:
    """Records of one source that follow one another and have the same shape, which is not known."""

    head: str
    shape: str
    length: int = 1

    @property
    def name(self) -> str:
        return self.head.rstrip(": ")


@dataclass
class Ambiguous:
    """How many there were, and the first few, because a hostile name can write as many as it likes."""

    count: int = 0
    first: tuple[Event, ...] = ()
    rows: dict[str, Row] = field(default_factory=dict)  # source → what its newest such records have in common

    def add(self, event: Event) -> None:
        self.count += 1
        if len(self.first) < 5:
            self.first += (event,)
        if shape := event.facts.get("shape", ""):
            row = self.rows.get(event.source)
            if row is not None and (row.head, row.shape) == (event.text, shape):
                row.length += 1
            else:
                self.rows[event.source] = Row(event.text, shape)

    def read(self, event: Event) -> None:
        """One that was understood ends the row of those that begin alike."""
        row = self.rows.get(event.source)
        if row is not None and event.text.startswith(row.head):
            del self.rows[event.source]

    def unread(self, line: Line) -> str:
        """What this line is called, when this Hermes writes it in a way that is not known here; '' when it does not."""
        row = self.rows.get(line.source)
        template = getattr(getattr(line.pattern, "word", None), "text", "")
        if row is None or row.length < IN_A_ROW or not template.startswith(row.head):
            return ""
        return row.name

    def blind(self) -> dict[str, str]:
        """What cannot be seen, and why."""
        return {
            row.name: phrase(
                UNREAD,
                "this Hermes writes lines that cannot be read here: {shape}",
                shape=row.head + row.shape,
            )
            for row in self.rows.values()
            if row.length >= IN_A_ROW
        }

    def notes(self) -> list[str]:
        english = "{where}: not used, because it is {why}"
        lines: list[str] = [
            phrase("note.not-used", english, where=event.where, why=event.ambiguous) for event in self.first
        ]
        if left := self.count - len(self.first):
            english = "{count} more records whose chat text imitates log fields were not used"
            lines.append(phrase("note.more-not-used", english, count=left))
        return lines
