"""What commands print and write: reports of checks and of days, plans and the status, as text, page and JSON."""

from watchdog.later import lazy
from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.reports.check import as_json, as_replay, as_text, noticed
    from watchdog.reports.language import command_of, reader_for

# Loaded on first use: a quiet check has nothing to say.
__getattr__ = lazy(
    __name__,
    check=("as_json", "as_replay", "as_text", "noticed"),
    language=("command_of", "reader_for"),
)
