"""The status of a home for scripts: the contract of docs/json.md."""

from __future__ import annotations

from typing import Any

from watchdog.reports.language import Reader
from watchdog.reports.status import Status, sentence_of, signals
from watchdog.store.messages import Silence
from watchdog.text import iso


def as_json(status: Status, reader: Reader) -> dict[str, Any]:
    """Everything that `status` knows; sentences in the reader's language."""
    seen = status.gateway
    states = {True: "running", False: "not running", None: "unknown"}
    return {
        "home": status.home,
        "now": iso(status.now),
        "light": str(status.light),
        "reasons": [
            {
                "light": str(signal.light),
                "key": str(signal.why.key).rpartition(".")[2],
                "says": sentence_of(signal, reader),
            }
            for signal in signals(status)
        ],
        "gateway": {
            "state": states[seen.alive],
            "pid": seen.pid or None,
            "since": iso(seen.since),
            "where": reader.reason(seen.where) or None,
            "container": seen.container or None,
        }
        if seen
        else None,
        "last_answer": {
            "at": iso(status.answer.at),
            "platform": status.answer.platform,
            "chat": status.answer.chat,
        }
        if status.answer
        else None,
        "runs_by": status.runs_by or None,
        "last_check": iso(status.last),
        "next_check": iso(status.next),
        "at_work": status.at_work or None,
        "armed": status.disarmed is None,
        "disarmed": {
            "at": iso(status.disarmed.at),
            "by": status.disarmed.by,
            "why": reader.reason(status.disarmed.why),
        }
        if status.disarmed
        else None,
        "maintenance": _silence_json(status.maintenance) if status.maintenance else None,
        "silences": [_silence_json(silence) for silence in status.silences],
        "blind": dict(status.blind),
        "open": [
            {
                "id": incident.id,
                "severity": incident.severity,
                "rule": incident.rule,
                "key": incident.key,
                "says": reader.says(incident),
                "since": iso(incident.opened_at),
            }
            for incident in status.open
        ],
        "suspected": status.suspected,
        "plans_waiting": [stored.id for stored in status.asked],
        "plans_on_hold": [
            {
                "title": plan.title,
                "reason": reader.reason(plan.hold.reason),
                "until": iso(plan.hold.until),
                "recipes": list(plan.recipes),
            }
            for plan in status.held
            if plan.hold
        ],
        "plans_ready": [
            {"title": plan.title, "recipes": list(plan.recipes)} for plan in status.unasked if not plan.hold
        ],
        "plans_cut_off": list(status.interrupted),
        "disk_free": status.free,
        "backups": [
            {"database": backup.database, "at": iso(backup.at), "rows": backup.rows}
            for backup in status.backups
        ],
        "config_problem": status.problem or None,
        "last_error": status.last_error or None,
        "store_error": status.store_error or None,
    }


def _silence_json(silence: Silence) -> dict[str, Any]:
    return {
        "id": silence.id,
        "what": silence.what,
        "until": iso(silence.until),
        "because": silence.because,
        "by": silence.by,
    }
