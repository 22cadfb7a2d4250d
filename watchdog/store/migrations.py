"""The tables of the store, one migration per change, applied by sqlite-utils."""

from __future__ import annotations

import sqlite3

from sqlite_utils import Database, Migrations

tables = Migrations("hermes-watchdog")


@tables()
def m001_incidents(db: Database) -> None:
    db["incidents"].create(
        {
            "id": int,
            "rule": str,
            "key": str,
            "severity": str,
            "status": str,
            "title": str,
            "says": str,
            "first_at": str,
            "opened_at": str,
            "last_seen_at": str,
            "resolved_at": str,
            "recipe": str,
            "advice": str,
            "times_seen": int,
            "facts": str,
            "evidence": str,
        },
        pk="id",
    )
    db["incidents"].create_index(["status"])
    db["incidents"].create_index(["resolved_at"])
    # One row per check that finished, so that nothing between two checks is missed.
    db["checks"].create({"id": int, "at": str, "looked_back_to": str, "blind": str}, pk="id")
    # Per rule: when it was last evaluated, for `every:`.
    db["runs"].create({"rule": str, "at": str}, pk="rule")


def bring_up_to_date(db: sqlite3.Connection, version: int) -> None:
    tables.apply(Database(db))
    db.execute(f"PRAGMA user_version={int(version)}")
