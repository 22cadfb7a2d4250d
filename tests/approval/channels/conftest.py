"""The servers and people of the tests about answers: one phone per channel, all with the same face."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from phones import PHONES
from talk import running


@pytest.fixture(autouse=True)
def _quick(quick_codes: None) -> None: ...


@pytest.fixture(params=sorted(PHONES))
def phone(request: pytest.FixtureRequest) -> Iterator[Any]:
    made = PHONES[request.param]
    with running(made.server()) as server:
        yield made(server)
