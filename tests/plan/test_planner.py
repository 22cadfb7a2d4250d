"""Plans and the limits that hold them back, decided from values alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from machines import BROKEN, DEAD, LACKING, LOOP, START, STUCK, Machine, book, incident, shipped, waits_for

from watchdog.config.rulebook import Rulebook
from watchdog.config.settings import Limits
from watchdog.gateway.machine import GatewayProcess
from watchdog.gateway.supervisor import PROCESS, Supervisor
from watchdog.model import Event, plain
from watchdog.model.plan_reasons import Disarm, Wait
from watchdog.notify.translate import in_english
from watchdog.plan.limits import Action, Disarmed, History, Refusal, must_disarm, pause
from watchdog.plan.planner import make_plans

RECIPES = shipped()
HOME = Path("/home/lab")
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def plans(*incidents, machine=None, history=None, now=START, tmp_path=None, recipes=RECIPES):
    world = (machine or Machine(HOME)).world()  # type: ignore[arg-type]
    return make_plans(incidents, book(recipes), history or History(), world, now)


def plan(*incidents, **more):
    made = plans(*incidents, **more)
    assert len(made) == 1
    return made[0]


def done(
    recipe="restart-gateway", key="session-stuck telegram/42", ago=2 * HOUR, state="ok", number=1, **more
):
    return Action(recipe, key, START - ago, recipe != "stop-crash-loop", state, number, **more)


def test_the_words_of_a_plan_hold_the_exact_command():
    made = plan(STUCK)
    assert [in_english(word) for word in made.words] == [
        "restart the gateway (system unit hermes-gateway.service): /usr/bin/systemctl restart hermes-gateway.service",
    ]
    assert made.hold is None and made.approval == "ask" and made.restarts


def test_no_open_incident_no_plan():
    assert plans() == ()
    assert plans(incident(status="suspected")) == ()
    assert plans(incident(status="resolved")) == ()
    assert plans(incident(recipe=None)) == ()


def test_three_stuck_chats_are_one_restart():
    made = plan(STUCK, incident(key="telegram/43"), incident(key="qqbot/7"))
    assert len(made.steps) == 1 and len(made.incidents) == 3


def test_repairs_come_before_the_one_start_whatever_the_order_of_the_incidents():
    made = plan(LOOP, LACKING, BROKEN)
    assert [step.kind for step in made.steps] == ["gateway", "heal_database", "add_column", "gateway"]
    assert [step.args.do for step in (made.steps[0], made.steps[-1])] == ["stop", "start"]
    assert made.incidents[0] == "database-broken state.db"
    assert made.recipes == ("heal-database", "add-missing-columns")
    assert in_english(made.chain) == "database broken → crash loop; missing column" and made.also == ()


def test_a_column_alone_is_added_to_the_running_gateway():
    made = plan(LACKING)
    assert [step.kind for step in made.steps] == ["add_column"] and not made.restarts


def test_a_column_and_a_stuck_chat_are_a_column_and_then_a_restart():
    assert [step.kind for step in plan(STUCK, LACKING).steps] == ["add_column", "gateway"]


def test_a_crash_loop_without_a_known_cause_is_stopped_and_not_started_again():
    made = plan(LOOP, DEAD)
    assert [in_english(word) for word in made.words] == [
        "stop the gateway (system unit hermes-gateway.service): /usr/bin/systemctl stop hermes-gateway.service",
    ]
    assert made.verify.alive is False and made.stops


@pytest.mark.parametrize("wrong", [BROKEN, STUCK, DEAD])
def test_a_bare_gateway_that_cannot_be_seen_is_neither_stopped_nor_started(wrong):
    bare = Supervisor(PROCESS, user="hermes", argv=("/opt/hermes/bin/hermes", "gateway", "run"), uid=1000)
    unseen = replace(Machine(HOME).world(), supervisor=bare, gateway=GatewayProcess(None))
    (made,) = make_plans((wrong,), book(), History(), unseen, START)
    assert waits_for(made) == (
        "whether the gateway runs cannot be seen from here; nothing is stopped or started"
    )
    assert not any("it is not running" in in_english(word) for word in made.words)


def test_a_rule_displaces_the_recipe_of_another_by_its_file_alone():
    mine = {"stop-it": replace(RECIPES["stop-crash-loop"], id="stop-it"), **RECIPES}
    rules = tuple(replace(rule, id="mine", displaces=("gateway-down",)) for rule in book().rules[:1])
    ill = incident("mine", "gateway", "stop-it")
    (made,) = make_plans((DEAD, ill), Rulebook(rules, mine), History(), Machine(HOME).world(), START)
    assert made.recipes == ("stop-it",)


def test_two_broken_databases_are_healed_under_one_stop():
    other = replace(BROKEN, key="kanban.db", facts={"database": "kanban.db"})
    assert [step.kind for step in plan(BROKEN, other).steps] == [
        "gateway",
        "heal_database",
        "heal_database",
        "gateway",
    ]


@pytest.mark.parametrize(
    ("rule", "text", "why"),
    [
        ("content-filter-burst", "", "Start a new conversation"),
        ("provider-errors", "insufficient_quota", "quota"),
        ("provider-errors", "Error code: 401 - Unauthorized", "credentials"),
        ("gateway-down", "OSError: [Errno 28] No space left on device", "disk is full"),
        ("gateway-down", "yaml.scanner.ScannerError: mapping values", "config.yaml"),
        ("my-own-rule", "output new_sensitive (1027)", "1027"),
    ],
)
def test_a_restart_that_cannot_help_is_refused_with_the_reason(rule, text, why):
    made = plan(incident(rule, "k", "restart-gateway", evidence=(Event(START, "gateway.log", text),)))
    assert made.hold.until is None and why in waits_for(made) and made.steps == ()


def test_a_full_disk_is_measured_and_keeps_every_restart_back():
    machine = Machine(HOME)
    world = replace(machine.world(), free=1_000_000)
    (made,) = make_plans((STUCK,), book(), History(), world, START)
    assert made.hold.until is None and "1 MB are free" in waits_for(made)
    (made,) = make_plans((BROKEN,), book(), History(), world, START)
    assert made.hold.until is None


def test_a_gateway_that_ended_with_code_78_has_a_bad_config():
    world = Machine(HOME).world()
    world = replace(world, supervisor=replace(world.supervisor, exit_status=78))
    (made,) = make_plans((DEAD,), book(), History(), world, START)
    assert made.hold.until is None and "code 78" in waits_for(made)


def test_a_permission_problem_is_told_before_anyone_is_asked():
    machine = Machine(HOME, may_act=False, why_not="add this line with visudo: …")
    assert "visudo" in waits_for(plan(STUCK, machine=machine))


HELD = {
    "disarmed": (
        History(disarmed=Disarmed(START - HOUR, "hermes-watchdog", plain("plan 3 did not help"))),
        "disarmed since",
    ),
    "unfinished": (History(unfinished=(7,)), "plan 7 was begun and not finished"),
    "maintenance": (History(maintenance_until=START + HOUR), "maintenance"),
    "refused": (
        History(refusals=(Refusal("restart-gateway", START + HOUR, "ann", START - HOUR),)),
        "ann refused “restart-gateway”",
    ),
    "cooldown": (History(actions=(done(ago=30 * MINUTE),)), "pause of 1 hour"),
    "per day": (
        History(actions=(done(ago=3 * HOUR), done(ago=8 * HOUR, number=2))),
        "2 times in 24 hours (limit 2)",
    ),
    "all per day": (
        History(actions=tuple(done(f"r{n}", "x", 2 * HOUR, number=n) for n in range(6))),
        "acted 6 times in 24 hours",
    ),
    "all per hour": (
        History(
            actions=tuple(
                replace(done(f"r{n}", "x", 20 * MINUTE, number=n), restarted=False) for n in range(3)
            )
        ),
        "the watchdog acted 3 times in the last hour (limit 3)",
    ),
    "per hour": (
        History(starts=tuple(START - n * 10 * MINUTE for n in (1, 2, 3))),
        "started 3 times in the last hour, by anyone",
    ),
    "grace": (History(starts=(START - 2 * MINUTE,)), "it gets 5 minutes to settle"),
}


@pytest.mark.parametrize("name", HELD)
def test_each_limit_holds_with_its_reason(name):
    history, why = HELD[name]
    assert why in waits_for(plan(STUCK, history=history))


def test_a_restart_that_waited_for_a_reply_counts_once():
    waited = replace(done(ago=10 * MINUTE), took=5 * MINUTE)
    history = History(actions=(waited,), starts=(START - 7 * MINUTE, START - 40 * MINUTE))
    made = plan(incident("my-own-rule", "x", "restart-gateway"), history=history)
    assert made.hold.reason.key == Wait.COOLING_DOWN
    free = replace(RECIPES["restart-gateway"], cooldown=MINUTE)
    made = plan(STUCK, history=history, recipes={**RECIPES, "restart-gateway": free})
    assert made.hold is None  # two starts in the last hour, ours and one other: the limit is three
    late = replace(history, starts=(*history.starts, START - 30 * MINUTE))
    made = plan(STUCK, history=late, recipes={**RECIPES, "restart-gateway": free})
    assert made.hold.reason.key == Wait.STARTS_SPENT and made.hold.reason.fields["count"] == 3


def test_the_grace_period_begins_when_the_gateway_started_and_not_when_we_began_to_wait():
    waited = replace(done(ago=8 * MINUTE), took=6 * MINUTE)
    free = replace(RECIPES["restart-gateway"], cooldown=MINUTE)
    history = History(actions=(waited,), starts=(START - 2 * MINUTE,))
    made = plan(STUCK, history=history, recipes={**RECIPES, "restart-gateway": free})
    assert made.hold.until == START + 3 * MINUTE


def test_advice_that_speaks_against_a_restart_is_not_shown_beside_one():
    failing = incident("provider-errors", "custom", None, advice="A restart does not cure this.")
    assert plan(STUCK, failing).advice == ()
    assert plan(LACKING, failing).advice != ()


def test_what_has_nothing_to_do_with_a_plan_is_also_open_and_no_cause():
    failing = incident("provider-errors", "custom", None)
    made = plan(DEAD, failing)
    assert in_english(made.chain) == "gateway down"
    assert [in_english(title) for title in made.also] == ["provider errors"]


def test_limits_of_another_recipe_do_not_hold_this_one():
    history = History(
        actions=(done("add-missing-columns", "x", 10 * MINUTE),),
        refusals=(Refusal("heal-database", START + HOUR, "ann", START),),
    )
    history = replace(history, actions=tuple(replace(one, restarted=False) for one in history.actions))
    assert plan(STUCK, history=history).hold is None


def test_a_plan_waits_while_the_named_rule_holds_or_cannot_be_checked():
    recipes = {
        **RECIPES,
        "restart-gateway": replace(RECIPES["restart-gateway"], hold_while=("turn-in-progress",)),
    }
    assert "waits while “turn-in-progress” is open" in waits_for(
        plan(STUCK, incident("turn-in-progress", "x", None), recipes=recipes)
    )
    blind = History(not_checked=frozenset({"turn-in-progress"}))
    assert "could not be checked" in waits_for(plan(STUCK, history=blind, recipes=recipes))


def test_the_starts_of_a_crash_loop_do_not_keep_its_cure_away():
    starts = tuple(START - n * MINUTE for n in range(15))
    assert plan(LOOP, BROKEN, history=History(starts=starts)).hold is None
    assert plan(LOOP, history=History(starts=starts)).hold is None


def test_starts_by_others_hold_back_a_restart_but_not_the_repair_of_a_database():
    """A gateway that cannot work with its database is started again and again; that is no reason to leave it broken."""
    every_quarter = History(starts=tuple(START - (6 + n * 15) * MINUTE for n in range(4)))
    assert plan(STUCK, history=every_quarter).hold.reason.key == Wait.STARTS_SPENT
    assert plan(BROKEN, history=every_quarter).hold is None
    fresh = History(starts=(*every_quarter.starts, START - 2 * MINUTE))
    assert plan(BROKEN, history=fresh).hold.reason.key == Wait.JUST_STARTED
    ours = tuple(done("another-repair", "x", n * 10 * MINUTE, number=n) for n in (1, 2, 3))
    assert plan(BROKEN, history=History(actions=ours)).hold.reason.key in (Wait.STARTS_SPENT, Wait.HOUR_SPENT)


def test_a_clock_that_went_back_gives_no_fresh_budget():
    later = tuple(replace(done(), at=START + timedelta(days=n), plan=n) for n in (1, 2))
    made = plan(STUCK, history=History(actions=later))
    assert made.hold and made.hold.until > START
    assert plan(STUCK, history=History(starts=(START + HOUR,))).hold


def test_pauses_double_up_to_the_longest():
    limits = Limits()
    assert [pause(HOUR, n, limits) for n in (0, 1, 2, 3, 40)] == [
        HOUR,
        HOUR,
        2 * HOUR,
        4 * HOUR,
        timedelta(days=1),
    ]


def test_a_cure_that_failed_for_a_key_is_not_tried_again_for_it_but_for_another():
    history = History(actions=(done(state="failed", ago=timedelta(days=2)),))
    refused = plan(STUCK, history=history)
    assert refused.hold.until is None and "did not help" in waits_for(refused)
    assert plan(incident(key="telegram/43"), history=history).hold is None


def test_when_healing_failed_the_next_cure_of_its_file_is_proposed():
    history = History(
        actions=(done("heal-database", "database-broken state.db", timedelta(days=1), "failed"),)
    )
    made = plan(BROKEN, history=history)
    assert made.recipes == ("set-aside-database",) and made.steps[1].kind == "set_aside"


def test_a_cure_that_does_not_last_disarms():
    twice = History(actions=(done(ago=3 * HOUR), done(ago=8 * HOUR, number=2)))
    assert must_disarm((STUCK,), RECIPES, twice, START).key == Disarm.DOES_NOT_LAST
    assert must_disarm((STUCK,), RECIPES, History(actions=twice.actions[:1]), START) is None
    armed = History(actions=tuple(replace(one, since_armed=False) for one in twice.actions))
    assert must_disarm((STUCK,), RECIPES, armed, START) is None


def test_the_digest_is_of_what_would_be_done_and_of_nothing_else():
    one, more = plan(STUCK), plan(STUCK, incident(key="telegram/43"))
    assert one.digest == more.digest  # later incidents join the question
    elsewhere = replace(Machine(HOME).world(), host="other")
    assert make_plans((STUCK,), book(), History(), elsewhere, START)[0].digest != one.digest
    world = Machine(HOME).world()
    renamed = replace(
        world,
        supervisor=replace(world.supervisor, restart=("/usr/bin/systemctl", "restart", "other.service")),
    )
    assert make_plans((STUCK,), book(), History(), renamed, START)[0].digest != one.digest


def test_a_fact_that_was_not_measured_or_is_unfit_makes_no_plan():
    for value in ("", "-rf", "a\nb", "x" * 5000):
        made = plan(replace(BROKEN, facts={"database": value}))
        assert made.hold.until is None and made.steps == (), value


def test_auto_is_one_line_of_the_settings_and_never_spreads_to_other_recipes():
    machine = Machine(HOME, limits=Limits(auto=("add-missing-columns",)))
    assert plan(LACKING, machine=machine).approval == "auto"
    assert plan(LACKING, STUCK, machine=machine).approval == "ask"
    assert plan(STUCK, machine=machine).approval == "ask"


def test_turns_in_flight_are_shown_before_asking():
    machine = Machine(HOME, turns=2)
    assert (
        in_english(plan(STUCK, machine=machine).costs)
        == "2 replies in progress; they get up to 2 minutes to finish, then they are cut off"
    )
    assert "1 reply in progress" in in_english(plan(STUCK, machine=replace(machine, hung=1)).costs)
    assert in_english(plan(STUCK, machine=replace(machine, hung=2)).costs).startswith("no reply is known")
