"""Everything that leaves the process, searched for secrets and chat text that were planted where they come
in.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from effort import rounds
from phones import TOKEN
from talk import (
    MINUTE,
    NOW,
    Change,
    Event,
    Matrix,
    Ntfy,
    Server,
    Telegram,
    ended,
    hear,
    incident,
    plan,
    report,
    running,
    tell,
)

from watchdog.config.settings import Approver, Channel, NotifySettings, ReplySettings, Secret, Target
from watchdog.model import Notification, plain
from watchdog.notify import dead_man
from watchdog.notify import deliver as notify
from watchdog.store import Store
from watchdog.text import redact

IN_LOGS = {
    "api key": "sk-ant-api03-PLANTEDplantedPLANTED",
    "bot token": "9876543210:AAHPLANTEDplantedPLANTEDplantedPLAN",
    "password": "hunter2PLANTED",
    "bearer": "PLANTEDbearer1234567",
    "mail": "planted.person@example.org",
    "phone": "+49 170 5550199",
    "mobile": "13855501999",
    "chat": "5550123456",
    "openid": "5550ABCDEF0123456789ABCDEF012345",
    "webhook": "T0PLANTED",
    "chat text": "my PLANTED secret love letter",
}
IN_SETTINGS = {
    "target": "PLANTEDtargetpath",
    "topic": "PLANTEDtopic",
    "token": TOKEN,
    "matrix token": "syt_PLANTEDmatrix",
    "ping": "PLANTEDping",
}
LINE = (
    f"API failed key={IN_LOGS['api key']} bot {IN_LOGS['bot token']} password={IN_LOGS['password']} "
    f"Authorization: Bearer {IN_LOGS['bearer']} from {IN_LOGS['mail']} tel {IN_LOGS['phone']} {IN_LOGS['mobile']} "
    f"chat={IN_LOGS['chat']} openid={IN_LOGS['openid']} https://hooks.slack.com/services/{IN_LOGS['webhook']}/B/x"
)


@pytest.fixture(scope="module")
def left(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """One incident with a question, an answer, an outcome and every kind of failure; all that went out, by
    where.
    """
    out: dict[str, str] = {}
    path = tmp_path_factory.mktemp("state") / "watchdog.db"
    with (
        running(Server()) as hook,
        running(Server()) as bad,
        running(Ntfy()) as ntfy,
        running(Telegram()) as tg,
        running(Matrix()) as mx,
    ):
        bad.broken = lambda: (500, b"no")
        channels = (
            Channel("ntfy", ntfy.url, (Approver("anna", topic=Secret(IN_SETTINGS["topic"])),)),
            Channel("telegram", tg.url, (Approver("anna", "1111111"),), Secret(TOKEN)),
            Channel(
                "matrix",
                mx.url,
                (Approver("anna", "@anna:lab.local"),),
                Secret(IN_SETTINGS["matrix token"]),
                "#ops:lab.local",
            ),
        )
        targets = (
            Target("hook", Secret(f"json://127.0.0.1:{hook.port}/{IN_SETTINGS['target']}")),
            Target("bad", Secret(f"json://127.0.0.1:{bad.port}/{IN_SETTINGS['target']}")),
            Target("odd", Secret(f"nonsense://{IN_SETTINGS['target']}")),
        )
        settings = NotifySettings(
            targets,
            host="box",
            quote_logs=True,
            ping=Secret(f"http://127.0.0.1:1/{IN_SETTINGS['ping']}"),
            replies=ReplySettings(channels),
        )
        # As the readers leave it: chat text is cut when it is read; the rest is caught here.
        event = Event(NOW, "gateway.log", LINE)
        event.more = f"Traceback … msg='{IN_LOGS['chat text']}'"
        evidence = (event,)
        one = incident(
            key=f"telegram/{IN_LOGS['chat']}", says=LINE, title=LINE, advice=LINE, evidence=evidence
        )
        proposed = replace(
            plan(one),
            chain=f"{LINE} → x",
            costs=LINE,
            warnings=(plain(LINE),),
            advice=(LINE,),
            evidence=(LINE,),
        )
        with Store.open(path) as store:
            said, notes = tell(
                report(Change("opened", one), plans=(proposed,), blind={"agent.log": LINE}),
                store,
                settings,
                NOW,
            )
            ntfy.tap(IN_SETTINGS["topic"], 0)
            heard, more = hear(store, settings, NOW + MINUTE)
            outcomes = (
                ended(proposed.digest, "step 1 of 1, x", False, LINE, output=LINE),
                ended(proposed.digest, "plan 1", False, LINE),
            )
            later, also = tell(report(outcomes=outcomes), store, settings, NOW + 2 * MINUTE)
            tables = [
                row[0] for row in store.db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            ]
            own = ("told", "notices", "unsent", "targets", "questions", "cursors", "silences")
            assert set(own) <= set(tables)
            for table in own:
                out[f"store {table}"] = "\n".join(
                    str(tuple(row)) for row in store.db.execute(f"SELECT * FROM {table}")
                )
        assert heard and heard[0].ok, "the scenario did not go all the way"
        out["notes"] = "\n".join((*notes, *more, *also))
        out["notices"] = repr((said, later))
        out["ping"] = dead_man.ping(settings, "ok")
        out["settings"] = repr(settings)
        out["json"] = json.dumps([repr(one) for one in (settings, said, later)])
        out["webhook"] = b"\n".join(body for _, _, body in hook.requests).decode()
        out["ntfy"] = (
            b"\n".join(body for _, _, body in ntfy.requests).decode().replace(IN_SETTINGS["topic"], "-")
        )
        out["telegram"] = b"\n".join(body for _, _, body in tg.requests).decode()
        out["matrix"] = b"\n".join(body for _, _, body in mx.requests).decode()
    return out


@pytest.mark.parametrize("what", [*IN_LOGS, *IN_SETTINGS])
def test_a_planted_secret_leaves_nowhere(left: dict[str, str], what: str):
    value = {**IN_LOGS, **IN_SETTINGS}[what]
    # The store keeps a thing's key as it is, to know it again; it is the owner's own file, with mode 0600.
    places = {
        name: text
        for name, text in left.items()
        if (what, name) not in {("chat", "store told"), ("chat", "store questions")}
    }
    assert [name for name, text in places.items() if value in text or json.dumps(value)[1:-1] in text] == []


def test_the_messages_were_really_written(left: dict[str, str]):
    for place in ("webhook", "ntfy", "telegram", "matrix", "store notices"):
        assert "API failed" in left[place], place


def test_a_letter_that_somebody_forgot_to_clean_is_cleaned_at_the_door():
    letter = notify.outgoing_message(1, Notification("first seen", LINE, LINE, "high"))
    for what in ("api key", "bot token", "password", "bearer", "mail", "phone", "webhook"):
        assert IN_LOGS[what] not in letter.title + letter.body, what


def test_the_child_that_sends_gets_addresses_by_its_standard_input_alone(monkeypatch: pytest.MonkeyPatch):
    import subprocess

    seen: list[object] = []
    real = subprocess.Popen

    def look(command: list[str], **more: object):
        seen.append((command, more.get("env")))
        return real(command, **more)  # type: ignore[call-overload]

    monkeypatch.setattr(notify.subprocess, "Popen", look)
    target = Target("x", Secret("nonsense://PLANTED"), time_limit=timedelta(seconds=5))
    notify.send({target: [notify.outgoing_message(1, Notification("test", "t", "b"))]})
    assert seen and "PLANTED" not in repr(seen)


# One redaction for messages, the store, --json, incidents, reports and the page.

HEX32 = "0123456789abcdef0123456789abcdef"
MIXED = "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY"
SECRETS = [
    ("a signature alone", f"signature={HEX32}{HEX32}"),
    ("a token after a space", f"access_token {HEX32}{HEX32}"),
    ("Doppler", f"dp.pt.{MIXED}{MIXED[:11]}"),
    ("Groq", f"gsk_{MIXED}{MIXED[:20]}"),
    ("xAI", f"xai-{MIXED}{MIXED}"),
    ("NVIDIA", f"nvapi-{MIXED[:20]}_{MIXED}-{MIXED[:8]}"),
    ("Zhipu", f"{HEX32}.{MIXED[:16]}"),
    ("Aliyun", f"LTAI5t{MIXED[:18]}"),
    ("Aliyun DashScope", f"sk-{HEX32}"),
    ("Tencent id", f"AKID{MIXED}"),
    ("Tencent key", f"SecretKey: {MIXED}"),
    ("Moonshot", f"sk-{MIXED}{MIXED[:16]}"),
    ("OpenRouter", f"sk-or-v1-{HEX32}{HEX32}"),
    ("Perplexity", f"pplx-{MIXED}"),
    ("Mistral", MIXED),
    ("a key in a sentence", f"Incorrect API key provided: {MIXED}"),
    ("a key of hex in a sentence", f"the api key {HEX32} was refused"),
    ("Feishu", "https://open.feishu.cn/open-apis/bot/v2/hook/0f1e2d3c-1111-2222-3333-444455556666"),
    ("Lark", "https://open.larksuite.com/open-apis/bot/v2/hook/0f1e2d3c-1111-2222-3333-444455556666"),
    ("DingTalk", f"https://oapi.dingtalk.com/robot/send?access_token={HEX32}"),
    (
        "WeCom",
        "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=0f1e2d3c-1111-2222-3333-444455556666",
    ),
    (
        "S3",
        f"https://b.s3.amazonaws.com/o?X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20261116&X-Amz-Signature={HEX32}{HEX32}",
    ),
    ("OSS", f"https://b.oss-cn-hangzhou.aliyuncs.com/o?OSSAccessKeyId=LTAI5tabcdefghij&Signature={MIXED}%3D"),
    ("COS", f"https://b.cos.ap-guangzhou.myqcloud.com/o?q-ak=AKIDabcdefghijklmnop&q-signature={HEX32}"),
    ("Azure", f"https://a.blob.core.windows.net/c/o?sv=2024-01-01&sig={MIXED}%3D"),
    ("a mobile in China", "13812345678"),
    ("the same in groups", "138-1234-5678"),
    ("and with spaces", "call 138 1234 5678 back"),
    ("a number in America", "(415) 555-2671"),
    ("and with dashes", "415-555-2671"),
    ("a number with a country", "+86 138 1234 5678"),
    ("a person's openid", "openid=5550ABCDEF0123456789ABCDEF012345"),
    ("a bot in an address", f"https://api.telegram.org/bot9876543210:{MIXED}/getMe"),
    ("Discord", f"{MIXED[:24]}.aB3dE5.{MIXED}abcdef"),
    ("Discord hook", f"https://discord.com/api/webhooks/123456789012345678/{MIXED}"),
    ("ntfy", f"https://ntfy.sh/{MIXED}"),
    ("Bark", f"https://api.day.app/{MIXED}/x"),
    ("IFTTT", f"https://maker.ifttt.com/trigger/x/with/key/{MIXED}"),
    ("Google's client", f"GOCSPX-{MIXED}"),
    ("Stripe's hook", f"whsec_{MIXED}"),
    ("Twilio", f"SK{HEX32}"),
    ("Mailgun", f"key-{HEX32}"),
    ("Firecrawl", f"fc-{HEX32}"),
    ("Vault", f"hvs.{MIXED}"),
    ("Baidu", f"bce-v3/ALTAK-{MIXED[:21]}/{HEX32}01234567"),
    ("Airtable", f"patNRkS8VsWzpvq9b.{HEX32}{HEX32}"),
    ("PyPI", f"pypi-AgEIcHlwaS5vcmc{MIXED}"),
    ("base 64", f"{MIXED}/{MIXED}+aB3dE5=="),
    ("Groq at the end of a sentence", f"gsk_{MIXED}."),
    ("a mobile in Germany", "0151 12345678"),
    ("a mobile in France", "06 12 34 56 78"),
    ("a mobile in Japan", "090-1234-5678"),
    ("a number in Peking", "010-62345678"),
    ("a mobile in Taiwan", "0912-345-678"),
    ("a mobile in Russia", "8 (912) 567-56-78"),
    ("a mobile in China, with the country", "86-13812345678"),
    ("a free number in America", "1-800-555-2671"),
    ("a mobile in China, from abroad", "008613812345678"),
    ("a mobile in Brazil", "(11) 91234-5678"),
    ("a mobile in Italy", "347 123 5678"),
    ("a number in Germany, with the area apart", "030/12345678"),
    ("a number that is called one", "phone=9871235678"),
    ("an identity card", "110105194912315678"),
    ("a picture that is signed", f"https://cdn.example.com/x.png?ex=66aa&is=66bb&hm={HEX32}{HEX32}&"),
    ("a stream that is signed", f"https://upos.example.com/x.flv?e=ig8&upsig={HEX32}&uparams=e"),
    ("a key that is called an id", f"https://api.example.org/weather?q=x&appid={HEX32}"),
    ("a key that was provided", f"Error code: 401 - Invalid API key provided: {HEX32}{HEX32}"),
    ("a key after its scheme", f"Authorization: Token {HEX32}"),
    ("a password of a command", "login --password abcd12345678 --user x"),
    ("a password in Chinese", "密码：abcd12345678"),
    ("a payment card", "4111 1111 1234 5678"),
    ("a password in a sentence", "the password is abcd12345678"),
    ("a password in a Chinese sentence", "密码是abcd12345678"),
    ("a password for curl", "curl -u admin:abcd12345678 https://example.org"),
    ("a short name of a password", "pwd=abcd12345678"),
    ("a session of a web site", f"SESSDATA=x; bili_jct={HEX32}"),
    ("Azure", f"Ocp-Apim-Subscription-Key: {HEX32}"),
    ("a private key by its id", f"private_key_id: {HEX32}01234567"),
]
PLAIN = [
    "a hash in a sentence: sha256 " + HEX32 + HEX32,
    "commit 0123456789abcdef0123456789abcdef01234567 was built",
    "session 0f1e2d3c-1111-2222-3333-444455556666 ended",
    "/home/hermes/.local/state/hermes-watchdog/home-1a2b3c4d/backups/kanban.db-0a1b2c3d/kanban.db.20261116T013600000000Z.db",
    "gateway.log.1:1042 and agent.log-20261116.gz",
    "model claude-sonnet-4-5-20250929 or gpt-4o-mini-2024-07-18 or MiniMax-M2.1-highspeed",
    "unit hermes-gateway-profile-2-of-work.service",
    "session 20260519_084100_3f2a1b",
    "2026-05-19 10:41:00,123 pid 138123456 port 8642 epoch 1779180060 ms 1779180060123",
    "chat -1001380000000 has waited",
    "tasks.goal_max_turns INTEGER, task_events.run_id INTEGER",
    "attempt 3 of 138, 12.5 s, 1.381.234.567 bytes",
    "https://example.org/docs?page=3&lang=en#keys",
    "tokens=1200 keys=3 secrets rotated",
    "test_a_very_long_name_of_a_function_2 failed",
    "https://docs.example.org/en/latest/how-to/repair-a-database-2.html",
    "File /usr/lib/python3/dist-packages/Hermes/Gateway/Platforms/QQBot2/adapter.py",
    "0 of 12 chats, 08:41 to 09:02, 0.19.0, 05-19 10:41",
    "seq 12 34 56 78, rowid 0123, pages 100 200 300",
    "PWD=/home/hermes the password is wrong, tried 3 times",
    "journalctl --user -u hermes-gateway.service",
]


@pytest.mark.parametrize(("what", "text"), SECRETS, ids=[name for name, _ in SECRETS])
def test_a_secret_is_redacted_wherever_it_stands(what: str, text: str):
    for shown in (redact(text), redact(f"call failed ({text}), retrying"), redact(f'{{"error": "{text}"}}')):
        for part in (
            MIXED,
            HEX32,
            "444455556666",
            "AKIA",
            "AKID",
            "1234",
            "5678",
            "2671",
            "0123456789ABCDEF",
            MIXED[:20],
            "56 78",
            "62345678",
            "345-678",
            "56-78",
        ):
            assert part not in shown, shown


@pytest.mark.parametrize("text", PLAIN)
def test_what_only_looks_like_a_secret_stays(text: str):
    assert redact(text) == text


def test_redacting_twice_is_redacting_once():
    """What is quoted is redacted when it is read and again when it is sent: neither may depend on the other."""
    random = Random(16)
    pieces = [text for _, text in SECRETS] + PLAIN
    pieces += [
        "[secret]",
        "[phone]",
        "[e-mail]",
        "sk-",
        "Bearer",
        "key",
        "token",
        "=",
        ":",
        "//",
        "@",
        "?",
        "&",
        "+49",
        "171",
        "1234567",
        ".",
        "_",
        "-",
        "'",
        '"',
        "/",
    ]
    pieces += [
        " ",
        "\n",
        "用户",
        "13812345678",
        "anna@example.org",
        "https://x.example",
        "hooks",
        "password",
        "a" * 20,
    ]
    for _ in range(rounds(3000)):
        text = "".join(
            random.choice(pieces)[: random.randrange(1, 120)] for _ in range(random.randrange(1, 9))
        )
        once = redact(text)
        assert redact(once) == once, text


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("13812345678+49 1234567", "[phone][phone]"),
        ("anna@example.org-..bob@example.org", "[e-mail][e-mail]"),
        ("token: '+49 171 1835757'", "token: '[phone]'"),
    ],
)
def test_a_secret_beside_a_secret_is_redacted_too(text: str, left: str):
    assert redact(text) == left
