"""Memory and open files of the gateway: by the tightest limit above it, and by nothing that it could lie about."""

from __future__ import annotations

import os
from datetime import timedelta

import pytest
from homes import NOW

from watchdog.gateway.containers import killed_for_memory
from watchdog.model import Measurement
from watchdog.pipeline import look
from watchdog.sources import read, resources
from watchdog.sources.read import Sources
from watchdog.system.commands import Ran


@pytest.fixture
def machine(tmp_path):
    """A made-up /proc and cgroup file system with process 4 in a unit of two gigabytes."""
    proc, groups = tmp_path / "proc", tmp_path / "cgroup"
    unit = groups / "system.slice" / "hermes.service"
    unit.mkdir(parents=True)
    (proc / "4" / "fd").mkdir(parents=True)
    (proc / "4" / "status").write_text("Name:\tVmRSS: 9 kB\nVmRSS:\t  500000 kB\nVmSwap:\t 1000 kB\n")
    (proc / "4" / "cgroup").write_text("0::/system.slice/hermes.service\n")
    (proc / "4" / "limits").write_text(
        "Limit  Soft  Hard\nMax open files            1024                 524288               files\n"
    )
    (proc / "meminfo").write_text("MemTotal:  8000000 kB\nMemAvailable:  6000000 kB\n")
    (unit / "memory.max").write_text("2000000000\n")
    (unit / "memory.current").write_text("1900000000\n")
    (unit / "memory.stat").write_text("anon 1\nfile 600000000\nshmem 100000000\n")
    (unit / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    (unit.parent / "memory.max").write_text("max\n")
    return str(proc), str(groups)


def test_the_tightest_limit_counts_and_what_is_only_cached_is_free(machine):
    found = resources.measure_memory(4, *machine)
    assert (found["limit"], found["used"], found["limit_of"]) == (
        2_000_000_000,
        1_400_000_000,
        "hermes.service",
    )
    assert (found["rss"], found["oom_kills"], found["pid"]) == (501_000 * 1024, 2, "4")


def test_the_old_control_groups_limit_and_count_too(machine):
    proc, groups = machine
    both = "12:pids:/x\n4:memory:/docker/abc\n0::/system.slice/hermes.service\n"
    with open(f"{proc}/4/cgroup", "w") as file:
        file.write(both)
    folder = f"{groups}/memory/docker/abc"
    os.makedirs(folder)
    for name, text in {
        "memory.limit_in_bytes": "700000000\n",
        "memory.usage_in_bytes": "650000000\n",
        "memory.stat": "cache 1\ntotal_cache 60000000\ntotal_shmem 10000000\n",
        "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    }.items():
        with open(f"{folder}/{name}", "w") as file:
            file.write(text)
    found = resources.measure_memory(4, proc, groups)
    assert (found["limit"], found["used"], found["oom_kills"]) == (700_000_000, 600_000_000, 1)
    past = [Measurement(NOW, found)]
    assert resources.after_death(past, groups)["oom_kills"] == 1


def test_without_a_limit_of_its_own_the_machine_is_the_limit(machine):
    proc, groups = machine
    os.unlink(f"{groups}/system.slice/hermes.service/memory.max")
    assert resources.measure_memory(4, proc, groups)["limit_of"] == "this machine"


def test_a_process_that_is_gone_or_a_group_that_leads_elsewhere_tells_nothing(machine):
    proc, groups = machine
    assert resources.measure_memory(5, proc, groups) == {} and resources.measure_files(5, proc) == {}
    assert resources.oom_kills("/../../etc", groups) is None and resources.oom_kills("/gone", groups) is None


def test_open_files_are_counted_against_the_soft_limit(machine):
    proc, _ = machine
    for number in range(7):
        open(f"{proc}/4/fd/{number}", "w").close()
    assert resources.measure_files(4, proc) == {"pid": "4", "fds": 7, "fd_limit": 1024}


def test_files_of_another_users_process_are_blind_and_the_log_still_counts(home, book, monkeypatch):
    folder = home("10:40:00,000 INFO gateway.run: Gateway running with 1 platform(s)")
    (folder / "gateway.lock").touch()

    def refuse(pid):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(resources, "measure_files", refuse)
    monkeypatch.setattr(read, "lock_holder", lambda path: os.getpid())
    rules = [rule for rule in book.rules if rule.id in ("too-many-open-files", "memory-pressure")]
    seen, reading = look(rules, Sources(folder), NOW - timedelta(hours=1), NOW)
    assert "permission denied" in reading.blind["open_files"] and seen.findings == ()
    assert reading.measured["rss"] > 0


def test_the_group_of_a_process_that_is_gone_still_tells_of_a_kill(machine):
    _, groups = machine
    past = [
        Measurement(NOW, {"cgroup": "/system.slice/hermes.service", "pid": "4"}),
        Measurement(NOW, {"free": 1}),
    ]
    assert resources.after_death(past, groups) == {"cgroup": "/system.slice/hermes.service", "oom_kills": 2}
    assert resources.after_death([], groups) == {}


@pytest.mark.parametrize(
    ("said", "code", "killed"), [("true\n", 0, True), ("false\n", 0, False), ("true", 1, False)]
)
def test_the_engine_is_asked_about_a_container_whose_group_is_gone(said, code, killed):
    asked = []

    def ask(words, within):
        asked.append(words)
        return Ran(code, said)

    container = "ab" * 32
    assert killed_for_memory(f"/memory/docker/{container}", ask) is killed
    assert asked == [("docker", "inspect", "--format", "{{.State.OOMKilled}}", container)]
    assert not killed_for_memory("/system.slice/hermes.service", ask) and len(asked) == 1
