"""Hands each record to the detectors that want it, by the places of the lines that were asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from watchdog.model import EMPTY, Event
from watchdog.values import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from watchdog.detect.evaluate import ActiveCondition

Entry = tuple["ActiveCondition", str]  # a condition, and the role in which it wants the line
Call = Callable[[Mapping[str, str], Event], None]


class Dispatch:
    """Who wants what of one source, by the places of the lines that were asked for."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.changed = changed  # to be called when a condition gets a twin
        self.entries: list[Entry] = []
        self.calls: dict[tuple[int, ...], list[Call]] = {}  # the same places come again and again

    def calls_for(self, places: tuple[int, ...]) -> list[Call]:
        """What to call with a record that is these lines, and nothing else."""
        calls = self.calls[places] = self._calls(places)
        return calls

    def show(self, event: Event) -> None:
        """Let everyone see the event who wants one of the lines that it is."""
        if event.doubt is not None:
            self._show_doubtful(event)
            return
        for condition, captured in self._roles(event):
            for detector in (condition.detector, condition.twin):
                if detector is not None:
                    detector.see(captured, event)

    def _show_doubtful(self, event: Event) -> None:
        """Detectors that know doubt decide themselves; of any other a twin sees the event, the detector does not."""
        for condition, captured in self._roles(event):
            if hasattr(condition.detector, "see_doubtful"):
                condition.detector.see_doubtful(captured, event)
                continue
            if condition.twin is None:
                from copy import deepcopy  # hardly ever needed

                traces = getattr(condition.detector, "traces", ())
                shared = (condition.detector.want, EMPTY, *traces)
                condition.twin = deepcopy(condition.detector, {id(part): part for part in shared})
                for trace in traces:
                    trace.followers.append(condition.twin._settle)
                self.changed()
            condition.twin.see(captured, event)

    def _roles(self, event: Event) -> list[tuple[ActiveCondition, dict[str, Mapping[str, str]]]]:
        """Who wants the event, and in which roles."""
        found: dict[int, Mapping[str, str]] = {}
        for places, captures in event.matches:
            found.update(dict.fromkeys(places, captures))
        roles_of: dict[int, tuple[ActiveCondition, dict[str, Mapping[str, str]]]] = {}
        for place in sorted(found):
            condition, role = self.entries[place]
            roles_of.setdefault(id(condition), (condition, {}))[1].setdefault(role, found[place])
        return list(roles_of.values())

    def _calls(self, places: Iterable[int]) -> list[Call]:
        roles_of: dict[Any, dict[str, None]] = {}
        for place in places:
            condition, role = self.entries[place]
            for detector in (condition.detector, condition.twin):
                if detector is not None:
                    roles_of.setdefault(detector, {})[role] = None
        return [_call(detector, tuple(roles)) for detector, roles in roles_of.items()]


def _call(detector: Any, roles: tuple[str, ...]) -> Call:
    """What the detector does with a record in these roles."""
    if len(roles) == 1 and hasattr(detector, "acts"):
        act: Call = detector.acts[roles[0]]
        return act
    return lambda captures, event: detector.see(dict.fromkeys(roles, captures), event)
