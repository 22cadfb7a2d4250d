"""The question in a real Matrix room, the answer by another account, the outcome in the room."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from pathlib import Path

from . import parts, person
from .conftest import needs
from .waiting import until

PORT = 8008


class Synapse:
    """A real homeserver in the outside world, with two accounts and a room."""

    def __init__(self, world) -> None:
        self.world = world
        self.folder = world.folder / "synapse"
        self.folder.mkdir()
        self.python = parts.venv("synapse") / "bin/python"
        subprocess.run(
            [
                self.python,
                "-m",
                "synapse.app.homeserver",
                "--server-name",
                "lab.test",
                "--config-path",
                "hs.yaml",
                "--generate-config",
                "--report-stats=no",
                "--data-directory",
                self.folder,
            ],
            cwd=self.folder,
            check=True,
            capture_output=True,
            timeout=150,
        )
        (self.folder / "more.yaml").write_text(
            "rc_login: {address: {per_second: 1000, burst_count: 1000}, account: {per_second: 1000, burst_count: 1000}}\n"
            "rc_message: {per_second: 1000, burst_count: 1000}\ntrusted_key_servers: []\n"
        )
        world.start(
            str(self.python),
            "-m",
            "synapse.app.homeserver",
            "-c",
            str(self.folder / "hs.yaml"),
            "-c",
            str(self.folder / "more.yaml"),
            env={"PATH": "/usr/bin:/bin", "HOME": str(self.folder)},
        )
        until(lambda: self.call("GET", "/_matrix/client/versions"), "Synapse answers", within=150, every=0.5)
        for name in ("wd", "anna", "eve"):
            self.inside(
                str(self.python.parent / "register_new_matrix_user"),
                "-u",
                name,
                "-p",
                "lab-password",
                "--no-admin",
                "-c",
                str(self.folder / "hs.yaml"),
                f"http://127.0.0.1:{PORT}",
            )
        self.tokens = {
            name: self.call(
                "POST",
                "/_matrix/client/v3/login",
                {
                    "type": "m.login.password",
                    "identifier": {"type": "m.id.user", "user": name},
                    "password": "lab-password",
                },
            )["access_token"]
            for name in ("wd", "anna", "eve")
        }
        self.room = self.call(
            "POST",
            "/_matrix/client/v3/createRoom",
            {"preset": "public_chat", "room_alias_name": "ops"},
            "anna",
        )["room_id"]
        for name in ("wd", "eve"):
            self.call("POST", f"/_matrix/client/v3/join/{self.room}", {}, name)

    def inside(self, *command: str) -> str:
        done = subprocess.run(
            ["nsenter", "-t", str(self.world.pid), "-n", *command],
            capture_output=True,
            text=True,
            timeout=150,
        )
        return done.stdout

    def call(self, method: str, path: str, body: dict | None = None, who: str = "") -> dict:
        headers = ["-H", f"Authorization: Bearer {self.tokens[who]}"] if who else []
        data = ["--json", json.dumps(body)] if body is not None else []
        text = self.inside(
            "curl", "-sS", "-m", "20", "-X", method, *headers, *data, f"http://127.0.0.1:{PORT}{path}"
        )
        return json.loads(text or "{}")

    def messages(self) -> list[tuple[str, str]]:
        found = self.call("GET", f"/_matrix/client/v3/rooms/{self.room}/messages?dir=b&limit=100", who="anna")
        return [
            (event["sender"], event["content"].get("body", ""))
            for event in reversed(found.get("chunk", []))
            if event["type"] == "m.room.message"
        ]

    def say(self, who: str, text: str) -> None:
        number = len(self.messages())
        self.call(
            "PUT",
            f"/_matrix/client/v3/rooms/{self.room}/send/m.room.message/t{number}-{who}",
            {"msgtype": "m.text", "body": text},
            who,
        )


def test_a_question_is_answered_by_the_right_person_in_a_matrix_room(lab):
    needs("synapse")
    it = lab("0.19.0", settings=person.SETTINGS, hurry=("session-stuck",))
    it.gateway.start_and_answer()
    matrix = Synapse(it.world)
    secret = Path(it.watchdog.config / "matrix-token")
    secret.write_text(matrix.tokens["wd"])
    secret.chmod(0o600)
    (it.watchdog.config / "settings.yaml").write_text(
        person.SETTINGS
        + f"""
replies:
  wait: 90s
  channels:
    - matrix: {{server: 'http://127.0.0.1:{PORT}', room: '#ops:lab.test', token_file: '{secret}',
               approvers: [{{name: anna, id: '@anna:lab.test'}}]}}
"""
    )
    it.world.do("llm", "behave", match="never answer", do="hang", times=1)
    it.gateway.tell("please never answer")
    it.watchdog.until_found("session-stuck")
    pid = it.gateway.pid
    done: dict = {}
    checking = threading.Thread(target=lambda: done.update(text=it.watchdog("check").text))
    checking.start()
    code = until(
        lambda: next(
            (
                found[1]
                for who, text in matrix.messages()
                if who == "@wd:lab.test" and (found := re.search(r"approve ([A-Z2-9]{8})", text))
            ),
            None,
        ),
        "the question in the room",
        within=150,
        every=0.5,
    )
    matrix.say("eve", f"approve {code}")  # she read it in the room, but may not answer
    matrix.say("anna", f"approve {code}")
    checking.join(200)
    assert it.gateway.pid != pid, done
    it.gateway.answers("are you back?")
    room = "\n".join(text for who, text in matrix.messages() if who == "@wd:lab.test")
    assert "anna" in room, room
    audit = it.watchdog("audit").text
    assert "approved plan 1 by anna via Matrix" in audit and "by eve" not in audit, audit
    person.is_quiet(it)
