"""Our paths are pathlib's, only lighter."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import sysconfig

import pytest

from bench import place
from watchdog.paths import Path

TEXTS = ["/", "/a", "/a/b.txt", "a/b", ".", "", "./a", "a//b/", "/a/./b", "/home/x/.hermes", "a/.", "/a/b.tar.gz", ".hidden"]


@pytest.mark.parametrize("text", TEXTS)
def test_a_path_is_what_pathlib_makes_of_the_same_text(text):
    ours, theirs = Path(text), pathlib.Path(text)
    assert str(ours) == str(theirs) and os.fspath(ours) == os.fspath(theirs)
    assert ours == theirs and theirs == ours and hash(ours) == hash(theirs)
    assert (ours.name, ours.suffix, str(ours.parent)) == (theirs.name, theirs.suffix, str(theirs.parent))
    assert str(ours / "c") == str(theirs / "c") and repr(ours) == repr(theirs)


def test_paths_sort_as_pathlib_sorts_them():
    ours, theirs = sorted(map(Path, TEXTS)), sorted(map(pathlib.Path, TEXTS))
    assert [str(one) for one in ours if str(one).startswith("/")] == [str(one) for one in theirs if str(one).startswith("/")]


def test_what_is_not_here_is_pathlibs(tmp_path):
    (tmp_path / "x.txt").write_text("hello")
    ours = Path(tmp_path)
    assert [one.name for one in ours.glob("*.txt")] == ["x.txt"]
    assert (ours / "x.txt").read_text() == "hello"
    assert (ours / "x.txt").relative_to(ours) == pathlib.Path("x.txt")
    assert not (ours / "y").exists() and ours.is_dir() and (ours / "x.txt").is_file()
    (ours / "a" / "b").mkdir(parents=True)
    with pytest.raises(FileExistsError):
        (ours / "a").mkdir()
    with pytest.raises(AttributeError):
        _ = ours.nonsense


@pytest.mark.parametrize("module", ["pathlib", "threading", "yaml", "regex", "apprise", "sh", "sqlite_utils", "apscheduler", "argparse", "dataclasses", "typing", "re", "json", "enum"])
def test_a_check_that_finds_nothing_loads_nothing_heavy(tmp_path, module):
    home = place.home(tmp_path / "home", 100_000, 50_000)
    words = ["check", "--quiet", "--home", str(home), "--state", str(tmp_path / "state"), "--config", str(tmp_path)]
    script = f"import sys\nfrom watchdog.cli import main\nmain({words!r})\nprint('{module}' in sys.modules)"
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": f"{pathlib.Path(__file__).parent.parent}:{sysconfig.get_paths()['purelib']}"}
    for _ in range(2):  # the first may have to read the rules
        done = subprocess.run([sys.executable, "-S", "-c", script], env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["False"]), done.stderr
