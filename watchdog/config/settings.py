"""The settings as values: limits, targets of messages, and who may answer. read_settings.py makes them from settings.yaml."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta, tzinfo

from watchdog.errors import WatchdogError
from watchdog.system.files import open_regular
from watchdog.system.privileges import open_to_others
from watchdog.values import TYPE_CHECKING, StrPath, dataclass, field

if TYPE_CHECKING:
    from watchdog.config.fleet_settings import FleetSettings

NAME = "settings.yaml"
LANGUAGES = ("en", "zh")
ENVIRONMENT = "HERMES_WATCHDOG_NOTIFY"  # one or more target URLs, for those who have no settings file yet
HOUR = timedelta(hours=1)
_BIG = 65_536  # bytes of a secret file


@dataclass(frozen=True)
class Secret:
    """A value that is never printed; it is looked up when it is used, so that a quiet check reads no file."""

    value: str = ""
    env: str = ""
    file: str = ""
    where: str = ""  # "rules/settings.yaml:12: targets: url", for error texts

    def __str__(self) -> str:
        return "[secret]"

    __repr__ = __str__

    def reveal(self, environ: Mapping[str, str] | None = None) -> str:
        """The value itself; WatchdogError says what to do when it cannot be had."""
        text = self.value
        if self.env:
            text = (os.environ if environ is None else environ).get(self.env, "")
            if not text.strip():
                raise WatchdogError(f"{self.where}: the environment variable {self.env} is not set")
        elif self.file:
            text = self._from_file()
        if not text.strip():
            raise WatchdogError(f"{self.where}: the value is empty")
        return text.strip()

    def lines(self) -> tuple[str, ...]:
        """The values when there may be several, apart by spaces or lines; a line with # is a remark."""
        lines = (line.strip() for line in self.reveal().splitlines())
        return tuple(word for line in lines if not line.startswith("#") for word in line.split())

    def _from_file(self) -> str:
        path = os.path.expanduser(self.file)
        try:
            # Opened once and asked about itself, so that the file cannot be exchanged between look and read.
            with open_regular(path) as file:
                about, content = os.fstat(file.fileno()), file.read(_BIG)
        except IsADirectoryError:
            raise WatchdogError(f"{self.where}: {path} is not a file") from None
        except OSError as error:
            raise WatchdogError(f"{self.where}: cannot read {path}: {error.strerror}") from None
        if about.st_mode & 0o077:
            raise WatchdogError(
                f"{self.where}: {path} holds a secret and others may open it (mode {about.st_mode & 0o777:04o}); run: chmod 600 {path}"
            )
        if about.st_uid not in (os.geteuid(), 0):
            raise WatchdogError(f"{self.where}: {path} belongs to another user; run: chown $(id -un) {path}")
        return content.decode("utf-8", "replace")


@dataclass(frozen=True)
class Target:
    """One place that messages are sent to."""

    name: str
    url: Secret
    tags: tuple[str, ...] = ()
    at_least: str = "info"
    format: str = "auto"
    time_limit: timedelta = timedelta(seconds=20)


@dataclass(frozen=True)
class QuietHours:
    """From one time of the day to another, where the reader is; only critical messages pass."""

    start: time
    end: time
    zone: tzinfo | None = None  # None: where the machine is

    def ends(self, now: datetime) -> datetime | None:
        """When the quiet hours that now lies in are over; None when it lies in none."""
        local = now.astimezone(self.zone)
        clock = local.time().replace(tzinfo=None)
        inside = (
            self.start <= clock < self.end
            if self.start < self.end
            else clock >= self.start or clock < self.end
        )
        if not inside or self.start == self.end:
            return None
        # Built from the time of the day, so that the end is right on the night the clocks change.
        end = datetime.combine(local.date(), self.end, self.zone)
        return (end if clock < self.end else end + timedelta(days=1)).astimezone(now.tzinfo)


@dataclass(frozen=True)
class Weekly:
    """A moment of the week, where the reader is."""

    weekday: int  # 0 is Monday
    at: time

    def last(self, local: datetime) -> datetime:
        """The newest such moment that is not after this one."""
        day = local.date() - timedelta(days=(local.weekday() - self.weekday) % 7)
        moment = datetime.combine(day, self.at, local.tzinfo)
        return moment if moment <= local else moment - timedelta(days=7)


@dataclass(frozen=True)
class ChannelForm:
    """What the settings of one kind of channel may hold."""

    server: str = ""  # where none is given
    has_token: bool = True
    rooms: tuple[str, ...] = ()  # how a room's name begins that people must be asked in
    ids: str = ""  # what an approver's id looks like; '': each has a secret topic
    by_text: bool = False  # people answer by a line of text and not by buttons


CHANNELS = {  # those of approval/channels that settings name
    "ntfy": ChannelForm("https://ntfy.sh", has_token=False),
    "telegram": ChannelForm("https://api.telegram.org", ids=r"[1-9]\d{0,18}"),
    "matrix": ChannelForm(rooms=("!", "#"), ids=r"@[^\s:]+:\S+", by_text=True),
}


