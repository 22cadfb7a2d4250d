"""The same steps again and again, with no way out."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial

from watchdog.detect.common import Captures, key_of, lines_of, longest, names_of, need_names, read_lines
from watchdog.detect.series import Series, states
from watchdog.model import Event, Line, Reason, Span, phrase
from watchdog.text import harmless
from watchdog.values import TYPE_CHECKING, dataclass, replace

if TYPE_CHECKING:
    from watchdog.config.yaml import Section

KIND = "loop"
NO_ERROR = phrase("none.error", "no error was logged")


@dataclass(frozen=True)
class Loop:
    steps: tuple[tuple[Line, ...], ...]  # each of them one of several lines
    at_least: int
    within: timedelta
    same: tuple[str, ...] = ()
    unless: tuple[Line, ...] = ()  # it is alive: forget what was counted
    alive: tuple[Line, ...] = ()  # a sign of life
    settles_after: timedelta | None = None  # nothing for so long after a sign of life: over
    last: tuple[Line, ...] = ()  # the newest such line is quoted in the sentence
    key: str = ""


def read(section: Section) -> Loop:
    steps = tuple(lines_of(section, step) for step in section.lists("lines"))
    want = Loop(
        steps=steps,
        at_least=section.number("at_least", 3, least=2, most=10_000),
        within=section.duration("within"),
        alive=read_lines(section, "lives", ()),
        settles_after=section.duration("settles_after", None),
        same=section.names("same", ()),
        unless=read_lines(section, "unless", ()),
        last=read_lines(section, "last", ()),
        key=section.text("key", ""),
    )
    need_names(section, "same", want.same, steps[0] if steps else ())
    if bool(want.alive) != (want.settles_after is not None):
        section.wrong(
            "'lives' and 'settles_after' go together: after this sign of life and nothing for so long, the trouble has ended"
        )
    return want


def lines(want: Loop) -> list[tuple[str, Line, bool]]:
    return [
        *((f"step{number}", line, True) for number, step in enumerate(want.steps) for line in step),
        *(("unless", line, False) for line in want.unless),
        *(("last", line, False) for line in want.last),
        *(("alive", line, False) for line in want.alive),
    ]


def reach(want: Loop) -> timedelta:
    return longest(want.within, want.settles_after)


def says(want: Loop) -> frozenset[str]:
    return names_of((*[line for step in want.steps for line in step], *want.last)) | {
        "times",
        "at_least",
        "within",
    }


class Detector:
    def __init__(self, want: Loop):
        self.want = want
        self.turns: dict[str, tuple[int, Captures]] = {}  # key → next step awaited, what the turn captured
        self.series: dict[str, Series] = {}
        self.last: Captures = {}
        steps = {f"step{number}": partial(self._step, f"step{number}") for number in range(len(want.steps))}
        self.acts = {**steps, "last": self._last, "unless": self._unless, "alive": self._alive}

    def see(self, roles: Mapping[str, Captures], event: Event) -> None:
        if "last" in roles:
            self._last(roles["last"], event)
        if "unless" in roles:
            self._unless(roles["unless"], event)
            return
        if "alive" in roles:
            self._alive(roles["alive"], event)
        for key, (step, turn) in list(self.turns.items()):
            captures = roles.get(f"step{step}")
            if captures is not None and self._agree(turn, captures):
                turn = {**turn, **captures}
                if step + 1 == len(self.want.steps):
                    self._turned(key, event, turn)
                    step = -1
                self.turns[key] = step + 1, turn
        if (first := roles.get("step0")) is not None:
            # A new beginning: whatever turn of the same thing was half way is not going on.
            for key, (_, turn) in list(self.turns.items()):
                if self.want.same and turn.get(self.want.same[0]) == first.get(self.want.same[0]):
                    self.turns[key] = 0, turn
            self.turns[key_of(first, self.want.same, self.want.key)] = 1, first

    def _step(self, role: str, captures: Captures, event: Event) -> None:
        self.see({role: captures}, event)

    def _last(self, captures: Captures, _: Event) -> None:
        self.last = {name: harmless(value, 200) for name, value in captures.items()}

    def _unless(self, captures: Captures, event: Event) -> None:
        if not self.turns:
            return
        for key in [key for key, (_, turn) in self.turns.items() if self._agree(turn, captures)]:
            del self.turns[key]
            if key in self.series:
                self.series[key].end(event.at)

    def _alive(self, captures: Captures, event: Event) -> None:
        for key, (_, turn) in self.turns.items():
            if key in self.series and self._agree(turn, captures):
                self.series[key].alive(event.at)

    def _agree(self, turn: Captures, captures: Captures) -> bool:
        return not [
            name for name in self.want.same if captures.get(name) and turn.get(name) != captures[name]
        ]

    def _turned(self, key: str, event: Event, turn: Captures) -> None:
        if key not in self.series:
            self.series[key] = Series(self.want.at_least, self.want.within, self.want.settles_after)
        self.series[key].add(key, event, turn)

    def spans(self, now: datetime) -> list[Span]:
        quotes = {**dict.fromkeys(names_of(self.want.last), NO_ERROR), **self.last}
        return [
            replace(span, quotes={**span.quotes, **quotes}, facts={})
            for series in self.series.values()
            for span in series.spans(now)
        ]

    def state(self, now: datetime) -> list[Reason | str]:
        """For explain: how near each key is to its limit."""
        return states(self.series, self.want.at_least, self.want.within, now)
