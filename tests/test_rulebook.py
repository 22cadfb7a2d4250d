"""Rule files: every mistake at once, at its line, with what to write instead; the user's rules over the shipped ones."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest
import yaml

from watchdog.cli import main
from watchdog.errors import ConfigError
from watchdog.rulebook import load, read_rule, shipped_folder
from watchdog.yamlfile import read_documents

HERE = Path(__file__).parent
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
        load(tmp_path)
    assert len({problem.path for problem in told.value.problems}) == 3


def test_a_rule_of_the_same_id_replaces_the_shipped_one(tmp_path):
    (tmp_path / "detect").mkdir()
    (tmp_path / "detect" / "telegram-down.yaml").write_text(GOOD.format(name="telegram-down"))
    rule = load(tmp_path).rule("telegram-down")
    assert rule is not None and rule.say == "it died" and str(tmp_path) in rule.where


def test_two_lines_switch_a_shipped_rule_off(tmp_path):
    (tmp_path / "detect").mkdir()
    (tmp_path / "detect" / "telegram-down.yaml").write_text("id: telegram-down\nenabled: false\n")
    book = load(tmp_path)
    assert book.rule("telegram-down") is None and "telegram-down" in book.off


def test_the_rules_of_the_mission_are_shipped():
    mission = {"session-stuck", "content-filter-burst", "tls-burst", "provider-errors", "qq-resume-loop", "qq-dead", "gateway-wedged",
               "gateway-down", "crash-loop", "telegram-down", "missing-column", "database-broken"}  # fmt: skip
    assert mission <= {rule.id for rule in load().rules}


def test_the_schema_for_editors_accepts_every_shipped_rule_and_refuses_the_bad_ones():
    import jsonschema

    schema = json.loads((shipped_folder() / "rule.schema.json").read_text("utf-8"))
    for path in (shipped_folder() / "detect").glob("*.yaml"):
        jsonschema.validate(yaml.safe_load(path.read_text("utf-8")), schema)
    refused = {"unknown-key", "bad-duration", "unknown-kind", "nothing-helps", "not-a-mapping"}
    for path in BAD:
        if path.stem in refused:
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(yaml.safe_load(path.read_text("utf-8")), schema)


def test_the_schema_for_editors_knows_every_key_that_the_reader_knows():
    from watchdog.detect import KINDS

    schema = json.loads((shipped_folder() / "rule.schema.json").read_text("utf-8"))
    assert set(schema["$defs"]) == {"condition", *KINDS}


def test_ten_thousand_mutated_rule_files_give_a_message_and_never_a_crash():
    chosen = random.Random(5)
    sources = [path.read_bytes() for path in sorted((shipped_folder() / "detect").glob("*.yaml"))]
    rounds = int(os.environ.get("HERMES_WATCHDOG_FUZZ", "1500"))
    for _ in range(rounds):
        content = bytearray(chosen.choice(sources))
        for _ in range(chosen.randint(1, 6)):
            at = chosen.randrange(len(content))
            what = chosen.randrange(4)
            if what == 0:
                content[at] = chosen.randrange(256)
            elif what == 1:
                del content[at : at + chosen.randint(1, 40)]
            elif what == 2:
                content[at:at] = chosen.choice([b"\t", b"{", b"[", b"'", b"&a ", b"*a", b": ", b"- ", b"\n", b"(?<", b"(a+)+", b"\xff", b"%"])
            else:
                other = chosen.choice(sources)
                content[at:at] = other[: chosen.randint(1, 80)]
        problems: list = []
        for section in read_documents("x.yaml", bytes(content), problems):
            rule, _ = read_rule(section)
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
    seen, _ = look(load(tmp_path).rules, saved(folder), None, NOW)
    assert "took longer than" in seen.not_checked["slow"] and "nested repeats" in seen.not_checked["slow"]
    assert "telegram-down" not in seen.not_checked


@pytest.mark.parametrize("kind", ["detect", "recipes"])
def test_a_file_in_the_place_of_a_folder_of_rules_is_told(tmp_path, kind):
    (tmp_path / kind).touch()
    with pytest.raises(ConfigError, match=f"{kind}: is not a folder; one file each goes in it"):
        load(tmp_path)


def test_a_folder_of_rules_that_may_not_be_read_is_told(tmp_path, monkeypatch):
    (tmp_path / "detect").mkdir()
    monkeypatch.setattr("watchdog.rulebook.os.access", lambda *_, **__: False)
    with pytest.raises(ConfigError, match="detect: its files cannot be read"):
        load(tmp_path, shipped=False)
