"""rules/ → Rulebook: the shipped rules with the user's own merged over them, every mistake told at once."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from datetime import timedelta

from watchdog.detect import KINDS
from watchdog.errors import ConfigError, Problem
from watchdog.model import EVERY_CHECK, SEVERITIES, Condition, Recipe, Rule
from watchdog.paths import Path, open_regular
from watchdog.pattern import own
from watchdog.text import harmless
from watchdog.values import dataclass, field, replace
from watchdog.yamlfile import Section, _near, read_documents

_ID = own(r"[a-z][a-z0-9-]{1,60}")
LANGUAGES = ("en", "zh")
ANY = "any"
LOOK_BACK_SLACK = timedelta(minutes=2)
LONGEST_LOOK_BACK = timedelta(days=7)


@dataclass(frozen=True)
class Rulebook:
    rules: tuple[Rule, ...]
    recipes: Mapping[str, Recipe] = field(default_factory=dict)
    off: Mapping[str, str] = field(default_factory=dict)  # rule id → the file that switched it off

    @property
    def window(self) -> timedelta:
        """The longest look back that any rule asks for."""
        return max((reach(rule) for rule in self.rules), default=timedelta(0)) + LOOK_BACK_SLACK

    def rule(self, name: str) -> Rule | None:
        return next((rule for rule in self.rules if rule.id == name), None)


def reach(rule: Rule) -> timedelta:
    return max((KINDS[one.kind].reach(one.want) for one in flat(rule.when)), default=timedelta(0))


def flat(conditions: Iterable[Condition]) -> Iterable[Condition]:
    for condition in conditions:
        if condition.kind == ANY:
            yield from flat(condition.want)
        else:
            yield condition


def shipped_folder() -> Path:
    """Where the rules that come with the package are: in the wheel, or at the top of a checkout."""
    here = Path(__file__).parent
    return here / "shipped" if (here / "shipped").is_dir() else here.parent / "rules"


def load(*folders: Path, shipped: bool = True) -> Rulebook:
    """The shipped rules, then each folder's over them (same id replaces); ConfigError with all mistakes."""
    problems: list[Problem] = []
    rules: dict[str, Rule] = {}
    recipes: dict[str, Recipe] = {}
    off: dict[str, str] = {}
    for folder in ([shipped_folder()] if shipped else []) + list(folders):
        theirs = folder != shipped_folder()
        for section in _sections(folder / "detect", problems, "a rule decides what is seen" if theirs else ""):
            rule, enabled = read_rule(section)
            if rule is None:
                continue
            off.pop(rule.id, None)
            if enabled:
                rules[rule.id] = rule
            else:
                rules.pop(rule.id, None)
                off[rule.id] = rule.where
        for section in _sections(folder / "recipes", problems, "a recipe runs commands as you" if theirs else ""):
            from watchdog.recipes import read_recipe

            if (recipe := read_recipe(section)) is not None:
                recipes[recipe.id] = recipe
    check_names(rules, recipes, problems, off)
    if problems:
        raise ConfigError(problems)
    return Rulebook(tuple(sorted(rules.values(), key=lambda rule: rule.id)), recipes, off)


def unknown_auto(auto: Iterable[str], recipes: Iterable[str], where: str) -> list[Problem]:
    """Recipes that the settings let run by themselves and that do not exist: a slip there would never be noticed."""
    known = sorted(recipes)
    return [
        Problem(where, 0, f"approval: auto: there is no recipe '{harmless(name, 40)}'{_near(name, known) or '; there are ' + ', '.join(known)}")
        for name in sorted(set(auto) - set(known))
    ]


def open_to_others(path: Path, what: str) -> str:
    """Why this file is not ours alone: whoever can write a rule, a recipe or the list of approvers can act as us, or blind us."""
    try:
        status = path.stat()
    except OSError:
        return ""
    loose = 0o022 if os.getuid() == 0 else 0o002
    if status.st_mode & loose:
        return f"others may write this file, and {what}; chmod go-w {path}"
    if status.st_uid not in (0, os.getuid()):
        return f"this file belongs to somebody else, and {what}; chown it: {path}"
    folder = os.stat(path.parent)
    if folder.st_mode & loose and not folder.st_mode & stat.S_ISVTX:
        return f"others may put another file in its place, and {what}; chmod go-w {path.parent}"
    if folder.st_uid not in (0, os.getuid()):
        return f"its folder belongs to somebody else, and {what}; chown it: {path.parent}"
    return ""


