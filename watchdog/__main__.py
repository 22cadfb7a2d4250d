"""python -m watchdog"""

from watchdog.cli import entry

entry()
