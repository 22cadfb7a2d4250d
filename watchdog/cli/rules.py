"""rules list, show, lint and test: for people who read and write rules."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from watchdog.cli.common import CONFIG, WELL, WRONG, add_common, colours, context, paint, print_json

EPILOG = """\
examples:
  hermes-watchdog rules list                       what is watched, and where each rule comes from
  hermes-watchdog rules show session-stuck         the rule itself
  hermes-watchdog rules lint                       every mistake in your own rules and settings, with its line
  hermes-watchdog rules lint my-rule.yaml
  hermes-watchdog rules test --samples samples/logs session-stuck
"""


def add_arguments(commands: Any) -> None:
    raw = argparse.RawDescriptionHelpFormatter
    rules = commands.add_parser("rules", help="list, show, lint and test the rules", epilog=EPILOG, formatter_class=raw,
                                description="Your own rules live in detect/ and recipes/ of the configuration folder; "
                                "the same id replaces a shipped rule, 'enabled: false' switches it off.")
    parts = rules.add_subparsers(dest="part", metavar="list|show|lint|test", required=True)
    listing = parts.add_parser("list", help="what is watched, and where each rule comes from")
    showing = parts.add_parser("show", help="one rule as it stands in its file")
    showing.add_argument("id", metavar="ID")
    linting = parts.add_parser("lint", help="every mistake, as file:line: what, and what to write instead")
    linting.add_argument("path", nargs="*", metavar="PATH", help="rule files or folders (default: the shipped and your own)")
    testing = parts.add_parser("test", help="run the cases of samples/logs")
    testing.add_argument("id", nargs="*", metavar="ID", help="only the cases of these rules")
    testing.add_argument("--samples", metavar="DIR", help="folder with <rule>/fires-…/ and quiet-…/ (default: samples/logs here or in the checkout)")
    for part, run in ((listing, run_list), (showing, run_show), (linting, run_lint), (testing, run_test)):
        add_common(part)
        part.set_defaults(run=run)


def run_list(args: argparse.Namespace) -> int:
    book = context(args).book
    if args.json:
        print_json([_rule_json(rule) for rule in book.rules])
        return WELL
    on = colours()
    width = max(len(rule.id) for rule in book.rules)
    for rule in book.rules:
        print(f"{rule.id:<{width}}  {paint(f'{rule.severity:<8}', rule.severity, on)}  {rule.title}")
        print(paint(f"{'':<{width}}  {'proposes ' + rule.recipe if rule.recipe else 'advice only'}; every {rule.every}; {rule.where}", "dim", on))
    for name, where in book.off.items():
        print(paint(f"{name:<{width}}  off       switched off by {where}", "dim", on))
    return WELL


def run_show(args: argparse.Namespace) -> int:
    from watchdog.errors import WatchdogError
    from watchdog.rulebook import shipped_folder
    from watchdog.yamlfile import _near

    ctx = context(args)
    rule = ctx.book.rule(args.id)
    recipe = ctx.book.recipes.get(args.id)
    shown = rule or recipe
    if shown is None:
        off = f"; {ctx.book.off[args.id]} switched it off" if args.id in ctx.book.off else ""
        raise WatchdogError(f"there is no rule or recipe '{args.id}'{off}{_near(args.id, [*[r.id for r in ctx.book.rules], *ctx.book.recipes])}")
    if args.json and rule is not None:
        print_json(_rule_json(rule))
        return WELL
    name = shown.where.rpartition(":")[0]
    for base in (shipped_folder().parent, Path.cwd(), Path("/")):
        if (base / name).is_file():
            print(paint(f"# {base / name}", "dim", colours()))
            print((base / name).read_text("utf-8"), end="")
            return WELL
    raise WatchdogError(f"{name}: the file is gone")


def _rule_json(rule: Any) -> dict[str, Any]:
    return {"id": rule.id, "title": rule.title, "severity": rule.severity, "every": rule.every, "confirm": rule.confirm,
            "kinds": [condition.kind for condition in rule.when], "say": rule.say, "recipe": rule.recipe,
            "advice": rule.advice, "where": rule.where}


def run_lint(args: argparse.Namespace) -> int:
    from watchdog.errors import ConfigError
    from watchdog.rulebook import unknown_auto

    problems: tuple[Any, ...] = ()
    try:
        if args.path:
            _lint_paths([Path(path) for path in args.path])
        else:
            ctx = context(args)
            found: list[Any] = []
            for load in (lambda: ctx.book, lambda: ctx.settings):
                try:
                    load()
                except ConfigError as error:
                    found += error.problems
            if not found:
                found += unknown_auto(ctx.settings.limits.auto, ctx.book.recipes, ctx.settings.where)
            problems = tuple(found)
    except ConfigError as error:
        problems = error.problems
    if args.json:
        print_json([{"path": problem.path, "line": problem.line, "says": problem.says} for problem in problems])
    else:
        for problem in problems:
            print(problem)
        if not problems:
            print("No mistakes.")
    return CONFIG if problems else WELL


def _lint_paths(paths: list[Path]) -> None:
    """Check these files in the company of the shipped ones, so that names resolve."""
    from watchdog.errors import ConfigError, Problem
    from watchdog.recipes import read_recipe
    from watchdog.rulebook import check_names, load, read_file, read_rule

    problems: list[Problem] = []
    shipped = load()
    rules = {rule.id: rule for rule in shipped.rules}
    recipes = dict(shipped.recipes)
    files: list[Path] = []
    for path in paths:
        if not path.exists():
            problems.append(Problem(str(path), 0, "no such file or folder"))
        files += sorted([*path.rglob("*.yaml"), *path.rglob("*.yml")]) if path.is_dir() else [path] if path.exists() else []
    for file in files:
        if file.name in ("settings.yaml", "case.yaml"):
            continue
        for section in read_file(file, problems):
            if section.has("steps") or file.parent.name == "recipes":
                recipe = read_recipe(section)
                if recipe is not None:
                    recipes[recipe.id] = recipe
            else:
                rule, enabled = read_rule(section)
                if rule is not None and enabled:
                    rules[rule.id] = rule
    check_names(rules, recipes, problems)
    if problems:
        raise ConfigError(problems)


def run_test(args: argparse.Namespace) -> int:
    from watchdog.errors import WatchdogError
    from watchdog.rulebook import shipped_folder
    from watchdog.samples import find_cases, run_case

    ctx = context(args)
    candidates = [Path(args.samples)] if args.samples else [Path("samples/logs"), shipped_folder().parent / "samples/logs"]
    folder = next((path for path in candidates if path.is_dir()), None)
    if folder is None:
        raise WatchdogError(f"{candidates[0]}: no such folder; give --samples DIR with <rule>/fires-…/case.yaml in it")
    unknown = sorted(set(args.id) - {rule.id for rule in ctx.book.rules})
    if unknown:
        raise WatchdogError(f"there is no rule '{unknown[0]}'; hermes-watchdog rules list shows them")
    results = [run_case(ctx.book, case) for case in find_cases(folder, frozenset(args.id))]
    if not results:
        raise WatchdogError(f"no cases in {folder}{' for ' + ', '.join(args.id) if args.id else ''}")
    bad = [result for result in results if result.wrong]
    if args.json:
        print_json([{"rule": one.case.rule, "case": one.case.name, "ok": not one.wrong, "wrong": list(one.wrong)} for one in results])
    else:
        on = colours()
        for one in results:
            mark = paint("ok  ", "good", on) if not one.wrong else paint("FAIL", "high", on)
            print(f"{mark}  {one.case.rule}/{one.case.name}")
            for says in one.wrong:
                print(f"      {says}")
        print(f"{len(results) - len(bad)} cases as expected, {len(bad)} not.", file=sys.stderr if bad else sys.stdout)
    return WRONG if bad else WELL
