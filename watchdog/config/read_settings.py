"""settings.yaml → Settings: the user's over the shipped one, every mistake told with its line."""

from __future__ import annotations

import os
import re
from datetime import datetime, time, timedelta, tzinfo

from watchdog import config
from watchdog.config.rules import read_file
from watchdog.config.settings import (
    CHANNELS,
    ENVIRONMENT,
    LANGUAGES,
    NAME,
    Approver,
    Channel,
    Limits,
    NotifySettings,
    QuietHours,
    ReplySettings,
    Secret,
    Settings,
    Target,
    Weekly,
    others_may_write,
    zone_of,
)
from watchdog.config.yaml import Section
from watchdog.errors import ConfigError, Problem
from watchdog.model import SEVERITIES
from watchdog.text import harmless
from watchdog.values import Any, StrPath, replace

WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
FORMATS = ("auto", "text", "markdown", "html")
_LOOPBACK = r"http://(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?::[0-9]{1,5})?(?:/[\w./~-]*)?"


def load_settings(folder: StrPath) -> Settings:
    """The settings of one configuration folder; the defaults when it has none."""
    path = os.path.join(folder, NAME)
    if not os.path.lexists(path):  # a link to nowhere is a mistake, not a wish for the defaults
        return Settings(notify=read_notify(None))  # a target may still be in the environment
    problems: list[Problem] = []
    settings = Settings()
    sections = read_file(path, problems)
    if why := others_may_write(path):
        problems.append(Problem(str(path), 1, why))
    if len(sections) > 1:
        problems.append(
            Problem(str(path), sections[1].line, "only one document ('---') belongs in the settings")
        )
    for section in sections[:1]:
        section.path = str(path)
        zone = section.text("timezone", "local")
        try:
            zone_of(zone)
        except ValueError as error:
            section.wrong_at("timezone", str(error))
        settings = Settings(
            unit=section.text("unit", "auto"),
            timezone=zone,
            time_limit=section.duration("time_limit", None).total_seconds()
            if section.has("time_limit")
            else 300.0,
            backups=section.flag("backups", True),
            keep_history=section.duration(
                "keep_history", timedelta(days=400), least=timedelta(days=35), most=timedelta(days=36500)
            ),
            keep_backups=section.number("keep_backups", 3, least=1, most=100),
            page=_page_path(section),
            page_private=section.flag("page_private", False),
            limits=read_limits(section.section("limits", None), section.section("approval", None)),
            notify=read_notify(section.section("notify", None), section.section("replies", None)),
            where=str(path),
        )
        settings = _with_fleet(settings, section)
        section.done()
    if problems:
        raise ConfigError(problems)
    return settings


def _page_path(section: Section) -> str:
    """Where the status page goes; cron has no folder of its own, so the path is a whole one."""
    path = os.path.expanduser(section.text("page", ""))
    if path and not os.path.isabs(path):
        section.wrong_at("page", f"'{path}' is not a whole path; write /srv/www/hermes.html or ~/hermes.html")
    elif path.endswith("/"):
        section.wrong_at("page", f"'{path}' is a folder; write the name of a file, such as {path}hermes.html")
    return path


def _with_fleet(settings: Settings, section: Section) -> Settings:
    """With what the sections of a fleet say; most hosts have none, and load nothing for it."""
    if not any(section.has(name) for name in ("metrics", "alertmanager", "fleet")):
        return settings
    fleet, notify = config.read_fleet(section, settings.notify)
    return replace(settings, fleet=fleet, notify=notify)


def read_limits(limits: Section | None, approval: Section | None = None) -> Limits:
    """The two sections of settings.yaml; what is missing keeps its default."""
    given: dict[str, object] = {}
    basic = Limits()
    if limits is not None:
        given |= {
            "per_hour": limits.number("per_hour", basic.per_hour, least=0, most=60),
            "per_day": limits.number("per_day", basic.per_day, least=0, most=1000),
            "grace": limits.duration("grace", basic.grace),
            "longest_pause": limits.duration("longest_pause", basic.longest_pause),
            "remember_failures": limits.duration("remember_failures", basic.remember_failures),
            "wait_for_turns": limits.duration("wait_for_turns", basic.wait_for_turns, least=timedelta(0)),
            "free_space": limits.number("free_space", basic.free_space, most=10**15),
        }
        limits.done()
    if approval is not None:
        given |= {
            "auto": approval.names("auto", ()),
            "refused_for": approval.duration("refused_for", basic.refused_for),
            "wrong_tries": approval.number("wrong_tries", basic.wrong_tries, least=1, most=100),
            "locked_for": approval.duration("locked_for", basic.locked_for),
        }
        approval.done()
    return Limits(**given)  # type: ignore[arg-type]


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
        kind = item.only(tuple(CHANNELS), "channel")
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


def is_loopback(url: str) -> bool:
    """Whether a request to this address stays on this machine: written in one of the plain ways, and nothing else."""
    return re.fullmatch(_LOOPBACK, url, re.ASCII) is not None


def _channel(kind: str, section: Section) -> Channel:
    form = CHANNELS[kind]
    server = section.text("server", form.server).rstrip("/")
    if not server.startswith(("https://", "http://")):
        section.wrong("server: write its address, such as https://chat.example.org")
    elif server.startswith("http://") and not is_loopback(server):
        section.wrong_at("server", "codes would travel unencrypted; write https://")
    token = secret(section, "token", "required" if form.has_token else None)
    room = section.text("room", "") if form.ids else ""
    if form.rooms and not room.startswith(form.rooms):
        section.wrong("room: write the room's id or alias, such as '#ops:example.org'")
    approvers = []
    for item in _mappings(section, "approvers"):
        name = harmless(item.text("name"), 40)
        if "/" in name:
            item.wrong_at("name", "a name has no '/'")
        if form.ids:
            approvers.append(Approver(name, id=item.text("id")))
        else:
            approvers.append(Approver(name, topic=secret(item, "topic")))
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
