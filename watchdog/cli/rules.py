"""rules list, show, lint, test, and new-rule: for people who read and write rules."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from watchdog.cli.command import choice, command, flag, option, parts_of
from watchdog.cli.context import CONFIG, WELL, WRONG, job_of, print_json, show
from watchdog.config.lines import read_word
from watchdog.config.recipes import read_recipe
from watchdog.config.rulebook import Rulebook, Vocabulary
from watchdog.config.rules import check_names, load_lines, read_file, read_rule, shipped_folder, unknown_auto
from watchdog.config.yaml import Section, _near
from watchdog.errors import ConfigError, Problem, WatchdogError
from watchdog.job import Job, load_rules, rule_kinds
from watchdog.model import LOGS, Rule
from watchdog.service.line_report import Known, LineCount, line_report
from watchdog.service.new_rule import Draft, draft_rule, write_rule
from watchdog.service.samples import Result, check_line, find_cases, run_case
from watchdog.text import colours, counted, paint, picked

parts_of(
    "rules",
    """\
Your own rules live in detect/ and recipes/ of the configuration folder; the same id replaces a shipped rule,
'enabled: false' switches it off.

examples:
  hermes-watchdog rules list                       what is watched, and where each rule comes from
  hermes-watchdog rules show session-stuck         the rule itself
  hermes-watchdog rules lint                       every mistake in your own rules and settings, with its line
  hermes-watchdog rules lint my-rule.yaml
  hermes-watchdog rules test --samples samples/logs session-stuck
  hermes-watchdog rules lines --from ~/.hermes/logs/agent.log     which lines of a log are known""",
)

SHOWN = 20  # kinds of lines


@command("rules list", about="what is watched, and where each rule comes from")
def run_list(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog rules list
      hermes-watchdog rules list --json
    """
    book = job_of(args).book
    show(args, [_rule_json(rule) for rule in book.rules], lambda: _rule_lines(book, colours()))
    return WELL


def _rule_lines(book: Rulebook, on: bool) -> Iterator[str]:
    width = max(len(rule.id) for rule in book.rules)
    for rule in book.rules:
        yield f"{rule.id:<{width}}  {paint(f'{rule.severity:<8}', rule.severity, on)}  {rule.title}"
        helps = f"proposes {rule.recipe}" if rule.recipe else "advice only"
        yield paint(f"{'':<{width}}  {helps}; every {rule.every}; {rule.where}", "dim", on)
    for name, where in book.off.items():
        yield paint(f"{name:<{width}}  off       switched off by {where}", "dim", on)


