"""The fuzzer's targets hold for the inputs that it begins with; without atheris, so that they cannot rot unseen."""

from __future__ import annotations

import importlib.util
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest


@pytest.fixture(scope="module")
def fuzz():
    path = Path(__file__).with_name("fuzz.py")
    spec = importlib.util.spec_from_file_location("fuzz", path)
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get("atheris")
    sys.modules["atheris"] = SimpleNamespace(instrument_imports=lambda include: nullcontext())
    try:
        spec.loader.exec_module(module)
    finally:
        sys.modules.pop("atheris") if before is None else sys.modules.update(atheris=before)
    return module


@pytest.mark.parametrize(
    "name",
    ["records", "rules", "settings", "sqlite", "salvage", "text", "crontab", "files", "notes", "journald"],
)
def test_a_target_holds_for_what_it_begins_with(fuzz, name):
    for seed in fuzz.seeds(name)[:12]:
        fuzz.TARGETS[name](seed)
