"""Everything that leaves the process, searched for secrets and chat text that were planted where they come in."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from talk import MINUTE, NOW, Change, Event, Matrix, Ntfy, Server, Telegram, incident, plan, report, running

from watchdog import notify, telling
from watchdog.model import Notice, Outcome
from watchdog.store import Store
from watchdog.targets import Approver, Channel, NotifySettings, ReplySettings, Secret, Target

sys.path.insert(0, str(Path(__file__).parent / "replies"))
from phones import TOKEN

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
    """One incident with a question, an answer, an outcome and every kind of failure; all that went out, by where."""
    out: dict[str, str] = {}
    path = tmp_path_factory.mktemp("state") / "watchdog.db"
    with running(Server()) as hook, running(Server()) as bad, running(Ntfy()) as ntfy, running(Telegram()) as tg, running(Matrix()) as mx:
        bad.broken = lambda: (500, b"no")
        channels = (
            Channel("ntfy", ntfy.url, (Approver("anna", topic=Secret(IN_SETTINGS["topic"])),)),
            Channel("telegram", tg.url, (Approver("anna", "1111111"),), Secret(TOKEN)),
            Channel("matrix", mx.url, (Approver("anna", "@anna:lab.local"),), Secret(IN_SETTINGS["matrix token"]), "#ops:lab.local"),
        )
        targets = (
            Target("hook", Secret(f"json://127.0.0.1:{hook.port}/{IN_SETTINGS['target']}")),
            Target("bad", Secret(f"json://127.0.0.1:{bad.port}/{IN_SETTINGS['target']}")),
            Target("odd", Secret(f"nonsense://{IN_SETTINGS['target']}")),
        )
        settings = NotifySettings(
            targets, host="box", quote_logs=True, ping=Secret(f"http://127.0.0.1:1/{IN_SETTINGS['ping']}"), replies=ReplySettings(channels)
        )
        # As the readers leave it: chat text is cut when it is read; the rest is caught here.
        evidence = (Event(NOW, "gateway.log", LINE, more=f"Traceback … msg='{IN_LOGS['chat text']}'"),)
        one = incident(key=f"telegram/{IN_LOGS['chat']}", says=LINE, title=LINE, advice=LINE, evidence=evidence)
        proposed = replace(plan(one), chain=f"{LINE} → x", costs=LINE, warnings=(LINE,), advice=(LINE,), evidence=(LINE,))
        with Store.open(path) as store:
            said, notes = telling.tell(report(Change("opened", one), plans=(proposed,), blind={"agent.log": LINE}), store, settings, NOW)
            ntfy.tap(IN_SETTINGS["topic"], 0)
            heard, more = telling.hear(store, settings, NOW + MINUTE)
            outcomes = (
                Outcome(proposed.digest, "step 1 of 1, x", False, LINE, output=LINE),
                Outcome(proposed.digest, "plan 1", False, LINE),
            )
            later, also = telling.tell(report(outcomes=outcomes), store, settings, NOW + 2 * MINUTE)
            tables = [row[0] for row in store.db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            own = ("told", "notices", "unsent", "targets", "questions", "cursors", "silences")
            assert set(own) <= set(tables)
            for table in own:
                out[f"store {table}"] = "\n".join(str(tuple(row)) for row in store.db.execute(f"SELECT * FROM {table}"))
        assert heard and heard[0].ok, "the scenario did not go all the way"
        out["notes"] = "\n".join((*notes, *more, *also))
        out["notices"] = repr((said, later))
        out["ping"] = notify.ping(settings, "ok")
        out["settings"] = repr(settings)
        out["json"] = json.dumps([repr(one) for one in (settings, said, later)])
        out["webhook"] = b"\n".join(body for _, _, body in hook.requests).decode()
        out["ntfy"] = b"\n".join(body for _, _, body in ntfy.requests).decode().replace(IN_SETTINGS["topic"], "-")
        out["telegram"] = b"\n".join(body for _, _, body in tg.requests).decode()
        out["matrix"] = b"\n".join(body for _, _, body in mx.requests).decode()
    return out


@pytest.mark.parametrize("what", [*IN_LOGS, *IN_SETTINGS])
def test_a_planted_secret_leaves_nowhere(left: dict[str, str], what: str):
    value = {**IN_LOGS, **IN_SETTINGS}[what]
    # The store keeps a thing's key as it is, to know it again; it is the owner's own file, with mode 0600.
    places = {name: text for name, text in left.items() if (what, name) not in {("chat", "store told"), ("chat", "store questions")}}
    assert [name for name, text in places.items() if value in text or json.dumps(value)[1:-1] in text] == []


def test_the_messages_were_really_written(left: dict[str, str]):
    for place in ("webhook", "ntfy", "telegram", "matrix", "store notices"):
        assert "API failed" in left[place], place


def test_a_letter_that_somebody_forgot_to_clean_is_cleaned_at_the_door():
    letter = notify.letter(1, Notice("first seen", LINE, LINE, "high"))
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
    notify.send({target: [notify.letter(1, Notice("test", "t", "b"))]})
    assert seen and "PLANTED" not in repr(seen)
