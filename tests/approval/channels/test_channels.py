"""What is peculiar to one channel."""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest
from phones import TOKEN, OnMatrix, OnNtfy, OnTelegram, settings
from talk import NOW, Change, Matrix, Ntfy, Telegram, code_in, hear, incident, plan, report, running, tell

from watchdog.approval.channels.own_bot import refused
from watchdog.config.settings import Channel, Secret
from watchdog.store import Store
from watchdog.store import plans as rows


def ask(store: Store, channel, home: str = "/home/hermes/.hermes", **more):
    return tell(
        report(Change("seen", incident()), plans=(plan(home=home),)), store, settings(channel, **more), NOW
    )


def test_no_proxy_sees_what_goes_to_a_server_on_this_machine(store, monkeypatch):
    """Its address is not encrypted, so neither are the codes."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with running(Ntfy()) as server:
        phone = OnNtfy(server)
        ask(store, phone.channel())
        assert len(phone.asked()) == 1


# Telegram


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (".env", f"TELEGRAM_BOT_TOKEN={TOKEN}\n"),
        ("config.yaml", f"platforms:\n  telegram: {{enabled: true, token: '{TOKEN}'}}\n"),
        ("gateway.json", json.dumps({"platforms": {"telegram": {"token": TOKEN}}})),
    ],
)
def test_the_gateways_own_bot_is_refused_with_the_reason(tmp_path, store, name: str, content: str):
    (tmp_path / name).write_text(content)
    with running(Telegram()) as server:
        _, notes = ask(store, OnTelegram(server).channel(), home=str(tmp_path))
        assert server.requests == []
    assert len(notes) == 1 and "the bot of the gateway itself" in notes[0] and "second bot" in notes[0]
    assert TOKEN not in notes[0]


@pytest.mark.parametrize("name", [".env", "config.yaml", "gateway.json"])
def test_the_number_of_our_bot_with_a_made_up_secret_does_not_close_the_channel(tmp_path, name: str):
    """Everybody who sees the bot knows its number, and the agent writes these files; a bot has one valid
    token at a time.
    """
    (tmp_path / name).write_text(
        f"TELEGRAM_BOT_TOKEN={TOKEN.partition(':')[0]}:AAHforgedforgedforgedforgedforged12\n"
    )
    assert refused(Channel("telegram", "", (), Secret(TOKEN)), tmp_path) == ""


def test_the_gateways_token_is_found_in_environments(tmp_path, monkeypatch: pytest.MonkeyPatch):
    channel = Channel("telegram", "http://127.0.0.1:1", (), Secret(TOKEN))
    assert refused(channel, tmp_path) == ""
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", TOKEN)
    assert "TELEGRAM_BOT_TOKEN of this environment" in refused(channel, tmp_path)


def test_the_gateways_token_is_found_in_the_environment_of_its_process(tmp_path):
    import subprocess
    import sys

    code = "import sys; print('up', flush=True); sys.stdin.read()"
    env = {**os.environ, "TELEGRAM_BOT_TOKEN": TOKEN}
    with subprocess.Popen(
        [sys.executable, "-c", code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as gateway:
        assert gateway.stdout and gateway.stdout.readline() == b"up\n"
        (tmp_path / "gateway.pid").write_text(json.dumps({"pid": gateway.pid}))
        assert f"process {gateway.pid}" in refused(Channel("telegram", "", (), Secret(TOKEN)), tmp_path)
        gateway.communicate()


@pytest.mark.parametrize("pid", ["1e999", "[" * 5000, '"x"', "{}"])
def test_a_pid_file_of_nonsense_is_no_reason_to_refuse_a_bot(tmp_path, pid):
    (tmp_path / "gateway.pid").write_text('{"pid": ' + pid + "}")
    assert refused(Channel("telegram", "", (), Secret(TOKEN)), tmp_path) == ""


def test_two_programs_on_one_bot_are_told_apart_from_other_faults(store):
    with running(Telegram()) as server:
        phone = OnTelegram(server)
        ask(store, phone.channel())
        server.broken = lambda: (409, b'{"ok": false, "error_code": 409}')
        _, notes = hear(store, settings(phone.channel()), NOW)
    assert notes == ("telegram: the server answered 409: another program reads the messages of this bot",)


def test_a_forwarded_message_is_not_an_answer(store):
    with running(Telegram()) as server:
        phone = OnTelegram(server)
        ask(store, phone.channel())
        server.write(
            1111111, f"approve {code_in(phone.asked()[0])}", forward_origin={"type": "user"}, forward_date=1
        )
        answers, _ = hear(store, settings(phone.channel()), NOW)
    assert answers == ()


def test_an_answer_in_another_group_is_not_an_answer(store):
    with running(Telegram()) as server:
        phone = OnTelegram(server)
        ask(store, phone.channel())
        server.write(1111111, f"approve {code_in(phone.asked()[0])}", chat=-777)
        answers, _ = hear(store, settings(phone.channel()), NOW)
    assert answers == ()


def test_in_a_group_everyone_on_the_list_may_answer(store):
    with running(Telegram()) as server:
        channel = replace(OnTelegram(server).channel(), room="-100777")
        ask(store, channel)
        (asked,) = server.sent
        assert asked["chat_id"] == "-100777"
        server.write(6666666, f"approve {code_in(asked['text'])}", chat=-100777)
        assert hear(store, settings(channel), NOW)[0] == ()
        server.write(2222222, f"approve {code_in(asked['text'])}", chat=-100777)
        answers, _ = hear(store, settings(channel), NOW)
    assert [answer.by for answer in answers] == ["bob"]


def test_the_buttons_disappear_when_the_question_is_over(store):
    with running(Telegram()) as server:
        phone = OnTelegram(server)
        ask(store, phone.channel())
        phone.tap(False)
        hear(store, settings(phone.channel()), NOW)
        calls = [path.rsplit("/", 1)[1] for _, path, _ in server.requests]
    assert calls.count("editMessageReplyMarkup") == 2 and len(server.released) == 1


def test_what_was_written_before_the_question_is_not_read(store):
    with running(Telegram()) as server:
        phone = OnTelegram(server)
        phone.flood(500)
        ask(store, phone.channel())
        phone.tap(True)
        answers, notes = hear(store, settings(phone.channel()), NOW)
    assert len(answers) == 1 and notes == ()


# ntfy


def test_the_buttons_post_to_a_topic_of_that_person(store):
    with running(Ntfy()) as server:
        phone = OnNtfy(server)
        ask(store, phone.channel(), language="zh")
        question = server.questions("annas-secret-topic")[0]
    assert [one["label"] for one in question["actions"]] == ["同意", "拒绝"]
    assert {one["url"] for one in question["actions"]} == {f"{server.url}/annas-secret-topic-answer"}
    assert {(one["action"], one["method"], one["clear"]) for one in question["actions"]} == {
        ("http", "POST", True)
    }
    assert question["actions"][0]["body"] == f"同意 {code_in(question['message'])}"
    assert len(json.dumps(question)) < 4096, "ntfy turns longer messages into attachments"


def test_the_token_of_a_guarded_server_is_sent(store):
    with running(Ntfy()) as server:
        ask(store, replace(OnNtfy(server).channel(), token=Secret("tk_annas")))
    assert server.headers["Authorization"] == "Bearer tk_annas"


# Matrix


def test_a_reply_that_quotes_the_question_counts_by_its_own_words(store):
    with running(Matrix()) as server:
        phone = OnMatrix(server)
        ask(store, phone.channel())
        code = code_in(phone.asked()[0])
        quoted = f"> <@watchdog:lab.local> your OK needed\n> approve {code}\n\nrefuse {code}"
        server.write("@anna:lab.local", quoted, **{"m.relates_to": {"m.in_reply_to": {"event_id": "$e1"}}})
        answers, _ = hear(store, settings(phone.channel()), NOW)
    assert [answer.yes for answer in answers] == [False]


def test_an_edited_message_and_a_notice_are_not_answers(store):
    with running(Matrix()) as server:
        phone = OnMatrix(server)
        ask(store, phone.channel())
        text = f"approve {code_in(phone.asked()[0])}"
        server.write(
            "@anna:lab.local", text, **{"m.relates_to": {"rel_type": "m.replace", "event_id": "$e1"}}
        )
        server.write("@anna:lab.local", text, msgtype="m.notice")
        assert hear(store, settings(phone.channel()), NOW)[0] == ()


def test_an_encrypted_room_is_told(store):
    with running(Matrix()) as server:
        phone = OnMatrix(server)
        ask(store, phone.channel())
        server.events.append(
            {"type": "m.room.encrypted", "sender": "@anna:lab.local", "content": {}, "origin_server_ts": 1}
        )
        _, notes = hear(store, settings(phone.channel()), NOW)
    assert notes and "encrypted" in notes[0]


def test_ordinary_talk_in_the_room_is_left_alone(store):
    with running(Matrix()) as server:
        phone = OnMatrix(server)
        ask(store, phone.channel())
        said = len(server.said())
        phone.write("shall we? I think the gateway is fine")
        answers, notes = hear(store, settings(phone.channel()), NOW)
        assert (answers, notes, len(server.said())) == ((), (), said)
    stored = rows.get(store, 1)
    assert stored and stored.state == "pending"
