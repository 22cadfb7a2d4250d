"""MkDocs: leave out of the menu what is not written yet, and show links into the checkout as plain text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any


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
    return re.sub(r"\[([^\]]+)\]\(\.\./[^)]+\)", r"`\1`", markdown)
