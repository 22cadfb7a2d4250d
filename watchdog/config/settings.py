"""settings.yaml → Settings: the user's over the shipped one, every mistake told with its line."""

from __future__ import annotations

import os
from datetime import timedelta, tzinfo
from pathlib import Path

from watchdog import config
from watchdog.config.limits import Limits, read_limits
from watchdog.config.notify_settings import NotifySettings, read_notify
from watchdog.config.rules import open_to_others, read_file
from watchdog.config.yaml import Section
from watchdog.config.zone import zone_of
from watchdog.errors import ConfigError, Problem
from watchdog.values import TYPE_CHECKING, dataclass, field, replace

if TYPE_CHECKING:
    from watchdog.config.fleet_settings import FleetSettings

NAME = "settings.yaml"


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


def load_settings(folder: Path) -> Settings:
    """The settings of one configuration folder; the defaults when it has none."""
    path = folder / NAME
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


def others_may_write(path: Path) -> str:
    """Why this file is not ours alone; '' when it is."""
    return open_to_others(path, "it says who may approve")


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
