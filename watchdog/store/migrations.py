"""The tables of the store, one migration per change, applied by sqlite-utils."""

from __future__ import annotations

import sqlite3

from sqlite_utils import Database, Migrations

from watchdog.store.audit import COLUMNS, FIRST, link

tables = Migrations("hermes-watchdog")


@tables()
def m001_incidents(db: Database) -> None:
    db.table("incidents").create(
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
    db.table("incidents").create_index(["status"])
    db.table("incidents").create_index(["resolved_at"])
    # One row per check that finished, so that nothing between two checks is missed.
    db.table("checks").create(
        {"id": int, "at": str, "looked_back_to": str, "pending_since": str, "blind": str}, pk="id"
    )
    # Per rule: when it was last evaluated, for `every:`.
    db.table("runs").create({"rule": str, "at": str}, pk="rule")


@tables()
def m002_plans(db: Database) -> None:
    # A plan is stored before anyone is asked; `state` is the truth about it (see store/plans.py).
    db.table("plans").create(
        {
            "id": int,
            "digest": str,
            "state": str,
            "title": str,
            "content": str,  # JSON: steps, words, rollback, verification, incidents, evidence, host, home
            "recipes": str,
            "approval": str,
            "asked_at": str,
            "expires_at": str,
            "answered_at": str,
            "answered_by": str,
            "answered_via": str,
            "answered_digest": str,  # what the yes was for
            "claimed_at": str,
            "claimed_by": str,
            "finished_at": str,
            "says": str,
        },
        pk="id",
    )
    db.table("plans").create_index(["state"])
    db.table("codes").create(
        {"id": int, "plan": int, "hash": str, "via": str, "to": str, "at": str, "used_at": str}, pk="id"
    )
    db.table("codes").create_index(["plan"])
    db.table("wrong_tries").create({"id": int, "via": str, "by": str, "at": str}, pk="id")
    db.table("salts").create({"id": int, "salt": str}, pk="id")
    # One row per step that was begun; a row without `ended_at` may have run half way.
    db.table("steps_done").create(
        {
            "id": int,
            "plan": int,
            "part": str,
            "number": int,
            "begun_at": str,
            "ended_at": str,
            "ok": int,
            "says": str,
            "output": str,
        },
        pk="id",
    )
    db.table("steps_done").create_index(["plan", "part", "number"], unique=True)
    # What budgets count: rows, not clocks.
    db.table("actions").create(
        {
            "id": int,
            "plan": int,
            "recipe": str,
            "key": str,
            "at": str,
            "restarted": int,
            "state": str,
            "forgotten": int,
        },
        pk="id",
    )
    db.table("actions").create_index(["at"])
    db.table("starts").create({"at": str}, pk="at")
    db.table("refusals").create({"id": int, "recipe": str, "until": str, "by": str, "at": str}, pk="id")
    db.table("arming").create(
        {"id": int, "armed": int, "by": str, "why": str, "at": str, "seen": int}, pk="id"
    )
    # Append-only: the database itself refuses to change or lose a line of it.
    db.table("audit").create(
        {
            "id": int,
            "at": str,
            "what": str,
            "plan": int,
            "by": str,
            "via": str,
            "digest": str,
            "says": str,
            "more": str,
        },
        pk="id",
    )
    for verb in ("UPDATE", "DELETE"):
        db.execute(
            f"CREATE TRIGGER audit_no_{verb.lower()} BEFORE {verb} ON audit "
            "BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END"
        )


@tables()
def m003_messages(db: Database) -> None:
    # What was said about each thing, apart from the thing itself: incidents, blind sources, failing targets.
    db.table("told").create(
        {
            "ref": str,
            "rule": str,
            "key": str,
            "severity": str,
            "title": str,
            "says": str,
            "advice": str,
            "incident": int,
            "since": str,
            "over_at": str,
            "told_at": str,
            "told_as": str,  # the reason of the last message about it
            "told_severity": str,
            "settled_at": str,  # no further word is owed
            "times": int,
        },
        pk="ref",
    )
    db.table("told").create_index(["settled_at"])
    # Every message that was chosen; the text is redacted and never holds a code.
    db.table("notices").create(
        {
            "id": int,
            "at": str,
            "reason": str,
            "severity": str,
            "title": str,
            "body": str,
            "incidents": str,
            "plan": int,
        },
        pk="id",
    )
    db.table("notices").create_index(["at"])
    # Messages that a target has not taken yet.
    db.table("unsent").create({"id": int, "notice": int, "target": str, "at": str}, pk="id")
    db.table("targets").create(
        {"name": str, "failures": int, "next_try_at": str, "says": str, "at": str}, pk="name"
    )
    # What was asked where; the record of the approval itself is in the tables of plans.
    db.table("questions").create(
        {
            "plan": int,
            "digest": str,
            "title": str,
            "words": str,
            "incidents": str,
            "recipes": str,
            "severity": str,
            "places": str,
            "asked_at": str,
            "expires_at": str,
            "reminded_at": str,
            "answer": str,
            "closed_at": str,
        },
        pk="plan",
    )
    db.table("questions").create_index(["closed_at"])
    db.table("cursors").create({"channel": str, "cursor": str, "at": str}, pk="channel")
    db.table("silences").create(
        {"id": int, "what": str, "until": str, "because": str, "by": str, "at": str, "ended_at": str}, pk="id"
    )


@tables()
def m004_fields_of_sentences(db: Database) -> None:
    # An incident is said again in each reader's language.
    db.table("incidents").add_column("fields", str)
    # What a message shows below the lines that tell how to answer.
    db.table("notices").add_column("details", str)


@tables()
def m005_reasons(db: Database) -> None:
    # Why, as a key with fields; the sentences that older versions wrote stay in `says` and `why`.
    for name in ("plans", "steps_done", "arming", "audit"):
        if "reason" not in db.table(name).columns_dict:
            db.table(name).add_column("reason", str)
    # A no to a plan that is being carried out: it stops before its next step where that is safe.
    if "plan" not in db.table("refusals").columns_dict:
        db.table("refusals").add_column("plan", int)


@tables()
def m006_chain_of_the_audit(db: Database) -> None:
    # Each line carries the hash of the one before; old lines are linked as they stand.
    db.table("audit").add_column("chain", str)
    # Lines that were moved into a file: the last of them, its hash, and the file's name.
    db.table("audit_archives").create({"last": int, "chain": str, "file": str, "at": str}, pk="last")
    for verb in ("update", "delete"):
        db.execute(f"DROP TRIGGER audit_no_{verb}")
    before = FIRST
    for row in db.execute(f"SELECT {', '.join(COLUMNS)} FROM audit ORDER BY id").fetchall():
        before = link(before, dict(zip(COLUMNS, row, strict=True)))
        db.execute("UPDATE audit SET chain = ? WHERE id = ?", [before, row[0]])
    refuse = "BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END"
    db.execute(f"CREATE TRIGGER audit_no_update BEFORE UPDATE ON audit {refuse}")
    db.execute(
        "CREATE TRIGGER audit_no_delete BEFORE DELETE ON audit "
        f"WHEN OLD.id > (SELECT coalesce(max(last), 0) FROM audit_archives) {refuse}"
    )


@tables()
def m007_measurements(db: Database) -> None:
    # Room, memory and open files at past checks: what grows can only be told from before.
    db.table("measurements").create({"id": int, "at": str, "facts": str}, pk="id")
    db.table("measurements").create_index(["at"])


def bring_up_to_date(db: sqlite3.Connection, version: int) -> None:
    tables.apply(Database(db))
    db.execute(f"PRAGMA user_version={int(version)}")
