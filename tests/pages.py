"""A page as a browser's parser sees it: whole, and asking nobody for anything."""

from __future__ import annotations

import html.parser

VOID = ("meta", "br", "path", "link", "input")
LOADS = ("src", "href", "srcset", "action", "data", "background", "formaction")


class Page(html.parser.HTMLParser):
    """Every tag that is opened is closed; `loads` are the addresses in it, `bad` what can run."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.bad: list[str] = []
        self.bars = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.bars += tag == "rect"
        self.loads += [
            value or "" for name, value in attrs if name in LOADS and not (value or "").startswith("data:")
        ]
        self.bad += [tag] if tag in ("script", "iframe", "object", "embed", "base") else []
        self.bad += [name for name, _ in attrs if name.startswith("on") or name == "style"]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
