"""Local times without a zone, as Hermes writes them, become UTC here and nowhere else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo

SLACK = timedelta(seconds=30)  # lines of different threads may be this much out of order


class LocalClock:
    """Turns 'YYYY-MM-DD HH:MM:SS,mmm' of one file into UTC, in the file's order, right through a change of the clocks."""

    def __init__(self, zone: tzinfo | None = None):
        self.zone = zone
        self._minutes: dict[bytes, tuple[float, float] | None] = {}
        self._last = float("-inf")

    def read(self, stamp: bytes) -> datetime | None:
        """The time at the start of a line, None when there is none."""
        minute = stamp[:16]
        try:
            known = self._minutes[minute]
        except KeyError:
            known = self._minutes[minute] = self._minute(minute)
            if len(self._minutes) > 20_000:
                self._minutes.clear()
        if known is None or stamp[16:17] != b":" or stamp[19:20] != b",":
            return None
        try:
            seconds = int(stamp[17:19]) + int(stamp[20:23]) / 1000
        except ValueError:
            return None
        early, late = known
        at = early + seconds
        # In the hour that comes twice, a time before what was already written is its second coming.
        if late != early and at < self._last - SLACK.total_seconds():
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
