"""Carrying out approved plans: claim, look again, steps, verify, roll back, record."""

from watchdog.later import lazy
from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.repair.execute import carry_out, carry_out_approved
    from watchdog.repair.job import RepairJob, is_acting
    from watchdog.repair.resume import abandon, find_interrupted, resume_plan
    from watchdog.repair.verify import Look, LookAgain

# Loaded on first use: a quiet check repairs nothing.
__getattr__ = lazy(
    __name__,
    execute=("carry_out", "carry_out_approved"),
    job=("RepairJob", "is_acting"),
    resume=("abandon", "find_interrupted", "resume_plan"),
    verify=("Look", "LookAgain"),
)
