"""The status page of one home: gathered, made, and written where the settings say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from watchdog.errors import WatchdogError
from watchdog.job import Job
from watchdog.reports import history
from watchdog.reports.language import Reader, reader_for
from watchdog.reports.output import PRIVATE, SHARED, write_page
from watchdog.reports.page import Live, status_page
from watchdog.reports.status import Status
from watchdog.service.status import gather

RANGE = timedelta(days=7)


def past_of(job: Job, span: timedelta = RANGE) -> history.Past:
    """The last days of one home; nothing when its store cannot be read, which the status says."""
    start = job.now - span
    nothing = history.Past(str(job.home), start, job.now, 0)
    return job.recall(lambda store: history.gather(store, str(job.home), start, job.now), nothing)


def page_of(job: Job, status: Status, reader: Reader, live: Live | None = None) -> str:
    """The whole page as HTML; a store that could not be read is not waited for again."""
    past = history.Past(str(job.home), job.now - RANGE, job.now, 0) if status.store_error else past_of(job)
    return status_page(status, past, reader, live)


def write_after_check(job: Job, error: str = "", look: Callable[[Job], Status] = gather) -> str:
    """Write the page that the settings ask for; '' when that worked, else why not: a check never fails by it."""
    try:
        status = look(job)
        if error:
            status = replace(status, last_error=error)
        reader = reader_for(job)
        write_page(page_path(job), page_of(job, status, reader), str(job.home), page_mode(job))
    except WatchdogError as problem:
        return f"the page was not written: {problem}"
    except Exception as problem:  # a fault in a page must not keep a check from acting or telling
        return f"the page was not written: {type(problem).__name__}: {problem}"
    return ""


def page_path(job: Job) -> Path:
    return Path(job.settings.page.replace("{home}", job.home.name.lstrip(".") or "home"))


def page_mode(job: Job) -> int:
    return PRIVATE if job.settings.page_private else SHARED
