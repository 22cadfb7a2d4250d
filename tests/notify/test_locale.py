"""Every rule, recipe and message in both languages, short enough for a lock screen."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest
from talk import BOOK, MINUTE, NOW, STUCK, context, ended, incident, plan, report

from watchdog.config.settings import LANGUAGES, NotifySettings, Secret, Target
from watchdog.gateway.reasons import Warn
from watchdog.job import find_job, load_rules
from watchdog.model import Change, Hold, Phrase, Reason, phrase, plain
from watchdog.model.plan_reasons import Wait
from watchdog.notify import plan_lines
from watchdog.notify.apprise_child import _WHYS as WHYS
from watchdog.notify.choose import Proposal, Selection
from watchdog.notify.compose import compose, daily
from watchdog.notify.sanitize import HEADLINE, full_text, headline
from watchdog.notify.translate import in_english, read_words, sentence
from watchdog.pipeline import dry_run, look
from watchdog.reports.check import as_text
from watchdog.reports.language import reader_of
from watchdog.service.samples import as_home, find_cases
from watchdog.sources.read import Sources
from watchdog.sources.reasons import Unreadable
from watchdog.sqlite.faults import Detail, Fault
from watchdog.sqlite.notes import RepairNote, RowDoubt, WitnessKind
from watchdog.sqlite.refusals import DatabaseRefusal, Obstacle
from watchdog.store.messages import News, Subject
from watchdog.store.rows import pack_fields, unpack_fields
from watchdog.text import harmless, redact

SAMPLES = Path(__file__).parents[2] / "samples" / "logs"

EN, ZH = context("en"), context("zh")
FIELDS = {
    **STUCK,
    "provider": "openrouter",
    "job": "daily report",
    "times": "12",
    "within": timedelta(minutes=15),
    "at_least": 3,
    "bot": "102000001",
    "database": "response_store.db",
    "fault": "the header is all zeros",
    "silent": 6 * MINUTE,
    "platform": "telegram",
    "columns": "tasks.tenant TEXT",
    "holder": "python (pid 812)",
    "last_error": "no error was logged",
    "reason": "Bot is offline",
    "count": 3,
}


def fields(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def of(rule: str, **more: object) -> Subject:
    one = BOOK.rule(rule)
    died = {"alive_at": NOW - 2 * MINUTE, "missing_at": NOW} if rule == "gateway-down" else {}
    says = Reason(f"rule.{rule}.say", {**FIELDS, **died})
    return Subject(
        f"incident {rule}", rule, "key", one.severity, one.title, says, NOW - 26 * MINUTE, incident=1, **more
    )  # type: ignore[arg-type]


@pytest.mark.parametrize("rule", BOOK.rules, ids=lambda rule: rule.id)
def test_every_shipped_rule_speaks_chinese(rule):
    theirs = rule.translations["zh"]
    optional = {key for key in ("advice", "cleared") if getattr(rule, key)}
    assert set(theirs) == {"title", "headline", "say"} | optional
    for key in ("say", "headline"):
        assert fields(theirs[key]) <= fields(getattr(rule, key)) | {"count"}
    for text in theirs.values():
        assert re.search("[\u4e00-\u9fff]", text)


@pytest.mark.parametrize("recipe", BOOK.recipes.values(), ids=lambda recipe: recipe.id)
def test_every_shipped_recipe_asks_and_reports_in_both_languages(recipe):
    assert recipe.ask and recipe.done
    assert set(recipe.translations["zh"]) == {"title", "ask", "done"}


@pytest.mark.parametrize(
    ("rule", "language"), list(product(BOOK.rules, LANGUAGES)), ids=lambda value: getattr(value, "id", value)
)
def test_every_headline_and_question_fits_a_lock_screen(rule, language: str):
    said = context(language)
    alone = compose(Selection(News.OPENED, (of(rule.id),), rule.severity), said).title
    assert 0 < len(alone) <= HEADLINE and "…" not in alone and "?" not in alone
    over = of(rule.id, over_at=NOW)
    over = (replace(over, says=replace(over.says, fields={**over.says.fields, "database": "kanban.db"})),)
    assert "…" not in (title := compose(Selection(News.RESOLVED, over, rule.severity), said).title), title
    for recipe in BOOK.recipes.values() if rule.recipe else ():
        if recipe.id in (rule.recipe, BOOK.recipes[rule.recipe].otherwise):
            about = replace(plan(), recipes=(recipe.id,), incidents=(f"{rule.id} key",))
            chosen = Selection(News.QUESTION, (of(rule.id),), "high", Proposal(about, ask=True))
            title = compose(chosen, said).title
            assert len(title) <= HEADLINE and re.search("[?？]$", title), title


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("end", ("approved", "refused", "expired", "lapsed", "not_done", "cut_off"))
@pytest.mark.parametrize("recipe", BOOK.recipes.values(), ids=lambda recipe: recipe.id)
def test_what_becomes_of_every_recipe_fits_a_lock_screen(recipe, end: str, language: str):
    said = context(language)
    what = plan_lines.plan_title(replace(plan(), recipes=(recipe.id,)), said)
    title = headline(said.text(f"title.{end}", what=what), said.words)
    assert what in title and len(title) <= HEADLINE, title


@pytest.mark.parametrize(
    ("rule", "recipe", "english", "chinese"),
    [
        ("gateway-down", "start-gateway", "Gateway is down. Start it?", "网关已停止运行，要启动吗？"),
        (
            "database-broken",
            "heal-database",
            "state.db is damaged. Repair it?",
            "网关：state.db 已损坏，要修复吗？",
        ),
        (
            "session-stuck",
            "restart-gateway",
            "No answer in 1 chat for 18 min. Restart?",
            "网关：1 个会话 18 分钟没有回复，要重启吗？",
        ),
    ],
)
def test_a_question_on_a_lock_screen(rule: str, recipe: str, english: str, chinese: str):
    about = replace(plan(), recipes=(recipe,), incidents=(f"{rule} key",))
    said = Reason(f"rule.{rule}.say", {**FIELDS, "database": "state.db", "waited": timedelta(minutes=18)})
    chosen = Selection(News.QUESTION, (replace(of(rule), says=said),), "high", Proposal(about, ask=True))
    assert [compose(chosen, language).title for language in (EN, ZH)] == [english, chinese]


@pytest.mark.parametrize("rule", [rule for rule in BOOK.rules if rule.advice], ids=lambda rule: rule.id)
def test_advice_is_given_in_the_readers_language(rule):
    body = compose(Selection(News.OPENED, (of(rule.id, advice=rule.advice),), "high"), ZH).body
    assert f"建议：{rule.translations['zh']['advice']}" in body


def test_a_users_rule_is_said_in_the_readers_language(tmp_path: Path):
    """Both forms: `zh: {say: …}`, and the older `says: {zh: …}`."""
    (tmp_path / "detect").mkdir()
    for name, theirs in (
        ("new-form", "zh: {title: 自定义, say: '出现了 {times} 次', headline: 自定义问题}"),
        ("old-form", "titles: {zh: 自定义}\nsays: {zh: '出现了 {times} 次'}"),
    ):
        (tmp_path / "detect" / f"{name}.yaml").write_text(
            f"id: {name}\ntitle: Mine\nseverity: low\nsay: 'seen {{times:time|times}}'\nadvice: Look.\n{theirs}\n"
            "when:\n  - burst: {in: agent.log, line: 'x', at_least: 2, within: 5m}\n"
        )
    book = load_rules(tmp_path)
    said = context("zh", book)
    for name in ("new-form", "old-form"):
        subject = replace(of("tls-burst"), rule=name, says=Reason(f"rule.{name}.say", {"times": "2"}))
        body = compose(Selection(News.OPENED, (subject,), "low"), said).body
        assert "出现了 2 次" in body and "seen" not in body
    english = context("en", book)
    one = replace(of("tls-burst"), rule="new-form", says=Reason("rule.new-form.say", {"times": "1"}))
    assert compose(Selection(News.OPENED, (one,), "low"), english).body.startswith("seen 1 time\n")


def test_a_finding_keeps_what_its_sentence_needs_in_any_language():
    """From the log to the message: a duration is said in the reader's language, not quoted in English."""
    cases = find_cases(SAMPLES, frozenset({"session-stuck"}))
    case = next(case for case in cases if case.name == "fires-model-never-answers")
    with as_home(case.folder) as home:
        seen, _ = look(BOOK.rules, Sources(home, zone=case.zone, stated=case.gateway), None, case.now)
    (finding,) = seen.findings
    subject = replace(of("session-stuck"), says=Reason("rule.session-stuck.say", finding.fields))
    body = compose(Selection(News.OPENED, (subject,), "high"), ZH).body
    assert re.match(r"qqbot 会话 #\w{4} 已等待回复 \d+ 分钟（阈值 \d+ 分钟）\n", body)