def _sections(folder: Path, problems: list[Problem], matters: str) -> Iterable[Section]:
    """The documents of a folder's files; where it matters who may write them, that is a mistake like any other."""
    if not os.path.lexists(folder):
        return
    if not folder.is_dir() or not os.access(folder, os.R_OK | os.X_OK, effective_ids=True):
        what = "its files cannot be read; run as its owner, or chmod u+rx" if folder.is_dir() else "is not a folder; one file each goes in it"
        problems.append(Problem(_shown(folder), 0, what))
        return
    for path in sorted([*folder.glob("*.yaml"), *folder.glob("*.yml")]):
        if matters and (why := open_to_others(path, matters)):
            problems.append(Problem(_shown(path), 1, why))
        yield from read_file(path, problems)


def read_file(path: Path, problems: list[Problem]) -> list[Section]:
    """The documents of one rule file; what cannot be read becomes a problem."""
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
            sections[0].wrong_at("id", f"'{harmless(wanted, 60)}' does not fit the file name; call the file {harmless(wanted, 60)}.yaml")
    return sections


def _shown(path: Path) -> str:
    """Short for shipped files and files below the working folder, as people would type it."""
    for base in (shipped_folder().parent, Path.cwd()):
        try:
            if base.resolve() != Path("/"):
                return str(path.resolve().relative_to(base.resolve()))
        except (ValueError, OSError):
            continue
    return str(path)


def read_rule(section: Section) -> tuple[Rule | None, bool]:
    """One rule and whether it is switched on; its mistakes are in section.problems."""
    before = len(section.problems)
    if not section.whole:
        return None, False
    name = section.text("id")
    if name and not _ID.fullmatch(name):
        section.wrong_at("id", f"'{harmless(name, 60)}' is not an id; write small letters, digits and '-', such as session-stuck")
    if section.has("enabled") and not section.flag("enabled") and len(section.nodes) == 2:
        where = f"{section.path}:{section.line_of('id')}"
        return Rule(name, "", "info", (), "", where), False  # two lines switch a shipped rule off
    enabled = section.flag("enabled", True)
    conditions = tuple(one for part in section.sections("when") if (one := read_condition(part)) is not None)
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
    )
    rule = replace(
        rule, titles=_translations(section, "titles"), says=_translations(section, "says"), advices=_translations(section, "advices")
    )
    _check_every(section, rule.every)
    _check_say(section, rule)
    if not rule.recipe and not rule.advice and len(section.problems) == before:
        section.wrong("needs 'recipe:' (what to propose) or 'advice:' (why no recipe helps, and what does)")
    section.done()
    return (rule if len(section.problems) == before else None), enabled


def _translations(section: Section, key: str) -> dict[str, str]:
    inner = section.section(key, None)
    if inner is None:
        return {}
    found = {language: inner.text(language) for language in LANGUAGES if inner.has(language)}
    inner.done()
    return found


def read_condition(section: Section) -> Condition | None:
    """`- gap: {…}`: exactly one kind."""
    kind = section.only((*KINDS, ANY), "kind of condition")
    if kind is None:
        return None
    if kind == ANY:
        return Condition(ANY, tuple(one for part in section.sections(ANY) if (one := read_condition(part))), section.line)
    inner = section.section(kind)
    assert inner is not None
    inner.name = kind
    before = len(section.problems)
    want = KINDS[kind].read(inner)
    return Condition(kind, want, section.line) if len(section.problems) == before else None


def _check_every(section: Section, every: str) -> None:
    if every == EVERY_CHECK:
        return
    from watchdog.schedule import every_problem

    if problem := every_problem(every):
        section.wrong_at("every", problem)


def _check_say(section: Section, rule: Rule) -> None:
    known = {"key"}
    for one in flat(rule.when):
        known |= KINDS[one.kind].says(one.want)
    from string import Formatter

    for key, sentence in (("say", rule.say), *(("says", text) for text in rule.says.values())):
        try:
            names = [name for _, name, _, _ in Formatter().parse(sentence) if name is not None]
        except ValueError as error:
            section.wrong_at(key, f"{error}; write {{field}} for a value and {{{{ for a brace")
            continue
        for name in names:
            if rule.when and name not in known:
                section.wrong_at(key, f"unknown field '{{{harmless(name, 40)}}}'{_near(name, known) or '; there are ' + ', '.join(sorted(known))}")


def check_names(rules: Mapping[str, Rule], recipes: Mapping[str, Recipe], problems: list[Problem], off: Iterable[str] = ()) -> None:
    """What one file says of another: recipes that rules propose, rules that recipes verify by."""
    if recipes:
        from watchdog.recipes import check_recipes

        check_recipes(recipes, tuple(rules.values()), problems, off)
