"""plans, plan, approve, refuse, arm, disarm, resume, abandon, audit: as a person types them."""

from __future__ import annotations

import io
import json
import shlex
import shutil
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from machines import Machine, ask, incident

from watchdog import gateway
from watchdog.approval.record import GivenAnswer, answer, new_code
from watchdog.gateway import Machine as World
from watchdog.job import Run
from watchdog.model import Change
from watchdog.repair import RepairJob
from watchdog.repair.job import acting
from watchdog.service import answering
from watchdog.store import Store
from watchdog.store.incidents import save_changes


@pytest.fixture
def shell(tmp_path, monkeypatch, typed):
    """A home with one open question; `say(words…)` gives exit code, stdout and stderr."""
    home = tmp_path / "home"
    (home / "logs").mkdir(parents=True)
    now = datetime.now(UTC)
    machine = Machine(home, now=now, wrong=[incident(at=now)], cured_by=Machine.restarted)
    monkeypatch.setattr(gateway, "measure_machine", lambda *_, **__: machine.world())
    say_no: list[Callable[[Run], None]] = []

    def repair_job(run: Run, world: World) -> RepairJob:
        return RepairJob(
            run.memory, world, machine.look_again, lambda: [refuse(run) for refuse in say_no[:1]]
        )

    monkeypatch.setattr(answering, "repair_job", repair_job)

    def say(*words: str, stdin: str = "", terminal: bool = False) -> tuple[int, str, str]:
        lines = io.StringIO(stdin)
        lines.isatty = lambda: terminal  # type: ignore[method-assign]
        monkeypatch.setattr(sys, "stdin", lines)
        return typed(
            *words, "--home", str(home), "--state", str(tmp_path / "state"), "--config", str(tmp_path)
        )

    def question() -> None:
        with store() as one:
            ask(machine, one, now=now)

    def store() -> Store:
        return Store.open(
            next(iter((tmp_path / "state").glob("*")), tmp_path / "state" / "x") / "watchdog.db"
        )

    (tmp_path / "state").mkdir()
    say("disarm"), say("arm")  # makes the folder of this home
    say.machine, say.question, say.store = machine, question, store  # type: ignore[attr-defined]
    say.say_no = say_no  # type: ignore[attr-defined]
    return say


def code_of(shell) -> str:
    return shell("plan", "1", "--code", "--json")[1].split('"code": "')[1][:8]


def test_a_no_that_waits_in_a_chat_stops_a_yes_that_is_typed_in_a_shell(shell):
    shell.question()
    code = code_of(shell)

    def refuse(run: Run) -> None:
        word = new_code(run.memory, 1, "ntfy:bob", run.now)
        answer(run.memory, GivenAnswer(word, False, "bob", "ntfy:bob", allowed=("bob",)), run.now)

    shell.say_no.append(refuse)
    exit_code, out, _ = shell("approve", code)
    assert exit_code == 1 and shell.machine.ran == [] and "plan 1 is refused" in out, out
    what = [json.loads(line)["what"] for line in shell("audit", "--json")[1].splitlines()]
    assert what[-2:] == ["approved", "refused"], what


def test_without_plans_all_is_well(shell):
    assert shell("plans") == (
        0,
        "No plans. The watchdog proposes one when it finds a fault that it knows a fix for.\n",
        "",
    )


def test_a_question_is_shown_with_its_exact_command_and_answered_at_once(shell):
    shell.question()
    code, out, _ = shell("plans")
    assert code == 1 and "waits for you" in out
    _, out, _ = shell("plan", "1")
    assert "/usr/bin/systemctl restart hermes-gateway.service" in out and " plan 1 --code\n" in out
    code, out, _ = shell("approve", code_of(shell))
    assert code == 0 and "done and verified" in out and shell.machine.verbs() == ["restart"]
    code, out, _ = shell("plan", "1", "--json")
    assert code == 0 and json.loads(out)["state"] == "done" and json.loads(out)["done"][0]["ok"] == 1
    assert shell("plans")[0] == 0


def test_a_code_can_be_read_from_standard_input(shell):
    shell.question()
    word = code_of(shell)
    code, out, _ = shell("approve", "-", "--json", stdin=f"{word[:4]} {word[4:].lower()}\n")
    assert code == 0 and json.loads(out)["ok"] is True
    assert shell("approve", "-")[0] == 2


def test_a_wrong_code_is_an_argument_error_and_does_nothing(shell):
    shell.question()
    code, _, err = shell("approve", "AAAAAAAA")
    assert code == 2 and "that code is not known; 4 tries left" in err and shell.machine.ran == []