@pytest.mark.parametrize("key", sorted({key for _, key in WHYS} | {"rejected", "unknown-address"}))
def test_why_a_target_fails_is_said_in_both_languages(key: str):
    why = Reason(f"undelivered.{key}", {"status": "500"})
    says = Reason("subject.target", {"count": 1, "name": "phone", "why": why, "at": NOW})
    failing = Subject("target phone", "target", "phone", "high", "target", says, NOW)
    english, chinese = (
        compose(Selection(News.TARGET, (failing,), "high"), language) for language in (EN, ZH)
    )
    assert english.title == "Messages do not reach phone"
    assert re.match(r"1 message was not delivered to phone: \w.*\. Next try \d\d:\d\d\.", english.body)
    assert not re.search("[a-z]{3,}", re.sub("phone|Apprise", "", chinese.body)), chinese.body


def test_a_target_that_fails_is_told_by_its_key_from_end_to_end():
    from talk import Server, running, tell

    from watchdog.store import Store

    with running(Server()) as server, Store.in_memory() as store:
        server.broken = lambda: (500, b"no")
        bad = Target("bad", Secret(f"json://127.0.0.1:{server.port}/"))
        settings = NotifySettings((bad,), language="zh", host="box")
        tell(report(Change("opened", incident(recipe=None))), store, settings, NOW)
        told, _ = tell(report(), store, settings, NOW + MINUTE)
    assert [one.body.split("：")[1].split("。")[0] for one in told if one.news == News.TARGET] == [
        "对方返回 500"
    ]


