"""Measure what docs/performance.md says, and write it there: make bench, or python bench/run.py [--quick].

CPU time (user + system) of whole processes, the contenders in turn, several rounds; the median is told, with
the spread.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench import peers, place  # noqa: E402
from bench.generate import generate  # noqa: E402
from watchdog import __version__  # noqa: E402
from watchdog.job import load_rules  # noqa: E402

PAGE = ROOT / "docs" / "performance.md"
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
MB = 1_000_000


@dataclass
class Runs:
    """All runs of one command."""

    command: list[str]
    before: object = None
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
        if callable(runs.before):
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
    measured: str
    bar: str
    good: bool | None  # None: for orientation


def small_commands(clock: Clock, work: Path, python: str, tool: str, big: int, rounds: int) -> list[Row]:
    """Starting, a quiet check, and a check on a short and on a long log."""
    quiet = place.home(work / "quiet", 15 * MB, 15 * MB // 24, rotated=True)
    short = place.home(work / "short", 10 * MB, MB)
    long = place.home(work / "long", big, MB)

    def check(home: Path) -> list[str]:
        return [
            tool,
            "check",
            "--quiet",
            "--home",
            str(home),
            "--state",
            str(work / "state"),
            "--config",
            str(work / "config"),
        ]

    (work / "config").mkdir(exist_ok=True)
    group = clock.interleaved(
        {
            "python -I -c pass": Runs([python, "-I", "-c", "pass"]),
            "--version": Runs([tool, "--version"]),
            "--help": Runs([tool, "--help"]),
            "quiet check": Runs(check(quiet)),
            "check, 1 MB of 10 MB": Runs(check(short)),
            f"check, 1 MB of {big // MB} MB": Runs(check(long)),
        },
        rounds,
    )
    base, version, usage, calm, on_short, on_long = group.values()
    for runs in (calm, on_short, on_long):
        if runs.codes != {0}:
            sys.exit(
                f"a check that should have been quiet was not: exit codes {runs.codes}: {' '.join(runs.command)}"
            )

    def times(runs: Runs, bar: float) -> tuple[str, bool]:
        ratio = runs.middle / base.middle
        return f"{ratio:.1f} × ({runs})", ratio <= bar

    rows = [Row("`python -I -c pass`", str(base), "", None)]
    for what, runs, bar in (
        ("`--version`", version, 5),
        ("`--help`", usage, 5),
        ("quiet check", calm, 5),
        (f"check, 1 MB of a log of {big // MB} MB", on_long, 7),
    ):
        measured, good = times(runs, bar)
        rows.append(Row(what, measured, f"≤ {bar} ×", good))
    rows.insert(4, Row("quiet check, memory", f"{calm.rss:.0f} MB", "≤ 30 MB", calm.rss <= 30))
    growth = on_long.middle / on_short.middle
    rows.append(
        Row(f"… against the same on 10 MB ({on_short})", f"{growth:.2f} ×", "≤ 1.15 ×", growth <= 1.15)
    )
    return rows


def full_scan(clock: Clock, work: Path, tool: str, big: int, rounds: int, seed: int) -> list[Row]:
    """A replay of everything against ripgrep, and from a short log to a long one."""
    wanted = peers.patterns(load_rules())
    group: dict[str, Runs] = {}
    sizes: dict[str, int] = {}
    rows: list[Row] = []
    for size in (10 * MB, big):
        folder = work / f"scan{size // MB}"
        expected = generate(folder, size, seed)
        sizes[f"replay {size // MB} MB"] = sum(path.stat().st_size for path in folder.iterdir())
        command = [tool, "replay", str(folder), "--json", "--config", str(work / "config")]
        rows.append(_verdict(command, expected, size))
        group[f"replay {size // MB} MB"] = Runs(command)
    rg = Runs([*peers.PEERS[0].command(work, folder / "agent.log", wanted), str(folder / "gateway.log")])
    if not peers.PEERS[0].missing:
        group["ripgrep"] = rg
    clock.interleaved(group, rounds)
    (small, short), (large, long) = [(sizes[name], runs) for name, runs in group.items() if name != "ripgrep"]
    if rg.cpu:
        ratio = long.middle / rg.middle
        rows.append(
            Row(
                f"replay of {big // MB} MB ({long}) against ripgrep ({rg})",
                f"{ratio:.1f} ×",
                "≤ 3.5 ×",
                ratio <= 3.5,
            )
        )
    # What starting costs is the same for both; speed is what each further megabyte costs.
    speeds = small / MB / short.middle, large / MB / long.middle
    rows.append(
        Row(
            f"speed, 10 MB → {big // MB} MB",
            f"{speeds[0]:.0f} → {speeds[1]:.0f} MB/s",
            "not more than 20 % slower",
            speeds[1] >= 0.8 * speeds[0],
        )
    )
    rows.append(
        Row(
            f"memory, 10 MB → {big // MB} MB",
            f"{short.rss:.0f} → {long.rss:.0f} MB",
            "≤ +10 MB",
            long.rss <= short.rss + 10,
        )
    )
    return rows


def _verdict(command: list[str], expected: list, size: int) -> Row:  # type: ignore[type-arg]
    told = json.loads(
        subprocess.run(command, env={**os.environ, "TZ": "UTC"}, capture_output=True, check=False).stdout
    )
    found = Counter((one["rule"], one["key"]) for one in told["incidents"])
    missed, extra = (
        Counter(one.name for one in expected) - found,
        found - Counter(one.name for one in expected),
    )
    text = f"{found.total()} of {len(expected)}, {extra.total()} extra"
    return Row(f"incidents found in {size // MB} MB", text, "all, none extra", not missed and not extra)


def against_peers(clock: Clock, work: Path, tool: str, size: int, rounds: int, seed: int) -> list[Row]:
    """Those that watch logs for a living, on a log short enough to wait for."""
    folder = work / "peers"
    generate(folder, size, seed)
    one = folder / "both.log"
    one.write_bytes((folder / "gateway.log").read_bytes() + (folder / "agent.log").read_bytes())
    wanted = peers.patterns(load_rules())
    group = {"replay": Runs([tool, "replay", str(folder), "--json", "--config", str(work / "config")])}
    rows = []
    bars = {"SEC": 20, "fail2ban-regex": 20, "swatchdog": 5, "mtail": 5, "Monit": 5}
    present = []
    for peer in peers.PEERS[1:]:
        if peer.missing:
            rows.append(Row(peer.name, f"skipped: {peer.missing}", f"≥ {bars[peer.name]} ×", None))
            continue
        place_of = folder / peer.program
        place_of.mkdir()
        command = peer.command(place_of, one, wanted)
        prepare = (lambda peer=peer, place_of=place_of: peer.prepare(place_of, one)) if peer.prepare else None
        group[peer.name] = Runs(command, prepare)
        present.append(peer)
    clock.interleaved(group, rounds)
    for peer in present:
        ratio = group[peer.name].middle / group["replay"].middle
        bar = bars[peer.name]
        rows.append(
            Row(
                f"{peer.name} {peers.version(peer)} ({group[peer.name]}; {peer.note})",
                f"we are {ratio:.0f} × faster",
                f"≥ {bar} ×",
                ratio >= bar,
            )
        )
    return rows


def many_rules(clock: Clock, work: Path, tool: str, size: int, rounds: int) -> list[Row]:
    """From 25 to 1000 rules."""
    folder = work / "scan-rules"
    generate(folder, size)
    shipped = len(load_rules().rules)
    group = {}
    for count in (25, 1000):
        config = place.more_rules(work / f"rules{count}", count - shipped)
        group[f"{count} rules"] = Runs([tool, "replay", str(folder), "--json", "--config", str(config)])
    few, many = clock.interleaved(group, rounds).values()
    ratio = many.middle / few.middle
    return [
        Row(f"25 → 1000 rules on {size // MB} MB ({few} → {many})", f"{ratio:.1f} ×", "≤ 5 ×", ratio <= 5)
    ]


def databases(work: Path) -> list[Row]:
    """What one look at one database costs inside a check."""
    import time

    from watchdog.sqlite.inspect import look

    path = work / "quiet" / "state.db"
    look(path)
    taken = []
    for _ in range(50):
        before = time.process_time()
        look(path)
        taken.append(time.process_time() - before)
    return [
        Row("`db check` of one database, not deep", _span(median(taken)), "≤ 5 ms", median(taken) <= 0.005)
    ]


def write(rows: list[Row], rounds: int, load_before: float) -> None:
    present = ", ".join(f"{peer.name} {peers.version(peer)}" for peer in peers.PEERS if not peer.missing)
    lines = [
        BEGIN,
        f"Measured {datetime.now(UTC):%Y-%m-%d %H:%M} UTC by `bench/run.py`: hermes-watchdog {__version__}, Python {platform.python_version()}, "
        f"{platform.machine()}, {os.cpu_count()} cores, load {load_before:.1f} before and {os.getloadavg()[0]:.1f} after; {rounds} rounds, median (least – most).",
        f"Peers: {present}.",
        "",
        "| what | measured | bar | |",
        "| --- | --- | --- | --- |",
        *(
            f"| {row.what} | {row.measured} | {row.bar} | {'' if row.good is None else '✓' if row.good else 'missed'} |"
            for row in rows
        ),
        END,
    ]
    page = PAGE.read_text() if PAGE.exists() else f"# Performance\n\n{BEGIN}\n{END}\n"
    PAGE.write_text(
        re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: "\n".join(lines), page, flags=re.DOTALL)
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true", help="small logs and few rounds, under a minute; writes nothing"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--only", choices=("small", "scan", "peers", "rules", "databases"))
    args = parser.parse_args()
    rounds = args.rounds or (3 if args.quick else 7)
    big, middle = (40 * MB, 2 * MB) if args.quick else (1000 * MB, 20 * MB)
    load_before = os.getloadavg()[0]
    peers.install()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="watchdog-bench-") as name:
        work = Path(name)
        python, tool = place.install(work / "installed")
        clock = Clock()
        (work / "config").mkdir()
        parts = {
            "small": lambda: small_commands(clock, work, python, tool, big, rounds * 3),
            "scan": lambda: full_scan(clock, work, tool, big, rounds, args.seed),
            "peers": lambda: against_peers(clock, work, tool, middle, 1 if args.quick else 5, args.seed),
            "rules": lambda: many_rules(clock, work, tool, 100 * MB if not args.quick else 20 * MB, rounds),
            "databases": lambda: databases(work),
        }
        for part, measure in parts.items():
            if args.only in (None, part) or (part == "small" and args.only == "databases"):
                print(part, flush=True)
                rows += measure()
    for row in rows:
        print(
            f"{'      ' if row.good is None else 'ok    ' if row.good else 'MISSED'}  {row.what}: {row.measured}  [{row.bar}]"
        )
    if not args.quick and not args.only:
        write(rows, rounds, load_before)
    return 0 if all(row.good is not False for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
