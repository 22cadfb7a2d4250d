"""Rule files: every mistake at once, at its line, with what to write instead; the user's rules over the
shipped ones.
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest
import yaml
from effort import rounds

from watchdog.cli import main
from watchdog.config import rules as rule_files
from watchdog.config.rules import read_rule, shipped_folder, shipped_vocabulary
from watchdog.config.yaml import read_documents
from watchdog.errors import ConfigError, WatchdogError
from watchdog.job import load_rules, rule_kinds

HERE = Path(__file__).parents[1]
TOP = Path(__file__).parents[2]
BAD = sorted((HERE / "bad" / "rules").glob("*.yaml"))
GOOD = """\
id: {name}
title: t
severity: high
when:
  - gateway: {{is: dead}}
say: it died
advice: look
"""


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_a_mistake_is_told_with_its_line_and_what_to_write_instead(path: Path, monkeypatch, capsys):
    monkeypatch.chdir(HERE.parent)
    assert main(["rules", "lint", str(path.relative_to(HERE.parent))]) == 2
    assert capsys.readouterr().out == path.with_suffix(".txt").read_text("utf-8")


def test_all_mistakes_of_all_files_are_told_at_once(tmp_path):
    (tmp_path / "detect").mkdir()
    for number, path in enumerate(BAD[:3]):
        (tmp_path / "detect" / f"copy{number}.yaml").write_text(path.read_text())
    with pytest.raises(ConfigError) as told:
        load_rules(tmp_path)
    assert len({problem.path for problem in told.value.problems}) == 3


def test_a_rule_of_the_same_id_replaces_the_shipped_one(tmp_path):
    (tmp_path / "detect").mkdir()
    (tmp_path / "detect" / "telegram-down.yaml").write_text(GOOD.format(name="telegram-down"))
    rule = load_rules(tmp_path).rule("telegram-down")
    assert rule is not None and rule.say == "it died" and str(tmp_path) in rule.where


def test_a_package_that_lost_its_rules_is_an_error_and_not_a_quiet_gateway(tmp_path, monkeypatch):
    monkeypatch.setattr(rule_files, "shipped_folder", lambda: tmp_path / "gone")
    with pytest.raises(WatchdogError, match="rules that come with the package are missing"):
        load_rules(tmp_path)


def test_two_lines_switch_a_shipped_rule_off(tmp_path):
    (tmp_path / "detect").mkdir()
    (tmp_path / "detect" / "telegram-down.yaml").write_text("id: telegram-down\nenabled: false\n")
    book = load_rules(tmp_path)
    assert book.rule("telegram-down") is None and "telegram-down" in book.off


RULE = """id: {id}
title: t
severity: high
when: [{{gateway: {{is: dead}}}}]
say: s
advice: a
{more}
"""


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"mine": "causes: [session-stuk]"},
            ["mine.yaml:7: causes: there is no rule 'session-stuk'; did you mean 'session-stuck'?"],
        ),
        ({"mine": "displaces: [nobody]"}, ["mine.yaml:7: displaces: there is no rule 'nobody'"]),
        ({"mine": "causes: [mine]"}, ["mine.yaml:7: causes: mine → mine is a circle; leave one of them out"]),
        (
            {"a-b": "causes: [c-d]", "c-d": "causes: [e-f]", "e-f": "causes: [a-b]"},
            ["a-b.yaml:7: causes: a-b → c-d → e-f → a-b is a circle; leave one of them out"],
        ),
        ({"mine": "restart: maybe"}, ["mine.yaml:7: restart: 'maybe' is not one of helps, useless, unknown"]),
        (
            {"mine": "causes: [other]", "other": "confirm: x"},
            ["other.yaml:7: confirm: 'x' is not a whole number"],
        ),
    ],
)
def test_what_a_rule_says_of_other_rules_is_checked(tmp_path, files, expected):
    (tmp_path / "detect").mkdir()
    for name, more in files.items():
        (tmp_path / "detect" / f"{name}.yaml").write_text(RULE.format(id=name, more=more))
    with pytest.raises(ConfigError) as told:
        load_rules(tmp_path)
    assert [str(problem).rpartition("/detect/")[2] for problem in told.value.problems] == expected


def test_the_rules_of_the_mission_are_shipped():
    mission = {
        "session-stuck",
        "content-filter-burst",
        "tls-burst",
        "provider-errors",
        "qq-resume-loop",
        "qq-dead",
        "gateway-wedged",
        "gateway-down",
        "crash-loop",
        "telegram-down",
        "missing-column",
        "database-broken",
    }
    assert mission <= {rule.id for rule in load_rules().rules}


def test_the_schema_for_editors_accepts_every_shipped_rule_and_refuses_the_bad_ones():
    import jsonschema

    schema = json.loads((shipped_folder() / "rule.schema.json").read_text("utf-8"))
    validator = jsonschema.validators.validator_for(schema)(schema)
    for path in (shipped_folder() / "detect").glob("*.yaml"):
        validator.validate(yaml.safe_load(path.read_text("utf-8")))
    refused = {"unknown-key", "bad-duration", "unknown-kind", "nothing-helps", "not-a-mapping"}
    for path in BAD:
        if path.stem in refused:
            with pytest.raises(jsonschema.ValidationError):
                validator.validate(yaml.safe_load(path.read_text("utf-8")))


def test_the_schema_for_editors_knows_every_kind():
    from watchdog.detect import KINDS

    schema = json.loads((shipped_folder() / "rule.schema.json").read_text("utf-8"))
    assert {"condition", *KINDS} <= set(schema["$defs"])


def test_thousands_of_mutated_rule_files_give_a_message_and_never_a_crash():
    chosen = random.Random(5)
    sources = [path.read_bytes() for path in sorted((shipped_folder() / "detect").glob("*.yaml"))]
    for _ in range(rounds(1000)):
        content = bytearray(chosen.choice(sources))
        for _ in range(chosen.randint(1, 6)):
            at = chosen.randrange(len(content))
            what = chosen.randrange(4)
            if what == 0:
                content[at] = chosen.randrange(256)
            elif what == 1:
                del content[at : at + chosen.randint(1, 40)]
            elif what == 2:
                content[at:at] = chosen.choice(
                    [
                        b"\t",
                        b"{",
                        b"[",
                        b"'",
                        b"&a ",
                        b"*a",
                        b": ",
                        b"- ",
                        b"\n",
                        b"(?<",
                        b"(a+)+",
                        b"\xff",
                        b"%",
                    ]
                )
            else:
                other = chosen.choice(sources)
                content[at:at] = other[: chosen.randint(1, 80)]
        problems: list = []
        for section in read_documents("x.yaml", bytes(content), problems):
            section.vocabulary = shipped_vocabulary()
            rule, _ = read_rule(section, rule_kinds())
            assert rule is not None or problems
        assert all(problem.says for problem in problems)


def test_a_catastrophic_pattern_costs_a_message_and_not_a_hung_check(tmp_path, home):
    from homes import NOW, saved

    from watchdog.pipeline import look

    (tmp_path / "detect").mkdir()
    (tmp_path / "detect" / "slow.yaml").write_text(
        "id: slow\ntitle: t\nseverity: low\nwhen:\n  - burst: {in: gateway.log, line: 'evil (a|a)*b', within: 15m}\nsay: x\nadvice: y\n"
    )
    folder = home("10:30:00,000 INFO gateway.run: evil " + "a" * 5000)
    seen, _ = look(load_rules(tmp_path).rules, saved(folder), None, NOW)
    assert "took longer than" in seen.not_checked["slow"] and "nested repeats" in seen.not_checked["slow"]
    assert "telegram-down" not in seen.not_checked


@pytest.mark.parametrize("kind", ["detect", "recipes"])
def test_a_file_in_the_place_of_a_folder_of_rules_is_told(tmp_path, kind):
    (tmp_path / kind).touch()
    with pytest.raises(ConfigError, match=f"{kind}: is not a folder; one file each goes in it"):
        load_rules(tmp_path)


def test_a_folder_of_rules_that_may_not_be_read_is_told(tmp_path, monkeypatch):
    (tmp_path / "detect").mkdir()
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    with pytest.raises(ConfigError, match="detect: its files cannot be read"):
        load_rules(tmp_path, shipped=False)
