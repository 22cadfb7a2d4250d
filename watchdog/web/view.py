"""What the server shows and does for one home: the same page as the file, and the same record as every channel."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from watchdog.approval import record
from watchdog.approval.record import PAGE, Answer, GivenAnswer
from watchdog.errors import ConfigError, WatchdogError
from watchdog.job import Job
from watchdog.model.plan_reasons import Said
from watchdog.reports.cards import plan_card
from watchdog.reports.language import Reader, reader_for
from watchdog.reports.page import Live, incidents_page, plan_page
from watchdog.reports.status import Status
from watchdog.service.page import page_of, past_of
from watchdog.service.status import gather
from watchdog.store import plans as rows
from watchdog.store.plans import Stored
from watchdog.values import replace

FRESH = 3.0  # seconds that one look at the machine serves: reloading fast must not load it
# The status of an answer that was not taken.
STATUS = {
    Said.LOCKED: 429,
    Said.UNKNOWN_CODE: 403,
    Said.WRONG_FORM: 400,
    Said.NOT_ALLOWED: 403,
    Said.OTHER_PLAN: 409,
}
CLOSED = 410  # the question is closed: expired, replaced, answered


def carry_out_in_child(job: Job, plan_id: int) -> None:
    """Start the work in a process of its own, so that it ends neither with the request nor with the server."""
    config = str(job.config) if job.config.is_dir() else ""  # there may be none: the defaults hold
    where = [str(job.home), config, str(job.state.parent)]
    subprocess.Popen(
        # -P: a file called watchdog.py in the folder where the server was started must not become the program.
        [sys.executable, "-P", "-m", "watchdog.web.worker", str(plan_id), *where],
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )


@dataclass
class View:
    """One home as the server sees it."""

    load: Callable[[datetime], Job]  # the job with settings and rules as the files are now
    look: Callable[[Job], Status] = gather
    carry_out: Callable[[Job, int], None] = carry_out_in_child
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    lock: threading.Lock = field(default_factory=threading.Lock)
    seen: tuple[float, Job, Status] | None = None
    good: Job | None = None  # the last whose files had no mistake

    def job(self) -> tuple[Job, str]:
        """(the job as of now, what is wrong with an edit of its files); the last good files stay in force."""
        now = self.clock()
        try:
            job = self.load(now)
            # Read here: a mistake is found here, and what was read stays with the job.
            assert job.settings is not None and job.book is not None
            self.good = job
            return job, ""
        except ConfigError as error:
            if self.good is None:
                raise
            job = replace(self.good, now=now)
            vars(job).update(settings=self.good.settings, book=self.good.book)
            return job, str(error)

    def current(self) -> tuple[Job, Status]:
        """The home as it is now, looked at once for all who ask within a few seconds."""
        with self.lock:
            if self.seen is None or time.monotonic() - self.seen[0] > FRESH:
                job, problem = self.job()
                status = self.look(job)
                if problem:
                    status = replace(status, problem=problem)
                self.seen = (time.monotonic(), job, status)
            return self.seen[1:]

    def forget(self) -> None:
        """After an answer: the next look is a new one."""
        with self.lock:
            self.seen = None

    def reader(self, language: str | None) -> Reader:
        return reader_for(self.job()[0], language)

    def status_page(self, language: str | None, live: Live) -> str:
        job, status = self.current()
        return page_of(job, status, reader_for(job, language), live)

    def version(self) -> str:
        """What changes when the page would: the light, open incidents and the state of every plan.

        To be asked before the page is made, so that a change in between is shown by loading it once more.
        """
        job, status = self.current()
        parts = [str(status.light), str(status.last), *(str(incident.id) for incident in status.open)]
        with suppress(WatchdogError, sqlite3.Error, ValueError):
            # A store that is damaged or locked is told by the status; it is not waited for again.
            if not status.store_error and (store := job.look_at_store()) is not None:
                with store:
                    parts += [f"{stored.id}{stored.state}" for stored in rows.newest(store, 20)]
        return str(abs(hash(tuple(parts))))

    def incidents_page(self, number: int, language: str | None, live: Live) -> str:
        job, _ = self.job()
        return incidents_page(past_of(job), number, reader_for(job, language), live)

    def plan(self, number: int) -> Stored | None:
        try:
            store = self.job()[0].look_at_store()
            if store is None:
                return None
            with store:
                return rows.get(store, number)
        except (sqlite3.Error, ValueError) as error:
            raise WatchdogError(f"the watchdog's own memory cannot be read: {error}") from None

    def plan_page(self, stored: Stored, language: str | None, live: Live) -> str:
        reader = self.reader(language)
        if stored.state in ("approved", "claimed") and not live.message:
            live = replace(live, message=reader("page.started"))
        return plan_page(plan_card(stored, reader), reader, live)

    def answer(self, code: str, yes: bool, by: str, digest: str) -> tuple[Answer, int]:
        """(what came of an answer, its HTTP status); a yes is carried out at once."""
        job, _ = self.job()
        try:
            with job.store() as store:
                given = GivenAnswer(code, yes, by, PAGE, allowed=(by,), digest=digest)
                answer = record.answer(store, given, job.now, job.settings.limits)
        except sqlite3.Error as error:
            raise WatchdogError(f"the answer could not be recorded, so nothing is done: {error}") from None
        self.forget()
        if answer.ok and answer.approved:
            self.carry_out(job, answer.plan_id)
        key = Said(str(answer.reason.key))
        return answer, 200 if answer.ok else STATUS.get(key, CLOSED)
