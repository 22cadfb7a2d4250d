"""MkDocs: leave out of the menu what is not written yet, show links into the checkout as plain text, and make the table
of rules from the rules.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

RULES = Path(__file__).resolve().parent.parent / "rules" / "detect"


def on_config(config: Any) -> Any:
    config.nav = [
        entry for entry in (_present(entry, Path(config.docs_dir)) for entry in config.nav) if entry
    ]
    return config


def _present(entry: Any, docs: Path) -> Any:
    if isinstance(entry, str):
        return entry if (docs / entry).exists() else None
    title, below = next(iter(entry.items()))
    if isinstance(below, list):
        kept = [one for one in (_present(one, docs) for one in below) if one]
        return {title: kept} if kept else None
    return entry if (docs / below).exists() else None


def on_page_markdown(markdown: str, **_: Any) -> str:
    """`[rules/detect](../rules/detect)` is a file of the checkout, not of the site."""
    markdown = re.sub(r"\[([^\]]+)\]\(\.\./[^)]+\)", r"`\1`", markdown)
    return markdown.replace("<!-- rules -->", rule_table()) if "<!-- rules -->" in markdown else markdown


def rule_table() -> str:
    """Every shipped rule with when it fires and when it stays quiet, as its file says."""
    rows = ["| rule | fires when | stays quiet when |", "| --- | --- | --- |"]
    for path in sorted(RULES.glob("*.yaml")):
        about = yaml.safe_load(path.read_text("utf-8"))["about"]
        rows.append(f"| `{path.stem}` | {about['fires']} | {about['quiet']} |")
    return "\n".join(rows) + "\n"
