"""All words in both languages, and Chinese that was not translated word by word."""

from __future__ import annotations

import re
import string
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from machines import Machine
from talk import MINUTE, NOW, incident, plan

from watchdog.actions import KINDS, gateway
from watchdog.message import Setting, compose
from watchdog.model import Hold, Outcome
from watchdog.notices import Case, Choice, Thing
from watchdog.outgoing import fit
from watchdog.rulebook import load
from watchdog.sender import _WHYS as WHYS
from watchdog.supervisor import Supervisor
from watchdog.telling import TARGET_SAYS
from watchdog.text import clock
from watchdog.words import read_words, template

BOOK = load()
EN, ZH = read_words("en"), read_words("zh")


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_no_string_is_missing_in_a_language():
    assert set(EN.texts) == set(ZH.texts)


@pytest.mark.parametrize("key", sorted(EN.texts))
def test_both_languages_use_the_same_fields(key: str):
    assert fields(EN.texts[key]) == fields(ZH.texts[key])


@pytest.mark.parametrize("rule", BOOK.rules, ids=lambda rule: rule.id)
def test_every_shipped_rule_speaks_chinese(rule):
    theirs = ZH.rules[rule.id]
    assert fields(theirs["say"]) <= fields(rule.say), "a field that the rule does not have"
    assert re.search("[\u4e00-\u9fff]", theirs["title"])
    assert bool(rule.advice) == ("advice" in theirs)


def test_no_chinese_sentence_belongs_to_a_rule_that_is_gone():
    assert set(ZH.rules) - {rule.id for rule in BOOK.rules} == {"target"}
    assert set(ZH.recipes) == set(BOOK.recipes)
    assert {key.removeprefix("did.") for key in EN.texts if key.startswith("did.")} - {"other", "and"} == set(BOOK.recipes)


@pytest.mark.parametrize("english", [pattern.pattern for pattern, _ in ZH.phrases])
def test_a_phrase_uses_only_fields_that_it_catches(english: str):
    pattern, theirs = next((pattern, text) for pattern, text in ZH.phrases if pattern.pattern == english)
    assert fields(theirs) <= set(pattern.groupindex)


def test_times_in_a_sentence_of_the_planner_are_told_where_its_reader_is():
    at = datetime(2026, 5, 19, 20, 0, tzinfo=UTC)
    says = f"restart-gateway was carried out at {clock(at)}; pause of 1 hour"
    assert EN.phrase(says) == says
    there = read_words("en", ZoneInfo("Asia/Shanghai"))
    assert there.phrase(says) == "restart-gateway was carried out at 2026-05-20 04:00:00; pause of 1 hour"
    assert there.phrase(f"run: touch '{clock(at)}'", exact=True) == f"run: touch '{clock(at)}'"
    assert there.phrase("at 2026-13-40 99:99:99") == "at 2026-13-40 99:99:99"
    assert there.at(at, at) == "04:00"


FAULTS = [
    "a TLS record was written over the header: a socket and the file shared a descriptor",
    "the file is gzip data, not a database",
    "the file is a zip archive, not a database",
    "the header is all zeros",
    "the first 16 bytes are not SQLite's: 1 wrong (byte 6 is 17)",
    "the first 16 bytes are not SQLite's: 16 wrong",
    "the file has 40 bytes; a database has at least 512",
    "the header gives a page size of 17, which does not exist",
    "the header gives file format 9/9, which does not exist",
    "the fixed bytes of the header are wrong",
    "the header gives text encoding 7 and schema format 9, which do not go together",
    "the schema names messages twice; SQLite refuses to open such a file",
    "what the schema says of messages makes nothing; SQLite refuses to open such a file",
    "the schema cannot be read: the tree of the schema table is damaged",
    "the file is cut off: 40960 bytes, but its header counts 20 pages of 4096 (81920 bytes)",
    "the file is gone but its -wal is still there (4152 bytes); keep the -wal",
    "the file is gone; it held 12 rows at the last good backup (2026-05-19T10:00:00+00:00)",
    "the file is empty (0 bytes); it held 12 rows at the last good backup",
    "the first page is destroyed of messages, sessions and 2 more",
    "messages has no rows; it had 12 at the last good backup (2026-05-19T10:00:00+00:00)",
    "the -wal is older than the file: whoever opens them together loses what is newer (change 4 of 9 pages against 7 of 12)",
]


def reasons_in_a_schema() -> list[str]:
    """Why a page or a row cannot be read, as the bytes' own reader says it."""
    import ast

    from watchdog.sqlite import raw

    calls = [one for one in ast.walk(ast.parse(Path(raw.__file__).read_text("utf-8"))) if isinstance(one, ast.Call)]
    said = [one.args[0] for one in calls if isinstance(one.func, ast.Name) and one.func.id == "Bad" and one.args]
    plain = {one.value for one in said if isinstance(one, ast.Constant)} - {"the fixed bytes of the header are wrong"}
    return [f"the schema cannot be read: {why}" for why in sorted(plain)] + ["the schema cannot be read: page 7 is not a b-tree page"]


