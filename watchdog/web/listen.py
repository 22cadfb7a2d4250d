"""Where the server listens: a Unix socket or loopback; anything else only behind a login that is stated."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from watchdog.errors import WatchdogError
from watchdog.system.lock import take

DEFAULT = "127.0.0.1:8790"
BACKLOG = 64


def parse_address(text: str, login: bool) -> tuple[str, int]:
    """(host, port) of '127.0.0.1:8790', '[::1]:8790' or '8790'; WatchdogError for one that others can reach."""
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or "127.0.0.1"
    if not port.isdecimal() or not 0 <= int(port) < 65536:
        raise WatchdogError(f"'{text}' is not an address; write {DEFAULT} or [::1]:8790")
    if host == "localhost":
        host = "127.0.0.1"
    try:
        loopback = ipaddress.ip_address(host).is_loopback
    except ValueError:
        raise WatchdogError(f"'{host}' is not an IP address; write {DEFAULT}") from None
    if not loopback and not login:
        raise WatchdogError(
            f"{host} can be reached by others, and this server has no login of its own. Listen on {DEFAULT} and come "
            "by ssh -L or tailscale serve; or put a reverse proxy with a login in front, and name the header in which "
            "it says who is there: --login-header Remote-User"
        )
    return host, int(port)


@contextmanager
def listening(address: str, path: str, login: bool) -> Iterator[tuple[socket.socket, str]]:
    """A socket that listens, and its address for people."""
    if path:
        with _on_path(Path(os.path.abspath(os.path.expanduser(path)))) as server:
            yield server, path
        return
    host, port = parse_address(address, login)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with closing(socket.socket(family, socket.SOCK_STREAM)) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            server.bind((host, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise WatchdogError(
                    f"{host}:{port} is taken by another program; give another: --listen {host}:{port + 1}"
                ) from None
            raise WatchdogError(f"cannot listen on {host}:{port}: {error.strerror}") from None
        server.listen(BACKLOG)
        shown = f"[{host}]" if ":" in host else host
        yield server, f"http://{shown}:{server.getsockname()[1]}/"


@contextmanager
def _on_path(path: Path) -> Iterator[socket.socket]:
    """A Unix socket for its owner alone. A lock beside it distinguishes a running server from a name left behind."""
    lock = path.with_name(f".{path.name}.lock")
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise WatchdogError(f"cannot write {lock}: {error.strerror}") from None
    try:
        if not take(fd):
            raise WatchdogError(f"another server listens on {path}; give another path with --socket")
        with suppress(FileNotFoundError):
            if not stat.S_ISSOCK(os.lstat(path).st_mode):
                raise WatchdogError(f"{path} is there and is no socket; give another path with --socket")
            os.unlink(path)
        with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as server:
            before = os.umask(0o177)
            try:
                server.bind(str(path))
            except OSError as error:
                raise WatchdogError(f"cannot listen on {path}: {error.strerror or error}") from None
            finally:
                os.umask(before)
            server.listen(BACKLOG)
            try:
                yield server
            finally:
                with suppress(OSError):
                    os.unlink(path)
    finally:
        os.close(fd)
