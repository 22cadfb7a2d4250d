"""A check that failed is told without the store: each target hears of each failure once, the ping says fail.

What was told is kept in the marker beside the store. Where that cannot be written, in a folder of this
user's that lives in memory; where there is none of these, it is told about once an hour.
"""

from __future__ import annotations

import os
import traceback
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from hashlib import sha256

from watchdog import notify
from watchdog.config.settings import Target
from watchdog.errors import ConfigError, WatchdogError
from watchdog.job import Job
from watchdog.model import Notification, Reason
from watchdog.notify.context import MessageContext, host_of, machine_and_home
from watchdog.notify.deliver import Send, outgoing_message, send
from watchdog.notify.sanitize import headline
from watchdog.notify.translate import read_words
from watchdog.reports.language import command_of, words_of
from watchdog.store.messages import News
from watchdog.store.recovery import EDIT, Marker, failure_places, read_marker, write_marker
from watchdog.store.store import StoreError
from watchdog.system.lock import TooLong
from watchdog.values import replace

TRIED = "tried"  # an entry that reached no target


class Kind(StrEnum):
    """What failed; the sentence is `failure.KIND` of the locale. A StoreError's kind is its trouble."""

    CONFIG = "config"
    TOO_LONG = "too-long"
    REFUSED = "refused"  # anything else that is explained by its own text
    CRASH = "crash"


def tell_failure(job: Job, error: BaseException, now: datetime, deliver: Send | None = None) -> None:
    """Tell each target that has not heard of this failure; never raises."""
    with suppress(Exception):  # telling that something failed must not fail itself
        with suppress(Exception):
            notify.ping(job.settings.notify, "fail")
        reason = reason_of(error, words_of(error, job))
        _tell_once(job, _key(reason), reason, now, deliver)


def tell_edit(job: Job, error: Exception | None, now: datetime, deliver: Send | None = None) -> None:
    """Tell of an edit that is not used while the last good rules stay in force; None: the files are right again."""
    with suppress(Exception):
        if error is not None:
            reason = Reason("failure.edit", reason_of(error).fields)
            _tell_once(job, EDIT + _key(reason), reason, now, deliver)
            return
        for place in failure_places(job.store_file):
            marker = read_marker(place)
            if marker is not None and any(key.startswith(EDIT) for key in marker.failures):
                write_marker(place, replace(marker, failures=_without_edits(marker)))


def _key(reason: Reason) -> str:
    """A failure is the same while its kind and its text are, whatever the numbers in it."""
    text = "".join(sign for sign in str(reason.fields.get("error", "")) if not sign.isdigit())
    return sha256(f"{reason.key} {text}".encode("utf-8", "replace")).hexdigest()[:12]


def _without_edits(marker: Marker) -> dict[str, tuple[str, ...]]:
    return {key: heard for key, heard in marker.failures.items() if not key.startswith(EDIT)}


def _tell_once(job: Job, key: str, reason: Reason, now: datetime, deliver: Send | None) -> None:
    settings = job.settings.notify
    place, marker = _marker(job)
    heard = marker.failures.get(key, ())
    waiting = [target for target in settings.targets if _name(target) not in heard]
    if not waiting or (place is None and now.minute):
        return
    sent = _send(_message("title.failed", reason, job, now), waiting, deliver)
    if place is not None:
        # The oldest of many failures is forgotten: the file has one block.
        failures = dict(list(marker.failures.items())[-5:]) | {key: (*heard, *sent)}
        write_marker(place, replace(marker, failures=failures))


def tell_recovery(job: Job, now: datetime, deliver: Send | None = None) -> None:
    """A check succeeded: each target that got a failure gets a message that checks work again."""
    for place in failure_places(job.store_file):
        marker = read_marker(place)
        failures = _without_edits(marker) if marker else {}
        if marker is None or not failures:
            continue
        heard = {name for names in failures.values() for name in names}
        edits = {key: names for key, names in marker.failures.items() if key.startswith(EDIT)}
        if not write_marker(place, replace(marker, failures=edits)):
            continue
        settings = job.settings.notify
        waiting = [target for target in settings.targets if _name(target) in heard]
        if waiting:
            with suppress(Exception):
                reason = Reason("failure.over")
                _send(_message("title.works_again", reason, job, now), waiting, deliver)


def reason_of(error: BaseException, words: str = "") -> Reason:
    """What failed, as a key with fields; `words` are what the error says to a person of this home."""
    words = words or str(error)
    if isinstance(error, StoreError):
        return Reason(f"failure.store-{error.trouble}", {"error": words})
    kind = Kind.CRASH
    if isinstance(error, ConfigError):
        kind = Kind.CONFIG
    elif isinstance(error, TooLong):
        kind = Kind.TOO_LONG
    elif isinstance(error, WatchdogError):
        kind = Kind.REFUSED
    first = words.strip().split("\n")[0]
    if kind is Kind.CRASH:
        frames = traceback.extract_tb(error.__traceback__)
        where = f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})" if frames else ""
        first = f"{type(error).__name__}: {first}{where}"
    return Reason(f"failure.{kind}", {"error": first})


def _message(title: str, reason: Reason, job: Job, now: datetime) -> Notification:
    settings = job.settings.notify
    where = machine_and_home(host_of(settings), job.home_dir, command_of(job))
    context = MessageContext(now, where, read_words(settings.language, settings.zone))
    good = title == "title.works_again"
    return Notification(
        News.RESOLVED if good else News.BLIND,
        headline(context.text(title), context.words),
        context.say(reason),
        "info" if good else "critical",
        details=context.host,
    )


def _send(notification: Notification, targets: list[Target], deliver: Send | None) -> tuple[str, ...]:
    """The names of the targets that took it."""
    deliveries = (deliver or send)({target: [outgoing_message(1, notification)] for target in targets})
    taken = {delivery.target for delivery in deliveries if delivery.ok}
    return tuple(_name(target) for target in targets if target.name in taken)


def _name(target: Target) -> str:
    return sha256(target.name.encode("utf-8", "replace")).hexdigest()[:8]


def _marker(job: Job) -> tuple[str | None, Marker]:
    """Where a failure can be noted, and what is noted there; (None, …) when nowhere."""
    for place in failure_places(job.store_file):
        marker = read_marker(place) or Marker()
        # Written only to see whether it can be.
        if write_marker(place, replace(marker, failures={**marker.failures, TRIED: ()})):
            return place, marker
    return None, Marker()
