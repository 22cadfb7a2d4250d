"""The documents name what exists: every rule, command, exit code and setting, and nothing that does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from watchdog.cli import COMMANDS
from watchdog.rulebook import load, shipped_folder
from watchdog.settings import Settings, load_settings

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_readme_names_every_command_rule_and_exit_code():
    for name in COMMANDS:
        assert f"`{name}`" in README, f"command {name}"
    for rule in load().rules:
        assert f"`{rule.id}`" in README, f"rule {rule.id}"
    assert re.search(r"0 well · 1 something is wrong · 2 .* · 3 the watchdog is", README)


def test_the_page_of_rules_has_a_row_for_every_rule_and_a_word_for_every_kind():
    from watchdog.detect import KINDS

    page = (ROOT / "docs" / "rules.md").read_text("utf-8")
    for rule in load().rules:
        assert f"| `{rule.id}` |" in page
    for kind in (*KINDS, "any"):
        assert f"**{kind}**" in page


def test_the_page_of_recipes_names_every_recipe():
    page = (ROOT / "docs" / "recipes.md").read_text("utf-8")
    for recipe in load().recipes:
        assert f"`{recipe}`" in page


def test_the_annotated_settings_are_the_defaults():
    assert load_settings(shipped_folder()) == Settings(where=str(shipped_folder() / "settings.yaml"))


def test_every_setting_is_documented():
    told = (shipped_folder() / "settings.yaml").read_text("utf-8") + "".join(page.read_text("utf-8") for page in PAGES)
    code = "".join((ROOT / "watchdog" / name).read_text("utf-8") for name in ("settings.py", "limits.py", "targets.py"))
    names = set(re.findall(r"\.(?:text|choice|number|flag|duration|names|section|items)\(\"(\w+)\"", code))
    assert {name for name in names if name not in told} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text("utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_documents_exist(page: Path):
    for line in page.read_text("utf-8").splitlines():
        for command in re.findall(r"(?:^\$ |`)hermes-watchdog ([a-z]+)", line):
            assert command in COMMANDS, f"{page.name}: hermes-watchdog {command}"
