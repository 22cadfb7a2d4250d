"""The documents name what exists, and every command in them is run or at least understood."""

from __future__ import annotations

import io
import re
import shlex
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from homes import BOOK

from watchdog.cli.main import COMMANDS, main
from watchdog.cli.parser import make_parser
from watchdog.config.read_settings import load_settings, read_limits, read_notify
from watchdog.config.rules import shipped_folder
from watchdog.config.settings import Settings

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
SAMPLE = ROOT / "samples" / "logs" / "session-stuck" / "fires-model-never-answers"

# Commands that only look: they are run. All others are understood by the parser and not run.
LOOKS = {
    "replay",
    "explain",
    "rules",
    "incidents",
    "plans",
    "audit",
    "silences",
    "report",
    "status",
    "doctor",
}
LOOKS |= {"completion", "settings"}
LOOKS_WITH = {
    "check": "--dry-run",
    "install": "--dry-run",
    "uninstall": "--dry-run",
}
# What writes only into a home and the watchdog's own folders is run, too; an id or a code of an example is not there, and
# nobody can be reached.
CHANGES = {
    "db",
    "drill",
    "fleet",
    "silence",
    "unsilence",
    "maintenance",
    "arm",
    "disarm",
    "store",
    "plan",
    "incident",
    "approve",
    "refuse",
}
CHANGES |= {"resume", "abandon"}
NOT_THERE = re.compile(
    r"there is no (?:plan|incident|silence) \d+|code is not known|no plan waits for an answer"
    r"|there is no target|no address of PostgreSQL"
)
NEEDS_MORE = ("-m", "--samples")  # folders of the checkout


def commands(page: Path) -> Iterator[tuple[int, str]]:
    """The command lines of the fenced blocks of a page, with their line numbers."""
    fence, console = "", False
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        text = line.strip()
        if text.startswith("```"):
            fence, console = ("", False) if fence else (text, text == "```console")
        elif fence and text.startswith("$ "):
            yield number, text[2:]
        elif fence and not console and re.match(r"hermes-watchdog (-|[a-z])", text):
            yield number, text


def simple(line: str) -> Iterator[list[str]]:
    """The programs of a shell line, each with its arguments: without comments, redirections and pipes."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="();<>|&")
    lexer.whitespace_split = True
    words: list[str] = []
    target = False  # the word after > is a file
    for word in lexer:
        if re.fullmatch(r"[();<>|&]+", word):
            if words and not target:
                yield words
                words = []
            target = word == ">"
        elif target:
            target = False
        else:
            words.append(word)
    if words:
        yield words


def named(words: list[str]) -> list[str]:
    """The arguments of hermes-watchdog in a command, also behind sudo or in a virtual environment; else []."""
    for place, word in enumerate(words):
        if word.rpartition("/")[2] == "hermes-watchdog" and (place == 0 or words[0] == "sudo"):
            return words[place + 1 :] or ["--help"]
    return []


def only_looks(arguments: list[str]) -> bool:
    command = arguments[0]
    if any(word in NEEDS_MORE or word in ("DIR", "ID", "LINE", "RULE", "CODE") for word in arguments):
        return False
    if command in LOOKS_WITH:
        return LOOKS_WITH[command] in arguments
    return command in LOOKS or command in ("--version", "notify")


WRITTEN = [(page, number, line) for page in PAGES for number, line in commands(page)]
OURS = sorted(
    {
        (f"{page.relative_to(ROOT)}:{number}", shlex.join(arguments))
        for page, number, line in WRITTEN
        for words in simple(line)
        if (arguments := named(words))
    }
)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's folder with a Hermes home in ~/.hermes, a profile, and nothing else."""
    user = tmp_path_factory.mktemp("user")
    shutil.copytree(SAMPLE, user / ".hermes" / "logs")
    shutil.copytree(SAMPLE, user / ".hermes" / "profiles" / "work" / "logs")
    with closing(sqlite3.connect(user / ".hermes" / "state.db")) as database:
        database.execute("CREATE TABLE sessions (id TEXT PRIMARY KEY)")
    return user


@pytest.mark.parametrize(("where", "line"), OURS, ids=[f"{where} {line}"[:90] for where, line in OURS])
def test_a_command_in_the_documents_works(where, line, prepared, monkeypatch, capsys):
    arguments = shlex.split(line)
    if arguments[0] not in ("--version", "--help", "help"):
        assert callable(make_parser().parse_args(arguments).run), where
    if not only_looks(arguments) and arguments[0] not in CHANGES:
        return
    monkeypatch.setenv("HOME", str(prepared))
    monkeypatch.chdir(prepared)
    monkeypatch.setattr("sys.stdin", io.StringIO("AAAAAAAA\n"))
    code = main([str(prepared) + word[1:] if word.startswith("~") else word for word in arguments])
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err, where
    if code == 2 and arguments[0] in CHANGES:
        assert NOT_THERE.search(shown.err), f"{where}: {shown.err}"
        return
    # Something is wrong in this home, and nobody can be notified: both are answers.
    assert code in ((0, 1, 2) if arguments[0] in ("notify", "install") else (0, 1)), (
        f"{where}: {shown.out}{shown.err}"
    )


def inline(page: Path) -> Iterator[list[str]]:
    """The arguments of each whole command in the text of a page."""
    for text in re.findall(r"`hermes-watchdog ([^`]+)`", page.read_text("utf-8")):
        words = [word for words in simple(text) for word in words if word != "sudo"]
        if words and words[0] in COMMANDS and "…" not in text:
            yield words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_command_in_the_text_is_understood_whole(page: Path):
    for words in inline(page):
        if words[1:]:  # a name alone stands for the command
            assert callable(make_parser().parse_args([re.sub("^ID$", "7", word) for word in words]).run), (
                words
            )


