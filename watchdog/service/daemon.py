"""`hermes-watchdog run`: the same check on APScheduler's clock, until stopped.

Everything happens in the main thread (APScheduler's jobs too), so that a signal can end a check and two
checks cannot meet. Beside it there is one thread that tells systemd that we live, and one that insists when a
stop takes too long.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sqlite3
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sized
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apscheduler.executors.debug import DebugExecutor
from apscheduler.schedulers.base import STATE_STOPPED
from apscheduler.schedulers.blocking import BlockingScheduler

from watchdog import fleet
from watchdog.config.rules import shipped_folder
from watchdog.config.schedule import due, next_due
from watchdog.config.triggers import trigger
from watchdog.errors import ConfigError, WatchdogError
from watchdog.job import Job, Run
from watchdog.model import Report
from watchdog.pipeline import hear
from watchdog.reports.check import as_text
from watchdog.reports.language import reader_for
from watchdog.service.daemon_note import NOTE, STOP_LIMIT
from watchdog.store.incidents import last_runs
from watchdog.store.plans import any_in_state
from watchdog.system.files import replace_file
from watchdog.system.lock import Busy, one_at_a_time, repairing
from watchdog.system.procfs import start_time_of
from watchdog.system.sdnotify import notify, watchdog_seconds
from watchdog.text import clock as shown

if TYPE_CHECKING:
    from watchdog.fleet.postgres import AnswerListener

HEARTBEAT = 10.0  # seconds between two looks at files, clock and stop; a host that slept is noticed within it
AGAIN = timedelta(seconds=30)  # after another process held the lock
LISTEN = timedelta(seconds=20)  # between two looks for an answer, while a question is open
JUMP = timedelta(seconds=60)  # a clock that went back by more is set anew
GRACE = 10.0  # seconds that a check may go on after a stop was asked for


class Stopped(BaseException):
    """Out of a check that must not go on; BaseException, so that nothing on the way keeps it."""


class Clockwork(BlockingScheduler):
    """APScheduler with its waiting in our hands: a heartbeat between two jobs, and a test's own time."""

    def __init__(self, wait: Callable[[float], None], between: Callable[[], bool], zone: Any = UTC):
        # The debug executor runs a job in this thread, which is what we want and not for debugging only.
        super().__init__(executors={"default": DebugExecutor()}, timezone=zone)
        self.wait_seconds, self.between = wait, between

    def _main_loop(self) -> None:
        while self.state != STATE_STOPPED:
            seconds = self._process_jobs()
            if not self.between():
                break
            self.wait_seconds(HEARTBEAT if seconds is None else min(seconds, HEARTBEAT))