@pytest.mark.parametrize("fault", [*FAULTS, *reasons_in_a_schema()])
def test_what_is_wrong_with_a_database_is_said_in_chinese(fault: str):
    say = BOOK.rule("database-broken").say
    told = ZH.sentence("database-broken", say, fit(say.format(database="state.db", fault=fault)))
    plain = re.sub(r"SQLite|TLS|socket|schema|gzip|zip|B 树|-wal|messages|sessions|state\.db|home", "", told)
    assert not re.search("[A-Za-z]{3,}", plain), told
    assert EN.sentence("database-broken", say, fit(say.format(database="state.db", fault=fault))).endswith(fit(fault))


def test_a_step_that_nobody_knows_how_to_do_is_no_command(tmp_path):
    """The hold says why; a line that looks like a command and is none would only puzzle."""
    unknown = replace(Machine(tmp_path).world(), supervisor=Supervisor("nothing"))
    words = tuple(gateway.describe(gateway.Args(do), unknown) for do in ("stop", "start"))
    held = replace(plan(incident()), words=words, hold=Hold("nothing tells how it is started"))
    for language in ("en", "zh"):
        body = compose(Choice("first seen", (of(incident()),), "high", Case(held)), setting(language)).body
        assert "the gateway: nothing tells how" not in body and not [line for line in body.split("\n") if line.startswith("    ")]


@pytest.mark.parametrize("why", [*(says.replace(r"\1", "500") for _, says in WHYS), "it was not taken"])
def test_a_target_that_fails_is_told_in_chinese(why: str):
    says = TARGET_SAYS.format(key="phone", count=1, why=why, at="14:30")
    failing = Thing("target phone", "target", "phone", "high", "target", says, NOW)
    at = replace(setting("zh"), says={"target": TARGET_SAYS})
    told = compose(Choice("target", (failing,), "high"), at)
    assert not re.search("[A-Za-z]{3,}", told.body.replace("phone", "").replace("box", "")), told.body
    assert compose(Choice("target", (failing,), "high"), setting("en")).body.startswith(says)


def test_a_template_gives_its_fields_back():
    found = template("{platform} chat {chat} has waited {waited} (limit {limit})").fullmatch(
        "qq chat 7 has waited 1 hour (limit 15 minutes)"
    )
    assert found and found.groupdict() == {"platform": "qq", "chat": "7", "waited": "1 hour", "limit": "15 minutes"}


@pytest.mark.parametrize(
    ("english", "chinese"),
    [
        (timedelta(minutes=26), "26 分钟"),
        (timedelta(hours=1, minutes=5), "1 小时 5 分钟"),
        (timedelta(days=2), "2 天"),
        (timedelta(seconds=40), "40 秒"),
    ],
)
def test_durations_are_said_in_chinese(english: timedelta, chinese: str):
    assert ZH.span(english) == chinese
    assert ZH.numbers("11 minutes ago") == "11 分钟前"


@pytest.mark.parametrize(
    ("text", "chinese"),
    [
        ("maintenance", "正在维护"),
        ("restart-gateway was carried out 2 times in 24 hours (limit 2)", "restart-gateway 24 小时内已执行 2 次（上限 2）"),
        (
            "a restart does not help: the disk is full: free space first; a restart cannot write its files either",
            "重启没有用：磁盘满了，先腾空间；重启也写不了文件",
        ),
        ("it is new and nobody knows it", "it is new and nobody knows it"),
    ],
)
def test_reasons_of_the_planner_are_said_in_chinese(text: str, chinese: str):
    assert ZH.phrase(text) == chinese


def test_the_commands_in_a_step_are_never_translated():
    said = ZH.phrase("run, for at most 10 minutes: sh -c 'sleep 10 minutes ago'")
    assert said == "执行（最多 10 分钟）：sh -c 'sleep 10 minutes ago'"


# The three outcomes of the classic prompt keep their form.


def setting(language: str) -> Setting:
    says = {rule.id: rule.say for rule in BOOK.rules}
    titles = {rule.title: rule.id for rule in BOOK.rules}
    advices = {fit(rule.advice, 600): rule.id for rule in BOOK.rules}
    return Setting(NOW, "box", read_words(language), says=says, titles=titles, advices=advices)


def of(one, **more) -> Thing:
    return Thing(f"incident {one.id}", one.rule, one.key, one.severity, one.title, one.says, one.first_at, incident=one.id, **more)


@pytest.mark.parametrize(
    ("language", "title"),
    [
        ("en", "Gateway watchdog: gateway restarted, stuck session cleared"),
        ("zh", "Gateway watchdog: 已重启 gateway，卡住的 session 已清除"),
    ],
)
def test_a_restart_that_helped_keeps_the_classic_form(language: str, title: str):
    outcomes = (
        Outcome("d", "step 1 of 1, restart the gateway", True, "running as pid 812", 12 * MINUTE / 60),
        Outcome("d", "verify", True, "its rules are quiet; process 812 lives", MINUTE),
        Outcome("d", "plan 7", True, "Restart the gateway: done and verified"),
    )
    notice = compose(Choice("healed by us", (of(incident()),), "high", Case(plan(), outcomes=outcomes)), setting(language))
    assert notice.title == title