def test_a_plan_that_must_wait_is_accepted_and_carried_out_by_the_command_that_waits(shell):
    shell.question()
    code = code_of(shell)
    shell.machine.starts = [shell.machine.now - timedelta(minutes=4, seconds=54)]
    exit_code, out, _ = shell("approve", code)
    assert exit_code == 0 and "plan 1 is approved and waits until" in out and "after Ctrl-C" in out, out
    assert "done and verified" in out and shell.machine.verbs() == ["restart"]
    what = [json.loads(line)["what"] for line in shell("audit", "--json")[1].splitlines()]
    assert what[2:] == ["asked", "approved", "claimed", "waits", "claimed", "begun", "step done", "done"]


def test_ctrl_c_while_it_waits_leaves_it_approved_for_the_next_check(shell):
    shell.question()
    code = code_of(shell)
    shell.machine.starts = [shell.machine.now - timedelta(minutes=4)]

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    shell.machine.sleep = interrupt
    exit_code, out, _ = shell("approve", code)
    assert exit_code == 1 and "waits until" in out and shell.machine.ran == []
    assert "approved" in shell("plans")[1] and "waits until" in shell("plans")[1]


def test_what_a_check_did_while_the_command_waited_is_its_answer(shell):
    shell.question()
    code = code_of(shell)
    shell.machine.starts = [shell.machine.now - timedelta(minutes=4)]

    def meanwhile(seconds: float) -> None:
        shell.machine.now += timedelta(seconds=seconds)
        with shell.store() as store:
            store.db.execute("UPDATE plans SET state = 'done', finished_at = asked_at")

    shell.machine.sleep = meanwhile
    exit_code, out, _ = shell("approve", code)
    assert exit_code == 0 and shell.machine.ran == [], out


def test_a_used_code_says_what_became_of_it(shell):
    shell.question()
    word = code_of(shell)
    assert shell("refuse", word)[0] == 0
    code, _, err = shell("approve", word)
    assert code == 1 and "already refused" in err and shell.machine.ran == []


def test_a_cure_that_does_not_help_ends_with_one_and_disarms(shell):
    shell.machine.wrong, shell.machine.cured_by, shell.machine.alive = (
        [incident("gateway-down", "gateway", "start-gateway")],
        None,
        False,
    )
    shell.question()
    code, out, _ = shell("approve", code_of(shell))
    assert code == 1 and "not better" in out
    code, out, _ = shell("plans")
    assert code == 1 and "disarmed by hermes-watchdog" in out
    assert shell("arm", "--because", "looked at it")[1] == "armed: approved plans are carried out again\n"
    assert shell("arm")[1] == "it was armed already\n"


def test_a_plan_that_was_cut_off_is_resumed_or_abandoned_by_a_person(shell):
    shell.question()
    code_of(shell)
    with shell.store() as store:
        store.db.execute("UPDATE plans SET state = 'claimed', answered_digest = digest")
    code, out, _ = shell("plan", "1")
    assert "resume 1" in out
    code, out, _ = shell("resume", "1")
    assert code == 0 and shell.machine.verbs() == ["restart"]
    code, _, err = shell("abandon", "1")
    assert code == 2 and "plan 1 is done" in err


def test_checks_end_with_one_and_say_so_until_a_plan_that_was_cut_off_is_resumed_or_abandoned(shell):
    shell.question()
    with shell.store() as store:
        store.db.execute("UPDATE plans SET state = 'claimed', answered_digest = digest")
    said = "plan 1 was begun and not finished; see: "
    code, out, _ = shell("check", "--dry-run")
    assert code == 1 and said in out
    code, out, _ = shell("check")
    assert code == 1 and "was cut off before its first step" in out and said in out
    for words in (("check",), ("check", "--dry-run")):
        code, out, _ = shell(*words)
        assert code == 1 and said in out and "Nothing" not in out, out
    code, out, _ = shell("check", "--json")
    assert code == 1 and json.loads(out)["plans_cut_off"] == [1]
    assert shell("check", "--quiet")[:2] == (1, ""), "it was told when it was found"
    assert shell("abandon", "1")[0] == 0
    code, out, _ = shell("check")
    assert code == 0 and "begun and not finished" not in out and "Nothing" in out


def test_a_check_with_nothing_to_do_asks_once_for_plans(shell):
    asked = []
    shell("check")
    connect = sqlite3.connect

    def listening(*words, **more):
        db = connect(*words, **more)
        db.set_trace_callback(lambda text: asked.append(text) if " plans " in text else None)
        return db

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", listening)
        shell("check")
    assert len(asked) == 1


def test_ctrl_c_in_the_middle_is_told_as_what_it_is(shell):
    shell.question()
    word = code_of(shell)

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    shell.machine.run = interrupted
    code, out, _ = shell("approve", word)
    assert code == 1 and "was cut off in the middle of step 1 of 1" in out and "resume 1" in out


