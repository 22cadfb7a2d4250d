"""The tables of the store, one migration per change, applied by sqlite-utils."""

from __future__ import annotations

import sqlite3

from sqlite_utils import Database, Migrations

from watchdog.store.audit import COLUMNS, FIRST, link

tables = Migrations("hermes-watchdog")
KINDS = {"": str, "int": int}


def table(db: Database, name: str, columns: str, pk: str = "id") -> None:
    """Make a table whose columns are text, or what stands behind the colon."""
    named = (column.partition(":") for column in columns.split())
    db.table(name).create({column: KINDS[kind] for column, _, kind in named}, pk=pk)


@tables()
def m001_incidents(db: Database) -> None:
    table(
        db, "incidents",
        "id:int rule key severity status title says first_at opened_at last_seen_at resolved_at recipe "
        "advice times_seen:int facts evidence",
    )  # fmt: skip
    db.table("incidents").create_index(["status"])
    db.table("incidents").create_index(["resolved_at"])
    # One row per check that finished, so that nothing between two checks is missed.
    table(db, "checks", "id:int at looked_back_to pending_since blind")
    # Per rule: when it was last evaluated, for `every:`.
    table(db, "runs", "rule at", pk="rule")


@tables()
def m002_plans(db: Database) -> None:
    # A plan is stored before anyone is asked; `state` is the truth about it (see store/plans.py), `content` is JSON
    # of all that it does and says, `answered_digest` what the yes was for.
    table(
        db, "plans",
        "id:int digest state title content recipes approval asked_at expires_at answered_at answered_by "
        "answered_via answered_digest claimed_at claimed_by finished_at says",
    )  # fmt: skip
    db.table("plans").create_index(["state"])
    table(db, "codes", "id:int plan:int hash via to at used_at")
    db.table("codes").create_index(["plan"])
    table(db, "wrong_tries", "id:int via by at")
    table(db, "salts", "id:int salt")
    # One row per step that was begun; a row without `ended_at` may have run half way.
    table(db, "steps_done", "id:int plan:int part number:int begun_at ended_at ok:int says output")
    db.table("steps_done").create_index(["plan", "part", "number"], unique=True)
    # What budgets count: rows, not clocks.
    table(db, "actions", "id:int plan:int recipe key at restarted:int state forgotten:int")
    db.table("actions").create_index(["at"])
    table(db, "starts", "at", pk="at")
    table(db, "refusals", "id:int recipe until by at")
    table(db, "arming", "id:int armed:int by why at seen:int")
    # Append-only: the database itself refuses to change or lose a line of it.
    table(db, "audit", "id:int at what plan:int by via digest says more")
    for verb in ("UPDATE", "DELETE"):
        db.execute(
            f"CREATE TRIGGER audit_no_{verb.lower()} BEFORE {verb} ON audit "
            "BEGIN SELECT RAISE(ABORT, 'the audit is append-only'); END"
        )


@tables()
def m003_messages(db: Database) -> None:
    # What was said about each incident, blind source and failing target: `told_as` is the reason of the last message
    # about it; after `settled_at` no further word is owed.
    table(
        db, "told",
        "ref rule key severity title says advice incident:int since over_at told_at told_as told_severity "
        "settled_at times:int", pk="ref",
    )  # fmt: skip
    db.table("told").create_index(["settled_at"])
    # Every message that was chosen; the text is redacted and never holds a code.
    table(db, "notices", "id:int at reason severity title body incidents plan:int")
    db.table("notices").create_index(["at"])
    # Messages that a target has not taken yet.
    table(db, "unsent", "id:int notice:int target at")
    table(db, "targets", "name failures:int next_try_at says at", pk="name")
    # What was asked where; the record of the approval itself is in the tables of plans.
    table(
        db, "questions",
        "plan:int digest title words incidents recipes severity places asked_at expires_at reminded_at "
        "answer closed_at", pk="plan",
    )  # fmt: skip
    db.table("questions").create_index(["closed_at"])
    table(db, "cursors", "channel cursor at", pk="channel")
    table(db, "silences", "id:int what until because by at ended_at")


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
    table(db, "audit_archives", "last:int chain file at", pk="last")
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
    table(db, "measurements", "id:int at facts")
    db.table("measurements").create_index(["at"])


def bring_up_to_date(db: sqlite3.Connection, version: int) -> None:
    tables.apply(Database(db))
    db.execute(f"PRAGMA user_version={int(version)}")
