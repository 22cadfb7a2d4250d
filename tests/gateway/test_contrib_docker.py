"""The files for a NAS: what they promise is in them. The lab builds and runs the image."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "contrib/docker"
SERVICE = yaml.safe_load((DOCKER / "compose.yaml").read_text())["services"]["hermes-watchdog"]


def test_the_container_beside_hermes_has_no_socket_no_root_and_no_capability() -> None:
    assert not any("docker.sock" in volume for volume in SERVICE["volumes"])
    assert SERVICE["user"] == "${HERMES_UID:-10000}:${HERMES_GID:-10000}"
    assert SERVICE["cap_drop"] == ["ALL"] and "no-new-privileges:true" in SERVICE["security_opt"]
    assert (
        SERVICE["read_only"] is True
        and SERVICE["tmpfs"] == ["/tmp"]
        and SERVICE["pid"] == "${PID_MODE:-host}"
    )
    assert "USER 10000:10000" in (DOCKER / "Dockerfile").read_text()


def test_the_image_gets_everything_that_the_wheel_is_built_from() -> None:
    copied = " ".join(re.findall(r"(?m)^COPY (.*) \S+$", (DOCKER / "Dockerfile").read_text())).split()
    needed = [
        "pyproject.toml",
        "setup.py",
        "README.md",
        "LICENSE",
        "watchdog",
        "rules",
        "requirements/install.txt",
    ]
    assert set(needed) <= set(copied)
    let_through = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"}
    assert set(needed) <= let_through and "contrib/docker" in let_through


def test_the_source_that_people_download_holds_these_files() -> None:
    manifest = (ROOT / "MANIFEST.in").read_text()
    assert "recursive-include contrib/docker *" in manifest and "include .dockerignore" in manifest
