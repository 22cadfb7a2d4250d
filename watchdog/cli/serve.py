"""serve: the status page, live, on this machine, and answers to plans."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import Any

from watchdog import web
from watchdog.cli.context import WELL, Job, job_of, need_home
from watchdog.cli.parser import add_command, add_common
from watchdog.errors import WatchdogError
from watchdog.web.listen import DEFAULT, listening

EXAMPLES = """\
Only on this machine: on loopback, or on a Unix socket for you alone. From elsewhere you come by ssh or tailscale. Looking
needs no login; answering a plan needs its code from the message, or from 'plan ID --code'. Ctrl-C ends it.

examples:
  hermes-watchdog serve                                      http://127.0.0.1:8790/
  ssh -L 8790:127.0.0.1:8790 server                          then the same address on your own machine
  hermes-watchdog serve --host server.tail1234.ts.net        after: tailscale serve 8790
  hermes-watchdog serve --socket ~/hermes.sock               for a reverse proxy on this machine
  hermes-watchdog serve --listen 0.0.0.0:8790 --login-header Remote-User --host hermes.example.org"""


def add_arguments(commands: Any) -> None:
    serve = add_command(commands, "serve", run, EXAMPLES)
    place = serve.add_mutually_exclusive_group()
    place.add_argument(
        "--listen", default=DEFAULT, metavar="ADDRESS", help=f"where to listen (default {DEFAULT})"
    )
    place.add_argument(
        "--socket", default="", metavar="PATH", help="listen on a Unix socket instead, mode 0600"
    )
    serve.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="a further name that browsers may use for it",
    )
    serve.add_argument(
        "--login-header",
        default="",
        metavar="HEADER",
        help="the header in which your reverse proxy says who logged in; who comes without it is refused",
    )
    add_common(serve, json=False)


def run(args: argparse.Namespace) -> int:
    need_home(job_of(args).home)
    if unspecified := [name for name in args.host if name in ("0.0.0.0", "::", "*")]:
        raise WatchdogError(
            f"--host {unspecified[0]} is no name that a browser uses; where to listen is --listen {unspecified[0]}:8790"
        )

    def load(now: datetime) -> Job:
        return job_of(args, now)

    with listening(args.listen, args.socket, bool(args.login_header)) as (listener, address):
        try:
            view, door = web.View(load), web.Door(tuple(args.host), args.login_header)
            serve = web.serve
        except ModuleNotFoundError as error:
            raise WatchdogError(
                f"{error.name} is not installed; run: pipx install --force 'hermes-watchdog[web]' (or: uv tool install 'hermes-watchdog[web]')"
            ) from None
        print(f"{view.job()[0].home}: the page is at {address}", flush=True)
        serve(view, door, listener)
    return WELL
