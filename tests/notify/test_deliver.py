"""Sending through a real Apprise to real HTTP servers on loopback; targets that fail, hang and come back."""

from __future__ import annotations

import json
import socket
import threading
import time
from dataclasses import replace
from datetime import timedelta

import pytest
from talk import MINUTE, NOW, Server, incident, report, running, tell

from watchdog.config.settings import NotifySettings, Secret, Target
from watchdog.model import Change, Notification, Reason
from watchdog.notify import deliver as notify
from watchdog.notify import ping
from watchdog.notify.deliver import Outgoing, after, due, send, wants
from watchdog.notify.translate import in_english
from watchdog.store import Store, messages
from watchdog.store.messages import TargetState

LETTER = Outgoing(1, "title", "body_1\n    rm -rf x", "high")


def why(delivery: notify.Delivery) -> str:
    return in_english(delivery.why)


def target(url: str, name: str = "ops", **more: object) -> Target:
    return Target(name, Secret(url), **more)  # type: ignore[arg-type]


@pytest.fixture
def silent():
    """A server that accepts and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []

        def accept() -> None:
            try:
                while True:
                    held.append(server.accept()[0])
            except OSError:
                pass

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
    for one in held:
        one.close()


@pytest.fixture
def dripping():
    """A server that sends one byte at a time, for ever: no socket time-out ends that."""
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip(one: socket.socket) -> None:
            try:
                one.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while not stop.wait(0.2):
                    one.sendall(b"x")
            except OSError:
                pass
            one.close()

        def accept() -> None:
            try:
                while True:
                    threading.Thread(target=drip, args=(server.accept()[0],), daemon=True).start()
            except OSError:
                pass

        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
    stop.set()


def test_each_target_gets_the_letter_and_bad_ones_say_why(silent: int):
    with running(Server()) as good, running(Server()) as bad:
        bad.broken = lambda: (500, b"no")
        targets = {
            "good": target(f"json://127.0.0.1:{good.port}/secretpath", "good"),
            "bad": target(f"json://127.0.0.1:{bad.port}/secretpath", "bad"),
            "closed": target("json://127.0.0.1:1/secretpath", "closed"),
            "odd": target("gopher://127.0.0.1/secretpath", "odd"),
            "silent": target(
                f"json://127.0.0.1:{silent}/secretpath", "silent", time_limit=timedelta(seconds=2)
            ),
            "unset": Target(
                "unset", Secret(env="NOT_SET_ANYWHERE", where="settings.yaml:3: targets: url_env")
            ),
        }
        began = time.monotonic()
        sent = {one.target: one for one in send({one: [LETTER] for one in targets.values()})}
    assert sent["good"].ok and good.bodies[0]["title"] == "title"
    assert good.bodies[0]["message"] == "body_1\n    rm -rf x"
    assert {name: why(one) for name, one in sent.items() if not one.ok} == {
        "bad": "it answered 500",
        "closed": "the connection was refused",
        "odd": "it is not an address that Apprise knows",
        "silent": why(sent["silent"]),
        "unset": "settings.yaml:3: targets: url_env: the environment variable NOT_SET_ANYWHERE is not set",
    }
    assert why(sent["silent"]) in ("no answer within 2 s", "it did not answer in time")
    assert time.monotonic() - began < 40
    assert "secretpath" not in str(sent)


def test_a_server_that_drips_cannot_hold_a_check(dripping: int):
    one = target(f"json://127.0.0.1:{dripping}/", time_limit=timedelta(seconds=1))
    began = time.monotonic()
    (sent,) = send({one: [LETTER]})
    assert not sent.ok and why(sent) == "no answer within 1 s"
    assert time.monotonic() - began < 30


def test_a_certificate_that_nobody_signed_is_told(tmp_path):
    import ssl
    import subprocess

    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", tmp_path / "k", "-out", tmp_path / "c",
         "-days", "2", "-subj", "/CN=127.0.0.1"], capture_output=True, check=False,
    )  # fmt: skip
    if made.returncode:
        pytest.skip("no openssl")
    with running(Server()) as server:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "c", tmp_path / "k")
        server.http.socket = context.wrap_socket(server.http.socket, server_side=True)
        (sent,) = send({target(f"jsons://127.0.0.1:{server.port}/"): [LETTER]})
    assert why(sent) == "its certificate is not trusted"


def test_the_format_is_the_one_the_target_wants():
    bodies = {
        "text": "body_1\n    rm -rf x",
        "markdown": "body\\_1  \n`rm -rf x`",
        "html": "body_1<br/>\n<code>rm -rf x</code>",
    }
    with running(Server()) as server:
        send(
            {
                target(f"json://127.0.0.1:{server.port}/{form}?format={form}", form): [LETTER]
                for form in bodies
            }
        )
    assert {
        path.split("/")[1].split("?")[0]: json.loads(body)["message"] for _, path, body in server.requests
    } == bodies


def test_several_addresses_in_one_file_all_get_it(tmp_path):
    with running(Server()) as one, running(Server()) as two:
        (tmp_path / "urls").write_text(
            f"# phones\njson://127.0.0.1:{one.port}/\njson://127.0.0.1:{two.port}/\n"
        )
        (tmp_path / "urls").chmod(0o600)
        (sent,) = send({Target("ops", Secret(file=str(tmp_path / "urls"), where="x")): [LETTER]})
    assert sent.ok and len(one.bodies) == len(two.bodies) == 1


def test_a_secret_file_that_others_may_read_is_refused_with_the_command(tmp_path):
    path = tmp_path / "urls"
    path.write_text("json://x")
    path.chmod(0o640)
    (sent,) = send({Target("ops", Secret(file=str(path), where="settings.yaml:4: url_file")): [LETTER]})
    assert (
        why(sent)
        == f"settings.yaml:4: url_file: {path} holds a secret and others may open it (mode 0640); run: chmod 600 {path}"
    )


@pytest.mark.parametrize(
    ("severity", "reason", "at_least", "tags", "wanted"),
    [
        ("high", "first seen", "info", (), True),
        ("medium", "first seen", "high", (), False),
        ("critical", "first seen", "critical", (), True),
        ("info", "test", "critical", (), True),
        ("critical", "approval needed", "info", ("duty",), False),
        ("critical", "reminder", "info", ("duty",), True),
        ("critical", "disarmed", "info", ("duty",), True),
    ],
)
def test_who_wants_what(severity: str, reason: str, at_least: str, tags: tuple[str, ...], wanted: bool):
    settings = NotifySettings(escalate_to=("duty",))
    assert (
        wants(
            target("json://x", at_least=at_least, tags=tags), Notification(reason, "", "", severity), settings
        )
        is wanted
    )


def test_the_pause_after_failures_grows_and_ends():
    state, pauses = TargetState("ops"), []
    for _ in range(9):
        state = after(state, Reason("undelivered.status", {"status": "500"}), NOW)
        assert state.next_try_at
        pauses.append((state.next_try_at - NOW) // MINUTE)
    assert pauses == [5, 10, 20, 40, 80, 160, 320, 360, 360]
    assert not due(state, NOW) and due(state, NOW + timedelta(hours=6))
    assert after(state, None, NOW) == TargetState("ops")


# The whole way: a target fails, is reported through the other, is retried and catches up.


def test_a_failing_target_is_reported_through_the_other_and_catches_up():
    with running(Server()) as good, running(Server()) as bad, Store.in_memory() as store:
        bad.broken = lambda: (500, b"no")
        settings = NotifySettings(
            (
                target(f"json://127.0.0.1:{good.port}/", "good"),
                target(f"json://127.0.0.1:{bad.port}/", "bad"),
            ),
            host="box",
        )
        _, notes = tell(report(Change("opened", incident(recipe=None))), store, settings, NOW)
        assert notes == ("target bad: not sent: it answered 500",)
        tell(report(), store, settings, NOW + MINUTE)
        titles = [body["title"] for body in good.bodies]
        assert titles[1] == "Messages do not reach bad"
        assert len(bad.bodies) == 1, "tried again before its pause was over"
        bad.broken = None
        tell(report(), store, settings, NOW + 6 * MINUTE)
        late = bad.bodies[1:]
        assert next(body["title"] for body in late) == "No answer in 1 chat for 26 min"
        assert "it could not be sent before" in late[0]["message"]
        tell(report(), store, settings, NOW + 7 * MINUTE)
        assert "bad is receiving messages again" in good.bodies[-1]["message"]
        assert messages.owed(store, NOW) == {} and messages.targets(store) == {}


def test_what_another_process_is_sending_at_this_moment_is_not_sent_a_second_time():
    """A person types `approve` while cron's check runs: both tell, each its own news."""
    with running(Server()) as server, Store.in_memory() as store:
        settings = NotifySettings((target(f"json://127.0.0.1:{server.port}/"),), host="box")
        number = messages.record(store, Notification("first seen", "fault", "body", "high"), NOW)
        messages.owe(store, number, "ops", NOW)
        tell(report(), store, settings, NOW + timedelta(seconds=5))
        assert server.bodies == []
        tell(report(), store, settings, NOW + MINUTE)
        assert [body["title"] for body in server.bodies] == ["fault"], "whoever sent it died"