@dataclass
class Daemon:
    """The long-running mode of one home."""

    load: Callable[[], Job]  # the job with settings and rules read from the files; ConfigError
    check: Callable[[Job, datetime], Report]
    say: Callable[[str], None]
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    wait: Callable[[float], None] | None = None
    # has a question been answered?
    heard: Callable[[Job, datetime], bool] = lambda job, now: False
    # an edit of the files was read; the error says why it is not used
    edited: Callable[[Job, Exception | None, datetime], None] = lambda job, error, now: None
    stop_limit: timedelta = STOP_LIMIT
    grace: float = GRACE

    stopping: str = ""
    force: bool = False
    checking: bool = False
    problem: str = ""  # with an edit of the files that is not used
    last_error: str = ""
    again_at: datetime | None = None
    listened: datetime | None = None
    listener: AnswerListener | None = None
    beat: float = field(default_factory=lambda: time.monotonic())
    over: threading.Event = field(default_factory=threading.Event)
    ending: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> int:
        """Until SIGTERM or SIGINT; 0 after a clean stop."""
        self.job = self.load()
        now = self.clock()
        with one_at_a_time(self.job.state, now, "watchdog in the long-running mode", "daemon.lock"):
            self.ear, self.mouth = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            self.seen, self.last_now, self.started = fingerprint(self.job.config), now, now
            self.scheduler = Clockwork(self.wait or self.listen, self.between)
            before = {
                number: signal.signal(number, self.asked_to_stop)
                for number in (signal.SIGTERM, signal.SIGINT)
            }
            if seconds := watchdog_seconds():
                threading.Thread(target=self.heart, args=(seconds,), name="heart", daemon=True).start()
            try:
                self.arrange()
                self.say(f"watching {self.job.home} with {len(self.job.book.rules)} rules")
                self.report_state(READY=1)
                self.check_at_start()
                if self.between():
                    self.scheduler.start()
            finally:
                notify(STOPPING=1)
                if self.scheduler.state != STATE_STOPPED:
                    self.scheduler.shutdown(wait=False)
                with self.ending:
                    self.over.set()
                if self.listener:
                    self.listener.close()
                for number, handler in before.items():
                    signal.signal(number, handler)
                os.close(self.ear)
                os.close(self.mouth)
                with suppress(OSError):
                    (self.job.state / NOTE).unlink()
        self.say(f"stopped ({self.stopping})")
        return 0

    def arrange(self) -> None:
        """One job per trigger; whichever of them fires first at a moment does the work of all."""
        self.scheduler.remove_all_jobs()
        zone = self.job.settings.zone
        for every in sorted({rule.every for rule in self.job.book.rules}):
            # Coalesced and with no limit of lateness: after a sleep there is one check, and there is one.
            self.scheduler.add_job(
                self.check_due,
                trigger(every, zone),
                id=every,
                coalesce=True,
                misfire_grace_time=None,
                max_instances=1,
            )

    def check_at_start(self) -> None:
        """What became due, was approved or was cut off while no daemon ran."""
        if self.job.recall(lambda store: any_in_state(store, "approved", "claimed"), False):
            self.check_now(self.clock())
        else:
            self.check_due()

    def check_due(self) -> None:
        """One check of all rules that are due by the stored runs; none when there is nothing to do."""
        now = self.clock()
        if not self.stopping and self.due(now):
            self.check_now(now)

    def check_now(self, now: datetime) -> None:
        self.checking, self.beat, self.again_at = True, time.monotonic(), None
        try:
            report = self.check(self.job, now)
            self.last_error = ""
            if report.has_news:
                self.say(as_text(report, reader_for(self.job)))
        except Busy as error:
            self.again_at = now + AGAIN  # these rules are still due; the other check may have done them
            self.say(str(error))
        except Stopped:
            self.say(
                "the check was given up for the stop; nothing of it was recorded, the next one starts over"
            )
        except (ConfigError, WatchdogError) as error:
            self.failed(str(error))
        except Exception:
            self.failed(traceback.format_exc())
        finally:
            self.checking, self.beat = False, time.monotonic()
        self.report_state()

    def failed(self, says: str) -> None:
        self.last_error = says.strip().splitlines()[-1]
        self.say(says)

    def due(self, now: datetime) -> bool:
        try:
            return bool(due(self.job.book.rules, self.runs(), now, self.job.settings.zone))
        except WatchdogError as error:
            self.failed(str(error))
            return False

    def runs(self) -> dict[str, datetime]:
        """When each rule ran last; none where the store cannot be read, so that a check is made, which says why."""
        return self.job.recall(last_runs, {})

    def between(self) -> bool:
        """Whether to go on; edited files, a clock set back and a lock that was held are seen to here."""
        self.beat = time.monotonic()
        if self.stopping:
            return False
        now = self.clock()
        if now < self.last_now - JUMP:
            self.say(f"the clock went back to {shown(now)}; the triggers are set anew")
            self.arrange()
        self.last_now = now
        seen = fingerprint(self.job.config)
        if seen != self.seen:
            self.seen = seen
            self.reload()
        if self.again_at is not None and now >= self.again_at:
            self.again_at = None
            self.check_due()
        if self.listened is None or not timedelta(0) <= now - self.listened < LISTEN:
            self.listened = now
            if self.answered(now):
                self.check_now(now)  # the person who said yes holds a phone and waits
        return not self.stopping

    def answered(self, now: datetime) -> bool:
        try:
            return self.heard(self.job, now)
        except Busy:
            return False
        except (WatchdogError, sqlite3.Error) as error:
            self.failed(str(error))
            return False

    def reload(self) -> None:
        """Take the edited files, or keep the last good set and say what is wrong with the edit, and where."""
        try:
            fresh = self.load()
        except (ConfigError, WatchdogError, OSError) as error:
            self.problem = str(error)
            self.edited(self.job, error, self.clock())
            self.say(f"{error}\nthe edit is not used; the last good rules and settings stay in force")
        else:
            self.job, self.problem = fresh, ""
            self.edited(self.job, None, self.clock())
            self.say(f"rules and settings read again: {len(fresh.book.rules)} rules")
            self.arrange()
            self.check_due()  # a new rule need not wait for its first look
        self.report_state()

    def report_state(self, **more: int) -> None:
        """Who we are and how it goes: as a note for `status`, as a line for systemd."""
        at = next_due(self.job.book.rules, self.runs(), self.clock(), self.job.settings.zone)
        status = f"next check at {shown(at)}" if at else "no rules"
        if self.problem:
            status += f"; an edit of the rules is not used: {self.problem.splitlines()[0]}"
        note = {
            "pid": os.getpid(),
            "start_time": start_time_of(os.getpid()),
            "started_at": self.started.isoformat(),
            "config_problem": self.problem,
            "last_error": self.last_error,
        }
        with suppress(OSError):  # a full disk must not end the watch
            replace_file(self.job.state / NOTE, json.dumps(note).encode())
        notify(**more, STATUS=status)

    def asked_to_stop(self, number: int, frame: object) -> None:
        """Stop at once between checks, after a check, or when a repair is done; never later than the limit."""
        if self.checking and self.force:
            raise Stopped
        if not self.stopping:
            self.stopping = signal.Signals(number).name
            with suppress(BlockingIOError):
                os.write(self.mouth, b".")
            if self.checking:
                threading.Thread(target=self.insist, name="insist", daemon=True).start()

    def insist(self) -> None:
        """Wait for the check as long as it may take, then end it."""
        asked = busy = time.monotonic()
        while not self.over.wait(0.1):
            now = time.monotonic()
            busy = now if repairing() else busy
            if self.overdue(now, asked, busy):
                with self.ending:  # after the end of the run a signal would meet no handler, and kill
                    if not self.over.is_set():
                        self.force = True
                        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
                return
            if busy == now and int(now - asked) % 10 == 0:
                notify(EXTEND_TIMEOUT_USEC=30_000_000, STATUS="finishing a repair before the stop")

    def overdue(self, now: float, asked: float, busy: float) -> bool:
        """Whether a stop asked for then has waited enough: a repair, busy until now, has its limit; a check has its
        grace, and has it anew after a repair, whose result must be told."""
        return now - asked > self.stop_limit.total_seconds() if busy == now else now - busy > self.grace

    def listen(self, seconds: float) -> None:
        """Wait, but not through a signal (the handler writes to the pipe), nor through an answer in PostgreSQL."""
        listener = self.mailbox_listener()
        ready, _, _ = select.select(
            [self.ear, *(listener.sockets(asking(self.job)) if listener else ())], [], [], seconds
        )
        if self.ear in ready:
            os.read(self.ear, 100)
        elif ready and listener and listener.answered():
            self.listened = None  # look now, not at the next turn

    def mailbox_listener(self) -> AnswerListener | None:
        """What notices an answer in the mailbox; None where there is no mailbox."""
        if self.job.settings.fleet is None:
            return None
        self.listener = fleet.listener_for(self.job.settings, self.listener)
        return self.listener

    def heart(self, seconds: float) -> None:
        """Tell systemd that we live, as long as the main thread does."""
        while not self.over.wait(seconds):
            patience = 4 * HEARTBEAT + (self.job.settings.time_limit + 30 if self.checking else 0)
            if time.monotonic() - self.beat < patience or repairing():
                notify(WATCHDOG=1)


def fingerprint(config: Path) -> tuple[tuple[str, int, int, int], ...]:
    """Changes when a file of rules, recipes or settings does."""
    found = []
    for folder in (
        config,
        config / "detect",
        config / "recipes",
        config / "lines",
        *(shipped_folder() / name for name in ("detect", "recipes", "lines")),
    ):
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name.endswith((".yaml", ".yml")):
                        status = entry.stat()
                        found.append((entry.path, status.st_mtime_ns, status.st_size, status.st_ino))
        except OSError:
            continue
    return tuple(sorted(found))


def heard(job: Job, now: datetime, hear: Callable[[Run], tuple[Sized, Any]] = hear) -> bool:
    """Whether an answer came to an open question; asks the channels only while there is one."""
    settings = job.settings
    if not settings.notify.replies.channels or not asking(job):
        return False
    with one_at_a_time(job.state, now), job.store() as open_store:
        answers, _ = hear(job.run(open_store, now))
    return bool(answers)


def asking(job: Job) -> bool:
    """Whether a plan waits for an answer."""
    return job.recall(lambda store: any_in_state(store, "pending"), False)


def say(text: str) -> None:
    """One line or more to the journal or the terminal."""
    print(text, file=sys.stdout, flush=True)
