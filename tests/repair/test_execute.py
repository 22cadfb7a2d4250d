"""Carrying out: exactly the approved steps, once, verified, undone when they did not help, and never
unrecorded.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
from dataclasses import replace
from datetime import UTC, timedelta
from pathlib import Path

import pytest
from homes import BOOK
from machines import (
    BROKEN,
    DEAD,
    LACKING,
    LOOP,
    START,
    STUCK,
    SYSTEMCTL,
    Machine,
    ask,
    propose,
    run_of,
    said,
    waits_for,
)

from watchdog.approval import record as approval
from watchdog.approval.record import COMMAND_LINE, GivenAnswer, answer, new_code
from watchdog.gateway.machine import GatewayProcess
from watchdog.gateway.supervisor import PROCESS, UNKNOWN, Supervisor
from watchdog.job import load_rules
from watchdog.model import Report, Step, Verify, plain
from watchdog.model.plan_reasons import Ended
from watchdog.pipeline import look_again
from watchdog.plan.planner import digest_of
from watchdog.repair import carry_out, carry_out_approved
from watchdog.repair import resume as interrupted
from watchdog.repair.job import POINTS
from watchdog.reports.check import as_text
from watchdog.reports.language import reader_of
from watchdog.sources.read import Sources
from watchdog.steps import gateway as gateway_step
from watchdog.steps import set_aside
from watchdog.steps.command import Args as CommandArgs
from watchdog.steps.common import failed, ok
from watchdog.store import Store, failed_restarts, questions
from watchdog.store import plans as rows
from watchdog.store.plans import StepRow
from watchdog.store.questions import Question
from watchdog.system.commands import Ran


@pytest.fixture
def store(tmp_path):
    with Store.open(tmp_path / "state" / "watchdog.db") as one:
        yield one


@pytest.fixture
def machine(tmp_path):
    return Machine(tmp_path, wrong=[STUCK], cured_by=Machine.restarted)


def approved(store, machine):
    """Propose, ask, and have ann say yes."""
    plan = ask(machine, store)[0]
    assert plan.hold is None, plan.hold
    assert answer(
        store,
        GivenAnswer(new_code(store, plan.id, COMMAND_LINE, machine.now), True, "ann", COMMAND_LINE),
        machine.now,
    ).ok
    return plan


def go(store, machine, plan):
    return carry_out(plan.id, machine.job(store))


def disarmed(store, machine):
    return rows.history(store, machine.now).disarmed


def test_an_approved_restart_is_done_once_and_verified(store, machine):
    plan = approved(store, machine)
    outcomes = go(store, machine, plan)
    assert machine.verbs() == ["restart"]
    assert [one.ok for one in outcomes] == [True, True, True]
    assert said(outcomes[1]) == "problem gone, gateway running (pid 801)"
    assert rows.get(store, plan.id).state == "done" and disarmed(store, machine) is None
    again = go(store, machine, plan)
    assert machine.verbs() == ["restart"] and "is done, not approved" in said(again[0])


@pytest.mark.parametrize(
    ("language", "line"),
    [
        ("en", "Gateway watchdog: restarted the gateway, chat unstuck"),
        ("zh", "Gateway watchdog: 已重启 gateway，卡住的 session 已清除"),
    ],
)
def test_a_check_says_in_one_line_that_a_restart_cleared_a_stuck_chat(store, machine, language, line):
    outcomes = go(store, machine, approved(store, machine))
    report = replace(report_of(machine), outcomes=outcomes)
    assert as_text(report, reader_of(language, BOOK, machine.now)).splitlines()[0] == line


def test_a_restart_that_is_not_verified_is_not_called_a_chat_unstuck(store, machine):
    machine.connected, machine.connects_after_start = ("telegram",), ()
    outcomes = go(store, machine, approved(store, machine))
    report = replace(report_of(machine), outcomes=outcomes)
    assert "unstuck" not in as_text(report, reader_of("en", BOOK, machine.now))


@pytest.mark.parametrize("turns", [0, 1])
def test_a_restart_counts_once_in_the_budget_also_when_it_waited_for_a_turn(store, machine, turns):
    machine.turns, machine.limits = turns, replace(machine.limits, per_hour=2)
    go(store, machine, approved(store, machine))
    waited = machine.starts[-1] - START
    assert (waited >= machine.limits.wait_for_turns) == bool(turns)
    rows.note_starts(store, machine.starts)  # the next check sees the new process
    machine.now += timedelta(minutes=20)
    machine.alive, machine.turns = False, 0
    machine.wrong = [replace(DEAD, first_at=machine.now, opened_at=machine.now, last_seen_at=machine.now)]
    assert waits_for(propose(machine, store)[0]) == ""  # of two starts an hour, one is used
    machine.limits = replace(machine.limits, per_hour=1)
    assert "was started 1 time in the last hour" in waits_for(propose(machine, store)[0])


def report_of(machine):
    return Report(machine.now, machine.now, "/home/h/.hermes", {}, (), {}, (), ())


def test_a_restart_is_verified_when_the_platforms_of_before_are_connected_again(store, machine):
    machine.connected, machine.connects_after_start = ("telegram",), ("qqbot", "telegram")
    outcomes = go(store, machine, approved(store, machine))
    assert said(outcomes[1]) == "problem gone, gateway running (pid 801), qqbot, telegram connected"
    assert outcomes[-1].verified


@pytest.mark.parametrize(
    ("after", "says"),
    [
        (("qqbot",), "NOT connected as before: telegram"),
        (None, "whether telegram is connected again cannot be seen"),
    ],
)
def test_a_platform_that_does_not_come_back_is_waited_for_and_then_named(store, machine, after, says):
    """No chat of it would be answered: that is no failure of the restart, and it is not called verified."""
    machine.connected, machine.connects_after_start = ("telegram",), after
    began = machine.now
    outcomes = go(store, machine, approved(store, machine))
    assert said(outcomes[1]) == f"problem gone, gateway running (pid 801), {says}"
    assert said(outcomes[-1]) == "Restart the gateway: done; not connected as before: telegram"
    assert outcomes[-1].ok and not outcomes[-1].verified and disarmed(store, machine) is None
    assert machine.now - began >= timedelta(minutes=3)


@pytest.mark.parametrize(
    "state",
    ["pending", "refused", "expired", "superseded", "lapsed", "claimed", "interrupted", "done", "failed"],
)
def test_nothing_but_an_approved_plan_is_carried_out(store, machine, state):
    plan = approved(store, machine)
    store.db.execute("UPDATE plans SET state = ?", (state,))
    assert not go(store, machine, plan)[-1].ok and machine.ran == []


def test_an_approval_written_by_hand_into_the_store_without_its_digest_is_no_approval(store, machine):
    plan = approved(store, machine)
    store.db.execute("UPDATE plans SET answered_digest = NULL")
    assert "changed since it was approved" in said(go(store, machine, plan)[-1]) and machine.ran == []


def test_an_edited_plan_with_a_fitting_digest_is_still_not_what_the_recipes_say(store, machine):
    """Even someone who can write the store cannot make the watchdog run what no recipe file holds."""
    plan = approved(store, machine)
    evil = replace(
        rows.get(store, plan.id).plan,
        steps=(Step("command", CommandArgs(("/bin/evil",), timedelta(seconds=5))),),
        words=(plain("harmless"),),
    )
    evil = replace(evil, digest=digest_of(evil))
    store.db.execute(
        "UPDATE plans SET content = ?, digest = ?, answered_digest = ?",
        (rows._content(evil), evil.digest, evil.digest),
    )
    outcome = go(store, machine, plan)[-1]
    assert "the situation changed" in said(outcome) and machine.ran == []


def test_a_recipe_that_changed_after_the_question_is_a_new_question(store, machine):
    plan = approved(store, machine)
    changed = replace(
        machine.recipes["restart-gateway"], verify=Verify(("session-stuck",), True, timedelta(minutes=9))
    )
    machine.recipes = {**machine.recipes, "restart-gateway": changed}
    assert "the situation changed" in said(go(store, machine, plan)[-1]) and machine.ran == []


def test_while_disarmed_nothing_is_done_even_with_an_approval(store, machine):
    plan = approved(store, machine)
    approval.disarm(store, plain("a person said so"), machine.now, "ann")
    assert "disarmed" in said(go(store, machine, plan)[-1]) and machine.ran == []
    assert rows.get(store, plan.id).state == "approved"


def test_when_it_is_not_better_the_watchdog_disarms_itself_and_says_why(store, machine):
    machine.wrong, machine.cured_by, machine.alive = [DEAD], None, False
    plan = approved(store, machine)
    outcomes = go(store, machine, plan)
    assert not outcomes[-1].ok and "not better within 3 minutes: still there: gateway-down gateway" in said(
        outcomes[-1]
    )
    assert disarmed(store, machine).why.key == Ended.DID_NOT_HELP
    (held,) = propose(machine, store)
    assert held.hold.until is None and "did not help" in waits_for(held)


def test_a_restart_that_failed_is_remembered_so_that_its_stop_is_not_taken_for_a_wish(store, machine):
    plan = approved(store, machine)
    assert failed_restarts(store, machine.now) == ()
    began = machine.now
    world = replace(machine.world(), run=lambda argv, timeout, env=None: Ran(1, "error during connect: EOF"))
    assert not carry_out(plan.id, machine.job(store, world))[-1].ok
    assert failed_restarts(store, machine.now) == (began,)


def test_blind_is_not_quiet(store, machine):
    plan = approved(store, machine)
    machine.not_checked = {"session-stuck": "gateway.log: permission denied"}
    outcomes = go(store, machine, plan)
    assert not outcomes[
        -1
    ].ok and "session-stuck could not be checked: gateway.log: permission denied" in said(outcomes[-1])


def test_a_rule_that_is_switched_off_proves_nothing_and_takes_nothing_back(store, machine):
    """Nobody looked with it: that is said, and a cure that all the others call good is neither undone nor
    called healed.
    """
    plan = approved(store, machine)
    machine.off = {"qq-resume-loop": "detect/qq-resume-loop.yaml:1"}
    outcomes = go(store, machine, plan)
    assert [one.ok for one in outcomes] == [True, True, True] and disarmed(store, machine) is None
    assert (
        said(outcomes[1])
        == "not verified by qq-resume-loop (switched off); problem gone, by the other rules, gateway running (pid 801)"
    )
    assert said(outcomes[-1]) == "Restart the gateway: done; not verified by qq-resume-loop (switched off)"
    assert said(rows.get(store, plan.id)) == said(outcomes[-1])


def test_when_every_rule_is_switched_off_only_the_sign_of_life_is_told(store, machine):
    plan = approved(store, machine)
    seen = machine.look_again
    off = dict.fromkeys(plan.verify.quiet, "x.yaml:1")

    def look_again(since):
        machine.off = off if since else {}
        return seen(since)

    outcomes = carry_out(plan.id, machine.job(store, look_again=look_again))
    assert said(outcomes[1]) == (
        "not verified by session-stuck, qq-resume-loop, gateway-wedged, gateway-down, crash-loop (switched off); gateway running (pid 801)"
    )


def test_a_rule_switched_off_after_the_yes_says_so_and_not_that_the_fault_is_gone(store, machine):
    plan = approved(store, machine)
    machine.wrong, machine.off = [], {"session-stuck": "detect/session-stuck.yaml:1"}
    (outcome,) = go(store, machine, plan)
    assert (
        said(outcome) == "session-stuck was switched off in detect/session-stuck.yaml:1; nothing was done"
        and machine.ran == []
    )


def test_a_look_tells_which_rules_are_switched_off_and_what_it_could_not_judge(tmp_path, store, machine):
    rules = tmp_path / "config" / "detect"
    rules.mkdir(parents=True)
    (rules / "crash-loop.yaml").write_text("id: crash-loop\nenabled: false\n")
    (tmp_path / "state.db").mkdir()
    sources = Sources(tmp_path, zone=UTC, stated="running")
    run = run_of(load_rules(rules.parent), store, machine.now, sources)
    look = look_again(run, machine.world(), machine.now)
    assert (
        "crash-loop" in look.off
        and "gateway-down" not in look.off
        and "database-broken state.db" in look.unsure
    )


def test_a_database_that_cannot_be_judged_after_its_repair_is_not_well(store, machine, doctor):
    machine.wrong, machine.cured_by = [BROKEN], Machine.restarted
    plan = approved(store, machine)
    machine.unsure = frozenset({"database-broken state.db"})
    outcomes = go(store, machine, plan)
    assert not outcomes[-1].ok and "database-broken state.db could not be judged" in said(outcomes[-1])


def test_another_database_that_cannot_be_judged_is_no_failure_of_this_cure(store, machine, doctor):
    machine.wrong, machine.cured_by = [BROKEN], Machine.restarted
    plan = approved(store, machine)
    machine.unsure = frozenset({"database-broken kanban.db"})
    assert go(store, machine, plan)[-1].ok


def test_a_gateway_that_dies_right_after_its_start_is_not_well(store, machine):
    machine.lives_after_start = False
    plan = approved(store, machine)
    outcomes = go(store, machine, plan)
    assert "no new gateway process within 1 minute" in said(outcomes[0])
    assert "THE GATEWAY IS NOT RUNNING; to start the gateway" in said(outcomes[-1])
    assert f"{SYSTEMCTL} start hermes-gateway.service" in said(outcomes[-1])


def test_turns_are_waited_for_but_not_for_ever(store, machine):
    machine.turns = 1
    plan = approved(store, machine)
    before = machine.now
    outcomes = go(store, machine, plan)
    assert "1 reply was still in progress after 2 minutes and was cut off" in said(outcomes[0])
    assert machine.now - before >= timedelta(minutes=2)


def test_the_turn_that_hangs_is_no_reply_that_a_restart_waits_for(store, machine):
    machine.turns = machine.hung = 1
    plan = approved(store, machine)
    before = machine.now
    outcomes = go(store, machine, plan)
    assert outcomes[-1].ok and "cut off" not in said(outcomes[0])
    assert machine.now - before < timedelta(minutes=1)


@pytest.fixture
def doctor(machine):
    """The database doctor, on paper: what it was asked to do, and whether it can."""
    asked, can = [], {"heal": True}

    def run(args, world):
        asked.append(("undo " if args.undo else "heal ") + args.database)
        return (ok if args.undo or can["heal"] else failed)(plain(asked[-1]), plain("as told"))

    machine.does("heal_database", run)
    return asked, can


def test_a_broken_database_is_healed_while_the_gateway_is_stopped(store, machine, doctor):
    machine.wrong = [BROKEN, LOOP]
    plan = approved(store, machine)
    assert all(one.ok for one in go(store, machine, plan))
    assert machine.verbs() == ["stop", "start"] and doctor[0] == ["heal state.db"]


def test_when_healing_fails_the_gateway_is_started_again_and_nothing_older_is_undone(store, machine, doctor):
    machine.wrong, doctor[1]["heal"] = [BROKEN], False
    outcomes = go(store, machine, approved(store, machine))
    assert machine.verbs() == ["stop", "start"] and doctor[0] == ["heal state.db"]
    assert not outcomes[-1].ok and machine.alive
    machine.now += timedelta(hours=7)
    approval.arm(store, "ann", machine.now)
    machine.cured_by = None
    made = propose(machine, store)
    assert made[0].recipes == ("set-aside-database",)


def test_when_the_healed_database_is_not_better_it_is_put_back(store, machine, doctor):
    machine.wrong, machine.cured_by = [BROKEN], None
    outcomes = go(store, machine, approved(store, machine))
    assert doctor[0] == ["heal state.db", "undo state.db"]
    assert machine.verbs() == ["stop", "start", "stop", "start"] and machine.alive
    assert not outcomes[-1].ok and disarmed(store, machine)


def test_the_unit_vanishing_between_two_steps_is_told_loudly(store, machine, doctor):
    machine.wrong, machine.codes = [BROKEN], {"start": 5}
    outcomes = go(store, machine, approved(store, machine))
    assert "exit code 5 from: /usr/bin/systemctl start hermes-gateway.service" in said(outcomes[2])
    assert "THE GATEWAY IS NOT RUNNING" in said(outcomes[-1]) and disarmed(store, machine)
    assert doctor[0] == ["heal state.db", "undo state.db"]


def test_a_failure_of_one_cure_is_not_held_against_the_other(store, machine, doctor):
    machine.wrong, doctor[1]["heal"] = [BROKEN, LACKING], False
    go(store, machine, approved(store, machine))
    states = {(one.recipe, one.state) for one in rows.history(store, machine.now).actions}
    assert states == {("heal-database", "failed"), ("add-missing-columns", "undone")}


def test_a_crash_loop_is_stopped_and_stays_stopped(store, machine):
    machine.wrong, machine.cured_by = [LOOP], lambda one: not one.alive
    outcomes = go(store, machine, approved(store, machine))
    assert (
        machine.verbs() == ["stop"]
        and outcomes[-1].ok
        and said(outcomes[1]) == "problem gone, gateway stopped"
    )


def test_a_step_that_raises_is_a_failed_step(store, machine):
    def boom(*_, **__):
        raise RuntimeError("surprise\x1b[31m")

    plan = approved(store, machine)
    machine.run = boom
    outcomes = go(store, machine, plan)
    assert said(outcomes[0]) == "RuntimeError: surprise" and rows.get(store, plan.id).state == "failed"


def fill_disk(store: Store, *writes: str) -> None:
    """From now on, these writes fail as on a full disk."""
    for number, write in enumerate(writes):
        store.db.execute(
            f"CREATE TEMP TRIGGER full_{number} BEFORE {write} BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        )


@pytest.mark.parametrize(
    "write",
    ["UPDATE OF claimed_at ON plans", "INSERT ON audit", "INSERT ON actions", "INSERT ON steps_done"],
)
def test_with_a_full_disk_nothing_is_started(store, machine, write):
    plan = approved(store, machine)
    fill_disk(store, write)
    outcomes = go(store, machine, plan)
    assert machine.ran == [] and not outcomes[-1].ok
    assert "disk is full" in " ".join(said(outcome) for outcome in outcomes)


def test_a_disk_that_fills_up_after_the_stop_does_not_leave_the_gateway_stopped(store, machine, doctor):
    machine.wrong = [BROKEN]
    plan = approved(store, machine)
    real = machine.run

    def run(argv, timeout, env=None):
        if argv[1] == "stop":
            fill_disk(store, "INSERT ON steps_done", "UPDATE ON steps_done")
        return real(argv, timeout, env)

    machine.run = run
    outcomes = go(store, machine, plan)
    assert machine.alive and machine.verbs() == ["stop", "start"] and doctor[0] == []
    assert not outcomes[-1].ok and "cannot be recorded" in said(outcomes[0])


# dying in the middle


def _die_at(folder: str, point: str, times: int, helps: bool) -> None:
    """In a process of its own: carry out plan 1 and die, by SIGKILL, at a certain point."""
    machine = _machine(Path(folder), helps)
    seen = [0]

    def at_point(name: str) -> None:
        if name == point:
            seen[0] += 1
            if seen[0] == times:
                os.kill(os.getpid(), signal.SIGKILL)

    with Store.open(Path(folder) / "state" / "watchdog.db") as store:
        carry_out(1, machine.job(store, at_point=at_point))
    os._exit(0)


def _machine(folder: Path, helps: bool = True) -> Machine:
    """A machine whose gateway and history outlive its watchdog: they are in files."""
    machine = Machine(folder, wrong=[BROKEN], cured_by=Machine.restarted if helps else None)
    log, real = folder / "ran", machine.run

    def run(argv, timeout, env=None):
        with log.open("a") as file:
            file.write(json.dumps(argv) + "\n")
        return real(argv, timeout, env)

    def heal(args, world):
        world.run(("doctor", "undo" if args.undo else "heal"), 1)
        return ok(plain("heal"), plain("healed"))

    machine.run = run
    machine.does("heal_database", heal)
    if log.exists():
        for line in log.read_text().splitlines():
            real(json.loads(line), 1)
    return machine


def _died_at(folder: Path, point: str, times: int, helps: bool = True) -> bool:
    child = multiprocessing.get_context("fork").Process(
        target=_die_at, args=(str(folder), point, times, helps)
    )
    child.start()
    child.join(30)
    assert child.exitcode in (0, -signal.SIGKILL)
    return child.exitcode == -signal.SIGKILL


DEATHS = [
    ("checked", 1),
    ("claimed", 1),
    ("looked", 1),
    ("begun", 1),
    ("step begun", 1),
    ("step done", 1),
    ("step begun", 2),
    ("step done", 2),
    ("step begun", 3),
    ("step done", 3),
    ("verified", 1),
    ("recorded", 1),
]


@pytest.mark.parametrize(("point", "times"), DEATHS, ids=[f"{point} {times}" for point, times in DEATHS])
def test_killed_at_any_point_no_step_is_done_twice_and_a_stopped_gateway_is_told_of(tmp_path, point, times):
    assert {name for name, _ in DEATHS} | {"rolled back"} == set(POINTS)
    before = _machine(tmp_path)
    with Store.open(tmp_path / "state" / "watchdog.db") as store:
        approved(store, before)
    assert _died_at(tmp_path, point, times)
    done = (tmp_path / "ran").read_text().splitlines() if (tmp_path / "ran").exists() else []
    after = _machine(tmp_path)
    with Store.open(tmp_path / "state" / "watchdog.db") as store:
        if point == "checked":  # nothing had happened yet: it is carried out now, once
            assert carry_out_approved(after.job(store))[-1].ok
            return
        if point == "recorded":
            assert rows.get(store, 1).state == "done" and carry_out_approved(after.job(store)) == ()
            return
        told = carry_out_approved(after.job(store))
        assert len(told) == 1 and "was cut off" in said(told[0]) and "resume 1" in said(told[0])
        if not after.alive:
            assert "THE GATEWAY IS NOT RUNNING" in said(told[0])
        assert carry_out_approved(after.job(store)) == ()  # told once
        assert (
            (tmp_path / "ran").read_text().splitlines() == done if done else not (tmp_path / "ran").exists()
        )
        (held, *_) = propose(replace(after, wrong=[STUCK]), store)
        assert "plan 1 was begun and not finished" in waits_for(held)
        outcomes = interrupted.resume_plan(1, after.job(store), "ann")
        assert outcomes[-1].ok, outcomes
        assert rows.get(store, 1).state == "done" and after.alive
    words = [json.loads(line) for line in (tmp_path / "ran").read_text().splitlines()]
    finished = [" ".join(argv[-2:]) for argv in words]
    if point == "step done":
        assert len(finished) == len(set(finished)) == 3  # what was finished is not done again
    else:
        assert (
            len(set(finished)) == 3 and len(finished) <= 4
        )  # at most the step that was cut off, by a person's choice


def test_who_was_asked_hears_the_end_of_a_plan_that_was_cut_off_and_resumed(store, machine):
    plan = approved(store, machine)
    rows.move(store, plan.id, ("approved",), "claimed")
    rows.begin_step(store, StepRow(plan.id, "steps", 0), START)
    assert "was cut off" in said(interrupted.find_interrupted(store, machine.world())[0])
    questions.save_question(
        store, Question(plan, "high", (), START, START, closed_at=START)
    )  # its cut was told
    assert interrupted.resume_plan(plan.id, machine.job(store), "ann")[-1].ok
    assert [question.plan.id for question in questions.open_questions(store)] == [plan.id]


def test_a_gateway_that_booted_in_the_middle_of_a_repair_is_stopped_again_before_it_goes_on(
    store, machine, doctor
):
    machine.wrong = [BROKEN]
    plan = approved(store, machine)
    rows.move(store, plan.id, ("approved",), "claimed")
    rows.begin_step(store, StepRow(plan.id, "steps", 0), START)
    rows.end_step(store, StepRow(plan.id, "steps", 0), ok(plain("stop the gateway"), plain("stopped")), START)
    # here the machine went; it is up again, and the gateway with it
    rows.begin_step(store, StepRow(plan.id, "steps", 1), START)
    assert machine.alive
    assert interrupted.resume_plan(plan.id, machine.job(store), "ann")[-1].ok
    assert machine.verbs() == ["stop", "start"] and doctor[0] == ["heal state.db"]


def _says_no_at(store, plan, point, times=1):
    """Somebody refuses when carrying out comes to this point for the n-th time."""
    code = new_code(store, plan.id, COMMAND_LINE, START)
    seen = []

    def at_point(name):
        seen.append(name)
        if name == point and seen.count(point) == times:
            assert answer(store, GivenAnswer(code, False, "bob", COMMAND_LINE), START).ok

    return at_point


def test_a_no_between_two_steps_stops_it_while_nothing_is_repaired_and_leaves_nothing_down(
    store, machine, doctor
):
    machine.wrong = [BROKEN]
    plan = approved(store, machine)
    at_point = _says_no_at(store, plan, "step done")  # the gateway is stopped, the repair not begun
    outcomes = carry_out(plan.id, machine.job(store, at_point=at_point))
    assert doctor[0] == [] and machine.verbs() == ["stop", "start"] and machine.alive
    assert not outcomes[-1].ok and outcomes[-1].reason.key == Ended.REFUSED
    assert rows.get(store, plan.id).state == "refused" and disarmed(store, machine) is None
    assert {action.state for action in rows.history(store, machine.now).actions} == {"undone"}
    assert [line["what"] for line in rows.audit_lines(store, plan.id)].count(
        "refused"
    ) == 2  # said, and heeded


@pytest.mark.parametrize(("looks", "verbs"), [(1, []), (2, ["stop", "start"])])
def test_a_no_that_waits_in_a_chat_is_heard_before_each_step_that_can_still_be_left_out(
    store, machine, doctor, looks, verbs
):
    """Nobody else listens meanwhile: the check that carries it out is the one that reads the chats."""
    machine.wrong = [BROKEN]
    plan = approved(store, machine)
    code, heard = new_code(store, plan.id, COMMAND_LINE, START), []

    def hear():
        heard.append(machine.now)
        if len(heard) == looks:
            assert answer(store, GivenAnswer(code, False, "bob", COMMAND_LINE), START).ok

    outcomes = carry_out(plan.id, machine.job(store, hear=hear))
    assert doctor[0] == [] and machine.verbs() == verbs and machine.alive
    assert outcomes[-1].reason.key == Ended.REFUSED and rows.get(store, plan.id).state == "refused"
    assert len(heard) == looks


@pytest.mark.parametrize("when", ["while it is cut off", "in a chat"])
def test_a_no_to_a_plan_that_was_cut_off_is_heard_when_it_is_resumed(store, machine, doctor, when):
    machine.wrong = [BROKEN]
    plan = approved(store, machine)
    code = new_code(store, plan.id, COMMAND_LINE, START)
    rows.move(store, plan.id, ("approved",), "claimed")
    interrupted.find_interrupted(store, machine.world())

    def says_no():
        return answer(store, GivenAnswer(code, False, "bob", COMMAND_LINE), START)

    if when == "while it is cut off":
        assert says_no().ok
    hear = says_no if when == "in a chat" else lambda: None
    outcomes = interrupted.resume_plan(plan.id, machine.job(store, hear=hear), "ann")
    assert outcomes[-1].reason.key == Ended.REFUSED and rows.get(store, plan.id).state == "refused"
    assert doctor[0] == [] and machine.verbs() == [] and machine.alive


def test_a_no_after_the_repair_does_not_leave_the_gateway_stopped(store, machine, doctor):
    machine.wrong = [BROKEN]
    plan = approved(store, machine)
    at_point = _says_no_at(store, plan, "step done", times=2)  # repaired, and still stopped
    outcomes = carry_out(plan.id, machine.job(store, at_point=at_point))
    assert doctor[0] == ["heal state.db"] and machine.verbs() == ["stop", "start"] and outcomes[-1].ok


BARE = Supervisor(PROCESS, user="hermes", argv=("/opt/hermes/bin/hermes", "gateway", "run"), uid=1000)
NOTHING = Supervisor(UNKNOWN, may_act=False, why_not=plain("nothing tells how it is started"))


# What gateway.pid says of a gateway that was started as `python /opt/hermes/bin/hermes gateway run`: sys.argv.
BY_ITS_FILE, BY_ITS_PROCESS = BARE, replace(BARE, argv=("/usr/bin/python3", *BARE.argv))


@pytest.mark.parametrize("later", [NOTHING, BY_ITS_FILE])
@pytest.mark.parametrize("wrong", [BROKEN, STUCK])
def test_a_plan_that_was_cut_off_knows_the_start_command_that_was_approved(
    store, machine, doctor, wrong, later
):
    """Once a gateway has stopped, its own files may say nothing, or something else, of how it was started."""
    machine.wrong = [wrong]
    known = replace(machine.world(), supervisor=BY_ITS_PROCESS)
    (plan,) = ask(machine, store, known, START)
    code = new_code(store, plan.id, COMMAND_LINE, START)
    assert answer(store, GivenAnswer(code, True, "ann", COMMAND_LINE), START).ok
    rows.move(store, plan.id, ("approved",), "claimed")
    rows.begin_step(store, StepRow(plan.id, "steps", 0), START)
    machine.alive = False
    after = replace(machine.world(), supervisor=later)
    started = []

    class Gateway:
        REPEATABLE = True
        describe = staticmethod(gateway_step.describe)

        @staticmethod
        def run(args, machine_now):
            started.append((args.do, machine_now.supervisor.argv))
            machine.alive, machine.pid = True, 900
            return ok(plain(args.do), plain("as told"))

    job = machine.job(store, after, kinds={**machine.kinds, "gateway": Gateway})
    machine.cured_by = lambda _: True
    outcomes = interrupted.resume_plan(plan.id, job, "ann")
    assert outcomes[-1].ok, outcomes
    assert started[-1] == ("restart" if wrong is STUCK else "start", BY_ITS_PROCESS.argv)


@pytest.mark.parametrize("wrong", [BROKEN, DEAD])
def test_abandoning_tells_the_start_command_that_was_approved(store, machine, doctor, wrong):
    machine.wrong = [wrong]
    known = replace(machine.world(), supervisor=BARE)
    (plan,) = ask(machine, store, known, START)
    rows.move(store, plan.id, ("pending",), "interrupted")
    machine.alive = False
    told = interrupted.abandon(plan.id, store, replace(machine.world(), supervisor=NOTHING), "ann")
    assert "THE GATEWAY IS NOT RUNNING" in said(told) and "/opt/hermes/bin/hermes gateway run" in said(told)


def test_a_start_command_that_is_no_gateway_is_not_taken_from_the_store(machine):
    machine.alive = False
    machine.wrong = [DEAD]
    known = replace(machine.world(), supervisor=replace(BARE, argv=("/bin/evil", "--now")))
    (plan,) = propose(machine, None, known, START)
    after = replace(machine.world(), supervisor=NOTHING)
    assert interrupted.with_approved_start(plan, after) == after


def test_a_gateway_that_cannot_be_seen_is_not_called_down(store, machine, doctor):
    machine.wrong = [BROKEN]
    plan = approved(store, machine)

    unseen = replace(machine.world(), look=lambda: GatewayProcess(None))
    outcomes = carry_out(plan.id, machine.job(store, unseen))
    assert not outcomes[-1].ok and "NOT RUNNING" not in said(outcomes[-1])


def test_the_durations_of_outcomes_are_the_plans_own(store, machine):
    machine.turns = 1
    plan = approved(store, machine)
    before = machine.now
    outcomes = go(store, machine, plan)
    assert outcomes[-1].took == machine.now - before == sum((one.took for one in outcomes[:-1]), timedelta(0))


def test_killed_while_rolling_back_it_is_told_and_not_resumed(tmp_path):
    before = Machine(tmp_path, wrong=[STUCK])
    with Store.open(tmp_path / "state" / "watchdog.db") as store:
        approved(store, before)
        rows.move(store, 1, ("approved",), "claimed")
        rows.begin_step(store, StepRow(1, "steps", 0), START)
        rows.end_step(store, StepRow(1, "steps", 0), failed(plain("restart"), plain("no")), START)
        told = interrupted.find_interrupted(store, before.world())
        assert "after step 1 of 1" in said(told[0])
        outcomes = interrupted.resume_plan(1, before.job(store), "ann")
        assert "a step had failed before" in said(outcomes[0])
        assert "abandoned by ann" in said(interrupted.abandon(1, store, before.world(), "ann"))
        assert rows.get(store, 1).state == "abandoned"


def test_a_command_that_was_cut_off_is_not_begun_again(store, machine):
    command = Step("command", CommandArgs(("/bin/true",), timedelta(seconds=5)))
    recipe = replace(
        machine.recipes["restart-gateway"], steps=(command, *machine.recipes["restart-gateway"].steps)
    )
    machine.recipes = {**machine.recipes, "restart-gateway": recipe}
    plan = approved(store, machine)
    rows.move(store, plan.id, ("approved",), "claimed")
    rows.begin_step(store, StepRow(plan.id, "steps", 0), START)
    outcomes = interrupted.resume_plan(plan.id, machine.job(store), "ann")
    assert "may have run half way and is not started a second time" in said(outcomes[0]) and machine.ran == []


def _race(folder: str, code: str, start, ran) -> None:
    machine = Machine(Path(folder), wrong=[STUCK], cured_by=Machine.restarted)
    real = machine.run

    def run(argv, timeout, env=None):
        with (Path(folder) / "ran").open("a") as file:
            file.write("once\n")
        return real(argv, timeout, env)

    machine.run = run
    with Store.open(Path(folder) / "state" / "watchdog.db") as store:
        start.wait()
        told = answer(store, GivenAnswer(code, True, "ann", COMMAND_LINE), machine.now)
        outcomes = carry_out(1, machine.job(store))
        if told.ok:
            ran.put("approved")
        if outcomes[-1].ok:
            ran.put("carried out")
    ran.close()
    ran.join_thread()
    os._exit(0)


def test_fifty_processes_racing_to_approve_and_carry_out_are_one_execution(tmp_path):
    machine = Machine(tmp_path, wrong=[STUCK])
    with Store.open(tmp_path / "state" / "watchdog.db") as store:
        plan = ask(machine, store, now=START)[0]
        codes = [new_code(store, plan.id, COMMAND_LINE, START) for _ in range(5)]
    fork = multiprocessing.get_context("fork")
    start, ran = fork.Event(), fork.Queue()
    children = [
        fork.Process(target=_race, args=(str(tmp_path), codes[number % 5], start, ran))
        for number in range(50)
    ]
    for child in children:
        child.start()
    start.set()
    for child in children:
        child.join(60)
    assert all(child.exitcode == 0 for child in children)
    results = sorted(ran.get(timeout=1) for _ in range(2))
    assert results == ["approved", "carried out"] and ran.empty()
    assert (tmp_path / "ran").read_text() == "once\n"


def test_set_aside_moves_the_sidecars_too_and_can_be_undone(tmp_path):
    for suffix in ("", "-wal", "-shm"):
        (tmp_path / f"state.db{suffix}").write_bytes(b"old" + suffix.encode())
    world = Machine(tmp_path).world()
    assert set_aside.run(set_aside.Args("state.db"), world).ok
    assert not list(tmp_path.glob("state.db")) and len(list(tmp_path.glob("state.db.set-aside-*"))) == 3
    (tmp_path / "state.db").write_bytes(b"new")
    later = replace(world, clock=lambda: START + timedelta(hours=1))
    assert set_aside.run(set_aside.Args("state.db", undo=True), later).ok
    assert (tmp_path / "state.db").read_bytes() == b"old" and (
        tmp_path / "state.db-wal"
    ).read_bytes() == b"old-wal"
    assert [one.read_bytes() for one in tmp_path.glob("state.db.set-aside-*")] == [
        b"new"
    ]  # nothing is ever lost


def test_a_database_that_a_process_has_open_is_not_set_aside(tmp_path):
    path = tmp_path / "state.db"
    path.write_bytes(b"x")
    with path.open("rb") as file, subprocess.Popen(["sleep", "60"], stdin=file) as other:
        outcome = set_aside.run(set_aside.Args("state.db"), Machine(tmp_path).world())
        other.kill()
    assert not outcome.ok and path.exists()
    assert f"process {other.pid} (sleep) has state.db open; stop it first; file untouched" in said(outcome)


def test_a_command_runs_through_the_world_with_its_time_limit(tmp_path):
    from watchdog.steps import command

    calls = []
    world = replace(
        Machine(tmp_path).world(),
        run=lambda argv, timeout, env=None: (calls.append((argv, timeout)), Ran(0, "token=abcdefgh"))[1],
    )
    outcome = command.run(CommandArgs(("/bin/x", "a b"), timedelta(seconds=9)), world)
    assert calls == [(("/bin/x", "a b"), 9.0)] and outcome.output == "token=[secret]"


def test_when_it_cannot_be_looked_at_again_nothing_is_done(store, machine):
    plan = approved(store, machine)

    def blind(since):
        raise OSError("the disk is gone")

    outcome = carry_out(plan.id, machine.job(store, look_again=blind))[-1]
    assert "could not be looked at again: OSError: the disk is gone" in said(outcome) and machine.ran == []
    assert rows.get(store, plan.id).state == "lapsed"


def test_when_it_cannot_be_looked_at_afterwards_it_is_not_called_well(store, machine):
    plan = approved(store, machine)

    def look(since):
        if since is not None:
            raise OSError("the disk is gone")
        return machine.look_again(since)

    outcomes = carry_out(plan.id, machine.job(store, look_again=look))
    assert not outcomes[-1].ok and "could not be looked at" in said(outcomes[-1]) and disarmed(store, machine)


def test_killed_right_after_the_roll_back_it_is_told(tmp_path):
    """The last of the points: the gateway is back as it was, only the record of the end is missing."""
    with Store.open(tmp_path / "state" / "watchdog.db") as store:
        approved(store, _machine(tmp_path))
    assert _died_at(tmp_path, "rolled back", 1, helps=False)
    after = _machine(tmp_path)
    with Store.open(tmp_path / "state" / "watchdog.db") as store:
        told = carry_out_approved(after.job(store))
        assert "was cut off after step 3 of 3" in said(told[0]) and "the gateway runs" in said(told[0])
        assert "a step had failed" in said(interrupted.resume_plan(1, after.job(store), "ann")[0])
    ran = [json.loads(line)[-2:] for line in (tmp_path / "ran").read_text().splitlines()]
    assert ran == [
        ["stop", "hermes-gateway.service"],
        ["doctor", "heal"],
        ["start", "hermes-gateway.service"],
        ["stop", "hermes-gateway.service"],
        ["doctor", "undo"],
        ["start", "hermes-gateway.service"],
    ]


def test_a_clock_that_stands_still_or_goes_back_does_not_make_us_wait_for_ever(store, machine):
    machine.wrong, machine.cured_by, machine.alive = [DEAD], None, False
    plan = approved(store, machine)
    waits = []

    def sleep(seconds):
        waits.append(seconds)
        machine.now -= timedelta(seconds=1)

    machine.sleep = sleep
    outcomes = go(store, machine, plan)
    assert not outcomes[-1].ok and sum(waits) < 600


def test_a_lock_that_cannot_be_made_starts_nothing(store, machine):
    plan = approved(store, machine)
    (machine.folder / "state" / "acting.lock").symlink_to("/etc/passwd")
    assert "so nothing was started" in said(go(store, machine, plan)[-1]) and machine.ran == []
