"""Recipe files: the shipped ones are sound, and each mistake is told with its line and what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from effort import rounds
from homes import BOOK
from machines import RULES, shipped

from watchdog.config.pattern import Pattern
from watchdog.config.recipes import check_recipes, read_recipe
from watchdog.config.yaml import read_documents
from watchdog.errors import Problem
from watchdog.model import Condition, Rule
from watchdog.steps import KINDS

BAD = Path(__file__).parents[1] / "bad" / "recipes"
GATEWAY = Condition("gateway", None)


def rule(name: str, recipe: str | None = None, *when: Condition) -> Rule:
    return Rule(name, name, "high", when or (GATEWAY,), "", f"rules/detect/{name}.yaml:1", recipe=recipe)


def problems_of(path: Path) -> list[str]:
    """Read one bad recipe next to the shipped ones, proposed by a rule that reads a log and looks at the
    gateway.
    """
    problems: list[Problem] = []
    recipes = shipped()
    for section in read_documents(path.name, path.read_bytes(), problems):
        recipe = read_recipe(section, KINDS)
        recipes[recipe.id] = recipe
    quotes = Condition("burst", (Pattern(r"inbound message: chat=(?<chat>\S+)"),))
    names = {name for one in shipped().values() for name in one.verify.quiet}
    rules = [rule(name) for name in sorted(names)] + [
        rule("stuck", path.stem, quotes, GATEWAY),
        rule("turn-in-progress"),
    ]
    check_recipes(recipes, rules, problems)
    return [str(one) for one in sorted(set(problems)) if one.path == path.name]


@pytest.mark.parametrize("path", sorted(BAD.glob("*.yaml")), ids=lambda path: path.stem)
def test_each_mistake_is_told_with_its_line(path):
    assert "\n".join(problems_of(path)) + "\n" == path.with_suffix(".txt").read_text()


def test_the_shipped_recipes_ask_a_person_and_verify():
    recipes = shipped()
    assert {"restart-gateway", "heal-database"} <= recipes.keys()
    for recipe in recipes.values():
        assert (
            recipe.approval == "ask" and recipe.verify and recipe.verify.quiet and recipe.translations["zh"]
        ), recipe.id


def test_the_shipped_recipes_fit_the_shipped_rules():
    problems: list[Problem] = []
    check_recipes(BOOK.recipes, BOOK.rules, problems)
    assert problems == []


def test_a_recipe_that_acts_wants_a_witness_that_is_not_a_log():
    problems: list[Problem] = []
    check_recipes(shipped(), [rule("only-logs", "restart-gateway", Condition("burst", None))], problems)
    assert any(
        "one witness must not be a log" in one.says and one.path == "rules/detect/only-logs.yaml"
        for one in problems
    )
    problems.clear()
    either = Condition("any", (Condition("burst", None), GATEWAY))
    check_recipes(shipped(), [rule("either", "restart-gateway", either)], problems)
    assert any("one witness must not be a log" in one.says for one in problems)


def test_a_rule_that_names_a_missing_recipe_is_told_the_near_one():
    problems: list[Problem] = []
    check_recipes(shipped(), [rule("x", "restart-gatway")], problems)
    assert any(
        "there is no recipe 'restart-gatway'; did you mean 'restart-gateway'?" in one.says for one in problems
    )


def test_every_kind_of_step_has_its_parts():
    for kind, module in KINDS.items():
        assert kind == module.KIND and isinstance(module.REPEATABLE, bool)
        assert all(callable(getattr(module, name)) for name in ("read", "describe", "run", "Args"))


def test_thousands_of_mutated_recipe_files_never_crash():
    """No crash, no hang, always a defined message."""
    import random

    rng = random.Random(4)
    texts = [
        path.read_text()
        for path in [*sorted((RULES / "recipes").glob("*.yaml")), *sorted(BAD.glob("*.yaml"))]
    ]
    for _ in range(rounds(2000)):
        text = list(rng.choice(texts))
        for _ in range(rng.randint(1, 6)):
            place = rng.randrange(len(text))
            text[place : place + rng.randint(0, 4)] = rng.choice(
                ["{", "}", "[", "]", ": ", "\n", "\t", "- ", "'", "é", "\x00", "*a", "&a", "!!x", "0", ""]
            )
        problems: list[Problem] = []
        recipes = [
            read_recipe(section, KINDS)
            for section in read_documents("x.yaml", "".join(text).encode(), problems)
        ]
        check_recipes(recipes, [rule("stuck", recipes[0].id if recipes else None)], problems)
        assert all(isinstance(one.says, str) and one.says for one in problems)
