"""The `notify:` and `replies:` settings: where messages go, how often, and who may answer."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from datetime import datetime, time, timedelta, tzinfo

from watchdog.config.yaml import Section
from watchdog.config.zone import zone_of
from watchdog.errors import WatchdogError
from watchdog.model import SEVERITIES
from watchdog.text import harmless
from watchdog.values import Any, dataclass

LANGUAGES = ("en", "zh")
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
FORMATS = ("auto", "text", "markdown", "html")
ENVIRONMENT = "HERMES_WATCHDOG_NOTIFY"  # one or more target URLs, for those who have no settings file yet
_IDS = {"telegram": r"[1-9]\d{0,18}", "matrix": r"@[^\s:]+:\S+"}  # ntfy's approvers have topics
_BIG = 65_536  # bytes of a secret file
_LOOPBACK = r"http://(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]{1,5})?(?:/[\w./~-]*)?"


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
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise WatchdogError(f"{self.where}: cannot read {path}: {error.strerror}") from None
        try:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                raise WatchdogError(f"{self.where}: {path} is not a file")
            if about.st_mode & 0o077:
                raise WatchdogError(
                    f"{self.where}: {path} holds a secret and others may open it (mode {about.st_mode & 0o777:04o}); run: chmod 600 {path}"
                )
            if about.st_uid not in (os.geteuid(), 0):
                raise WatchdogError(
                    f"{self.where}: {path} belongs to another user; run: chown $(id -un) {path}"
                )
            return os.read(handle, _BIG).decode("utf-8", "replace")
        finally:
            os.close(handle)


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
class Approver:
    """Someone who may answer on one channel, and how the channel knows them."""

    name: str
    id: str = ""  # Telegram's user number, Matrix' @name:server
    topic: Secret | None = None  # ntfy: the secret topic this person listens to


@dataclass(frozen=True)
class Channel:
    """One way back: where to ask, whose answer counts."""

    kind: str  # a key of replies.KINDS
    server: str
    approvers: tuple[Approver, ...]
    token: Secret | None = None
    room: str = ""  # Matrix' room, Telegram's group; empty: each approver alone
    escalation: bool = False  # asked only when half of the time has passed without an answer
    time_limit: timedelta = timedelta(seconds=10)

    @property
    def unmatched(self) -> tuple[Approver, ...]:
        """Approvers whose id no answer can bear: a name where Telegram sends a number."""
        form = _IDS.get(self.kind, "")
        return tuple(approver for approver in self.approvers if not re.fullmatch(form, approver.id))


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
    zone: tzinfo | None = (
        None  # where the readers are: of quiet hours, the daily summary and all times in messages
    )

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


def read_notify(section: Section | None, replies: Section | None = None) -> NotifySettings:
    """The `notify:` part of the settings; every mistake is told at its line."""
    answers = read_replies(replies)
    if section is None:
        return NotifySettings(targets=_from_environment(), replies=answers)
    targets: list[Target] = []
    for number, item in enumerate(_mappings(section, "targets"), 1):
        target = _target(item, number)
        if any(other.name == target.name for other in targets):
            item.wrong(f"name: '{harmless(target.name, 40)}' is the name of two targets")
        targets.append(target)
    zone = _zone(section)
    read = NotifySettings(
        targets=tuple(targets) or _from_environment(),
        language=section.choice("language", LANGUAGES, "en"),
        quote_logs=section.flag("quote_logs", False),
        per_hour=section.number("per_hour", 6, 1, 60),
        quiet=_quiet(section, zone),
        daily_summary=_time(section, "daily_summary"),
        weekly_summary=_weekly(section, "weekly_summary"),
        escalate_to=section.names("escalate_to", None),
        ping=secret(section, "ping", None),
        ping_limit=section.duration("ping_limit", timedelta(seconds=5)),
        host=section.text("host", ""),
        replies=answers,
        zone=zone,
    )
    for tag in read.escalate_to:
        if not any(tag in target.tags for target in targets):
            section.wrong_at("escalate_to", f"no target has the tag '{harmless(tag, 40)}'")
    section.done()
    return read


def read_replies(section: Section | None) -> ReplySettings:
    """The `replies:` part of the settings."""
    if section is None:
        return ReplySettings()
    wait = section.duration("wait", timedelta(minutes=2), least=timedelta(0))
    if wait > timedelta(minutes=30):
        section.wrong_at("wait", "a check may wait 30m at most; the answer counts at the next check anyway")
    channels: list[Channel] = []
    for item in _mappings(section, "channels"):
        kind = item.only(tuple(_SERVERS), "channel")
        below = item.section(kind) if kind else None
        if kind and below:
            if any(channel.kind == kind for channel in channels):
                item.wrong(f"{kind} is there twice; list all approvers in one")
            channels.append(_channel(kind, below))
    section.done()
    return ReplySettings(tuple(channels), wait)


def secret(section: Section, key: str, default: Any = "required") -> Secret | None:
    """One of key, key_env, key_file; the value itself is never part of a problem."""
    ways = [key, f"{key}_env", f"{key}_file"]
    given = [way for way in ways if section.has(way)]
    values = {way: section.text(way, "") for way in ways}
    if not given:
        if default == "required":
            section.wrong(f"'{key}' is missing; write {key}, {key}_env or {key}_file")
        return None
    if len(given) > 1:
        section.wrong(f"{' and '.join(given)} say the same; keep one")
    where = f"{section.path}:{section.line_of(given[0])}: {section.name}: {given[0]}"
    way, text = given[0], values[given[0]]
    if way.endswith("_env"):
        return Secret(env=text, where=where)
    if way.endswith("_file"):
        return Secret(file=text, where=where)
    return Secret(value=text, where=where)


def _mappings(section: Section, key: str) -> list[Section]:
    """A list of mappings whose values are secrets: what is no mapping is not quoted back."""
    if not section.has(key):
        return section.sections(key, None)
    node = section.nodes[key][1]
    items = node.value if type(node).__name__ == "SequenceNode" else [node]
    if wrong := [item for item in items if type(item).__name__ != "MappingNode"]:
        section.asked.add(key)
        section.wrong(
            f"{key}: write each as a list of 'name: value' lines (the value is not shown)", wrong[0]
        )
        return []
    return section.sections(key, None)


def _target(item: Section, number: int) -> Target:
    name = item.text("name", f"target {number}")
    url = secret(item, "url") or Secret()
    if url.value and "://" not in url.value:
        item.wrong_at(
            "url",
            "not an Apprise URL; it starts like ntfy://, tgram:// or mailto:// (the value is not shown)",
        )
    target = Target(
        name=harmless(name, 40) or f"target {number}",
        url=url,
        tags=item.names("tags", None),
        at_least=item.choice("at_least", SEVERITIES, "info"),
        format=item.choice("format", FORMATS, "auto"),
        time_limit=item.duration("time_limit", timedelta(seconds=20)),
    )
    if target.time_limit > timedelta(minutes=2):
        item.wrong_at("time_limit", "a check waits 2m at most for a target")
    item.done()
    return target


def _is_loopback(url: str) -> bool:
    """Whether a request to this address stays on this machine: written in one of the plain ways, and nothing else."""
    return re.fullmatch(_LOOPBACK, url, re.ASCII) is not None


# A channel of approval/channels that settings may name, and its server where none is given
_SERVERS = {"ntfy": "https://ntfy.sh", "telegram": "https://api.telegram.org", "matrix": ""}


def _channel(kind: str, section: Section) -> Channel:
    server = section.text("server", _SERVERS[kind]).rstrip("/")
    if not server.startswith(("https://", "http://")):
        section.wrong("server: write its address, such as https://chat.example.org")
    elif server.startswith("http://") and not _is_loopback(server):
        section.wrong_at("server", "codes would travel unencrypted; write https://")
    token = secret(section, "token", None if kind == "ntfy" else "required")
    room = "" if kind == "ntfy" else section.text("room", "")
    if kind == "matrix" and not room.startswith(("!", "#")):
        section.wrong("room: write the room's id or alias, such as '#ops:example.org'")
    approvers = []
    for item in _mappings(section, "approvers"):
        name = harmless(item.text("name"), 40)
        if "/" in name:
            item.wrong_at("name", "a name has no '/'")
        if kind == "ntfy":
            approvers.append(Approver(name, topic=secret(item, "topic")))
        else:
            approvers.append(Approver(name, id=item.text("id")))
        item.done()
    if not approvers:
        section.wrong("approvers: nobody may answer here; list at least one")
    if len({approver.name for approver in approvers}) < len(approvers):
        section.wrong_at("approvers", "two approvers have the same name")
    channel = Channel(
        kind=kind,
        server=server,
        approvers=tuple(approvers),
        token=token,
        room=room,
        escalation=section.flag("escalation", False),
        time_limit=section.duration("time_limit", timedelta(seconds=10)),
    )
    section.done()
    return channel


def _quiet(section: Section, zone: tzinfo | None) -> QuietHours | None:
    text = section.text("quiet_hours", "")
    if not text:
        return None
    start, _, end = text.partition("-")
    try:
        return QuietHours(_clock(start), _clock(end), zone)
    except ValueError:
        section.wrong_at(
            "quiet_hours", f"'{harmless(text, 40)}' is not a span of the day; write '23:00-07:00'"
        )
        return None


def _zone(section: Section) -> tzinfo | None:
    try:
        return zone_of(section.text("timezone", "local"))
    except ValueError as error:
        section.wrong_at("timezone", str(error))
        return None


def _time(section: Section, key: str) -> time | None:
    text = section.text(key, "")
    if not text:
        return None
    try:
        return _clock(text)
    except ValueError:
        section.wrong_at(key, f"'{harmless(text, 40)}' is not a time of the day; write '09:00'")
        return None


def _weekly(section: Section, key: str) -> Weekly | None:
    text = section.text(key, "")
    if not text:
        return None
    day, _, at = text.strip().partition(" ")
    try:
        return Weekly(WEEKDAYS.index(day.lower()[:3]), _clock(at))
    except ValueError:
        section.wrong_at(key, f"'{harmless(text, 40)}' is not a moment of the week; write 'Mon 09:00'")
        return None


def _clock(text: str) -> time:
    return datetime.strptime(text.strip(), "%H:%M").time()


def _from_environment() -> tuple[Target, ...]:
    if not os.environ.get(ENVIRONMENT, "").strip():
        return ()
    return (Target("environment", Secret(env=ENVIRONMENT, where=ENVIRONMENT)),)
