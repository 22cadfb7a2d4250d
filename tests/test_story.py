"""Whole incidents as timelines: at 10:00 …, at 10:15 …; the machine is on paper, everything else is the real
thing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import pytest
from freezegun import freeze_time
from machines import (
    BROKEN,
    DEAD,
    LACKING,
    LOOP,
    START,
    STUCK,
    Machine,
    ask,
    incident,
    propose,
    said,
    waits_for,
)

from watchdog.approval import record as approval
from watchdog.approval.record import COMMAND_LINE, GivenAnswer, answer, new_code
from watchdog.config.settings import Limits
from watchdog.model import Plan, plain
from watchdog.notify.translate import in_english
from watchdog.repair import carry_out_approved
from watchdog.steps.common import ok
from watchdog.store import Store
from watchdog.store import plans as rows

QQ = incident("qq-resume-loop", "qqbot/1024", "restart-gateway")
FILTER = incident("content-filter-burst", "custom", None, advice="start a new session in that chat (/new)")


@dataclass
class Timeline:
    """A watchdog that checks a machine; `said` is what a person would have been told."""

    machine: Machine
    store: Store
    said: list[str] = field(default_factory=list)
    plans: tuple[Plan, ...] = ()

    def at(self, clock: str, *, day: int = 0) -> Timeline:
        hour, minute = map(int, clock.split(":"))
        self.machine.now = max(
            self.machine.now, START.replace(hour=hour, minute=minute) + timedelta(days=day)
        )
        return self

    def check(self) -> Timeline:
        """What the pipeline does with open incidents, in its order."""
        machine, store = self.machine, self.store
        machine.wrong = [replace(one, last_seen_at=machine.now) for one in machine.wrong]
        before = rows.history(store, machine.now).disarmed
        self.plans = ask(machine, store)
        outcomes = carry_out_approved(machine.job(store))
        after = rows.history(store, machine.now).disarmed
        if outcomes:
            self.said.append(said(outcomes[-1]))
        if after and not before:
            self.said.append(f"disarmed: {in_english(after.why)}")
        return self

    def approve(self, by: str = "ann") -> Timeline:
        (plan,) = [plan for plan in self.plans if plan.id]
        code = new_code(self.store, plan.id, COMMAND_LINE, self.machine.now)
        told = answer(self.store, GivenAnswer(code, True, by, COMMAND_LINE), self.machine.now)
        assert told.ok, told
        return self

    @property
    def question(self) -> Plan:
        (plan,) = [plan for plan in self.plans if not plan.hold]
        return plan

    @property
    def hold(self) -> str:
        return waits_for(self.plans[0]) if self.plans and self.plans[0].hold else ""


@pytest.fixture
def story(tmp_path):
    with Store.in_memory() as store:
        yield Timeline(Machine(tmp_path), store)


@pytest.fixture
def doctor(story):
    """A database doctor who succeeds, and what he did."""
    done: list[str] = []

    def act(kind):
        def run(args, world):
            done.append(f"{kind} {args.database}")
            return ok(plain(kind), plain("as asked"))

        return run

    story.machine.does("heal_database", act("heal"))
    story.machine.does("add_column", act("add"))
    return done


@freeze_time("2031-01-01")  # nobody may look at the real clock
def test_the_operators_story_from_4009_to_a_healed_gateway(story, doctor):
    machine = story.machine

    # 10:00 QQ resumes a dead session for ever; a restart is asked for and allowed.
    machine.wrong, machine.cured_by = [QQ], Machine.restarted
    story.at("10:00").check()
    assert [in_english(word) for word in story.question.words] == [
        "restart the gateway (system unit hermes-gateway.service): /usr/bin/systemctl restart hermes-gateway.service",
    ]
    assert machine.ran == []
    story.approve().check()
    assert story.said == ["Restart the gateway: done and verified"] and machine.verbs() == ["restart"]

    # 10:30 the new process finds an old schema and a broken header, and dies again and again.
    at = START.replace(hour=10, minute=30)
    machine.wrong = [
        replace(one, first_at=at - timedelta(minutes=10), opened_at=at) for one in (LOOP, LACKING, BROKEN)
    ]
    machine.cured_by = lambda one: len(doctor) == 2
    machine.ran.clear()
    machine.starts = [at - timedelta(seconds=30 * n) for n in range(10)]
    story.at("10:30").check()
    plan = story.question
    assert [step.kind for step in plan.steps] == ["gateway", "heal_database", "add_column", "gateway"]
    assert plan.incidents[0] == "database-broken state.db"
    assert in_english(plan.chain).startswith("database broken → crash loop")
    assert len(rows.in_state(story.store, "pending")) == 1  # one question for all of it

    # 10:40 ann says yes: heal, add, one start.
    story.at("10:40").check().approve().check()
    assert (
        doctor == ["heal state.db", "add kanban.db"]
        and machine.verbs() == ["stop", "start"]
        and machine.alive
    )
    assert story.said[-1].endswith("done and verified")

    # 10:55 all is quiet.
    machine.wrong = []
    story.at("10:55").check()
    assert story.plans == () and rows.history(story.store, machine.now).disarmed is None


def test_nobody_answers_nothing_is_done(story):
    story.machine.wrong = [STUCK]
    for clock in ("10:00", "10:15", "10:30", "10:45", "11:00"):
        story.at(clock).check()
    assert story.machine.ran == []
    assert [one.state for one in rows.newest(story.store)].count("expired") == 2


def test_a_stuck_chat_under_a_content_filter_is_freed(story):
    story.machine.wrong, story.machine.cured_by = [STUCK, FILTER], Machine.restarted
    story.at("10:00").check()
    assert (
        story.question.advice == ()
    )  # it speaks against the restart that frees the chat, and has its own message
    assert story.question.incidents[0] == "content-filter-burst custom"


def test_a_gateway_that_was_stopped_by_the_crash_loop_cure_is_started_by_a_person(story):
    story.machine.wrong, story.machine.cured_by = [LOOP], lambda one: not one.alive
    story.at("10:00").check().approve().check()
    assert story.machine.verbs() == ["stop"] and story.said == [
        "Stop the crashing gateway: done and verified"
    ]


def test_the_same_fault_again_waits_longer_each_time(story):
    machine = story.machine
    machine.wrong, machine.cured_by = [STUCK], lambda one: bool(one.ran)
    story.at("10:00").check().approve().check()
    machine.cured_by = None
    story.at("10:20").check()
    assert "pause of 1 hour" in story.hold
    machine.ran.clear()
    machine.cured_by = lambda one: bool(one.ran)
    story.at("11:10").check().approve().check()
    assert machine.verbs() == ["restart"]
    story.at("13:00").check()
    assert "disarmed" in story.hold  # twice in a day, and back again


def month(story: Timeline, days: int = 30, every: int = 15) -> list[datetime]:
    """A gateway that dies three minutes after each start, looked at every quarter of an hour."""
    machine = story.machine
    machine.wrong, machine.cured_by = [DEAD], lambda one: one.alive
    end = machine.now + timedelta(days=days)
    while machine.now < end:
        machine.alive = bool(machine.starts) and machine.now - machine.starts[-1] < timedelta(minutes=3)
        if not machine.alive:
            story.check()
        machine.now += timedelta(minutes=every)
    return machine.starts


def test_a_month_of_a_gateway_that_dies_every_three_minutes_ends_disarmed_and_says_so_once(story):
    story.machine.limits = Limits(auto=("start-gateway",))
    starts = month(story)
    assert len(starts) == 3  # its budget of one day
    assert [line for line in story.said if line.startswith("disarmed")] == [
        "disarmed: “start-gateway” was carried out 3 times in 24 hours for gateway-down gateway, and the fault is back"
    ]
    assert sum(line["what"] == "disarmed" for line in rows.audit_lines(story.store)) == 1


def test_a_month_in_which_someone_arms_it_again_and_again_stays_within_the_budget(story):
    story.machine.limits = Limits(auto=("start-gateway",))
    for _ in range(30):
        month(story, days=1, every=30)
        approval.arm(story.store, "ann", story.machine.now)
    starts = story.machine.starts
    for start in starts:
        assert sum(start <= other < start + timedelta(days=1) for other in starts) <= 3
        assert sum(start <= other < start + timedelta(hours=1) for other in starts) <= 3
    assert 30 < len(starts) <= 93


def test_restarts_made_by_others_use_up_the_budget_too(story):
    story.machine.wrong, story.machine.limits = [STUCK], Limits(auto=("restart-gateway",))
    story.machine.starts = [START - timedelta(minutes=n) for n in (50, 30, 10)]
    story.at("10:00").check()
    assert "started 3 times in the last hour, by anyone" in story.hold and story.machine.ran == []


def test_the_process_that_runs_now_counts_as_a_start_even_if_no_check_saw_it(story, tmp_path):
    world = story.machine.world()
    world = replace(world, starts=(START - timedelta(minutes=1),))
    story.machine.wrong = [STUCK]
    (plan,) = propose(story.machine, story.store, world, START)
    assert "it gets 5 minutes to settle" in waits_for(plan)


def test_limits_hold_across_runs_and_reboots(tmp_path):
    machine = Machine(tmp_path, wrong=[STUCK], cured_by=lambda one: bool(one.ran))
    path = tmp_path / "state" / "watchdog.db"
    with Store.open(path) as store:
        Timeline(machine, store).check().approve().check()
    assert machine.verbs() == ["restart"]
    machine.now, machine.cured_by = machine.now + timedelta(minutes=10), None
    with Store.open(path) as store:
        assert "pause of 1 hour" in Timeline(machine, store).check().hold


def test_a_clock_that_jumps_back_a_year_opens_no_budget(story):
    machine = story.machine
    machine.limits, machine.wrong, machine.cured_by = (
        Limits(auto=("restart-gateway",)),
        [STUCK],
        lambda one: bool(one.ran),
    )
    story.check().check()
    assert len(machine.ran) == 1
    machine.now -= timedelta(days=365)
    machine.cured_by = None
    for _ in range(10):
        machine.now += timedelta(minutes=15)
        story.check()
    assert len(machine.ran) == 1 and "the clock went back" in story.hold
    approval.arm(story.store, "ann", machine.now)  # a person who sees that the clock is right now
    machine.starts.clear()
    machine.now += timedelta(hours=3)
    story.check()
    assert len(machine.ran) == 2


def test_in_maintenance_the_watchdog_looks_and_does_nothing(story):
    from watchdog.store import messages

    story.machine.wrong, story.machine.limits = [STUCK], Limits(auto=("restart-gateway",))
    moving = messages.Silence(0, "*", START + timedelta(hours=2), "moving", "ann", START)
    messages.add_silence(story.store, moving)
    story.at("10:00").check()
    assert story.hold == "maintenance" and story.machine.ran == []