@dataclass(frozen=True)
class Approver:
    """Someone who may answer on one channel, and how the channel knows them."""

    name: str
    id: str = ""  # Telegram's user number, Matrix' @name:server
    topic: Secret | None = None  # ntfy: the secret topic this person listens to


@dataclass(frozen=True)
class Channel:
    """One way back: where to ask, whose answer counts."""

    kind: str  # a module of approval/channels
    server: str
    approvers: tuple[Approver, ...]
    token: Secret | None = None
    room: str = ""  # Matrix' room, Telegram's group; empty: each approver alone
    escalation: bool = False  # asked only when half of the time has passed without an answer
    time_limit: timedelta = timedelta(seconds=10)

    @property
    def secret(self) -> str:
        """The token itself; '' where there is none."""
        return self.token.reveal() if self.token else ""

    @property
    def unmatched(self) -> tuple[Approver, ...]:
        """Approvers whose id no answer can bear: a name where Telegram sends a number."""
        ids = self.form.ids
        return tuple(approver for approver in self.approvers if not re.fullmatch(ids, approver.id))

    @property
    def form(self) -> ChannelForm:
        return CHANNELS.get(self.kind, ChannelForm())


@dataclass(frozen=True)
class ReplySettings:
    """The channels and how long a check waits for an answer."""

    channels: tuple[Channel, ...] = ()
    wait: timedelta = timedelta(minutes=2)


@dataclass(frozen=True)
class NotifySettings:
    """Everything about telling people."""

    targets: tuple[Target, ...] = ()
    language: str = "en"
    quote_logs: bool = False
    per_hour: int = 6
    quiet: QuietHours | None = None
    daily_summary: time | None = None
    weekly_summary: Weekly | None = None
    escalate_to: tuple[str, ...] = ()  # tags of targets that hear of a question only when no answer came
    ping: Secret | None = None
    ping_limit: timedelta = timedelta(seconds=5)
    host: str = ""  # how messages call this machine; its own name unless told
    replies: ReplySettings = ReplySettings()
    zone: tzinfo | None = None  # where the readers are: of quiet hours, summaries and all times in messages

    def summary_due(self, last: datetime | None, now: datetime) -> bool:
        """Whether the daily summary is due, by the readers' clock."""
        local = now.astimezone(self.zone)
        if self.daily_summary is None or local.time().replace(tzinfo=None) < self.daily_summary:
            return False
        return last is None or last.astimezone(self.zone).date() < local.date()

    def week_due(self, last: datetime | None, now: datetime) -> bool:
        """Whether the weekly summary is due; the first one on its own day, a missed one as soon as possible."""
        if self.weekly_summary is None:
            return False
        local = now.astimezone(self.zone)
        moment = self.weekly_summary.last(local)
        return moment.date() == local.date() if last is None else last < moment


@dataclass(frozen=True)
class Limits:
    """Every number that keeps the watchdog from doing harm; the defaults are the shipped ones."""

    per_hour: int = 3  # starts and restarts of the gateway, by anyone
    per_day: int = 6  # actions of the watchdog, all recipes together
    grace: timedelta = timedelta(minutes=5)  # after a restart by anyone: wait and see
    longest_pause: timedelta = timedelta(days=1)  # pauses double from a recipe's cooldown up to this
    remember_failures: timedelta = timedelta(days=7)  # a cure that failed for a key is not tried again for it
    wait_for_turns: timedelta = timedelta(minutes=2)  # before stopping a gateway that is answering someone
    free_space: int = 64_000_000  # bytes; with less, restarting makes things worse
    auto: tuple[str, ...] = ()  # recipes that may run without asking
    refused_for: timedelta = timedelta(hours=6)
    wrong_tries: int = 5
    locked_for: timedelta = HOUR
    carry_out_within: timedelta = timedelta(minutes=10)  # an approval that was not taken up by then is void


@dataclass(frozen=True)
class Settings:
    unit: str = "auto"
    timezone: str = "local"
    time_limit: float = 300.0  # seconds for one whole check, repairs apart
    backups: bool = True  # a verified snapshot of each database, at most one a day
    keep_backups: int = 3
    keep_history: timedelta = timedelta(days=400)  # then incidents and plans go, and the audit into a file
    page: str = ""  # file of the status page, written after each check; {home} stands for the home's name
    page_private: bool = False  # readable by its owner alone
    limits: Limits = field(default_factory=Limits)
    notify: NotifySettings = field(default_factory=NotifySettings)
    fleet: FleetSettings | None = None  # None: this host is one of its own
    where: str = ""

    @property
    def zone(self) -> tzinfo | None:
        return zone_of(self.timezone)


def zone_of(name: str) -> tzinfo | None:
    """None for this machine's own zone; ValueError for an unknown name."""
    if name == "local":
        return None
    if name.upper() == "UTC":
        return UTC
    from zoneinfo import ZoneInfo  # most homes are in this machine's zone

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(
            f"'{name}' is not a time zone; write local, UTC or a name such as Asia/Shanghai"
        ) from None


def others_may_write(path: StrPath) -> str:
    """Why this file is not ours alone; '' when it is."""
    return open_to_others(path, "it says who may approve")
