"""The first hour: which homes there are, and the settings that a few answers make."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from watchdog.config.read_settings import is_loopback
from watchdog.config.settings import NAME
from watchdog.errors import WatchdogError
from watchdog.gateway.container_processes import every_process
from watchdog.gateway.containers import mounted_folders
from watchdog.gateway.last_life import in_other_namespace
from watchdog.gateway.unit_files import SYSTEM_FOLDERS, speaking_of_hermes
from watchdog.job import is_home, profiles, user_home
from watchdog.notify.translate import Words
from watchdog.system.files import create_file
from watchdog.system.procfs import open_files

USUAL = (Path("/opt/hermes"), Path("/var/lib/hermes"), Path("/root/.hermes"), Path("/opt/data"))


@dataclass(frozen=True)
class Phone:
    """How a person is reached: an address for messages, a way back for answers, and the secrets as files."""

    target: str = ""  # Apprise URL
    channel: tuple[str, ...] = ()  # lines below `channels:`
    files: Mapping[str, str] = field(default_factory=dict)  # name -> secret, in the configuration folder


def find_homes(given: Path, elsewhere: Iterable[Path] | None = None) -> list[Path]:
    """Hermes homes with their profiles: the given, the user's own, and those elsewhere on this machine."""
    others = seen_homes() if elsewhere is None else elsewhere
    found = filter(is_home, dict.fromkeys([given, Path(user_home(), ".hermes"), *others]))
    return list(dict.fromkeys(Path(home) for first in found for home in profiles(first)))


def seen_homes() -> list[Path]:
    """What units name as a home, whose lock running gateways hold, what containers mount, and the usual folders."""
    held = [
        os.path.dirname(path)
        for process in every_process()
        if not in_other_namespace(process.pid)
        for path in open_files(process.pid) or ()
        if os.path.basename(path) == "gateway.lock"
    ]
    return [
        *homes_in_units(speaking_of_hermes(SYSTEM_FOLDERS)),
        *map(Path, sorted(held)),
        *map(Path, mounted_folders()),
        *USUAL,
    ]


def homes_in_units(units: Iterable[tuple[str, str]]) -> list[Path]:
    """What `Environment=HERMES_HOME=…` of the units says."""
    words = [word for _, text in units for line in text.splitlines() for word in line.split()]
    values = [word.removeprefix("Environment=").strip("\"'") for word in words]
    return [Path(value.partition("=")[2]) for value in values if value.startswith("HERMES_HOME=")]


def ntfy(config: Path, server: str, name: str) -> Phone:
    """ntfy with a topic that cannot be guessed, for messages and for answers by two buttons."""
    topic = f"hermes-{secrets.token_hex(12)}"
    scheme, _, host = server.rstrip("/").partition("://")
    if scheme not in ("http", "https") or not host:
        raise WatchdogError(f"'{server}' is no address; write https://ntfy.sh or that of your own server")
    if scheme == "http" and not is_loopback(server):
        raise WatchdogError(f"over {server} codes would travel unencrypted; write an address with https://")
    return Phone(
        f"{'ntfys' if scheme == 'https' else 'ntfy'}://{host}/{topic}",
        (
            "- ntfy:",
            f"    server: {server.rstrip('/')}",
            "    approvers:",
            f"      - {_yaml({'name': name, 'topic_file': str(config / 'phone.topic')})}   # who may answer",
        ),
        {"phone.topic": topic},
    )


def telegram(config: Path, token: str, user: str) -> Phone:
    """A Telegram bot of the watchdog's own."""
    if ":" not in token or not user.isdigit():
        raise WatchdogError(
            "a bot's token looks like 123456:ABC…, and your own id is a number (ask @userinfobot)"
        )
    return Phone(
        f"tgram://{token}/{user}",
        (
            "- telegram:",
            f"    token_file: {_yaml(str(config / 'phone.token'))}",
            f"    approvers: [{{name: me, id: {user}}}]   # who may answer: the user's number, not the @name",
        ),
        {"phone.token": token},
    )


def apprise(url: str) -> Phone:
    """Any Apprise URL: messages only; questions are answered on the host."""
    if "://" not in url:
        raise WatchdogError("an Apprise URL looks like mailto://…, slack://… or json://…")
    return Phone(url)


def settings_text(phone: Phone, words: Words, config: Path) -> str:
    """The settings with the meaning of each line beside it."""
    text = words("settings.head", language=words.language)
    if phone.target:
        text += words("settings.target", path=_yaml(str(config / "phone.url")))
    if phone.channel:
        text += words("settings.replies") + "".join(f"    {line}\n" for line in phone.channel)
    return text + words("settings.tail")


def _yaml(value: object) -> str:
    """The value as YAML on one line, whatever was typed."""
    return yaml.safe_dump(
        [value], default_flow_style=True, allow_unicode=True, sort_keys=False, width=10_000
    )[1:-2]


def write_settings(config: Path, phone: Phone, text: str) -> list[Path]:
    """Write the settings and their secrets, each readable by this user alone; nothing that is there is replaced."""
    files = {NAME: text, **phone.files}
    if phone.target:
        files["phone.url"] = phone.target
    taken = [config / name for name in files if os.path.lexists(config / name)]
    if taken:
        raise WatchdogError(
            f"{taken[0]} is there already and is not replaced; move it away first, or edit it"
        )
    try:
        config.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, content in files.items():
            create_file(config / name, f"{content.rstrip(chr(10))}\n".encode())
    except OSError as error:
        raise WatchdogError(f"cannot write {error.filename}: {error.strerror}") from None
    return [config / name for name in files]
