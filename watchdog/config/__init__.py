"""What the user and the package configure: rules, recipes, log lines and settings, read from YAML."""

from watchdog.later import lazy
from watchdog.values import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.config.fleet_settings import read_fleet
    from watchdog.config.lines import near, read_levels, read_sources
    from watchdog.config.literals import study
    from watchdog.config.read_settings import load_settings
    from watchdog.config.recipes import check_recipes, read_recipe
    from watchdog.config.rules import load, shipped_vocabulary
    from watchdog.config.schedule import due, every_problem
    from watchdog.config.triggers import cron_trigger

# Loaded on first use: a quiet check has its rules and settings in a cache and reads no file of them.
__getattr__ = lazy(
    __name__,
    fleet_settings=("read_fleet",),
    lines=("near", "read_levels", "read_sources"),
    literals=("study",),
    read_settings=("load_settings",),
    recipes=("check_recipes", "read_recipe"),
    rules=("load", "shipped_vocabulary"),
    schedule=("due", "every_problem"),
    triggers=("cron_trigger",),
)
