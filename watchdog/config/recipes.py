"""rules/recipes/*.yaml → Recipe, and the checks that only rules and recipes together allow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from watchdog.config.pattern import Pattern
from watchdog.config.rulebook import LineSelection
from watchdog.config.yaml import Section, _near, read_translations
from watchdog.errors import Problem
from watchdog.model import Condition, Recipe, Rule, Step, Verify
from watchdog.text import harmless

_ID = re.compile(r"[a-z][a-z0-9-]{1,60}")
_APPROVALS = ("ask", "auto", "never")
# Kinds whose word is a measurement of ours; all others read what a program or a person wrote.
MEASURED = {
    "gateway": ("pid", "home"),
    "sqlite_health": ("database", "path"),
    "sqlite_schema": ("database", "path", "missing", "columns"),
}


HOLE = re.compile(r"\{([^{}]*)\}")
NAME = re.compile(r"[a-z_][a-z0-9_]*")


def holes(args: Any) -> tuple[str, ...]:
    """The {facts} that a step's arguments want, in order."""
    return tuple(dict.fromkeys(name for text in texts_of(args) for name in HOLE.findall(text)))


def texts_of(args: Any) -> Iterable[str]:
    """Every text in a step's arguments."""
    for name in args.__match_args__:
        value = getattr(args, name)
        if isinstance(value, str):
            yield value
        elif isinstance(value, Sequence):
            yield from value


def read_recipe(section: Section, kinds: Mapping[str, Any]) -> Recipe:
    """One document of a recipe file; mistakes go to the section's problems."""
    name = section.text("id")
    if name and not _ID.fullmatch(name):
        section.wrong_at(
            "id", f"'{harmless(name, 40)}' is not a name; write small letters, digits and dashes"
        )
    verify = section.section("verify", None)
    recipe = Recipe(
        id=name,
        title=section.text("title"),
        approval=section.choice("approval", _APPROVALS, "ask"),
        approval_lasts=section.duration("approval_lasts", timedelta(minutes=30), least=timedelta(minutes=1)),
        cooldown=section.duration("cooldown", timedelta(hours=1), least=timedelta(minutes=1)),
        max_per_day=section.number("max_per_day", 2, least=1, most=24),
        hold_while=section.names("hold_while", ()),
        steps=_steps(section, "steps", kinds),
        rollback=_steps(section, "rollback", kinds, ()),
        verify=_verify(verify) if verify else None,
        ask=section.text("ask", ""),
        done=section.text("done", ""),
        translations=read_translations(section, ("title", "ask", "done")),
        otherwise=section.text("otherwise", ""),
        where=f"{section.path}:{section.line}",
        lines={key: section.line_of(key) for key in section.nodes},
    )
    section.done()
    if (
        section.has("steps")
        and not recipe.steps
        and not any(problem.path == section.path for problem in section.problems)
    ):
        section.wrong_at(
            "steps", "there is none; say what to do, or drop the recipe and give the rule an 'advice'"
        )
    if recipe.steps and recipe.verify is None:
        section.wrong(
            "'verify' is missing: say which rules are quiet when it worked, such as "
            "verify: {quiet: [gateway-down], alive: true, within: 3m}"
        )
    _order(section, recipe.steps)
    return recipe


def _steps(section: Section, key: str, kinds: Mapping[str, Any], default: Any = None) -> tuple[Step, ...]:
    steps = []
    for below in section.sections(key) if default is None else section.sections(key, default):
        kind = below.only(kinds, "step")
        if kind is not None:
            line = below.line_of(kind)
            inner = Section(below.nodes[kind][1], below.path, below.problems, kind)
            steps.append(Step(kind, kinds[kind].read(inner), line))
    if len(steps) > 20:
        section.wrong_at(key, f"{len(steps)} steps are too many for a person to judge; 20 at most")
    return tuple(steps)


def _verify(section: Section) -> Verify:
    quiet = section.names("quiet")
    if section.has("quiet") and not quiet:
        section.wrong_at("quiet", "name at least one rule that must be quiet afterwards")
    alive = section.flag("alive", True)
    if not section.has("within"):
        section.wrong("'within' is missing: how long to wait for it, such as within: 3m")
    within = section.duration("within", timedelta(minutes=3))
    if within > timedelta(hours=1):
        section.wrong_at("within", "longer than an hour; a check would wait for it all that time")
    section.done()
    return Verify(quiet, alive, within)


def _order(section: Section, steps: Sequence[Step]) -> None:
    """A recipe goes one way: no step twice, the gateway stopped once at most and then started once."""
    seen: dict[tuple[str, Any], int] = {}
    stopped = started = 0
    for step in steps:
        first = seen.get((step.kind, step.args))
        wrong = ""
        if first and step.kind != "gateway":
            wrong = f"{step.kind}: the same step as on line {first}; a recipe must not loop"
        seen.setdefault((step.kind, step.args), step.line)
        if step.kind == "gateway":
            if step.args.do in ("stop", "restart") and (stopped or started):
                why = "stopped again after it was stopped or started"
                wrong = f"gateway: {why}; a recipe must not loop: stop, repair, start"
            stopped += step.args.do != "start"
            started += step.args.do != "stop"
        if wrong:
            section.problems.append(Problem(section.path, step.line, wrong))


