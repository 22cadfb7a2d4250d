"""A person's side of each channel, told apart only by how the channel works."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from talk import Matrix, Ntfy, Telegram, code_in

from watchdog.config.settings import Approver, Channel, NotifySettings, ReplySettings, Secret

TOKEN = "1234567890:AAHsecretsecretsecretsecretsecret12"
SOON = timedelta(seconds=3)


class OnNtfy:
    kind, server, buttons = "ntfy", Ntfy, True
    place = "topic"  # who knows it is its owner

    def __init__(self, server: Ntfy) -> None:
        self.server_ = server

    def channel(self, **more: Any) -> Channel:
        people = (
            Approver("anna", topic=Secret("annas-secret-topic")),
            Approver("bob", topic=Secret("bobs-secret-topic")),
        )
        return Channel("ntfy", self.server_.url, people, time_limit=SOON, **more)

    def urls(self) -> tuple[str, ...]:
        """Apprise URLs of the very places where anna and bob are asked."""
        host = self.server_.url.partition("://")[2]
        return tuple(f"ntfy://{host}/{self.topic(who)}" for who in ("anna", "bob"))

    def topic(self, who: str) -> str:
        return f"{who}s-secret-topic"

    def asked(self, who: str = "anna") -> list[str]:
        return [f"{one['title']}\n{one['message']}" for one in self.server_.questions(self.topic(who))]

    def tap(self, yes: bool, who: str = "anna", question: int = -1) -> None:
        self.server_.tap(self.topic(who), 0 if yes else 1, question)

    def write(self, text: str, who: str = "anna") -> None:
        self.server_.post(f"{self.topic(who)}-answer", text)

    def told(self, who: str = "anna") -> list[str]:
        own = [
            one for one in self.server_.messages if one["topic"] == self.topic(who) and not one.get("actions")
        ]
        return [f"{one.get('title')}\n{one['message']}" for one in own]

    def flood(self, count: int) -> None:
        for number in range(count):
            self.server_.post("annas-secret-topic-answer", f"approve AAAA{number:04d}")

    def extras(self) -> int:
        """Buttons and links in the newest question."""
        return len(self.server_.questions("annas-secret-topic")[-1]["actions"])


class OnTelegram:
    kind, server, buttons = "telegram", Telegram, True
    place = "chat"

    def __init__(self, server: Telegram) -> None:
        self.server_ = server
        self.people = {"anna": 1111111, "bob": 2222222, "mallory": 6666666}

    def channel(self, **more: Any) -> Channel:
        people = tuple(Approver(name, str(self.people[name])) for name in ("anna", "bob"))
        return Channel("telegram", self.server_.url, people, Secret(TOKEN), time_limit=SOON, **more)

    def urls(self) -> tuple[str, ...]:
        return tuple(f"tgram://{TOKEN}/{self.people[who]}" for who in ("anna", "bob"))

    def _to(self, who: str) -> list[dict[str, Any]]:
        return [one for one in self.server_.sent if one["chat_id"] == str(self.people[who])]

    def asked(self, who: str = "anna") -> list[str]:
        return [one["text"] for one in self._to(who) if "reply_markup" in one]

    def tap(self, yes: bool, who: str = "anna", question: int = -1) -> None:
        question_ = [one for one in self._to(who) if "reply_markup" in one][question]
        button = question_["reply_markup"]["inline_keyboard"][0][0 if yes else 1]
        self.server_.tap(self.people[who], button["callback_data"])

    def write(self, text: str, who: str = "anna") -> None:
        self.server_.write(self.people[who], text)

    def told(self, who: str = "anna") -> list[str]:
        return [one["text"] for one in self._to(who) if "reply_markup" not in one] + [
            one["text"] for one in self.server_.released
        ]

    def flood(self, count: int) -> None:
        for number in range(count):
            self.write(f"approve AAAA{number:04d}")

    def extras(self) -> int:
        sent = [one for one in self._to("anna") if "reply_markup" in one][-1]
        assert "parse_mode" not in sent and sent["link_preview_options"] == {"is_disabled": True}
        return len(sent["reply_markup"]["inline_keyboard"][0])


class OnMatrix:
    kind, server, buttons = "matrix", Matrix, False
    place = "room"  # one for all

    def __init__(self, server: Matrix) -> None:
        self.server_ = server

    def channel(self, **more: Any) -> Channel:
        people = tuple(Approver(name, f"@{name}:lab.local") for name in ("anna", "bob"))
        return Channel(
            "matrix",
            self.server_.url,
            people,
            Secret("syt_secret"),
            "#ops:lab.local",
            time_limit=SOON,
            **more,
        )

    def urls(self) -> tuple[str, ...]:
        return ("matrix://watchdog:pw@lab.local/%23ops%3Alab.local",)

    def asked(self, who: str = "anna") -> list[str]:
        return [text for text in self.server_.said() if "Reply with exactly" in text or "只回复" in text]

    def tap(self, yes: bool, who: str = "anna", question: int = -1) -> None:
        self.write(f"{'approve' if yes else 'refuse'} {code_in(self.asked()[question])}", who)

    def write(self, text: str, who: str = "anna") -> None:
        self.server_.write(f"@{who}:lab.local", text)

    def told(self, who: str = "anna") -> list[str]:
        return [text for text in self.server_.said() if text not in self.asked()]

    def flood(self, count: int) -> None:
        for number in range(count):
            self.write(f"approve AAAA{number:04d}")

    def extras(self) -> int:
        content = [one["content"] for one in self.server_.events if one["sender"] == "@watchdog:lab.local"][
            -1
        ]
        assert content["m.mentions"] == {} and "<a " not in content["formatted_body"]
        return 2


PHONES = {phone.kind: phone for phone in (OnNtfy, OnTelegram, OnMatrix)}


def settings(*channels: Channel, **more: Any) -> NotifySettings:
    return NotifySettings(host="box", replies=ReplySettings(channels, timedelta(minutes=2)), **more)
