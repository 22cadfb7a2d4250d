"""The database doctor: look without touching, heal on a copy, never lose a row.

What rules ask of it:

    last_backup(database, state)         the row counts of the newest verified backup, or None
    unanswered_calls(database, sessions)  whether sessions of state.db wait for the answer of a tool
"""

from watchdog.values import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from watchdog.sqlite.backup import due, known, snapshot
    from watchdog.sqlite.daily_backup import take_due_backups
    from watchdog.sqlite.deep_check import examine
    from watchdog.sqlite.inspect import databases, look, passed_over
    from watchdog.sqlite.questions import CallState, LastBackup, ToolCalls, last_backup, unanswered_calls

__all__ = [
    "CallState",
    "LastBackup",
    "ToolCalls",
    "databases",
    "due",
    "examine",
    "known",
    "last_backup",
    "look",
    "passed_over",
    "snapshot",
    "take_due_backups",
    "unanswered_calls",
]

# Loaded on first use: a home without databases needs none of it.
__getattr__ = lazy(
    __name__,
    backup=("due", "known", "snapshot"),
    deep_check=("examine",),
    daily_backup=("take_due_backups",),
    inspect=("databases", "look", "passed_over"),
    questions=("CallState", "LastBackup", "ToolCalls", "last_backup", "unanswered_calls"),
)