def check_recipes(
    recipes: Mapping[str, Recipe] | Iterable[Recipe],
    rules: Iterable[Rule],
    problems: list[Problem],
    off: Iterable[str] = (),
) -> None:
    """What a recipe and the rules that propose it must agree on. `off` are rules that the user switched off."""
    every = {recipe.id: recipe for recipe in (recipes.values() if isinstance(recipes, Mapping) else recipes)}
    known = {rule.id: rule for rule in rules}
    for rule in known.values():
        if not rule.recipe:
            continue
        if rule.recipe not in every:
            no_such = f"there is no recipe '{harmless(rule.recipe, 40)}'{_near(rule.recipe, every)}"
            problems.append(_at(rule.where, 0, f"recipe: {no_such}"))
        elif every[rule.recipe].approval != "never" and not any(map(measured, rule.when)):
            how = "add for instance '- gateway: {is: running}' to 'when'"
            acts = f"recipe: '{rule.recipe}' acts, so one witness must not be a log; {how}"
            problems.append(_at(rule.where, 0, acts))
    for recipe in every.values():
        _names(recipe, every, {*known, *off}, problems)
        proposed = [rule for rule in known.values() if recipe.id in _chain(rule.recipe or "", every)]
        _facts(recipe, proposed, problems)
        for rule in proposed:
            if rule.id in recipe.hold_while:
                for_ever = f"'{rule.id}' proposes this recipe, so it would wait for ever"
                problems.append(_of(recipe, "hold_while", for_ever))


def _names(recipe: Recipe, every: Mapping[str, Recipe], known: set[str], problems: list[Problem]) -> None:
    wanted = [("hold_while", name) for name in recipe.hold_while]
    wanted += [("verify", name) for name in (recipe.verify.quiet if recipe.verify else ())]
    for key, name in wanted:
        if name not in known:
            problems.append(_of(recipe, key, f"there is no rule '{harmless(name, 40)}'{_near(name, known)}"))
    if recipe.otherwise and recipe.otherwise not in every:
        no_such = f"there is no recipe '{harmless(recipe.otherwise, 40)}'{_near(recipe.otherwise, every)}"
        problems.append(_of(recipe, "otherwise", no_such))
    seen, name = [recipe.id], recipe.otherwise
    while name and name in every and name not in seen:
        seen.append(name)
        name = every[name].otherwise
    if name == recipe.id:
        loop = f"{' → '.join([*seen, name])} is a loop; the last one must end it"
        problems.append(_of(recipe, "otherwise", loop))


def _chain(name: str, every: Mapping[str, Recipe]) -> list[str]:
    seen: list[str] = []
    while name in every and name not in seen:
        seen.append(name)
        name = every[name].otherwise
    return seen


def _facts(recipe: Recipe, proposed: Sequence[Rule], problems: list[Problem]) -> None:
    """Each {fact} is one that every proposing rule measures; log text never fills a step."""
    every = sorted({fact for facts in MEASURED.values() for fact in facts})
    for step in (*recipe.steps, *recipe.rollback):
        for hole in holes(step.args):
            problem = ""
            if not NAME.fullmatch(hole):
                continue  # told where it was read
            for rule in proposed:
                may = sorted({fact for condition in rule.when for fact in facts_of(condition)})
                if hole in may:
                    continue
                use = f"steps may use {', '.join(may)}" if may else "no witness of it measures anything"
                problem = (
                    f"{{{hole}}} comes from log text; {use}"
                    if hole in _quotes(rule)
                    else f"{rule.id} has no fact {{{hole}}}; {use}"
                )
            if not proposed and hole not in every:
                problem = f"no rule measures {{{hole}}}; there are {', '.join(every)}"
            if problem:
                problems.append(_at(recipe.where, step.line, f"{step.kind}: {problem}"))


def measured(condition: Condition) -> bool:
    """Whether this witness is a measurement; of alternatives, each must be one."""
    if condition.kind == "any":
        return bool(condition.want) and all(measured(other) for other in condition.want)
    return condition.kind in MEASURED


def facts_of(condition: Condition) -> tuple[str, ...]:
    """What a condition measures."""
    if condition.kind == "any":
        each = [set(facts_of(other)) for other in condition.want]
        return tuple(sorted(set.intersection(*each))) if each else ()
    return MEASURED.get(condition.kind, ())


def _quotes(rule: Rule) -> set[str]:
    """The names that the rule's patterns capture from log text."""
    found: set[str] = set()
    left: list[Any] = [part.want for part in rule.when]
    while left:
        part = left.pop()
        if isinstance(part, Pattern | LineSelection):
            found |= part.names
        elif isinstance(part, tuple | list):
            left.extend(inner.want if isinstance(inner, Condition) else inner for inner in part)
        elif hasattr(part, "__match_args__"):
            left.extend(getattr(part, name) for name in part.__match_args__)
    return found


def _of(recipe: Recipe, key: str, says: str) -> Problem:
    return _at(recipe.where, recipe.lines.get(key, 0), f"{key}: {says}")


def _at(where: str, line: int, says: str) -> Problem:
    path, _, first = where.rpartition(":")
    return Problem(path if first.isdigit() else where, line or (int(first) if first.isdigit() else 0), says)
