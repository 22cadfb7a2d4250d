"""The same patterns for other log watchers, and how each makes one pass over a file.

ripgrep is the yardstick. SEC, swatchdog, mtail, fail2ban and Monit watch logs for a living; none of them
knows Hermes' records, tracebacks or time, so each is measured for its cost alone: what it costs to look for
our lines.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from watchdog.config.rulebook import Rulebook
from watchdog.detect.evaluate import lines_by_source

PACKAGES = {
    "rg": "ripgrep",
    "sec": "sec",
    "swatchdog": "swatch",
    "mtail": "mtail",
    "fail2ban-regex": "fail2ban",
    "monit": "monit",
    "valgrind": "valgrind",
}
_NAMED = re.compile(r"\(\?P?<(?![=!])\w+>")


def patterns(book: Rulebook) -> list[str]:
    """Every pattern of the rules in the syntax that all peers share: no names, no looking ahead."""
    found: dict[str, None] = {}
    for source, lines in lines_by_source(book.rules).items():
        for line in lines if source.endswith(".log") else ():
            if line.level:
                found[f" (?:{'|'.join(line.level)}) "] = None
                continue
            # A word of the vocabulary is several patterns.
            for pattern in getattr(line.pattern, "patterns", (line.pattern,)) if line.pattern else ():
                plain = _without_lookahead(_NAMED.sub("(?:", pattern.text)).removeprefix("(?s)")
                # They look at single lines, and the end that our records have is ours alone: chat text is cut.
                found[plain.partition(r"[^\n]*\n")[0].removesuffix("$")] = None
    return list(found)


def _without_lookahead(pattern: str) -> str:
    while (start := pattern.find("(?!")) >= 0:
        depth, at = 0, start
        while True:
            if pattern[at] == "\\":
                at += 1
            else:
                depth += {"(": 1, ")": -1}.get(pattern[at], 0)
            at += 1
            if depth == 0:
                break
        pattern = pattern[:start] + pattern[at:]
    return pattern


@dataclass(frozen=True)
class Peer:
    name: str
    program: str
    note: str
    # folder for its configuration, log, patterns → words
    command: Callable[[Path, Path, list[str]], list[str]]
    prepare: Callable[[Path, Path], None] | None = None  # before every run

    @property
    def missing(self) -> str:
        return (
            "" if shutil.which(self.program) else f"not installed (Debian package {PACKAGES[self.program]})"
        )


def _ripgrep(folder: Path, log: Path, wanted: list[str]) -> list[str]:
    (folder / "patterns").write_text("\n".join(wanted) + "\n")
    return ["rg", "-j1", "-c", "-f", str(folder / "patterns"), str(log)]


def _sec(folder: Path, log: Path, wanted: list[str]) -> list[str]:
    rules = [
        f"type=SingleWithThreshold\nptype=RegExp\npattern={text}\ndesc=pattern {number}\naction=none\nwindow=900\nthresh=6\ncontinue=TakeNext\n"
        for number, text in enumerate(wanted)
    ]
    (folder / "sec.conf").write_text("\n".join(rules))
    return ["sec", f"--conf={folder / 'sec.conf'}", f"--input={log}", "--notail", "--debug=3"]


def _swatchdog(folder: Path, log: Path, wanted: list[str]) -> list[str]:
    rules = ["watchfor /{}/\n\tcontinue\n".format(text.replace("/", r"\/")) for text in wanted]
    (folder / "swatch.conf").write_text("\n".join(rules))
    return [
        "swatchdog",
        f"--examine={log}",
        f"--config-file={folder / 'swatch.conf'}",
        f"--script-dir={folder}",
    ]


def _mtail(folder: Path, log: Path, wanted: list[str]) -> list[str]:
    programs = folder / "mtail"
    programs.mkdir(exist_ok=True)
    blocks = [
        "counter lines_{0}\n/{1}/ {{\n  lines_{0}++\n}}\n".format(number, text.replace("/", r"\/"))
        for number, text in enumerate(
            re.sub(r",\d{4,}\}", ",1000}", text) for text in wanted
        )  # as far as Go counts
    ]
    (programs / "hermes.mtail").write_text("\n".join(blocks))
    return ["mtail", "--one_shot", "--progs", str(programs), "--logs", str(log), "--logtostderr"]


def _fail2ban(folder: Path, log: Path, wanted: list[str]) -> list[str]:
    regexes = "\n            ".join(
        r"^\s*[A-Z]+(?: \[[^\]]*\])? <F-ID>[\w.-]+</F-ID>: " + text.replace("%", "%%") for text in wanted
    )
    text = f"[Definition]\nfailregex = {regexes}\nignoreregex =\ndatepattern = ^%%Y-%%m-%%d %%H:%%M:%%S,%%f\n"
    (folder / "hermes.conf").write_text(text)
    return [
        "fail2ban-regex",
        "--print-no-missed",
        "--print-no-ignored",
        str(log),
        str(folder / "hermes.conf"),
    ]


def _monit(folder: Path, log: Path, wanted: list[str]) -> list[str]:
    watched = folder / "watched.log"
    rules = "\n".join(f'  if content = "{_monit_syntax(text)}" then alert' for text in wanted)
    (folder / "monitrc").write_text(
        f"set daemon 60\nset logfile /dev/null\nset pidfile {folder}/monit.pid\nset idfile {folder}/monit.id\nset statefile {folder}/monit.state\n"
        f"set limits {{ fileContentBuffer: 4096 B }}\ncheck file hermes with path {watched}\n{rules}\n"
    )
    (folder / "monitrc").chmod(0o600)
    return ["monit", "-c", str(folder / "monitrc"), "validate"]


_POSIX = {"d": "0-9", "w": "A-Za-z0-9_", "s": " "}


def _monit_syntax(text: str) -> str:
    """POSIX: no lazy repeats, no \\d, \\S, \\w, no (?:."""
    text = text.replace("(?:", "(").replace("*?", "*").replace('"', ".")
    done, at, inside = "", 0, False
    while at < len(text):
        sign = text[at : at + 2] if text[at] == "\\" else text[at]
        at += len(sign)
        if sign == "\\S":
            sign = "[^ ]"
        elif sign[0] == "\\" and sign[1] in _POSIX:
            sign = _POSIX[sign[1]] if inside else f"[{_POSIX[sign[1]]}]"
        elif sign in "[]":
            inside = sign == "["
        done += sign
    return done


def _monit_first(folder: Path, log: Path) -> None:
    """Monit starts at the end of a file it has not seen: let it see an empty one, then give it the log."""
    (folder / "watched.log").write_bytes(b"")
    for name in ("monit.state", "monit.id"):
        (folder / name).unlink(missing_ok=True)
    subprocess.run(["monit", "-c", str(folder / "monitrc"), "validate"], capture_output=True, check=False)
    with log.open("rb") as source, (folder / "watched.log").open("ab") as target:
        shutil.copyfileobj(source, target, 1 << 20)


PEERS = (
    Peer("ripgrep", "rg", "one thread, counts lines", _ripgrep),
    Peer("SEC", "sec", "cost only: its windows run on arrival time, so in a replay it finds no gap", _sec),
    Peer("swatchdog", "swatchdog", "patterns only", _swatchdog),
    Peer("mtail", "mtail", "counters only", _mtail),
    Peer("fail2ban-regex", "fail2ban-regex", "with its date parsing, as in use", _fail2ban),
    Peer("Monit", "monit", "POSIX patterns on the first 4096 bytes of a line", _monit, _monit_first),
)


def install() -> None:
    """Fetch the missing ones where that is possible: Debian, as root. No service is started."""
    wanted = [package for program, package in PACKAGES.items() if not shutil.which(program)]
    if wanted and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
        command = ["apt-get", "install", "-y", "--no-install-recommends", *wanted]
        subprocess.run(command, env=quiet, capture_output=True, check=False)


def version(peer: Peer) -> str:
    """As it tells it itself."""
    flag = {"monit": "-V"}.get(peer.program, "--version")
    try:
        done = subprocess.run([peer.program, flag], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "?"
    found = re.search(r"\d+(?:\.\d+)+", done.stdout + done.stderr)
    return found[0] if found else "?"