FIRING = [case for case in find_cases(SAMPLES, frozenset()) if case.name.startswith("fires-")]
ONE_OF_EACH_RULE = list({case.folder.parent.name: case for case in FIRING}.values())
ENGLISH = re.compile(r"(?:[a-z']{2,}[ ,;:]+){2,}[a-z']{2,}")


@pytest.mark.parametrize("case", ONE_OF_EACH_RULE, ids=lambda case: case.folder.parent.name)
def test_no_english_sentence_of_ours_reaches_a_chinese_reader(case, tmp_path: Path):
    """What a log, a command or a column says stays as it is; everything else is Chinese."""
    with as_home(case.folder) as home:
        job = find_job(str(home), str(tmp_path), str(tmp_path / "state"), case.now)
        found = dry_run(job.run(None, case.now, stated=case.gateway))
    text = as_text(found, reader_of("zh", BOOK, case.now), dry_run=True)
    for quoted in sorted(quotes_of(found), key=len, reverse=True):
        text = text.replace(quoted, "")
    text = re.sub(
        r"（[^（）]* (?:TEXT|INTEGER|REAL)[^（）]*）|hermes(?:-watchdog)? [a-z ]+|“[^”]*”", "", text
    )
    assert ENGLISH.findall(text) == [], text


def quotes_of(report) -> Iterator[str]:
    """What others wrote, as a check shows it: lines of logs and what rules quote of them."""
    for known in report.incidents:
        for event in known.evidence:
            if not isinstance(event.text, Phrase):
                yield redact(harmless(event.text, 140))
        for value in known.fields.values():
            if isinstance(value, str) and not isinstance(value, Phrase):
                yield from (redact(value), value)


