"""Measure what docs/performance.md says, and write it there: make bench, or python bench/run.py [--quick].

Instructions are counted by valgrind, which no load disturbs, and are what a row is judged by. Beside them stands CPU time
(user + system) of whole processes, the contenders in turn, several rounds: the median, with the spread.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import pty
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from random import Random
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench import count, peers, place, shapes  # noqa: E402
from bench.generate import Expected, generate  # noqa: E402
from watchdog import __version__  # noqa: E402
from watchdog.job import load_rules  # noqa: E402
from watchdog.service.install import Entry  # noqa: E402
from watchdog.sqlite.backup import snapshot  # noqa: E402
from watchdog.sqlite.inspect import look  # noqa: E402

PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
MB = 1_000_000
CAPTURES = ROOT / "samples" / "logs"  # of real gateways, one fault each


@dataclass
class Runs:
    """All runs of one command."""

    command: list[str]
    before: Callable[[], None] | None = None
    cpu: list[float] = field(default_factory=list)
    rss: float = 0.0
    codes: set[int] = field(default_factory=set)

    @property
    def middle(self) -> float:
        return median(self.cpu)

    def __str__(self) -> str:
        return f"{_span(self.middle)} ({_span(min(self.cpu))} – {_span(max(self.cpu))})"


class Clock:
    """Runs commands through a small process of its own, so that peak memory is theirs."""

    def __init__(self) -> None:
        words = [os.path.realpath(sys.executable), "-I", "-S", str(ROOT / "bench" / "measure.py")]
        self.helper = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def once(self, runs: Runs) -> None:
        assert self.helper.stdin and self.helper.stdout
        if runs.before is not None:
            runs.before()
        self.helper.stdin.write(repr(runs.command) + "\n")
        self.helper.stdin.flush()
        code, cpu, rss = self.helper.stdout.readline().split()
        runs.cpu.append(float(cpu))
        runs.rss = max(runs.rss, float(rss))
        runs.codes.add(int(code))

    def interleaved(self, group: dict[str, Runs], rounds: int) -> dict[str, Runs]:
        for number in range(rounds + 1):
            for runs in group.values():
                self.once(runs)
                if number == 0:
                    runs.cpu.clear()  # the first round warms the caches
                    runs.rss = 0.0
        for name, runs in group.items():
            print(f"  {name:<42} {runs}  {runs.rss:.0f} MB  exit {sorted(runs.codes)}", flush=True)
        return group


def _span(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


@dataclass
class Row:
    what: str
    instructions: str  # a ratio, and what was counted
    cpu: str
    bar: str
    good: bool | None  # None: for orientation


@dataclass
class Bench:
    """What every part works with."""

    clock: Clock
    work: Path
    python: str
    big: int
    rounds: int
    seed: int

    def check(self, home: Path, config: Path) -> list[str]:
        """The line that cron runs."""
        entry = Entry(home, self.python, config=config, state=home.parent / f"state-{config.name}")
        return entry.command("check", "--quiet")

    def replay(self, folder: Path, config: Path | None = None) -> list[str]:
        config = config or self.work / "config"
        return [
            self.python,
            "-P",
            "-m",
            "watchdog",
            "replay",
            str(folder),
            "--json",
            "--config",
            str(config),
        ]

    def ripgrep(self, folder: Path) -> list[str]:
        """The patterns of our rules over the same two files."""
        place_of = self.work / "ripgrep"
        place_of.mkdir(exist_ok=True)
        wanted = _patterns()
        return [*peers.PEERS[0].command(place_of, folder / "agent.log", wanted), str(folder / "gateway.log")]

    def counted(self, command: list[str]) -> int:
        """Instructions of the command once the caches are warm; 0 where nobody counts."""
        subprocess.run(command, env=count.ENVIRONMENT, capture_output=True, check=False)
        return 0 if count.missing() else count.instructions(command)


@cache
def _patterns() -> list[str]:
    return peers.patterns(load_rules())


def _ratio(ours: float, theirs: float) -> float:
    return ours / theirs if theirs else 0.0


def _judged(what: str, counts: tuple[int, int], cpu: str, bar: float) -> Row:
    """A row that is judged by instructions: ours against theirs."""
    ratio = _ratio(*counts)
    told = f"{ratio:.1f} × ({counts[0] / 1e6:.0f} M)" if ratio else count.missing()
    return Row(what, told, cpu, f"≤ {bar:g} ×", ratio <= bar if ratio else None)


def checks(bench: Bench) -> list[Row]:
    """Starting Python, and checks of a realistic home."""
    homes = {}
    for name in ("quiet", "open", "turns"):
        folder = bench.work / name
        homes[name] = bench.check(place.realistic(folder), folder / "config")
    place.with_an_incident(bench.work / "open" / "home")
    place.with_turns(bench.work / "turns" / "home", MB)
    started = [bench.python, "-I", "-c", "pass"]
    base = bench.counted(started)
    fresh = 0 if count.missing() else count.instructions(homes["quiet"], count.ENVIRONMENT)
    place.forget(bench.python)
    told = "reading the rules" in _on_a_terminal(homes["quiet"])
    group = {"python -I -c pass": Runs(started)}
    group |= {name: Runs(command) for name, command in homes.items()}
    bench.clock.interleaved(group, bench.rounds * 2)
    start = group["python -I -c pass"]
    for name, code in (("quiet", 0), ("open", 1), ("turns", 0)):
        if group[name].codes != {code}:
            sys.exit(f"{' '.join(homes[name])} ended with {group[name].codes}")
    bars = {
        "quiet": ("quiet check of a realistic home, as cron runs it", 6.5),
        "open": ("the same with an open incident, at every check", 10),
        "turns": ("the same with 1 MB of nothing but turns", 7),
    }
    rows = [
        Row("`python -I -c pass`", f"{base / 1e6:.0f} M" if base else count.missing(), str(start), "", None),
        Row(
            "first check after an install",
            f"{_ratio(fresh, base):.1f} × ({fresh / 1e6:.0f} M)",
            "",
            "says so on a terminal",
            told,
        ),
    ]
    for name, (what, bar) in bars.items():
        cpu = f"{group[name].middle / start.middle:.1f} × ({group[name]})"
        rows.append(_judged(what, (bench.counted(homes[name]), base), cpu, bar))
    memory = group["quiet"].rss
    rows.append(Row("quiet check, memory", "", f"{memory:.0f} MB", "≤ 30 MB", memory <= 30))
    return rows


def _on_a_terminal(command: list[str]) -> str:
    """What a person sees of the command."""
    pid, screen = pty.fork()
    if pid == 0:
        os.execve(command[0], command, count.ENVIRONMENT)
    seen = b""
    with suppress(OSError):  # Linux says EIO when the other end is closed
        while part := os.read(screen, 1000):
            seen += part
    os.close(screen)
    os.waitpid(pid, 0)
    return seen.decode("utf-8", "replace")


def full_scan(bench: Bench) -> list[Row]:
    """A replay of everything against ripgrep, and from a short log to a long one."""
    rows, group, counts = [], {}, []
    for size in (3 * MB, 8 * MB, bench.big):
        folder = bench.work / f"scan{size // MB}"
        expected = generate(folder, size, bench.seed)
        command = bench.replay(folder)
        rows.append(_verdict(command, expected, size))
        if size < bench.big:
            counts.append((bench.counted(command), bench.counted(bench.ripgrep(folder))))
        if size > 3 * MB:
            group[f"replay {size // MB} MB"] = Runs(command)
    group["ripgrep"] = Runs(bench.ripgrep(folder))
    bench.clock.interleaved(group, bench.rounds)
    short, long, rg = group.values()
    # What starting costs is the same for both; what counts is what each further megabyte costs.
    ours, theirs = (counts[1][0] - counts[0][0]) // 5, (counts[1][1] - counts[0][1]) // 5
    dense = _density(bench, bench.work / "scan8")
    cpu = f"{long.middle / rg.middle:.1f} × ({long} against {rg})"
    what = f"replay of the bench's log against ripgrep, per MB ({dense} of its lines matched)"
    rows.append(_judged(what, (ours, theirs), cpu, 3.5))
    grown = f"{short.rss:.0f} → {long.rss:.0f} MB"
    rows.append(
        Row(f"memory, 8 MB → {bench.big // MB} MB", "", grown, "≤ +10 MB", long.rss <= short.rss + 10)
    )
    return rows


def _density(bench: Bench, folder: Path) -> str:
    done = subprocess.run(bench.ripgrep(folder), capture_output=True, text=True, check=False)
    matched = sum(int(line.rpartition(":")[2]) for line in done.stdout.split())
    lines = sum((folder / name).read_bytes().count(b"\n") for name in ("agent.log", "gateway.log"))
    return f"{matched / lines:.0%}"


def _verdict(command: list[str], expected: Sequence[Expected], size: int) -> Row:
    done = subprocess.run(command, env={**os.environ, "TZ": "UTC"}, capture_output=True, check=False)
    found = Counter((incident["rule"], incident["key"]) for incident in json.loads(done.stdout)["incidents"])
    planted = Counter(incident.name for incident in expected)
    missed, extra = planted - found, found - planted
    text = f"{found.total()} of {planted.total()}, {extra.total()} extra"
    return Row(f"incidents found in {size // MB} MB", "", text, "all, none extra", not missed and not extra)


def one_kind(bench: Bench) -> list[Row]:
    """Logs of one kind of traffic against ripgrep."""
    bars = {"turns": 6.0, "flood": 15.0, "chats": 8.0, "captures": 8.0}
    names = {
        "turns": "nothing but turns",
        "flood": "a flood of `API call failed`",
        "chats": "10,000 chats",
        "captures": "saved logs of real gateways, repeated",
    }
    rows = []
    for shape, bar in bars.items():
        counts = []
        for size in (MB, 3 * MB):
            folder = bench.work / f"{shape}{size}"
            if shape == "captures":
                shapes.captures(folder, CAPTURES, size)
            else:
                shapes.write(folder, shapes.SHAPES[shape](Random(bench.seed)), size)
            logs = folder / "logs"
            counts.append((bench.counted(bench.replay(logs)), bench.counted(bench.ripgrep(logs))))
        runs = bench.clock.interleaved(
            {shape: Runs(bench.replay(logs)), "ripgrep": Runs(bench.ripgrep(logs))}, 2
        )
        cpu = f"{runs[shape].middle / runs['ripgrep'].middle:.1f} × ({runs[shape]}, start included)"
        ours, theirs = (counts[1][0] - counts[0][0]) // 2, (counts[1][1] - counts[0][1]) // 2
        rows.append(_judged(f"replay of {names[shape]}, per MB", (ours, theirs), cpu, bar))
    return rows


def against_peers(bench: Bench) -> list[Row]:
    """Those that watch logs for a living, on a log short enough to wait for."""
    folder = bench.work / "peers"
    generate(folder, bench.big // 20, bench.seed)
    both = folder / "both.log"
    both.write_bytes((folder / "gateway.log").read_bytes() + (folder / "agent.log").read_bytes())
    wanted = _patterns()
    group = {"replay": Runs(bench.replay(folder))}
    bars = {"SEC": 20, "fail2ban-regex": 20, "swatchdog": 5, "mtail": 5, "Monit": 5}
    rows, present = [], []
    for peer in peers.PEERS[1:]:
        if peer.missing:
            rows.append(Row(peer.name, "", f"skipped: {peer.missing}", f"≥ {bars[peer.name]} ×", None))
            continue
        place_of = folder / peer.program
        place_of.mkdir()
        command = peer.command(place_of, both, wanted)
        prepare = (
            (lambda peer=peer, place_of=place_of: peer.prepare(place_of, both)) if peer.prepare else None
        )
        group[peer.name] = Runs(command, prepare)
        present.append(peer)
    bench.clock.interleaved(group, 1)
    for peer in present:
        ratio, bar = group[peer.name].middle / group["replay"].middle, bars[peer.name]
        what = f"{peer.name} {peers.version(peer)} ({peer.note})"
        rows.append(
            Row(what, "", f"we are {ratio:.0f} × faster ({group[peer.name]})", f"≥ {bar} ×", ratio >= bar)
        )
    return rows


def many_rules(bench: Bench) -> list[Row]:
    """From the shipped rules to 1000: what a megabyte more costs in a replay, and a quiet check."""
    home = place.realistic(bench.work / "rules")
    shipped = len(load_rules().rules)
    group, quiet = {}, []
    for rules in (shipped, 1000):
        config = place.more_rules(bench.work / f"rules{rules}", rules - shipped)
        quiet.append(bench.counted(bench.check(home, config)))
        for size in (2 * MB, 12 * MB):
            folder = bench.work / f"scan-rules{size}"
            generate(folder, size)
            group[f"{rules} rules, {size // MB} MB"] = Runs(bench.replay(folder, config))
    bench.clock.interleaved(group, 2)
    # A replay reads rules of one's own anew each time, which is left out: a check keeps them.
    little, less, much, more = (runs.middle for runs in group.values())
    ratio = (more - much) / (less - little)
    return [
        _judged(f"{shipped} → 1000 rules, quiet check", (quiet[1], quiet[0]), "", 3),
        Row(f"{shipped} → 1000 rules, replay, per MB", "", f"{ratio:.1f} ×", "≤ 3 ×", ratio <= 3),
    ]


def databases(bench: Bench) -> list[Row]:
    """What one look at one database costs inside a check, and a backup beside SQLite's own."""
    path = bench.work / "one" / "state.db"
    path.parent.mkdir()
    place.database(path, "state")
    began = time.process_time()
    for _ in range(50):
        look(path)
    each = (time.process_time() - began) / 50
    rows = [Row("one database, not deep", "", _span(each), "≤ 5 ms", each <= 0.005)]
    with sqlite3.connect(path) as db:
        blob = os.urandom(4000)
        db.executemany("INSERT INTO notes (text) VALUES (?)", ((blob,) for _ in range(bench.big * 5 // 4000)))
    db.close()
    own, ours = [], []
    for number in range(2):
        plain = bench.work / "one" / f"plain{number}.db"
        own.append(_process_time(lambda plain=plain: _plain_backup(path, plain)))
        folder = bench.work / "one" / f"backups{number}"
        ours.append(_process_time(lambda folder=folder: snapshot(path, folder)))
        plain.unlink()
        shutil.rmtree(folder)
    ratio = median(ours) / median(own)
    what = f"backup of {path.stat().st_size // MB} MB, checked, against SQLite's own"
    rows.append(
        Row(what, "", f"{ratio:.1f} × ({_span(median(ours))}; {_span(median(own))})", "≤ 2 ×", ratio <= 2)
    )
    return rows


def _plain_backup(path: Path, target: Path) -> None:
    source, copy = sqlite3.connect(path), sqlite3.connect(target)
    source.backup(copy)
    source.close()
    copy.close()


def _process_time(work: Callable[[], object]) -> float:
    """CPU seconds of this process and its children."""
    before = os.times()
    work()
    after = os.times()
    return sum(after[:4]) - sum(before[:4])


def write(rows: list[Row], rounds: int, load_before: float) -> None:
    present = ", ".join(f"{peer.name} {peers.version(peer)}" for peer in peers.PEERS if not peer.missing)
    lines = [
        BEGIN,
        f"Measured {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by `bench/run.py`: hermes-watchdog {__version__}, Python {platform.python_version()}, "
        f"{platform.machine()}, {os.cpu_count()} cores, load {load_before:.1f} before and {os.getloadavg()[0]:.1f} after; {rounds} rounds, median (least – most).",
        f"Peers: {present}.",
        "",
        "| what | instructions | CPU time or memory | bar | |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {row.what} | {row.instructions} | {row.cpu} | {row.bar} | {'' if row.good is None else '✓' if row.good else 'missed'} |"
            for row in rows
        ),
        END,
    ]
    page = PAGE.read_text() if PAGE.exists() else f"# Performance\n\n{BEGIN}\n{END}\n"
    PAGE.write_text(
        re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: "\n".join(lines), page, flags=re.DOTALL)
    )


PARTS: dict[str, Callable[[Bench], list[Row]]] = {
    "checks": checks,
    "scan": full_scan,
    "kinds": one_kind,
    "rules": many_rules,
    "databases": databases,
    "peers": against_peers,
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small logs and few rounds; writes nothing")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=tuple(PARTS), action="append", help="writes nothing")
    args = parser.parse_args()
    rounds, big = (1, 20 * MB) if args.quick else (3, 200 * MB)
    load_before = os.getloadavg()[0]
    peers.install()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="watchdog-bench-") as name:
        work = Path(name)
        (work / "config").mkdir()
        bench = Bench(Clock(), work, place.install(work / "installed")[0], big, rounds, args.seed)
        for part in args.only or PARTS:
            began = time.monotonic()
            print(part, flush=True)
            rows += PARTS[part](bench)
            print(f"  {time.monotonic() - began:.0f} s", flush=True)
    for row in rows:
        sign = "      " if row.good is None else "ok    " if row.good else "MISSED"
        print(f"{sign}  {row.what}: {row.instructions}  {row.cpu}  [{row.bar}]")
    if not args.quick and not args.only:
        write(rows, rounds, load_before)
    return 0 if all(row.good is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
