"""What the user and the package configure: rules, recipes, log lines and settings, read from YAML."""

from watchdog.values import TYPE_CHECKING, lazy

if TYPE_CHECKING:
    from watchdog.config.fleet_settings import read_fleet
    from watchdog.config.recipes import check_recipes, read_recipe
    from watchdog.config.triggers import cron_trigger

__all__ = ["check_recipes", "cron_trigger", "read_fleet", "read_recipe"]

# Loaded on first use: a quiet check has its rules in a cache, most hosts have no fleet, and most rules no cron expression.
__getattr__ = lazy(
    __name__,
    fleet_settings=("read_fleet",),
    recipes=("check_recipes", "read_recipe"),
    triggers=("cron_trigger",),
)
