from __future__ import annotations

from datetime import timedelta

import pytest

from watchdog.config.read_settings import load_settings
from watchdog.errors import ConfigError


def test_the_history_may_be_kept_for_years(tmp_path):
    (tmp_path / "settings.yaml").write_text("keep_history: 800d\n")
    assert load_settings(tmp_path).keep_history == timedelta(days=800)


def test_the_history_is_kept_long_enough_for_the_budgets_of_a_month(tmp_path):
    (tmp_path / "settings.yaml").write_text("keep_history: 10d\n")
    with pytest.raises(ConfigError, match="from 35d to 36500d"):
        load_settings(tmp_path)
