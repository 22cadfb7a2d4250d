"""Local times without a zone, as Hermes writes them, become UTC here and nowhere else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

SLACK = timedelta(seconds=30)  # lines of different threads may be this much out of order
_LONG_AGO = datetime(2, 1, 1, tzinfo=UTC)
_SET_BACK = timedelta(hours=2)
_LAST = timedelta(minutes=59)  # minute of an hour


class _Spans(dict[bytes, timedelta]):
    """':41,' and '500' as spans of time: looking them up is cheaper than reading them; KeyError for what is no time."""

    def __init__(self, before: bytes, digits: int, after: bytes, unit: timedelta):
        self.before, self.digits, self.after, self.unit = before, digits, after, unit

    def __missing__(self, text: bytes) -> timedelta:
        number = text.removeprefix(self.before).removesuffix(self.after)
        if not number.isdigit() or text != b"%b%0*d%b" % (self.before, self.digits, int(number), self.after):
            raise KeyError(text)
        span = self[text] = int(number) * self.unit
        return span


_SECONDS = _Spans(b":", 2, b",", timedelta(seconds=1))
_THOUSANDTHS = _Spans(b"", 3, b"", timedelta(milliseconds=1))


class LocalClock:
    """Turns 'YYYY-MM-DD HH:MM:SS,mmm' of one file into UTC, in the file's order, right through a change of the clocks."""

    def __init__(self, zone: tzinfo | None = None):
        self.zone = zone
        self._minutes: dict[bytes, tuple[datetime, datetime] | None] = {}
        self._hours: dict[bytes, datetime | None] = {}  # in UTC; None: they must be asked minute by minute
        self.last = _LONG_AGO  # the newest second so far
        self._second, self._begins = b"", _LONG_AGO  # records of the same second come together

    def read(self, stamp: bytes) -> datetime | None:
        """The time at the start of a line, None when there is none."""
        try:
            if stamp[:20] == self._second:
                return self._begins + _THOUSANDTHS[stamp[20:23]]
            seconds, thousandths = _SECONDS[stamp[16:20]], _THOUSANDTHS[stamp[20:23]]
        except KeyError:
            return None
        try:
            known = self._minutes[stamp[:16]]
        except KeyError:
            if len(self._minutes) > 2000:
                self._minutes.clear()
                self._hours.clear()
            known = self._minutes[stamp[:16]] = self._minute(stamp[:16])
        if known is None:
            return None
        early, late = known
        at = early + seconds
        # In the hour that comes twice, a time before what was already written is its second coming.
        if late != early and at < self.last - SLACK:
            at = late + seconds
        if at > self.last or self.last - at > _SET_BACK:  # a clock set back: follow it
            self.last = at
        self._second, self._begins = stamp[:20], at
        return at + thousandths

    def _minute(self, minute: bytes) -> tuple[datetime, datetime] | None:
        """The two moments a local minute can mean; equal except in the hour that comes twice."""
        hour, number = minute[:14], minute[14:]
        if hour not in self._hours:
            first, last = self._moments(hour + b"00"), self._moments(hour + b"59")
            # In an hour in which nobody touches the clocks, one minute tells all others.
            steady = first is not None and last is not None and {*first} == {moment - _LAST for moment in last} and len({*first}) == 1
            self._hours[hour] = first[0] if first is not None and steady else None
        begins = self._hours[hour]
        if begins is None or not number.isdigit() or len(number) != 2 or number > b"59":
            return self._moments(minute)
        at = begins + timedelta(minutes=int(number))
        return at, at

    def _moments(self, minute: bytes) -> tuple[datetime, datetime] | None:
        try:
            text = minute.decode("ascii")
            if text[10] != " ":
                return None
            naive = datetime(int(text[:4]), int(text[5:7]), int(text[8:10]), int(text[11:13]), int(text[14:16]))
            both = [naive.replace(tzinfo=self.zone, fold=fold).astimezone(UTC) for fold in (0, 1)]
        except (ValueError, OverflowError, OSError, IndexError):
            return None
        # A minute that never was (clocks put forward) has fold 1 before fold 0; either is as good.
        return (both[0], both[1]) if both[1] > both[0] else (both[0], both[0])

    def naive(self, at: datetime) -> bytes:
        """The stamp a line written at this moment would carry, as far back as the clocks may have been changed."""
        earlier, later = (at + timedelta(hours=hours) for hours in (-3, 3))
        if earlier.astimezone(self.zone).utcoffset() != later.astimezone(self.zone).utcoffset():
            at = earlier  # near a change of the clocks stamps do not rise steadily: start before it
        local = at.astimezone(self.zone)
        return local.strftime("%Y-%m-%d %H:%M:%S,000").encode()
