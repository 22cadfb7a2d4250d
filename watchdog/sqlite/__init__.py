"""The database doctor: look without touching, heal on a copy, never lose a row.

What rules ask of it:

    unanswered_calls(database, sessions)  whether sessions of state.db wait for the answer of a tool
"""

from watchdog.later import lazy
from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.sqlite.backup import daily, snapshot
    from watchdog.sqlite.backups import known, last_good
    from watchdog.sqlite.deep_check import examine
    from watchdog.sqlite.files import databases, passed_over, take_due_backups
    from watchdog.sqlite.inspect import look
    from watchdog.sqlite.schema import releases
    from watchdog.sqlite.tool_calls import CallState, ToolCalls, unanswered_calls

# Loaded on first use: a home whose databases are well and stand still needs none of it.
__getattr__ = lazy(
    __name__,
    backup=("daily", "snapshot"),
    backups=("known", "last_good"),
    deep_check=("examine",),
    files=("databases", "passed_over", "take_due_backups"),
    inspect=("look",),
    schema=("releases",),
    tool_calls=("CallState", "ToolCalls", "unanswered_calls"),
)