def test_many_owed_messages_become_one():
    with running(Server()) as server, Store.in_memory() as store:
        settings = NotifySettings((target(f"json://127.0.0.1:{server.port}/"),), host="box")
        for number in range(7):
            messages.owe(
                store,
                messages.record(store, Notification("first seen", f"fault {number}", "body", "high"), NOW),
                "ops",
                NOW,
            )
        tell(report(), store, settings, NOW + MINUTE)
    assert [body["title"] for body in server.bodies] == ["7 messages could not be sent before"]
    assert "• fault 6" in server.bodies[0]["message"]


# The dead man's switch.


def test_the_ping_says_start_ok_and_fail():
    with running(Server()) as server:
        settings = NotifySettings(ping=Secret(f"{server.url}/uuid"))
        assert [ping(settings, what) for what in ("start", "ok", "fail")] == ["", "", ""]
    assert [path for _, path, _ in server.requests] == ["/uuid/start", "/uuid", "/uuid/fail"]


def test_a_ping_that_fails_or_hangs_costs_little_and_leaks_nothing(dripping: int):
    with running(Server()) as server:
        server.broken = lambda: (404, b"")
        assert ping(NotifySettings(ping=Secret(f"{server.url}/uuid")), "ok") == "ping: it answered 404"
    assert (
        ping(NotifySettings(ping=Secret("http://127.0.0.1:1/uuid")), "ok")
        == "ping: it did not work (ConnectionRefusedError)"
    )
    assert (
        ping(NotifySettings(ping=Secret("ftp://x/uuid")), "ok")
        == "ping: not an address that starts with https://"
    )
    began = time.monotonic()
    slow = NotifySettings(ping=Secret(f"http://127.0.0.1:{dripping}/uuid"), ping_limit=timedelta(seconds=0.5))
    assert ping(slow, "ok") == "ping: no answer in time"
    assert time.monotonic() - began < 10
    assert ping(NotifySettings(), "ok") == ""


def test_apprise_is_not_loaded_by_the_watchdog_itself():
    import subprocess
    import sys

    code = "import sys, watchdog.notify.run, watchdog.notify.deliver; print('apprise' in sys.modules, 'yaml' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False False"


def test_nothing_is_lost_when_the_child_cannot_start():
    (sent,) = send({target("json://127.0.0.1:1/"): [LETTER]}, "/nonexistent/python")
    assert not sent.ok


def test_a_letter_is_redacted_again():
    notice = Notification("first seen", "title sk-abcdefghijklmnop", "mail anna@example.org", "high")
    assert (notify.outgoing_message(1, notice).title, notify.outgoing_message(1, notice, ["password=hunter22"]).body) == (
        "title [secret]", "mail [e-mail]\npassword=[secret]",
    )  # fmt: skip
    assert replace(notify.outgoing_message(1, notice), id=2).id == 2
