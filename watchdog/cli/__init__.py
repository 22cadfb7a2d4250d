"""The command line: arguments in, exit code out."""

from watchdog.cli.main import entry, main
