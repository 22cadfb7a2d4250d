"""Questions to people about plans, and their answers."""

from watchdog.later import lazy
from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.approval.questions import ask_questions, close_questions, proposals
    from watchdog.approval.record import answer, approved, arm, disarm, submit
    from watchdog.approval.replies import Patience, ReplyResult, hear

# Loaded on first use: a quiet check asks no question.
__getattr__ = lazy(
    __name__,
    questions=("ask_questions", "close_questions", "proposals"),
    record=("answer", "approved", "arm", "disarm", "submit"),
    replies=("Patience", "ReplyResult", "hear"),
)
