"""The database doctor: look without touching, heal on a copy, never lose a row.

What rules ask of it:

    last_backup(database, state)         the row counts of the newest verified backup, or None
    unanswered_calls(database, sessions)  whether sessions of state.db wait for the answer of a tool
"""

from watchdog.later import lazy
from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.sqlite.backup import daily, known, snapshot
    from watchdog.sqlite.deep_check import examine
    from watchdog.sqlite.files import databases, passed_over, take_due_backups
    from watchdog.sqlite.inspect import look
    from watchdog.sqlite.lineage import last_good
    from watchdog.sqlite.questions import CallState, LastBackup, ToolCalls, last_backup, unanswered_calls
    from watchdog.sqlite.schema import releases

# Loaded on first use: a home whose databases are well and stand still needs none of it.
__getattr__ = lazy(
    __name__,
    backup=("daily", "known", "snapshot"),
    deep_check=("examine",),
    files=("databases", "passed_over", "take_due_backups"),
    inspect=("look",),
    lineage=("last_good",),
    schema=("releases",),
    questions=("CallState", "LastBackup", "ToolCalls", "last_backup", "unanswered_calls"),
)