def test_make_targets_in_the_documents_exist():
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for page in PAGES:
        for target in re.findall(r"(?:`|^\$ )make ([a-z-]+)", page.read_text("utf-8"), re.MULTILINE):
            assert target in targets, f"{page.name}: make {target}"


def test_make_help_lists_the_targets():
    if shutil.which("make") is None:
        pytest.skip("no make on this machine")
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for target in ("setup", "demo", "test", "docs", "release", "lab", "clean"):
        assert f"make {target} " in shown


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_text_exist(page: Path):
    for command in re.findall(r"`hermes-watchdog ([a-z][a-z-]*)", page.read_text("utf-8")):
        assert command in COMMANDS, f"{page.name}: hermes-watchdog {command}"


def test_the_readme_names_every_command_and_exit_code():
    for name in COMMANDS:
        assert f"`{name}`" in README, f"command {name}"
    assert (
        "0 all well · 1 something is wrong · 2 bad configuration or arguments · 3 the watchdog itself failed"
        in README
    )


def test_the_dry_run_in_the_readme_has_todays_words():
    shown = re.search(r"```\nDry run over.*?```", README, re.DOTALL).group()
    rule = BOOK.rule("database-broken")
    assert rule.title in shown and f"proposed: {rule.recipe}" in shown
    assert BOOK.recipes[rule.recipe].title in shown


def test_the_readme_gives_a_reason_for_every_dependency():
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for requirement in project["dependencies"]:
        name = re.match(r"[\w-]+", requirement).group()
        assert re.search(rf"^\| {name} \| \w", README, re.MULTILINE | re.IGNORECASE), name


def test_the_page_of_rules_has_the_place_of_the_table_and_a_word_for_every_kind():
    from watchdog.detect import KINDS

    page = (ROOT / "docs" / "rules.md").read_text("utf-8")
    assert "<!-- rules -->" in page
    for kind in (*KINDS, "any"):
        assert f"**{kind}**" in page


@pytest.mark.parametrize(
    "path", sorted((ROOT / "rules" / "detect").glob("*.yaml")), ids=lambda path: path.stem
)
def test_a_shipped_rule_says_when_it_fires_and_when_it_stays_quiet(path: Path):
    about = yaml.safe_load(path.read_text("utf-8"))["about"]
    assert about["fires"] and about["quiet"] and "|" not in about["fires"] + about["quiet"], (
        "a cell of a table"
    )


def test_the_page_of_recipes_names_every_recipe():
    page = (ROOT / "docs" / "recipes.md").read_text("utf-8")
    for recipe in BOOK.recipes:
        assert f"`{recipe}`" in page


def test_the_annotated_settings_are_the_defaults():
    assert load_settings(shipped_folder()) == Settings(where=str(shipped_folder() / "settings.yaml"))


def test_the_annotated_settings_name_every_setting():
    text = (shipped_folder() / "settings.yaml").read_text("utf-8")
    for name in set(Settings.__annotations__) - {"where"}:
        assert re.search(rf"^(# )?{name}:", text, re.MULTILINE), name


def test_every_setting_is_documented(maker):
    shown = "".join(
        re.findall(r"```yaml\n(.*?)```", "".join(page.read_text("utf-8") for page in PAGES), re.DOTALL)
    )
    shown += (shipped_folder() / "settings.yaml").read_text("utf-8")
    readers = (
        lambda section: read_limits(section),
        lambda section: read_limits(None, section),
        lambda section: read_notify(section),
        lambda section: read_notify(None, section),
    )
    asked = {path[-1] for read in readers for path in maker.watch(read).forms}
    assert {"per_hour", "refused_for", "quiet_hours", "wait"} <= asked  # the recorder saw them
    assert {name for name in asked if not re.search(rf"\b{name}:", shown)} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path):
    text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", text):
        if "://" in target:
            continue
        file = page.parent / target if target else page
        assert file.exists(), f"{page.name}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.MULTILINE)
            assert anchor in {slug(heading) for heading in headings}, f"{page.name}: {target}#{anchor}"


def slug(heading: str) -> str:
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading.strip().lower()))


def test_every_page_is_in_the_menu_of_the_site():
    menu = (ROOT / "mkdocs.yml").read_text("utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert f": {page.name}\n" in menu, page.name


def test_the_files_with_versions_hold_no_address():
    for name in ("constraints.txt", "requirements/install.txt", "requirements/tools.txt"):
        text = (ROOT / name).read_text("utf-8")
        assert "://" not in text and "--index" not in text and "\n-e" not in text, name


def test_the_paths_through_the_code_name_modules_that_exist_and_count_them():
    page = (ROOT / "docs" / "design.md").read_text("utf-8")
    paths = page.partition("## Four paths")[2].partition("\n## ")[0]
    modules = {path.stem for path in (ROOT / "watchdog").rglob("*.py")}
    for count, without, path in re.findall(r"\((\d+)(?: modules)?(, without the pipeline)?\)\.(.*)", paths):
        names = re.findall(r"`([a-z_/]+)`", path)
        for name in names:
            assert (ROOT / "watchdog" / f"{name}.py").exists() if "/" in name else name in modules, name
        assert len(set(names)) == int(count) - (not without), path