@command(
    "rules show",
    option("id", "RULE", "the id of a rule or recipe"),
    about="one rule or recipe as it stands in its file",
)
def run_show(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog rules show session-stuck
      hermes-watchdog rules show restart-gateway
    """
    job = job_of(args)
    rule = job.book.rule(args.id)
    recipe = job.book.recipes.get(args.id)
    shown = rule or recipe
    if shown is None:
        off = f"; {job.book.off[args.id]} switched it off" if args.id in job.book.off else ""
        raise WatchdogError(
            f"there is no rule or recipe '{args.id}'{off}{_near(args.id, [*[r.id for r in job.book.rules], *job.book.recipes])}"
        )
    if args.json and rule is not None:
        print_json(_rule_json(rule))
        return WELL
    name = shown.where.rpartition(":")[0]
    # What comes with the program is called rules/… wherever it is installed.
    shipped = shipped_folder() / name.removeprefix("rules/")
    path = shipped if name.startswith("rules/") and shipped.is_file() else Path(name)
    if not path.is_file():
        raise WatchdogError(f"{name}: the file is gone")
    print(paint(f"# {path}", "dim", colours()))
    print(path.read_text("utf-8"), end="")
    return WELL


def _rule_json(rule: Rule) -> dict[str, Any]:
    kinds = [condition.kind for condition in rule.when]
    first = picked(rule, "id title severity every confirm")
    return {**first, "kinds": kinds, **picked(rule, "say recipe advice where")}


@command(
    "rules lint",
    option("path", "PATH", "rule files or folders (default: the shipped and your own)", nargs="*"),
    about="every mistake, as file:line: what, and what to write instead",
)
def run_lint(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog rules lint
      hermes-watchdog rules lint my-rule.yaml my-rules/

    exit codes: 0 no mistakes · 2 mistakes
    """
    problems: tuple[Any, ...] = ()
    try:
        if args.path:
            _lint_paths([Path(path) for path in args.path])
        else:
            job = job_of(args)
            found: list[Any] = []
            for read in (lambda: job.book, lambda: job.settings):
                try:
                    read()
                except ConfigError as error:
                    found += error.problems
            if not found:
                found += unknown_auto(job.settings.limits.auto, job.book.recipes, job.settings.where)
            problems = tuple(found)
    except ConfigError as error:
        problems = error.problems
    value = [picked(problem, "path line says") for problem in problems]
    show(args, value, lambda: map(str, problems or ("No mistakes.",)))
    return CONFIG if problems else WELL


def _lint_paths(paths: list[Path]) -> None:
    """Check these files in the company of the shipped ones, so that names resolve."""
    shipped, kinds = load_rules(), rule_kinds()
    problems = [Problem(str(path), 0, "no such file or folder") for path in paths if not path.exists()]
    sections: dict[str, list[Section]] = {"lines": [], "recipes": [], "detect": []}
    for file in [file for path in paths for file in _yaml_files(path)]:
        for section in read_file(file, problems):
            sections[_folder_of(file, section)].append(section)
    own = [word for section in sections["lines"] if (word := read_word(section)[0]) is not None]
    vocabulary = Vocabulary({**shipped.vocabulary.words, **{word.id: word for word in own}})
    rules, recipes = {rule.id: rule for rule in shipped.rules}, dict(shipped.recipes)
    for section in (*sections["recipes"], *sections["detect"]):
        section.vocabulary = vocabulary
    for section in sections["recipes"]:
        if (recipe := read_recipe(section, kinds.steps)) is not None:
            recipes[recipe.id] = recipe
    for section in sections["detect"]:
        rule, enabled = read_rule(section, kinds)
        if rule is not None and enabled:
            rules[rule.id] = rule
    check_names(rules, recipes, problems)
    if problems:
        raise ConfigError(problems)


def _yaml_files(path: Path) -> list[Path]:
    files = sorted([*path.rglob("*.yaml"), *path.rglob("*.yml")]) if path.is_dir() else [path]
    return [file for file in files if file.exists() and file.name not in ("settings.yaml", "case.yaml")]


def _folder_of(file: Path, section: Section) -> str:
    """The folder of rules/ that a file with this content belongs in."""
    if section.has("match") or file.parent.name == "lines":
        return "lines"
    return "recipes" if section.has("steps") or file.parent.name == "recipes" else "detect"


def _test_lines(job: Job) -> None:
    """Read every sample line of the vocabulary; ConfigError with those that are not read as they say."""
    vocabulary, samples = load_lines(shipped_folder(), job.config)
    problems = [problem for sample in samples for problem in check_line(vocabulary, sample)]
    if problems:
        raise ConfigError(problems)


@command(
    "rules test",
    option("id", "RULE", "only the cases of these rules", nargs="*"),
    option(
        "--samples",
        "DIR",
        "folder with <rule>/fires-…/ and quiet-…/ (default: samples/logs here, in your configuration folder, or in the checkout)",
    ),
    about="run the test cases of rules: folders of logs, and what must be found in them",
)
def run_test(args: argparse.Namespace) -> int:
    """
    examples:
      hermes-watchdog rules test
      hermes-watchdog rules test session-stuck --samples samples/logs

    exit codes: 0 every case as expected · 1 at least one is not, or could not be read
    """
    job = job_of(args)
    candidates = (
        [Path(args.samples)]
        if args.samples
        else [Path("samples/logs"), job.config / "cases", shipped_folder().parent / "samples/logs"]
    )
    folder = next((path for path in candidates if path.is_dir()), None)
    if folder is None:
        raise WatchdogError(
            f"{candidates[0]}: no such folder; give --samples DIR with <rule>/fires-…/case.yaml in it"
        )
    unknown = sorted(set(args.id) - {rule.id for rule in job.book.rules})
    if unknown:
        raise WatchdogError(f"there is no rule '{unknown[0]}'; all rules: {{watchdog}} rules list")
    if not args.id:
        _test_lines(job)
    results = [run_case(job.book, case) for case in find_cases(folder, frozenset(args.id))]
    if not results:
        raise WatchdogError(f"no cases in {folder}{' for ' + ', '.join(args.id) if args.id else ''}")
    if args.json:
        print_json([_result_json(result) for result in results])
    else:
        _print_results(results)
    return WRONG if any(result.wrong for result in results) else WELL


@command(
    "rules lines",
    option("--from", "LOG", "a log of the gateway, such as agent.log", dest="log", required=True),
    about="which lines of a log are known, which go on in a new way, which are unknown, and how often",
)
def run_lines(args: argparse.Namespace) -> int:
    """
    The first thing to run on a new Hermes release.

    examples:
      hermes-watchdog rules lines --from ~/.hermes/logs/agent.log
      hermes-watchdog rules lines --from agent.log --json

    exit codes: 0 no known line goes on in a new way · 1 at least one does
    """
    job = job_of(args)
    found, without = line_report(Path(args.log), *load_lines(shipped_folder(), job.config))
    changed = any(count.known is Known.TAIL for count in found)
    kinds = [{**picked(count, "known shape times"), "new": count.detail} for count in found]
    show(args, {"lines": kinds, "without_time": without}, lambda: _kind_lines(found, without))
    return WRONG if changed else WELL


def _kind_lines(found: Sequence[LineCount], without: int) -> Iterator[str]:
    for kind in Known:
        counts = [count for count in found if count.known is kind]
        if not counts:
            continue
        total = counted(sum(count.times for count in counts), "line|lines")
        yield paint(f"{kind}: {total} of {counted(len(counts), 'kind|kinds')}", "bold", colours())
        for count in counts[:SHOWN]:
            new = f"  new: {count.detail}" if count.detail else ""
            yield f"  {count.times:>6}  {count.shape}{new}"
        if len(counts) > SHOWN:
            yield f"          and {len(counts) - SHOWN} more kinds; --json shows all"
    if without:
        yield f"{counted(without, 'line|lines')} without a time stamp (tracebacks)"


def _result_json(result: Result) -> dict[str, Any]:
    case = {"rule": result.case.rule, "case": result.case.name}
    return {**case, "ok": not result.wrong, "wrong": list(result.wrong)}


def _print_results(results: list[Result]) -> None:
    on = colours()
    for result in results:
        mark = paint("ok  ", "good", on) if not result.wrong else paint("FAIL", "high", on)
        print(f"{mark}  {result.case.rule}/{result.case.name}")
        for problem in result.wrong:
            print(f"      {problem}")
    bad = sum(bool(result.wrong) for result in results)
    good = counted(len(results) - bad, "case|cases")
    print(f"{good} as expected, {bad} not.", file=sys.stderr if bad else sys.stdout)


@command(
    "new-rule",
    option("line", "LINE", "one line of a log, in quotes"),
    option("--id", "ID", "the rule's id (default: made from the line)", default=""),
    choice("--in", LOGS, "which log the line is from (default gateway.log)", dest="source", default=LOGS[0]),
    flag("--dry-run", "show the rule and its cases, write nothing"),
)
def run_new_rule(args: argparse.Namespace) -> int:
    """
    Makes a rule from one line of a log: what is constant becomes its pattern, numbers and ids are left open. Also makes two
    test cases, one with the line (the rule must fire) and one without (it must not), runs them, and says what to edit.
    --dry-run shows all of it and writes nothing.

    examples:
      hermes-watchdog new-rule '2026-05-19 10:15:00,123 ERROR tools.mcp: server files crashed (exit 137)'
      hermes-watchdog new-rule '2026-05-19 10:15:00,123 ERROR tools.mcp: server files crashed (exit 137)' --id mcp-crashed
      hermes-watchdog new-rule --in agent.log --dry-run '2026-05-19 10:15:00,123 ERROR tools.mcp: crashed'

    exit codes: 0 written, and both cases are as expected · 1 a case is not · 2 the line cannot be a rule
    """
    job = job_of(args)
    draft = draft_rule(args.line, args.source, args.id, job.settings.zone, job.book.vocabulary)
    if draft.id in {rule.id for rule in job.book.rules} | job.book.off.keys():
        raise WatchdogError(f"there is a rule '{draft.id}' already; give another name with --id")
    if args.dry_run:
        _print_draft(args, draft, [], None)
        return WELL
    path = write_rule(draft, job.config)
    fresh = job_of(args)  # reads the rules again, with the new one among them
    results = [run_case(fresh.book, case) for case in find_cases(job.config / "cases", frozenset([draft.id]))]
    _print_draft(args, draft, results, path)
    return WRONG if any(result.wrong for result in results) else WELL


def _print_draft(args: argparse.Namespace, draft: Draft, results: list[Result], path: Path | None) -> None:
    if args.json:
        print_json(
            {
                "id": draft.id,
                "file": str(path) if path else None,
                "rule": draft.text,
                "cases": [_result_json(result) for result in results],
            }
        )
        return
    print(draft.text, end="")
    if path is None:
        print("\nNothing was written (dry run).")
        return
    print(f"\nwritten: {path}")
    _print_results(results)
    print(
        f"next: put your own words into 'title', 'say' and 'advice' of {path}, then: hermes-watchdog rules lint"
    )
