#!/usr/bin/env python3
"""Record `hermes-watchdog demo` as docs/demo.svg: the real demo, its real output, played as an animated
picture.

    python scripts/record-demo.py [FILE]

The picture needs no script and no player: lines are scrolled by a CSS animation. Paths and names of the
machine it is recorded on are replaced, so that the same picture comes out everywhere.
"""

from __future__ import annotations

import io
import re
import sys
from contextlib import redirect_stdout
from html import escape
from pathlib import Path

from watchdog.cli.main import main
from watchdog.demo.story import Stage, cells, run

COLUMNS, ROWS = 104, 34
CELL, LINE, SIZE = 7.9, 17, 13  # pixels
BEAT = 1.1  # seconds per rest
COLOURS = {"1;31": "c", "31": "h", "33": "m", "36": "l", "2": "d", "32": "g", "1": "b"}
SGR = re.compile(r"\x1b\[([\d;]*)m")


class Screen(io.StringIO):
    """A terminal that remembers when each line came."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[float, str]] = []
        self.at, self.part = 0.0, ""

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *whole, self.part = (self.part + text).split("\n")
        for line in whole:
            self.at += 0.045
            self.lines += [(self.at, piece) for piece in wrapped(tidy(line))]
        return len(text)


class Recorder(Stage):
    def rest(self, beats: float = 1.0) -> None:
        screen.at += BEAT * beats

    def tidy(self, text: str) -> str:
        return tidy(text)


def tidy(text: str) -> str:
    """Somebody's machine, and not this one."""
    text = re.sub(r"/\S*/hermes-watchdog-demo-\w+", "/tmp/demo", text)
    text = text.replace(str(Path(sys.executable).with_name("hermes-watchdog")), "hermes-watchdog")
    for interpreter in (sys.executable, str(Path(sys.executable).resolve())):
        text = text.replace(interpreter, "/usr/bin/python3")
    return re.sub(r"\b(as|by) root\b", r"\1 me", text)


def wrapped(line: str) -> list[str]:
    """A long line broken between words, under its own indentation; colours go on in the next piece."""
    signs, kind = [], ""
    for token in re.split(r"(\x1b\[[\d;]*m)", line):
        if SGR.fullmatch(token):
            kind = token
        else:
            signs += [(sign, kind) for sign in token]
    plain = "".join(sign for sign, _ in signs)
    indent = [(" ", "")] * (len(plain) - len(plain.lstrip()) + 2)
    pieces = []
    while sum(cells(sign) for sign, _ in signs) > COLUMNS:
        cut = next((at for at in range(COLUMNS, len(indent), -1) if signs[at][0] == " "), COLUMNS)
        pieces.append(signs[:cut])
        signs = indent + signs[cut + 1 if signs[cut][0] == " " else cut :]
    return ["".join(f"{kind}{sign}" for sign, kind in piece) for piece in [*pieces, signs]]


def spans(line: str) -> str:
    """One line as SVG text, with a class for each colour."""
    runs: list[list[str]] = []
    kind = ""
    for token in re.split(r"(\x1b\[[\d;]*m)", line):
        if match := SGR.fullmatch(token):
            kind = COLOURS.get(match[1], "")
        elif token and runs and runs[-1][0] == kind:
            runs[-1][1] += token
        elif token:
            runs.append([kind, token])
    return "".join(
        f'<tspan class="{kind}">{escape(text)}</tspan>' if kind else escape(text) for kind, text in runs
    )


def svg(lines: list[tuple[float, str]]) -> str:
    total = lines[-1][0] + 6
    width, height = round(COLUMNS * CELL + 32), ROWS * LINE + 64
    moves, covers, last = [], [], None
    for number, (at, _) in enumerate(lines):
        if number + 1 < len(lines) and lines[number + 1][0] - at < 0.01:
            continue
        share = f"{at / total * 100:.2f}%"
        shift = max(0, number + 1 - ROWS) * LINE
        if shift != last:
            moves.append(f"{share}{{transform:translateY(-{shift}px)}}")
            last = shift
        if number < ROWS:
            covers.append(f"{share}{{transform:translateY({(number + 1) * LINE}px)}}")
    rows = "\n".join(
        f'<text y="{number * LINE + LINE - 4}">{spans(line)}</text>'
        for number, (_, line) in enumerate(lines)
        if SGR.sub("", line).strip()
    )
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" \
aria-label="A terminal: hermes-watchdog demo finds a broken gateway, asks, heals it and tells">
<style>
text{{font:{SIZE}px ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#d8dee6;white-space:pre}}
.c{{fill:#ff5c74;font-weight:700}}.h{{fill:#ff8a4c}}.m{{fill:#f0bf3f}}.l{{fill:#66b2ea}}.d{{fill:#8492a0}}.g{{fill:#4fc98a}}.b{{fill:#fff;font-weight:700}}
.scroll{{animation:scroll {total:.1f}s step-end infinite}}.cover{{animation:cover {total:.1f}s step-end infinite}}
@keyframes scroll{{0%{{transform:translateY(0)}}{"".join(moves)}}}
@keyframes cover{{0%{{transform:translateY(0)}}{"".join(covers)}}}
@media(prefers-reduced-motion:reduce){{.scroll,.cover{{animation:none}}.cover{{display:none}}}}
</style>
<rect width="{width}" height="{height}" rx="10" fill="#141b23"/>
<circle cx="22" cy="20" r="6" fill="#ff5f57"/><circle cx="42" cy="20" r="6" fill="#febc2e"/><circle cx="62" cy="20" r="6" fill="#28c840"/>
<text x="{width / 2:.0f}" y="25" text-anchor="middle" class="d">hermes-watchdog demo</text>
<svg x="16" y="44" width="{width - 32}" height="{ROWS * LINE}" viewBox="0 0 {width - 32} {ROWS * LINE}">
<g class="scroll" xml:space="preserve">
{rows}
</g>
<rect class="cover" width="{width}" height="{ROWS * LINE}" fill="#141b23"/>
</svg>
</svg>
"""


screen = Screen()

if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "docs" / "demo.svg"
    print("$ hermes-watchdog demo", file=screen)
    with redirect_stdout(screen):
        code = run(Recorder(main, colour=True, width=100))
    if code:
        print("\n".join(SGR.sub("", line) for _, line in screen.lines), file=sys.stderr)
        sys.exit(f"the demo did not end well (exit {code}); nothing was written")
    target.write_text(svg(screen.lines), "utf-8")
    print(f"{target}: {len(screen.lines)} lines, {target.stat().st_size // 1000} kB")
