"""rules/ → Rulebook: the shipped rules with the user's own merged over them, every mistake told at once."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from functools import lru_cache
from pathlib import Path

from watchdog import config
from watchdog.config.lines import LineSample, read_word
from watchdog.config.rulebook import ANY, Kinds, LineSelection, Rulebook, Vocabulary, Word, flat, shipped_dir
from watchdog.config.yaml import Section, _near, read_documents, read_translations
from watchdog.errors import ConfigError, Problem, WatchdogError
from watchdog.later import regex
from watchdog.model import EVERY_CHECK, SEVERITIES, Condition, Recipe, Rule
from watchdog.system.files import open_regular, working_folder
from watchdog.system.privileges import open_to_others
from watchdog.text import harmless, template_fields
from watchdog.values import Any, StrPath, replace

_ID = regex(r"[a-z][a-z0-9-]{1,60}")
TRANSLATED = ("title", "headline", "say", "advice", "cleared")
RESTARTS = ("helps", "useless", "unknown")
NO_RECIPE = "none"
NAMED = ("causes", "displaces")  # keys of a rule that name other rules


def shipped_folder() -> Path:
    """Where the rules that come with the package are."""
    return Path(shipped_dir())


@lru_cache(maxsize=1)
def shipped_vocabulary() -> Vocabulary:
    """The words that come with the package."""
    return load_lines(shipped_folder())[0]


def load_lines(*folders: StrPath) -> tuple[Vocabulary, tuple[LineSample, ...]]:
    """The words of these folders and their samples, a later folder's over an earlier's; ConfigError."""
    problems: list[Problem] = []
    found = _read_lines([Path(folder) for folder in folders], problems)
    if problems:
        raise ConfigError(problems)
    return found


def _read_lines(
    folders: Iterable[Path], problems: list[Problem]
) -> tuple[Vocabulary, tuple[LineSample, ...]]:
    words: dict[str, tuple[Word, tuple[LineSample, ...]]] = {}
    for folder in folders:
        matters = "a line decides what is seen" if folder != shipped_folder() else ""
        for section in _sections(folder / "lines", problems, matters):
            word, samples = read_word(section)
            if word is not None:
                words[word.id] = word, samples
    vocabulary = Vocabulary({name: word for name, (word, _) in sorted(words.items())})
    return vocabulary, tuple(sample for _, samples in words.values() for sample in samples)


def load(*folders: StrPath, kinds: Kinds, shipped: bool = True) -> Rulebook:
    """The shipped rules, then each folder's over them (same id replaces); ConfigError with all mistakes."""
    if shipped and not (shipped_folder() / "detect").is_dir():  # without rules everything would look well
        raise WatchdogError(
            f"{shipped_folder()}: the rules that come with the package are missing; install it again"
        )
    problems: list[Problem] = []
    own = [Path(folder) for folder in folders]
    vocabulary, _ = _read_lines([shipped_folder(), *own], problems)
    rules: dict[str, Rule] = {}
    recipes: dict[str, Recipe] = {}
    off: dict[str, str] = {}
    named: set[str] = set()  # also by files with mistakes, so that one mistake brings no others
    for folder in ([shipped_folder()] if shipped else []) + own:
        theirs = folder != shipped_folder()
        for section in _sections(
            folder / "detect", problems, "a rule decides what is seen" if theirs else ""
        ):
            if section.has("id"):
                named.add(str(section.nodes["id"][1].value))
            section.vocabulary = vocabulary
            rule, enabled = read_rule(section, kinds)
            if rule is None:
                continue
            off.pop(rule.id, None)
            if enabled:
                rules[rule.id] = rule
            else:
                rules.pop(rule.id, None)
                off[rule.id] = rule.where
        for section in _sections(
            folder / "recipes", problems, "a recipe runs commands as you" if theirs else ""
        ):
            if (recipe := config.read_recipe(section, kinds.steps)) is not None:
                recipes[recipe.id] = recipe
    check_names(rules, recipes, problems, {*off, *named})
    if problems:
        raise ConfigError(problems)
    in_order = sorted(rules.values(), key=lambda rule: rule.id)
    return Rulebook(_with_shared_parts(in_order), recipes, off, vocabulary)


