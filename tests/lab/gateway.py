"""A real Hermes gateway on a machine: its home, its unit as its own installer writes it, its logs, its chats."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from datetime import datetime, timedelta
from pathlib import Path

from . import parts
from .machine import ANN, RUNTIME, Done, Machine
from .waiting import until

UNIT = "hermes-gateway.service"
TOKEN = "1234567890:AAlabLABlabLABlabLABlabLABlabLABlab"  # 0.19.0 refuses what does not look like one
BASE_URLS = {"openai": "https://llm.lab.test/v1", "anthropic": "https://llm.lab.test/anthropic"}


class Gateway:
    def __init__(
        self,
        machine: Machine,
        version: str,
        platforms: tuple[str, ...] = ("telegram",),
        dialect: str = "openai",
        restart_after: float = 1,
        stop_timeout: float | None = None,
        config: str = "agent: {restart_drain_timeout: 5}\n",
    ) -> None:
        self.machine, self.version, self.platforms = machine, version, platforms
        self.restart_after, self.stop_timeout = restart_after, stop_timeout
        self.home = machine.user_home / ".hermes"
        self.process: subprocess.Popen | None = None
        self.home.mkdir()
        (self.home / "config.yaml").write_text(
            f"model: {{default: lab-model, provider: custom, base_url: '{BASE_URLS[dialect]}', api_key: lab-key}}\n"
            # the fakes are on loopback, which 0.20 does not let QQ reach by itself
            "security: {tirith_enabled: false, allow_lazy_installs: false, allow_private_urls: true}\n"
            # a question whether a command may run would wait for a person
            "approvals: {mode: 'off'}\n" + config
        )
        settings = {"GATEWAY_ALLOW_ALL_USERS": "true"}
        if "telegram" in platforms:
            settings |= {
                "TELEGRAM_BOT_TOKEN": TOKEN,
                "TELEGRAM_ALLOW_ALL_USERS": "true",
                "HERMES_TELEGRAM_DISABLE_FALLBACK_IPS": "1",
            }
        if "qqbot" in platforms:
            settings |= {
                "QQ_APP_ID": "102000001",
                "QQ_CLIENT_SECRET": "lab-secret",
                "QQ_ALLOW_ALL_USERS": "true",
            }
        (self.home / ".env").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        if machine.user:
            for place in (self.home, *self.home.iterdir()):
                os.chown(place, ANN, ANN)

    @property
    def python(self) -> Path:
        return parts.hermes_python(self.version)

    @property
    def command(self) -> tuple[str, ...]:
        """`hermes`, as its unit calls it."""
        return (str(self.python), "-m", "hermes_cli.main")

    @property
    def environment(self) -> dict[str, str]:
        return {"HERMES_HOME": str(self.home)}

    # its supervisor

    def systemctl(self, *words: str, **more) -> Done:
        """Of the manager that its unit belongs to."""
        return (self.machine.systemctl_of_the_user if self.machine.user else self.machine.systemctl)(
            *words, **more
        )

    def install(self, extra: str = "") -> None:
        """The unit as Hermes' own installer writes it, enabled; a drop-in shortens its times, another holds
        what a
        scenario wants."""
        if self.machine.user:
            self._installer()
        else:
            (self.machine.units / UNIT).write_text(self._unit_text())
        self.systemctl("daemon-reload")
        self.systemctl("enable", UNIT)
        drop_in = self.units / f"{UNIT}.d/lab.conf"
        drop_in.parent.mkdir(exist_ok=True)
        drop_in.write_text(
            f"[Service]\nRestartSec={self.restart_after}\n"
            + (f"TimeoutStopSec={self.stop_timeout}\n" if self.stop_timeout else "")
        )
        drop_in.with_name("scenario.conf").write_text(extra)
        self.systemctl("daemon-reload")

    @property
    def units(self) -> Path:
        return self.machine.user_home / ".config/systemd/user" if self.machine.user else self.machine.units

    def _installer(self, *scope: str) -> None:
        later = [] if self.version == "0.13.0" else ["--no-start-now", "--start-on-login"]
        bus = (
            {"XDG_RUNTIME_DIR": RUNTIME, "DBUS_SESSION_BUS_ADDRESS": f"unix:path={RUNTIME}/bus"}
            if self.machine.user
            else {}
        )
        self.machine.run(
            [*self.command, "gateway", "install", *scope, "--force", *later],
            bus,
            check=True,
        )
        text = (self.units / UNIT).read_text()
        assert f"HERMES_HOME={self.home}" in text and f"hermes-{self.version}/" in text, text

    def _unit_text(self) -> str:
        """Written once per version by the real installer on a real machine; only home and cache differ afterwards."""
        kept = parts.venv(f"hermes-{self.version}") / "hermes-gateway.service"
        home = str(self.machine.user_home)
        if not kept.exists():
            self._installer("--system", "--run-as-user", "root")
            text = (self.machine.units / UNIT).read_text()
            fresh = kept.with_suffix(f".{os.getpid()}")
            fresh.write_text(text.replace(home, "@HOME@").replace(str(parts.CACHE), "@LAB@"))
            fresh.rename(kept)
        return kept.read_text().replace("@HOME@", home).replace("@LAB@", str(parts.CACHE))

    def start(self) -> None:
        if self.machine.systemd:
            if not (self.units / f"{UNIT}.d").exists():
                self.install()
            self.systemctl("start", UNIT)
        else:
            output = (self.machine.folder / "gateway.out").open("a")
            self.process = self.machine.start(
                [*self.command, "gateway", "run"],
                self.environment,
                stdout=output,
                stderr=output,
            )
            output.close()
        self.wait_until_running()

    def start_and_answer(self, chat: int = 42) -> None:
        """Started, and the first message was answered."""
        self.start()
        self.answers("hello", chat)

    def starts(self) -> int:
        return self.count("gateway.log", "Gateway running with")

    def wait_until_running(self, starts: int = 1, within: float = 120) -> None:
        until(
            lambda: self.starts() >= starts,
            f"start {starts} of the gateway",
            within=within,
            explain=self.explain,
        )

    def wait_for_restarts(self, times: int, within: float = 150) -> None:
        """Until systemd has started it so often by itself."""
        until(
            lambda: int(self.machine.show(UNIT, "NRestarts")["NRestarts"]) >= times,
            f"{times} restarts by systemd",
            within=within,
            explain=self.explain,
        )

    def is_down(self) -> bool:
        return self.machine.show(UNIT, "ActiveState")["ActiveState"] in ("failed", "inactive")

    @property
    def pid(self) -> int:
        """As seen on the machine."""
        if self.machine.systemd:
            return int(self.machine.show(UNIT, "MainPID")["MainPID"])
        return json.loads((self.home / "gateway.pid").read_text())["pid"]

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        os.kill(self.machine.inner_pids()[self.pid], number)

    def freeze(self, since: timedelta) -> None:
        """SIGSTOP, and as if that had been so long ago: a heartbeat that is old is believed by its own clock."""
        self.kill(signal.SIGSTOP)
        beat = self.home / "state/gateway.heartbeat"
        if beat.exists():
            known = json.loads(beat.read_text())
            known["monotonic"] -= since.total_seconds()
            known["updated_at"] = (datetime.fromisoformat(known["updated_at"]) - since).isoformat()
            beat.write_text(json.dumps(known))

    # what it writes

    def log(self, name: str = "gateway.log") -> str:
        file = self.home / "logs" / name
        older = [file.with_name(f"{name}.{number}") for number in (3, 2, 1)]
        return "".join(part.read_text(errors="replace") for part in (*older, file) if part.exists())

    def count(self, name: str, pattern: str) -> int:
        return len(re.findall(pattern, self.log(name)))

    def wait_for(self, pattern: str, times: int = 1, name: str = "gateway.log", within: float = 120) -> None:
        until(
            lambda: self.count(name, pattern) >= times,
            f"{times} x {pattern!r} in {name}",
            within=within,
            every=0.2,
            explain=self.explain,
        )

    def state(self) -> dict:
        return json.loads((self.home / "gateway_state.json").read_text())

    def explain(self) -> str:
        text = "\n".join(self.log().splitlines()[-30:])
        if self.machine.systemd and self.machine.pid:
            text += "\n--- journal\n" + "\n".join(self.machine.journal_text(UNIT).splitlines()[-20:])
        return text

    # its chats

    def tell(self, text: str, chat: int = 42, **more) -> None:
        self.machine.world.do("telegram", "say", token=TOKEN, text=text, chat=chat, **more)

    def told(self, chat: int | None = None) -> list[str]:
        sent = self.machine.world.get("telegram", "bots", of=TOKEN)
        return [m.get("text", "") for m in sent if chat is None or int(m.get("chat_id", 0)) == chat]

    def answers(self, question: str, chat: int = 42, within: float = 120, **more) -> None:
        """A real message goes in and its answer comes back to the chat."""
        word = f"Answer{os.urandom(4).hex()}"  # nothing that Markdown would escape
        self.machine.world.do("llm", "behave", match=re.escape(question), say=word, do="answer")
        self.tell(question, chat, **more)
        until(
            lambda: any(word in text for text in self.told(chat)),
            f"an answer in chat {chat}",
            within=within,
            explain=self.explain,
        )
