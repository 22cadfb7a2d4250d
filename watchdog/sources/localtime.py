"""Local times without a zone, as Hermes writes them, become UTC here and nowhere else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

SLACK = timedelta(seconds=30)  # lines of different threads may be this much out of order
_SLACK = SLACK.total_seconds()
# ':41,' and '500' as numbers: looking them up is cheaper than reading them, and says at once what is no time.
_SECONDS = {b":%02d," % number: number for number in range(100)}
_THOUSANDTHS = {b"%03d" % number: number / 1000 for number in range(1000)}


class LocalClock:
    """Turns 'YYYY-MM-DD HH:MM:SS,mmm' of one file into UTC, in the file's order, right through a change of the clocks."""

    def __init__(self, zone: tzinfo | None = None):
        self.zone = zone
        self._minutes: dict[bytes, tuple[float, float] | None] = {}
        self._last = float("-inf")

    def read(self, stamp: bytes) -> datetime | None:
        """The time at the start of a line, None when there is none."""
        try:
            seconds = _SECONDS[stamp[16:20]] + _THOUSANDTHS[stamp[20:23]]
            known = self._minutes[stamp[:16]]
        except KeyError:
            if stamp[16:20] not in _SECONDS or stamp[20:23] not in _THOUSANDTHS:
                return None
            if len(self._minutes) > 20_000:
                self._minutes.clear()
            known = self._minutes[stamp[:16]] = self._minute(stamp[:16])
        if known is None:
            return None
        early, late = known
        at = early + seconds
        # In the hour that comes twice, a time before what was already written is its second coming.
        if late != early and at < self._last - _SLACK:
            at = late + seconds
        if at > self._last or self._last - at > 7200:  # a clock set back: follow it
            self._last = at
        return datetime.fromtimestamp(at, UTC)

    def _minute(self, minute: bytes) -> tuple[float, float] | None:
        """The two epochs a local minute can mean; equal except in the hour that comes twice."""
        try:
            text = minute.decode("ascii")
            if text[10] != " ":
                return None
            naive = datetime(int(text[:4]), int(text[5:7]), int(text[8:10]), int(text[11:13]), int(text[14:16]))
            both = [naive.replace(tzinfo=self.zone, fold=fold).timestamp() for fold in (0, 1)]
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