def test_nothing_happened_is_said_in_one_line():
    assert daily([], (0, 0, 0), EN).title == "Gateway watchdog: OK"
    assert daily([], (0, 0, 0), ZH).title == "网关一切正常"
    assert daily([of("tls-burst")], (1, 0, 0), EN).title == "1 open problem"


def test_the_prefix_stands_only_before_a_headline_that_does_not_name_the_gateway():
    assert headline("网关已停止运行", ZH.words) == "网关已停止运行"
    assert headline("QQ 机器人已离线", ZH.words) == "网关：QQ 机器人已离线"
    assert headline("Gateway is down", EN.words) == "Gateway is down"


def test_a_headline_begins_with_the_profile_where_it_fits():
    assert (
        headline("Gateway is down. Start it?", replace(EN.words, profile="work"))
        == "work: Gateway is down. Start it?"
    )
    assert (
        headline("网关已停止运行，要启动吗？", replace(ZH.words, profile="work"))
        == "work：网关已停止运行，要启动吗？"
    )
    long = "No answer in 1 chat for 26 min. Restart?"
    assert headline(long, replace(EN.words, profile="work")) == long


@pytest.mark.parametrize(
    ("language", "title"),
    [("en", "Gateway restarted, problem gone"), ("zh", "网关已重启，问题已消失")],
)
def test_a_restart_that_helped_is_titled_as_its_result(language: str, title: str):
    outcomes = (
        ended("d", "step 1 of 1, restart the gateway", True, "running as pid 812", 12 * MINUTE / 60),
        ended("d", "plan 7", True, "Restart the gateway: done and verified"),
    )
    done = Proposal(plan(), outcomes=outcomes)
    chosen = Selection(News.FIXED, (of("session-stuck"),), "high", done)
    assert compose(chosen, context(language)).title == title


@pytest.mark.parametrize(
    ("language", "says"),
    [
        (
            "en",
            "Started without variables that it had before: HTTPS_PROXY, TOKEN; put them into .env in its home.",
        ),
        ("zh", "启动时缺少之前有的环境变量：HTTPS_PROXY、TOKEN；可以写进主目录的 .env。"),
    ],
)
def test_the_result_names_the_variables_that_the_new_gateway_lacks(language: str, says: str):
    warned = replace(plan(), warnings=(Reason(Warn.WILL_LACK, {"names": ("HTTPS_PROXY", "TOKEN")}),))
    outcomes = (ended("d", "step 1 of 1", True, "running"), ended("d", "plan 7", True, "done"))
    chosen = Selection(News.FIXED, (), "high", Proposal(warned, outcomes=outcomes))
    assert says in compose(chosen, context(language)).body.splitlines()
    assert says in plan_lines.result(outcomes, warned, context(language))
    failed = (ended("d", "plan 7", False, "no"),)
    not_started = Selection(News.NOT_FIXED, (), "high", Proposal(warned, outcomes=failed))
    assert says not in compose(not_started, context(language)).body


@pytest.mark.parametrize(
    ("language", "title"), [("en", "Not verified: Gateway restarted"), ("zh", "未能验证：网关已重启")]
)
def test_what_could_not_be_verified_is_never_called_fixed(language: str, title: str):
    done = Proposal(plan(), outcomes=(replace(ended("d", "plan 7", True, "done"), unproven=("qq-dead",)),))
    chosen = Selection(News.UNVERIFIED, (of("session-stuck"),), "high", done)
    assert compose(chosen, context(language)).title == title