@pytest.mark.parametrize(
    ("language", "title", "line"),
    [
        (
            "en",
            "Gateway watchdog: done, not verified: Restart the gateway",
            "• verify: not verified by crash-loop (switched off); its other rules are quiet; process 812 lives",
        ),
        (
            "zh",
            "Gateway watchdog: 已执行，效果未验证：重启 gateway",
            "• 验证：crash-loop 已关闭，无法据此验证；其余相关告警已消失，进程 812 正常",
        ),
    ],
)
def test_what_could_not_be_verified_is_never_called_healed(language: str, title: str, line: str):
    says = "not verified by crash-loop (switched off); its other rules are quiet; process 812 lives"
    outcomes = (
        Outcome("d", "verify", True, says, MINUTE),
        Outcome("d", "plan 7", True, "Restart the gateway: done; not verified by crash-loop (switched off)"),
    )
    notice = compose(Choice("not verified", (of(incident()),), "high", Case(plan(), outcomes=outcomes)), setting(language))
    assert notice.title == title and line in notice.body.split("\n")


def test_all_is_well_keeps_the_classic_form():
    from watchdog.message import daily

    for language in ("en", "zh"):
        assert daily([], 0, 0, 0, setting(language)).title == "Gateway watchdog: OK"


def test_the_whole_chinese_question():
    one, loop = (
        incident(),
        incident(
            2,
            "qq-resume-loop",
            "7",
            says="QQ bot 7 resumed and lost the same session 5 times (limit 3 in 15 minutes)",
            title="QQ keeps resuming a dead session",
        ),
    )
    asked = plan(one, loop, chain="QQ keeps resuming a dead session → A chat is waiting and nothing is working on it", id=7)
    notice = compose(Choice("approval needed", (of(one), of(loop)), "high", Case(asked, ask=True)), setting("zh"))
    local = (NOW - 26 * MINUTE).astimezone().strftime("%H:%M")
    assert (
        f"{notice.title}\n{notice.body}"
        == f"""\
Gateway watchdog: 待确认：telegram 会话 #7347 已等待回复 26 分钟
• telegram 会话 #7347 已等待回复 26 分钟（上限 15 分钟）
开始于 {local}，已持续 26 分钟。
• QQ 机器人 7 反复 resume 同一个 session，已断开 5 次（上限 15 分钟内 3 次）
开始于 {local}，已持续 26 分钟。
原因：QQ 反复恢复一个失效的 session → 有会话在等回复，但没有任何进展
建议操作：重启 gateway
    重启 gateway（hermes-gateway.service）：systemctl --user restart hermes-gateway.service
代价：有 1 轮对话正在进行，最多等 2 分钟，之后会被中断
box · hermes-watchdog plan 7"""
    )


def test_what_the_steps_of_the_shipped_recipes_say_is_known_in_chinese():
    from pathlib import Path

    from watchdog.supervisor import USER, Supervisor
    from watchdog.world import Gateway, World

    there = Supervisor(
        USER, "hermes-gateway.service", "hermes", ("systemctl", "stop", "x"), ("systemctl", "start", "x"), ("systemctl", "restart", "x")
    )
    world = World(Path("/h"), Path("/s"), there, Gateway(True, 812))
    for recipe in BOOK.recipes.values():
        for step in (*recipe.steps, *recipe.rollback):
            words = KINDS[step.kind].describe(step.args, world)
            assert re.search("[\u4e00-\u9fff]", ZH.phrase(words)), words


def test_a_hold_of_a_plan_is_said_with_its_time():
    held = plan(incident(), hold=Hold("maintenance", NOW + 30 * MINUTE))
    notice = compose(Choice("first seen", (of(incident()),), "high", Case(held)), setting("zh"))
    assert f"{(NOW + 30 * MINUTE).astimezone():%H:%M} 之前不执行：正在维护" in notice.body


@pytest.mark.parametrize("rule", [rule for rule in BOOK.rules if rule.advice], ids=lambda rule: rule.id)
def test_advice_is_given_in_chinese_also_when_the_planner_repeats_it(rule):
    one = incident(rule=rule.id, advice=rule.advice)
    alone = compose(Choice("first seen", (of(one, advice=rule.advice),), "high"), setting("zh"))
    planned = compose(Choice("first seen", (of(one),), "high", Case(plan(one, advice=(rule.advice,)))), setting("zh"))
    for notice in (alone, planned):
        assert f"建议：{ZH.rules[rule.id]['advice']}" in notice.body


def test_the_line_for_sudoers_is_letter_for_letter():
    line = "hermes ALL=(root) NOPASSWD: /usr/bin/systemctl restart hermes-gateway.service, /usr/bin/systemctl stop a\\:x.service"
    why = "hermes may not manage system unit hermes-gateway.service: polkit refuses"
    held = plan(incident(), hold=Hold(f"{why}; add this line with visudo: {line}"))
    body = compose(Choice("first seen", (of(incident()),), "high", Case(held)), setting("zh")).body
    assert f"请用 visudo 加入这一行：\n    {line}\n" in body
    assert "暂不执行：hermes 无权管理 系统服务 hermes-gateway.service：polkit refuses\n" in body
