"""The `metrics:`, `alertmanager:` and `fleet:` settings: where one home of many reports to, and who may answer."""

from __future__ import annotations

from datetime import timedelta
from urllib.parse import urlsplit

from watchdog.config.read_settings import secret
from watchdog.config.settings import Approver, Channel, NotifySettings, Secret
from watchdog.config.yaml import Section
from watchdog.text import harmless
from watchdog.values import dataclass, replace

SECTIONS = ("metrics", "alertmanager", "fleet")
TIME_LIMIT = timedelta(seconds=3)  # for each service, all of them at once
MOST_URLS = 8  # more are no cluster but a mistake; each gets a thread


@dataclass(frozen=True)
class FleetSettings:
    """What one home tells the services of a fleet; each part works without the others."""

    textfile: str = ""  # folder of node_exporter's textfile collector
    alertmanagers: tuple[Secret, ...] = ()  # an address may hold a password
    postgres: Secret | None = None
    approvers: tuple[str, ...] = ()  # PostgreSQL roles whose answer counts on this host
    instance: str = ""  # how this machine is called; its own name unless given
    profile: str = ""  # how this home is called; from its folder unless given
    interval: timedelta | None = None  # between two checks; measured unless given


def read_fleet(section: Section, notify: NotifySettings) -> tuple[FleetSettings, NotifySettings]:
    """The three sections of settings.yaml, and the reply channels with the mailbox among them."""
    metrics, alertmanager, fleet = (section.section(name, None) for name in SECTIONS)
    read = FleetSettings()
    if metrics is not None:
        folder = metrics.text("textfile")
        if folder and not folder.startswith(("/", "~")):
            metrics.wrong_at("textfile", "write the whole path; cron starts checks in another folder")
        read = replace(read, textfile=folder)
        metrics.done()
    if alertmanager is not None:
        read = replace(read, alertmanagers=_addresses(alertmanager))
        alertmanager.done()
    if fleet is not None:
        read = replace(
            read,
            postgres=secret(fleet, "postgres", None),
            approvers=fleet.names("approvers", None),
            instance=fleet.text("instance", ""),
            profile=fleet.text("profile", ""),
            interval=fleet.duration("interval", None, least=timedelta(minutes=1)),
        )
        if read.approvers and read.postgres is None:
            fleet.wrong_at(
                "approvers", "they answer in PostgreSQL; write postgres, postgres_env or postgres_file"
            )
        if len(set(read.approvers)) < len(read.approvers):
            fleet.wrong_at("approvers", "two approvers have the same name")
        for approver in read.approvers:
            if "/" in approver or not approver.isprintable():
                fleet.wrong_at("approvers", f"'{harmless(approver, 40)}' is not the name of a role")
        fleet.done()
    return read, _with_mailbox(notify, read)


def _addresses(section: Section) -> tuple[Secret, ...]:
    found = []
    for item in section.items("urls"):
        where = f"{section.path}:{item.start_mark.line + 1}: alertmanager: urls"
        try:
            parts = urlsplit(item.value)
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        except ValueError:
            good = False
        if not good:
            section.wrong(
                "urls: write addresses such as http://127.0.0.1:9093 (the value is not shown)", item
            )
        found.append(Secret(value=item.value.rstrip("/"), where=where))
    if len({address.value for address in found}) < len(found):
        section.wrong_at("urls", "an address is there twice")
    if len(found) > MOST_URLS:
        section.wrong_at("urls", f"{len(found)} addresses; {MOST_URLS} at most")
    return tuple(found)


def _with_mailbox(notify: NotifySettings, fleet: FleetSettings) -> NotifySettings:
    """The mailbox as one more way to answer, where this host lists who may."""
    if fleet.postgres is None or not fleet.approvers:
        return notify
    approvers = tuple(Approver(name, id=name) for name in fleet.approvers)
    channel = Channel("postgres", "", approvers, token=fleet.postgres, time_limit=TIME_LIMIT)
    return replace(notify, replies=replace(notify.replies, channels=(*notify.replies.channels, channel)))