def test_the_whole_chinese_question():
    loop = replace(of("qq-resume-loop"), key="7", ref="incident 2")
    stuck = replace(of("session-stuck"), key="telegram/42")
    asked = replace(plan(incident(2, "qq-resume-loop", "7"), incident(), id=7), costs="")
    chosen = Selection(News.QUESTION, (stuck, loop), "high", Proposal(asked, ask=True))
    notice = compose(chosen, ZH)
    local = (NOW - 26 * MINUTE).astimezone().strftime("%H:%M")
    assert (
        f"{notice.title}\n{full_text(notice, ['（答复方法）'])}"
        == f"""\
网关：QQ 机器人反复掉线，要重启吗？
• QQ 机器人 102000001 反复恢复同一个失效的连接，已断开 12 次（阈值 15 分钟内 3 次）
开始于 {local}（26 分钟）。
• telegram 会话 #7347 已等待回复 26 分钟（阈值 15 分钟）
开始于 {local}（26 分钟）。
处理方案：重启网关
（答复方法）
具体操作：
重启网关（hermes-gateway.service）：
    systemctl --user restart hermes-gateway.service
原因：QQ 反复恢复一个失效的连接 → 有会话在等回复，但没有任何进展
box · 详情：
    hermes-watchdog plan 7"""
    )


def test_a_hold_of_a_plan_is_said_with_its_time():
    held = plan(incident(), hold=Hold(plain("maintenance"), NOW + 30 * MINUTE))
    chosen = Selection(
        News.OPENED, (replace(of("session-stuck"), key="telegram/42"),), "high", Proposal(held)
    )
    assert f"先等到 {(NOW + 30 * MINUTE).astimezone():%H:%M}：" in compose(chosen, ZH).body


def test_the_line_for_sudoers_is_letter_for_letter():
    line = "hermes ALL=(root) NOPASSWD: /usr/bin/systemctl restart hermes-gateway.service, /usr/bin/systemctl stop a\\:x.service"
    why = "hermes may not manage system unit hermes-gateway.service: polkit refuses"
    held = plan(incident(), hold=Hold(Reason(Wait.NEEDS_SUDOERS, {"why": plain(why), "line": line})))
    body = compose(Selection(News.OPENED, (of("session-stuck"),), "high", Proposal(held)), ZH).body
    assert f"请用 visudo 加入这一行：\n    {line}" in body


@pytest.mark.parametrize(
    ("span", "chinese"),
    [
        (timedelta(minutes=26), "26 分钟"),
        (timedelta(hours=1, minutes=5), "1 小时 5 分钟"),
        (timedelta(days=2), "2 天"),
        (timedelta(seconds=40), "40 秒"),
    ],
)
def test_durations_are_said_in_chinese(span: timedelta, chinese: str):
    assert read_words("zh").span(span) == chinese


@pytest.mark.parametrize(
    "keys",
    [Detail, Fault, RepairNote, RowDoubt, WitnessKind, DatabaseRefusal, Obstacle, Unreadable],
    ids=lambda keys: keys.__name__,
)
def test_every_phrase_of_the_code_has_a_chinese_sentence(keys):
    known = read_words("zh").texts
    assert [key for key in keys if str(key) not in known] == []


def test_a_phrase_is_english_text_that_can_be_said_in_another_language():
    why = phrase(Detail.SCHEMA_UNREADABLE, "cannot read it: {why}", why=phrase(Detail.CELL, "a cell is bad"))
    assert why == "cannot read it: a cell is bad" and json.loads(json.dumps(why)) == str(why)
    kept = unpack_fields(pack_fields({"fault": why}))["fault"]
    for reason in (why.reason, kept):
        assert in_english(reason) == why
        assert sentence(reason, read_words("zh"), NOW) == "读不出 schema：有单元超出了页尾"


def test_rewording_the_english_of_a_phrase_changes_no_translation():
    reworded = phrase(Detail.ZEROS, "nothing but zeros where the header should be")
    assert sentence(reworded.reason, read_words("zh"), NOW) == "文件头全是 0"
