"""Questions to people about plans, and their answers."""

from watchdog.later import lazy
from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.approval.ends import close_questions
    from watchdog.approval.questions import ask_questions, proposals
    from watchdog.approval.record import answer, approved, arm, disarm, submit
    from watchdog.approval.replies import Patience, ReplyResult, hear

# Loaded on first use: a quiet check asks no question.
__getattr__ = lazy(
    __name__,
    ends=("close_questions",),
    questions=("ask_questions", "proposals"),
    record=("answer", "approved", "arm", "disarm", "submit"),
    replies=("Patience", "ReplyResult", "hear"),
)