def test_the_audit_is_text_or_json_lines_and_holds_no_code(shell):
    shell.question()
    word = code_of(shell)
    shell("approve", word)
    _, out, _ = shell("audit")
    assert "asked plan 1" in out and "approved plan 1 by" in out and word not in out
    _, out, _ = shell("audit", "--json", "--plan", "1")
    lines = [json.loads(line) for line in out.splitlines()]
    assert [line["what"] for line in lines] == ["asked", "approved", "claimed", "begun", "step done", "done"]
    assert word not in out


def test_a_number_that_is_no_plan_is_told(shell):
    assert "there is no plan 9" in shell("plan", "9")[2] and "there is no plan 9" in shell("resume", "9")[2]
    assert shell("plan", "x")[0] == 2


def test_a_plan_that_is_being_carried_out_is_not_offered_to_be_continued_or_given_up(shell):
    shell.question()
    with shell.store() as store:
        store.db.execute("UPDATE plans SET state = 'claimed'")
        with acting(replace(shell.machine.world(), state=Path(store.path).parent)):
            assert "abandon 1" not in shell("plan", "1")[1] and "resume 1" not in shell("plan", "1")[1]
    assert "abandon 1" in shell("plan", "1")[1], "whoever carried it out is gone"


def test_every_state_of_a_plan_can_be_shown(shell):
    shell.question()
    for state in (
        "pending",
        "approved",
        "refused",
        "expired",
        "superseded",
        "lapsed",
        "claimed",
        "interrupted",
        "done",
        "failed",
        "abandoned",
    ):
        with shell.store() as store:
            store.db.execute("UPDATE plans SET state = ?", (state,))
        assert shell("plans")[0] in (0, 1) and shell("plan", "1")[0] == 0


def test_on_a_terminal_the_plan_is_shown_and_asked_about(shell):
    shell.question()
    assert "no code was given" in shell("approve")[2]
    code, out, _ = shell("approve", stdin="n\n", terminal=True)
    assert code == 1 and "systemctl restart" in out and "the question stays open" in out
    assert shell.machine.ran == []
    code, out, _ = shell("approve", stdin="y\n", terminal=True)
    assert code == 0 and "done and verified" in out and shell.machine.verbs() == ["restart"]
    assert "no plan waits for an answer" in shell("refuse", stdin="y\n", terminal=True)[2]


@pytest.mark.parametrize("word", ["1", "yes", "K7MNPQR", "K7MNPQRST"])
def test_a_word_that_cannot_be_a_code_uses_up_no_try(shell, word):
    shell.question()
    code, _, err = shell("approve", word)
    assert code == 2 and "is not a code: a code has 8 letters and digits" in err
    assert "4 tries left" in shell("approve", "AAAAAAAA")[2]


def test_a_code_is_found_whatever_home_it_belongs_to(shell, tmp_path, typed, monkeypatch):
    shell.question()
    word = code_of(shell)
    other = tmp_path / "other"
    (other / "logs").mkdir(parents=True)
    monkeypatch.setenv("HERMES_HOME", str(other))
    code, out, _ = typed("refuse", word, "--state", str(tmp_path / "state"), "--config", str(tmp_path))
    assert code == 0 and "plan 1 refused" in out


def test_a_plan_on_hold_is_shown_with_its_reason_instead_of_no_plans(shell):
    with shell.store() as store:
        save_changes(store, [Change("opened", replace(shell.machine.wrong[0], id=0))])
    shell("disarm", "--because", "moving house")
    code, out, _ = shell("plans")
    assert code == 1 and "on hold" in out and "moving house" in out and "No plans" not in out
    code, out, _ = shell("plans", "--json")
    (held,) = json.loads(out)["on_hold"]
    assert code == 1 and "moving house" in held["reason"] and held["recipes"] == ["restart-gateway"]


def test_a_plan_whose_hold_has_ended_is_asked_at_the_next_check_and_shown_until_then(shell):
    with shell.store() as store:
        save_changes(store, [Change("opened", replace(shell.machine.wrong[0], id=0))])
    code, out, _ = shell("plans")
    assert code == 1 and "next check  Restart the gateway" in out and "No plans" not in out
    (ready,) = json.loads(shell("plans", "--json")[1])["ready"]
    assert ready["recipes"] == ["restart-gateway"] and "reason" not in ready
    shell.question()
    assert "next check" not in shell("plans")[1]


def test_a_hint_runs_as_it_is_printed(shell, typed):
    shell.question()
    hint = shell("plan", "1")[1].strip().splitlines()[-1].rpartition("or a code: ")[2]
    program, *words = shlex.split(hint)
    assert shutil.which(program) and words[-3:] == ["plan", "1", "--code"]
    code, out, _ = typed(*words)
    assert code == 0 and "to allow it:" in out
