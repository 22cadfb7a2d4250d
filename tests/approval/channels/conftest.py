"""The servers and people of the tests about answers: one phone per channel, all with the same face."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from phones import PHONES
from talk import running

from watchdog.approval import record as approval
from watchdog.store import Store


@pytest.fixture(params=sorted(PHONES))
def phone(request: pytest.FixtureRequest) -> Iterator[Any]:
    made = PHONES[request.param]
    with running(made.server()) as server:
        yield made(server)


@pytest.fixture(autouse=True)
def quick_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash of a code is slow on purpose; that it is, is tested beside the record."""
    slow = approval.hashlib.scrypt
    monkeypatch.setattr(approval.hashlib, "scrypt", lambda code, **more: slow(code, **{**more, "n": 16}))


@pytest.fixture
def store() -> Iterator[Store]:
    with Store.in_memory() as store:
        yield store