def _with_shared_parts(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The same rules; equal parts of their conditions are one object, so that one detector serves all conditions that
    want the same (detect/evaluate.py) and a kept rulebook is small.
    """
    known: dict[object, object] = {}

    def shared(part: Any) -> Any:
        if type(part) is tuple:
            return tuple(map(shared, part))
        if hasattr(part, "__match_args__"):
            part = replace(part, **{name: shared(getattr(part, name)) for name in part.__match_args__})
        elif not isinstance(part, LineSelection | frozenset):
            return part
        return known.setdefault(part, part)

    return tuple(replace(rule, when=shared(rule.when)) for rule in rules)


def unknown_auto(auto: Iterable[str], recipes: Iterable[str], where: str) -> list[Problem]:
    """Recipes that may run by themselves and do not exist: such a slip would never be noticed."""
    known = sorted(recipes)
    found = []
    for name in sorted(set(auto) - set(known)):
        instead = _near(name, known) or "; there are " + ", ".join(known)
        says = f"approval: auto: there is no recipe '{harmless(name, 40)}'{instead}"
        found.append(Problem(where, 0, says))
    return found


def _sections(folder: Path, problems: list[Problem], matters: str) -> Iterable[Section]:
    """The documents of a folder's files; where it matters, who may write them is checked too."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.X_OK, effective_ids=True):
        unreadable = "its files cannot be read; run as its owner, or chmod u+rx"
        what = unreadable if folder.is_dir() else "is not a folder; one file each goes in it"
        problems.append(Problem(_shown(folder), 0, what))
        return
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        if matters and (why := open_to_others(path, matters)):
            problems.append(Problem(_shown(path), 1, why))
        yield from read_file(path, problems)


def read_file(path: StrPath, problems: list[Problem]) -> list[Section]:
    """The documents of one rule file; what cannot be read becomes a problem."""
    path = Path(path)
    name = _shown(path)
    try:
        with open_regular(path) as file:
            content = file.read()
    except OSError as error:
        problems.append(Problem(name, 0, f"cannot be read: {error.strerror}"))
        return []
    sections = read_documents(name, content, problems)
    if len(sections) == 1 and sections[0].has("id"):
        wanted = sections[0].nodes["id"][1].value
        if isinstance(wanted, str) and wanted != path.stem:
            name = harmless(wanted, 60)
            sections[0].wrong_at("id", f"'{name}' does not fit the file name; call the file {name}.yaml")
    return sections


def _shown(path: Path) -> str:
    """Short for shipped files and files below the working folder, as people would type it."""
    for base in (shipped_folder().parent, Path(working_folder())):
        try:
            if base.resolve() != Path("/"):
                return str(path.resolve().relative_to(base.resolve()))
        except (ValueError, OSError):
            continue
    return str(path)


def read_rule(section: Section, kinds: Kinds) -> tuple[Rule | None, bool]:
    """One rule and whether it is switched on; its mistakes are in section.problems."""
    before = len(section.problems)
    if not section.whole:
        return None, False
    name = section.text("id")
    if name and not _ID.fullmatch(name):
        how = "write small letters, digits and '-', such as session-stuck"
        section.wrong_at("id", f"'{harmless(name, 60)}' is not an id; {how}")
    if section.has("enabled") and not section.flag("enabled") and len(section.nodes) == 2:
        where = f"{section.path}:{section.line_of('id')}"
        return Rule(name, "", "info", (), "", where), False  # two lines switch a shipped rule off
    enabled = section.flag("enabled", True)
    conditions = read_conditions(section.sections("when"), kinds)
    if section.has("when") and not conditions and len(section.problems) == before:
        section.wrong_at("when", "needs at least one condition")
    rule = Rule(
        id=name,
        title=section.text("title"),
        severity=section.choice("severity", SEVERITIES),
        when=conditions,
        say=section.text("say"),
        where=f"{section.path}:{section.line_of('id')}",
        every=section.text("every", EVERY_CHECK),
        confirm=section.number("confirm", 1, least=1, most=10),
        recipe=section.text("recipe", None),
        advice=section.text("advice", ""),
        headline=section.text("headline", ""),
        cleared=section.text("cleared", ""),
        translations=read_translations(section, TRANSLATED),
        restart=section.choice("restart", RESTARTS, "unknown"),
        causes=section.names("causes", ()),
        displaces=section.names("displaces", ()),
        starts_itself=section.flag("starts_itself", False),
        lines={key: section.line_of(key) for key in NAMED if section.has(key)},
    )
    if rule.every != EVERY_CHECK and (problem := kinds.every_problem(rule.every)):
        section.wrong_at("every", problem)
    _check_say(section, rule)
    _check_about(section)
    rule = replace(rule, if_cause=_read_if_cause(section, rule))
    if not rule.recipe and not rule.advice and len(section.problems) == before:
        section.wrong("needs 'recipe:' (what to propose) or 'advice:' (why no recipe helps, and what does)")
    section.done()
    return (rule if len(section.problems) == before else None), enabled


def _check_about(section: Section) -> None:
    """`about: {fires: …, quiet: …}` is for people: the manual shows it, and nothing else is done with it."""
    about = section.section("about", None)
    if about is not None and about.whole:
        about.text("fires")
        about.text("quiet")
        about.done()


def _read_if_cause(section: Section, rule: Rule) -> dict[str, Rule]:
    """`if_cause: {blocked: {severity: low, …}}`: what is different where the finding has that cause."""
    inner = section.section("if_cause", None)
    found: dict[str, Rule] = {}
    for cause in tuple(inner.nodes) if inner is not None and inner.whole else ():
        part = inner.section(cause) if inner is not None else None
        if part is None or not part.whole:
            continue
        recipe = part.text("recipe", rule.recipe)
        translations = read_translations(part, TRANSLATED)
        found[cause] = replace(
            rule,
            title=part.text("title", rule.title),
            severity=part.choice("severity", SEVERITIES, rule.severity),
            say=part.text("say", rule.say),
            headline=part.text("headline", rule.headline),
            recipe=None if recipe == NO_RECIPE else recipe,
            advice=part.text("advice", rule.advice),
            restart=part.choice("restart", RESTARTS, rule.restart),
            translations={
                language: {**rule.translations.get(language, {}), **translations.get(language, {})}
                for language in {*rule.translations, *translations}
            },
        )
        _check_say(part, found[cause])
        part.done()
    return found


def read_conditions(sections: Iterable[Section], kinds: Kinds) -> tuple[Condition, ...]:
    found = (read_condition(section, kinds) for section in sections)
    return tuple(condition for condition in found if condition is not None)


def read_condition(section: Section, kinds: Kinds) -> Condition | None:
    """`- gap: {…}`: exactly one kind."""
    kind = section.only((*kinds.conditions, ANY), "kind of condition")
    if kind is None:
        return None
    if kind == ANY:
        return Condition(ANY, read_conditions(section.sections(ANY), kinds), section.line)
    inner = section.section(kind)
    assert inner is not None
    inner.name = kind
    before = len(section.problems)
    module = kinds.conditions[kind]
    want = module.read(inner)
    inner.done()
    if len(section.problems) > before:
        return None
    reach = module.reach(want) if hasattr(module, "reach") else timedelta(0)
    return Condition(kind, want, section.line, reach, module.says(want), tuple(module.lines(want)))


def _check_say(section: Section, rule: Rule) -> None:
    known = {"key", "count"}  # count: how many such faults one message is about
    for condition in flat(rule.when):
        known |= condition.says
    known |= {name.rpartition("_")[0] for name in known if name.endswith(("_epoch", "_seconds"))}
    sentences = [("say", rule.say), ("headline", rule.headline)]
    for language, texts in rule.translations.items():
        old = {key: f"{key}s" for key in texts if section.has(f"{key}s")}
        sentences += [(old.get(key, language), texts.get(key, "")) for key in ("say", "headline")]
    for key, sentence in sentences:
        try:
            names = template_fields(sentence)
        except ValueError as error:
            section.wrong_at(key, f"{error}; write {{field}} for a value and {{{{ for a brace")
            continue
        for name in names:
            if rule.when and name not in known:
                instead = _near(name, known) or "; there are " + ", ".join(sorted(known))
                section.wrong_at(key, f"unknown field '{{{harmless(name, 40)}}}'{instead}")


def check_causes(rules: Mapping[str, Rule], known: Collection[str], problems: list[Problem]) -> None:
    """Every rule named by another exists, and no rule causes itself, directly or through others."""
    for rule in rules.values():
        for key, names in (("causes", rule.causes), ("displaces", rule.displaces)):
            for name in names:
                if name not in known:
                    what = f"there is no rule '{harmless(name, 40)}'{_near(name, known)}"
                    problems.append(_problem(rule, key, what))
        if circle := _circle(rule.id, rules):
            problems.append(
                _problem(rule, "causes", f"{' → '.join(circle)} is a circle; leave one of them out")
            )


def _circle(start: str, rules: Mapping[str, Rule]) -> list[str]:
    """A way from a rule along `causes` back to itself, told by the first of its rules only; [] without one."""
    ways = [[start]]
    seen: set[str] = set()
    while ways:
        way = ways.pop()
        for name in rules[way[-1]].causes if way[-1] in rules else ():
            if name == start:
                return [*way, name] if start == min(way) else []
            if name not in seen:
                seen.add(name)
                ways.append([*way, name])
    return []


def _problem(rule: Rule, key: str, says: str) -> Problem:
    path, _, line = rule.where.rpartition(":")
    return Problem(path, rule.lines.get(key, int(line)), f"{key}: {says}")


def check_names(
    rules: Mapping[str, Rule], recipes: Mapping[str, Recipe], problems: list[Problem], off: Iterable[str] = ()
) -> None:
    """What one file says of another: rules that cause rules, recipes that rules propose or verify by."""
    check_causes(rules, {*rules, *off}, problems)
    if recipes:
        config.check_recipes(recipes, tuple(rules.values()), problems, off)
