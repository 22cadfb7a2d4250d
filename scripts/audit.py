#!/usr/bin/env python3
"""Ask pip-audit for known vulnerabilities of what the package needs.

Exit code 0: none known · 1: some are, they are listed · 3: the database could not be asked, nothing is known.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 300  # seconds


def main() -> int:
    command = [
        sys.executable,
        "-m",
        "pip_audit",
        "--requirement",
        "requirements/install.txt",
        "--disable-pip",
    ]
    command += ["--format", "json", "--progress-spinner", "off", "--timeout", "15"]
    try:
        ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LIMIT)
        answer = json.loads(ran.stdout)
    except subprocess.TimeoutExpired:
        return unknown(f"no answer within {LIMIT} seconds")
    except ValueError:
        return unknown((ran.stderr.strip().splitlines() or ["no answer"])[-1])
    packages = answer["dependencies"]
    if skipped := [package["skip_reason"] for package in packages if "skip_reason" in package]:
        return unknown(f"{len(skipped)} of {len(packages)} packages: {skipped[0]}")
    known = [(package, fault) for package in packages for fault in package["vulns"]]
    for package, fault in known:
        fixed = ", ".join(fault["fix_versions"]) or "no version yet"
        print(f"{package['name']} {package['version']}: {fault['id']}, fixed in {fixed}")
    print(f"{len(packages)} packages, {len(known)} known vulnerabilities")
    return 1 if known else 0


def unknown(reason: str) -> int:
    print(
        f"NOT AUDITED: the database of vulnerabilities could not be asked ({reason[:200]}).", file=sys.stderr
    )
    print(
        "This says nothing about the packages. Run `make audit` where the internet can be reached.",
        file=sys.stderr,
    )
    return 3


if __name__ == "__main__":
    sys.exit(main())
