"""Local times without a zone, as Hermes writes them, become UTC here and nowhere else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

SLACK = timedelta(seconds=30)  # lines of different threads may be this much out of order
_LONG_AGO = datetime(2, 1, 1, tzinfo=UTC)
SET_BACK = timedelta(
    seconds=90
)  # a record that is older by more than the one before it: the clock was set back
FAR_BACK = timedelta(days=1)  # from one file to the next: another story, no clock that was set
_NEVER = datetime.max.replace(tzinfo=UTC)
MEMORY = 200  # hours remembered
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_HOUR = timedelta(hours=1)
_LAST = timedelta(minutes=59)  # minute of an hour
_DAY = timedelta(hours=23, minutes=59)
_MINUTE = re.compile(r"2[0-9]{3}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}")


class _Spans:
    """'41:', '07,' and '500' as spans of time, once they were met: looking them up is cheaper than reading them.

    `known` is an ordinary dict, because one of another class takes 1.7 times as long for each look.
    """

    def __init__(self, digits: int, after: bytes, unit: timedelta, most: int):
        self.digits, self.after, self.unit, self.most = digits, after, unit, most
        self.known: dict[bytes, timedelta] = {}

    def of(self, text: bytes) -> timedelta:
        """KeyError for what is no time."""
        if text in self.known:
            return self.known[text]
        number = text.removesuffix(self.after)
        if (
            not number.isdigit()
            or text != b"%0*d%b" % (self.digits, int(number), self.after)
            or int(number) > self.most
        ):
            raise KeyError(text)
        span = self.known[text] = int(number) * self.unit
        return span


_MINUTES = _Spans(2, b":", timedelta(minutes=1), 59)
_SECONDS = _Spans(2, b",", timedelta(seconds=1), 99)
_THOUSANDTHS = _Spans(3, b"", timedelta(milliseconds=1), 999)
_KNOWN_SECONDS, _KNOWN_THOUSANDTHS = _SECONDS.known, _THOUSANDTHS.known


class SetBack:
    """A place in a log where the clock was set back: all that stands before it is dated too late."""

    __slots__ = ("after", "before", "returned")

    def __init__(self, before: datetime, after: datetime):
        self.before, self.after = before, after  # the newest record before it, and the first after it
        self.returned = (
            False  # the time leaped forward again: perhaps these few records alone are dated wrong
        )

    @property
    def by(self) -> timedelta:
        return self.before - self.after


def agreed(logs: Iterable[list[SetBack]]) -> list[list[SetBack]]:
    """The same, where logs that tell of the same moment agree by how much the clock was set back: by what the log tells
    that was written to next to it. It returned only where no log tells otherwise.
    """
    told = [list(moments) for moments in logs]
    every = [moment for moments in told for moment in moments]
    found: list[list[SetBack]] = []
    for moments in told:
        found.append([])
        for moment in moments:
            same = [other for other in every if other.after <= moment.before and moment.after <= other.before]
            by = max(other.by for other in same)
            found[-1].append(SetBack(moment.before, moment.before - by))
            found[-1][-1].returned = all(other.returned for other in same)
    return found


class LocalClock:
    """Turns 'YYYY-MM-DD HH:MM:SS,mmm' of one log into UTC, in the log's order, right through a change of
    the clocks.

    Where the clock was set back, told by a reading before this one, what stands before is dated by the clock that
    was right afterwards.
    """

    def __init__(self, zone: tzinfo | None = None, set_back: Sequence[SetBack] = ()):
        self.zone = zone
        self.known = set_back  # by a reading before this one
        self.met: list[SetBack] = []  # in this one
        self._returns = _NEVER
        # in UTC; None: the clocks change then, so ask minute by minute
        self._hours: dict[bytes, datetime | None] = {}
        self._days: dict[bytes, datetime | None] = {}
        self.last = _LONG_AGO  # the newest time so far
        self._minute, self._begins = b"", _LONG_AGO  # records of the same minute come together

    def read(self, stamp: bytes, sure: bool = True) -> datetime | None:
        """The time at the start of a line, None when there is none. A line that a user name may have written is not
        `sure`, and says nothing about the clock.
        """
        try:
            if stamp[:17] != self._minute:
                hour = self._hours.get(stamp[:14])
                if hour is not None:
                    self._minute, self._begins = stamp[:17], hour + _MINUTES.of(stamp[14:17])
                elif not self._begin(stamp):
                    return None
            try:
                at = self._begins + _KNOWN_SECONDS[stamp[17:20]] + _KNOWN_THOUSANDTHS[stamp[20:23]]
            except KeyError:  # met for the first time
                at = self._begins + _SECONDS.of(stamp[17:20]) + _THOUSANDTHS.of(stamp[20:23])
        except KeyError:
            return None
        if sure:
            if at > self.last:
                if at >= self._returns:
                    self._return(at)
                self.last = at
            elif self.last - at > SET_BACK:
                self.met.append(SetBack(self.last, at))
                self.last, self._returns = at, self.last - SET_BACK
        return self._dated(at) if self.known else at

    def _return(self, at: datetime) -> None:
        self.met[-1].returned = at - self.last > self.met[-1].by / 2
        self._returns = _NEVER

    def _dated(self, at: datetime) -> datetime:
        """The time of a record by the clock that was right in the end."""
        passed = len(self.met)
        if passed and passed <= len(self.known) and self.known[passed - 1].returned:
            at = max(at, self.known[passed - 1].before)
        return at - sum((moment.by for moment in self.known[passed:] if not moment.returned), timedelta(0))

    @property
    def state(self) -> tuple[datetime, int]:
        """Where in the log it is, for `resume`."""
        return self.last, len(self.met)

    def resume(self, state: tuple[datetime, int]) -> None:
        self.last, self.met, self._returns = state[0], [*self.known[: state[1]]], _NEVER

    def next_file(self, first: datetime | None) -> None:
        """Go on with a file whose first record was written then."""
        if first is not None and self.last - first > FAR_BACK:
            self.last = first

    def _begin(self, stamp: bytes) -> bool:
        """Go to the minute of this time, in an hour that is new or not like others; False when it is none."""
        hour = stamp[:14]
        if hour not in self._hours and not self._learn(hour):
            return False
        if (begins := self._hours[hour]) is not None:
            self._minute, self._begins = stamp[:17], begins + _MINUTES.of(stamp[14:17])
            return True
        known = self._moments(stamp[:16])
        if known is None or stamp[16:17] != b":":
            return False
        early, late = known
        # In the hour that comes twice, a time before what was already written is its second coming.
        again = late != early and early + _SECONDS.of(stamp[17:20]) < self.last - SLACK
        self._minute, self._begins = b"", late if again else early  # to be asked for every record
        return True

    def _learn(self, hour: bytes) -> bool:
        """Look at an hour that is new; False when it is none."""
        if len(hour) != 14 or hour[13:] != b":":
            return False
        if len(self._hours) > MEMORY:
            self._hours.clear()
        day = hour[:10]
        if day not in self._days:
            if len(self._days) > MEMORY:
                self._days.clear()
            self._days[day] = self._steady(day + b" 00:00", day + b" 23:59")
        begins = self._days[day]
        number = hour[11:13]
        if begins is not None and hour[10:11] == b" " and number.isdigit() and number < b"24":
            self._hours[hour] = begins + int(number) * _HOUR
        else:
            self._hours[hour] = self._steady(hour + b"00", hour + b"59")
        return True

    def _steady(self, minute: bytes, until: bytes) -> datetime | None:
        """When this minute began, if the clocks do not change until the other: then it tells all those between."""
        first, last = self._moments(minute), self._moments(until)
        if first is None or last is None or first[0] != first[1] or last[0] != last[1]:
            return None
        return first[0] if last[0] - first[0] in (_DAY, _LAST) else None

    def _moments(self, minute: bytes) -> tuple[datetime, datetime] | None:
        """When this local minute began, the first and the second time."""
        try:
            text = minute.decode("ascii")
            if not _MINUTE.fullmatch(text):
                return None
            day, hour = (int(text[:4]), int(text[5:7]), int(text[8:10])), (int(text[11:13]), int(text[14:16]))
            naive = datetime(*day, *hour, tzinfo=self.zone)
            # A third of what `astimezone` costs, and the same, unless the clocks are being changed.
            seconds = naive.timestamp()
            if naive.replace(fold=1).timestamp() == seconds:
                at = _EPOCH + timedelta(seconds=seconds)
                return at, at
            both = [naive.replace(tzinfo=self.zone, fold=fold).astimezone(UTC) for fold in (0, 1)]
        except (ValueError, OverflowError, OSError, IndexError):
            return None
        # A minute that never was (clocks put forward) has fold 1 before fold 0; either is as good.
        return (both[0], both[1]) if both[1] > both[0] else (both[0], both[0])

    def naive(self, at: datetime) -> bytes:
        """The stamp a line written at this moment would carry, as far back as the clocks may have been
        changed.
        """
        earlier, later = (at + timedelta(hours=hours) for hours in (-3, 3))
        if earlier.astimezone(self.zone).utcoffset() != later.astimezone(self.zone).utcoffset():
            at = earlier  # near a change of the clocks stamps do not rise steadily: start before it
        local = at.astimezone(self.zone)
        return local.strftime("%Y-%m-%d %H:%M:%S,000").encode()
