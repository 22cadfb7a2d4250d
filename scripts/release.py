#!/usr/bin/env python3
"""Build what is published: sdist, wheel, a bill of materials and their checksums.

    python scripts/release.py FOLDER

Runs in the environment of requirements/tools.txt (`make release`). The same commit gives the same bytes: every
time stamp is the commit's (SOURCE_DATE_EPOCH), the build tools are pinned in constraints.txt, and everything is
built twice and compared. The wheel is built from the sdist, so that the sdist is known to be complete.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SBOM = "hermes-watchdog.cdx.json"


def epoch() -> int:
    """The time of the commit, or SOURCE_DATE_EPOCH where there is no checkout."""
    if told := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(told)
    asked = subprocess.run(
        ["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if asked.returncode:
        sys.exit("not a git checkout: set SOURCE_DATE_EPOCH to the time of the release, in seconds")
    return int(asked.stdout)


def build(source: Path, folder: Path, kind: str, at: int) -> Path:
    """One distribution of the given kind (`sdist` or `wheel`), made without asking any server."""
    command = [sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", folder, source]
    environment = os.environ | {"SOURCE_DATE_EPOCH": str(at)}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if ran.returncode:
        sys.exit(f"{ran.stdout}{ran.stderr}\nthe {kind} could not be built")
    return next(folder.glob("*.tar.gz" if kind == "sdist" else "*.whl"))


def repack(sdist: Path, at: int) -> None:
    """Write the sdist anew with sorted names, the time of the commit, and no owner: setuptools keeps both."""
    packed = io.BytesIO()
    with (
        tarfile.open(sdist) as old,
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=at, filename="") as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = at, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    sdist.write_bytes(packed.getvalue())


def distributions(folder: Path, at: int) -> list[Path]:
    """sdist and wheel of a clean copy of what git knows of this checkout."""
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as place:
        source = Path(place, "source")
        copy_checkout(source)
        sdist = build(source, folder, "sdist", at)
        repack(sdist, at)
        with tarfile.open(sdist) as archive:
            archive.extractall(Path(place, "unpacked"), filter="data")
        unpacked = next(Path(place, "unpacked").iterdir())
        for path in unpacked.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        return [sdist, build(unpacked, folder, "wheel", at)]


def copy_checkout(target: Path) -> None:
    """What git tracks, as it is in the working tree: no build folder, no editor's file reaches a release."""
    for name in tracked():
        source, copy = ROOT / name, target / name
        if name.startswith(("tests/", "samples/", "bench/")) or not os.path.lexists(source):
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, copy, follow_symlinks=False)


def tracked() -> list[str]:
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    return list(filter(None, names.decode().split("\0")))


def wanted() -> set[str]:
    """What the wheel must hold: every file of the package, and every rule file as watchdog/shipped."""
    package = {name for name in tracked() if name.startswith("watchdog/")}
    rules = {
        f"watchdog/shipped/{name.removeprefix('rules/')}" for name in tracked() if name.startswith("rules/")
    }
    return package | rules


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def bill_of_materials(path: Path) -> None:
    """CycloneDX: the package, and each requirement with version and hashes."""
    command = [Path(sys.executable).parent / "cyclonedx-py", "requirements", "requirements/install.txt"]
    command += [
        "--pyproject",
        "pyproject.toml",
        "--mc-type",
        "application",
        "--output-reproducible",
        "-o",
        path,
    ]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main(folder: Path) -> int:
    at = epoch()
    shutil.rmtree(folder, ignore_errors=True)
    made = distributions(folder, at)
    with tempfile.TemporaryDirectory() as place:
        for first, second in zip(made, distributions(Path(place, "again"), at), strict=True):
            if digest(first) != digest(second):
                sys.exit(f"{first.name} differs when it is built a second time")
    if missing := sorted(wanted() - set(zipfile.ZipFile(made[1]).namelist())):
        sys.exit(f"{made[1].name} lacks {', '.join(missing)}; see package-data in pyproject.toml")
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *made], check=True)
    bill_of_materials(folder / SBOM)
    made.append(folder / SBOM)
    sums = "".join(f"{digest(path)}  {path.name}\n" for path in made)
    (folder / "SHA256SUMS").write_text(sums, "ascii")
    print(sums, end="")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: release.py FOLDER")
    sys.exit(main(Path(sys.argv[1])))
