"""Local times without a zone, as Hermes writes them, become UTC here and nowhere else."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

SLACK = timedelta(seconds=30)  # lines of different threads may be this much out of order
_LONG_AGO = datetime(2, 1, 1, tzinfo=UTC)
_SET_BACK = timedelta(hours=2)
MEMORY = 200  # hours remembered
_LAST = timedelta(minutes=59)  # minute of an hour
_MINUTE = re.compile(r"2[0-9]{3}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}")


class _Spans(dict[bytes, timedelta]):
    """'41:', '07,' and '500' as spans of time: looking them up is cheaper than reading them;

    KeyError for what is no time.
    """

    def __init__(self, digits: int, after: bytes, unit: timedelta, most: int):
        self.digits, self.after, self.unit, self.most = digits, after, unit, most

    def __missing__(self, text: bytes) -> timedelta:
        number = text.removesuffix(self.after)
        if (
            not number.isdigit()
            or text != b"%0*d%b" % (self.digits, int(number), self.after)
            or int(number) > self.most
        ):
            raise KeyError(text)
        span = self[text] = int(number) * self.unit
        return span


_MINUTES = _Spans(2, b":", timedelta(minutes=1), 59)
_SECONDS = _Spans(2, b",", timedelta(seconds=1), 99)
_THOUSANDTHS = _Spans(3, b"", timedelta(milliseconds=1), 999)


class LocalClock:
    """Turns 'YYYY-MM-DD HH:MM:SS,mmm' of one file into UTC, in the file's order, right through a change of
    the clocks.
    """

    def __init__(self, zone: tzinfo | None = None):
        self.zone = zone
        # in UTC; None: somebody touches the clocks then, so ask minute by minute
        self._hours: dict[bytes, datetime | None] = {}
        self.last = _LONG_AGO  # the newest time so far
        self._minute, self._begins = b"", _LONG_AGO  # records of the same minute come together

    def read(self, stamp: bytes) -> datetime | None:
        """The time at the start of a line, None when there is none."""
        try:
            if stamp[:17] != self._minute:
                hour = self._hours.get(stamp[:14])
                if hour is not None:
                    self._minute, self._begins = stamp[:17], hour + _MINUTES[stamp[14:17]]
                elif not self._begin(stamp):
                    return None
            at = self._begins + _SECONDS[stamp[17:20]] + _THOUSANDTHS[stamp[20:23]]
        except KeyError:
            return None
        if at > self.last or self.last - at > _SET_BACK:  # a clock set back: follow it
            self.last = at
        return at

    def _begin(self, stamp: bytes) -> bool:
        """Go to the minute of this time, in an hour that is new or not like others; False when it is none."""
        hour = stamp[:14]
        if hour not in self._hours and not self._learn(hour):
            return False
        if (begins := self._hours[hour]) is not None:
            self._minute, self._begins = stamp[:17], begins + _MINUTES[stamp[14:17]]
            return True
        known = self._moments(stamp[:16])
        if known is None or stamp[16:17] != b":":
            return False
        early, late = known
        # In the hour that comes twice, a time before what was already written is its second coming.
        again = late != early and early + _SECONDS[stamp[17:20]] < self.last - SLACK
        self._minute, self._begins = b"", late if again else early  # to be asked for every record
        return True

    def _learn(self, hour: bytes) -> bool:
        """Look at an hour that is new; False when it is none."""
        if len(hour) != 14 or hour[13:] != b":":
            return False
        if len(self._hours) > MEMORY:
            self._hours.clear()
        first, last = self._moments(hour + b"00"), self._moments(hour + b"59")
        # In an hour in which nobody touches the clocks, one minute tells all others.
        steady = (
            first is not None
            and last is not None
            and {*first} == {moment - _LAST for moment in last}
            and len({*first}) == 1
        )
        self._hours[hour] = first[0] if first is not None and steady else None
        return True

    def _moments(self, minute: bytes) -> tuple[datetime, datetime] | None:
        try:
            text = minute.decode("ascii")
            if not _MINUTE.fullmatch(text):
                return None
            naive = datetime(
                int(text[:4]), int(text[5:7]), int(text[8:10]), int(text[11:13]), int(text[14:16])
            )
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
