"""Cases of samples/logs, replayed and checked: the exact words and the exact JSON, for the rules in expected/samples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from goldens import EXPECTED, SAMPLES, Golden, Shell, copied

RULES = sorted(path.stem for path in (EXPECTED / "samples").glob("*.txt"))


@pytest.mark.parametrize("rule", RULES)
def test_the_cases_of_a_rule_are_told_in_the_same_words(
    rule: str, shell: Shell, golden: Golden, tmp_path: Path
) -> None:
    """`replay` and `check --dry-run` of the cases that fire and of one that is quiet: RULE.txt has the text,
    RULE.json the JSON of the first. That the others are quiet, too, is for tests/test_samples.py.
    """
    told: dict[str, Any] = {}
    cases = sorted(path.parent for path in (SAMPLES / rule).glob("*/case.yaml"))
    quiet = next(case for case in cases if case.name.startswith("quiet-"))
    fires = [case for case in cases if case.name.startswith("fires-")]
    for case in (*fires, quiet):
        stated = yaml.safe_load((case / "case.yaml").read_text("utf-8"))
        now = str(stated["now"])
        home = copied(case, tmp_path / case.name, now)
        gateway = ["--gateway", stated["gateway"]] if "gateway" in stated else []
        replay = ["replay", str(home), "--until", now, *gateway]
        check = ["check", "--dry-run", "--home", str(home), "--now", now]
        for words in (replay, check):
            shell.type(*words)
            if case == fires[0]:
                said = shell.run(*words, "--json")
                told[words[0]] = {"exit": said.code, "stderr": said.err, "told": json.loads(said.out)}
    golden.same(f"samples/{rule}.txt", shell.transcript)
    golden.same_json(f"samples/{rule}.json", told)
