"""The mailbox of plans on a real PostgreSQL: a team answers, one host acts; and what an attacker gets out of it."""

from __future__ import annotations

import itertools
import json
import os
import re
import select
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg
import pytest

from watchdog.errors import FleetError
from watchdog.fleet import mailbox, postgres, schema, setup
from watchdog.fleet.mailbox_plan import digest_of_row

from . import parts
from .engines import Postgres, folder, needs, until
from .fleet_home import Host

NUMBER = itertools.count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    needs("postgresql")
    with folder() as base:
        made = Postgres(base)
        yield made
        made.stop()


class Team:
    """A mailbox in a database of its own, with hosts and people."""

    def __init__(self, server: Postgres, top: Path):
        self.server, self.top, self.number = server, top, next(NUMBER)
        self.database = f"fleet{self.number}"
        self.passwords: dict[str, str] = {}
        with psycopg.connect(server.dsn("postgres"), autocommit=True) as db:
            db.execute(f"CREATE DATABASE {self.database}")
        with postgres.connected(self.dsn("postgres"), check=False) as db:
            setup.initialise(db)
        self.anna = self.person("anna")

    def dsn(self, role: str) -> str:
        return self.server.dsn(role, self.passwords.get(role, ""), self.database)

    def role(self, name: str, approver: bool) -> str:
        role = f"{name}_{self.number}"
        with postgres.connected(self.dsn("postgres")) as db:
            self.passwords[role] = setup.add_role(db, role, approver)
        return role

    def person(self, name: str) -> Host:
        role = self.role(name, approver=True)
        return Host(self.top, role, f"fleet: {{postgres: '{self.dsn(role)}'}}\n", broken=False)

    def host(self, name: str, more: str = "", **how: Any) -> Host:
        role = self.role(name, approver=False)
        approvers = f"approvers: [anna_{self.number}]"
        return Host(self.top, role, f"fleet: {{postgres: '{self.dsn(role)}', {approvers}}}\n{more}", **how)

    def end(self) -> None:
        """Roles belong to the whole server: the next test must not meet those of this one."""
        with psycopg.connect(self.server.dsn("postgres"), autocommit=True) as db:
            db.execute(f"DROP DATABASE {self.database} WITH (FORCE)")
            for role in self.passwords:
                db.execute(f"DROP ROLE {role}")

    def sql(self, statement: str, role: str = "postgres") -> list[Any]:
        with psycopg.connect(self.dsn(role), autocommit=True) as db:
            found = db.execute(statement)
            return found.fetchall() if found.description else []

    def plans(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.anna.run("fleet", "plans", "--all", "--json").stdout)
        return found


@pytest.fixture
def team(server: Postgres, tmp_path: Path) -> Iterator[Team]:
    made = Team(server, tmp_path)
    yield made
    made.end()


def test_a_plan_is_asked_answered_from_elsewhere_and_carried_out_on_its_host(team: Team):
    hosts = [team.host(name) for name in ("web1", "web2", "web3")]
    for host in hosts:
        assert host.check()["notes"] == []
    asked = team.plans()
    assert sorted(plan["host"] for plan in asked) == sorted(host.name for host in hosts)
    mine = next(plan for plan in asked if plan["host"] == hosts[1].name)
    assert f"hermes-watchdog db migrate {hosts[1].home}/kanban.db" in mine["words"][0]
    shown = team.anna.run("fleet", "plans")
    assert shown.returncode == 1 and mine["code"] in shown.stdout and mine["words"][0] in shown.stdout
    said = team.anna.run("fleet", "approve", "-", stdin=mine["code"].lower() + "\n")
    assert said.returncode == 0 and "compares it with its own plan" in said.stdout
    for host in hosts:
        host.check()
    assert [host.done() for host in hosts] == [0, 1, 0]
    assert ["tenant" in host.columns for host in hosts] == [False, True, False]
    (ended,) = [plan for plan in team.plans() if plan["code"] == mine["code"]]
    assert ended["answered_by"] == team.anna.name and ended["outcome"]
    hosts[1].check()  # the fault is gone
    status = team.anna.run("fleet", "status")
    assert status.stdout.count("last check") == 3 and status.stdout.count("missing-column") == 2, (
        status.stdout
    )
    assert "too much" not in status.stdout
    again = team.anna.run("fleet", "approve", mine["code"])
    assert again.returncode == 1 and "approved already" in again.stdout


def test_a_refusal_is_heard_and_nothing_is_done(team: Team):
    host = team.host("web1")
    host.check()
    (plan,) = team.plans()
    assert team.anna.run("fleet", "refuse", plan["code"]).returncode == 0
    host.check()
    assert host.done() == 0 and "refused" in host.run("plans").stdout


def test_fifty_who_approve_at_once_make_one_execution_on_the_right_host(team: Team):
    hosts = [team.host(f"web{number}") for number in range(1, 4)]
    people = [team.role(f"racer{number}", approver=True) for number in range(50)]
    for host in hosts:
        role = host.name
        host.configure(f"fleet: {{postgres: '{team.dsn(role)}', approvers: [{', '.join(people)}]}}\n")
        host.check()
    plan = next(each for each in team.plans() if each["host"] == hosts[0].name)
    start = threading.Barrier(50)

    def race(role: str) -> str:
        with postgres.connected(team.dsn(role), limit=30) as db:
            found = mailbox.find(db, plan["code"])
            assert found is not None
            start.wait(60)
            return mailbox.answer(db, found.id, True, digest_of_row(found))

    with ThreadPoolExecutor(50) as pool:
        results = list(pool.map(race, people))
    assert sorted(results) == ["approved"] * 49 + ["done"]
    assert team.sql("SELECT count(*) FROM hermes_watchdog.audit WHERE what = 'approved'") == [(1,)]
    # The host itself is checked by three processes at once, and once more.
    with ThreadPoolExecutor(5) as pool:
        list(pool.map(lambda host: host.run("check"), [hosts[0], hosts[0], hosts[0], *hosts[1:]]))
    for host in hosts:
        host.check()
    assert [host.done() for host in hosts] == [1, 0, 0]


def test_a_stolen_host_password_forges_nothing(team: Team):
    victim, thief = team.host("victim"), team.host("thief")
    victim.check()
    thief.check()
    plan = next(each for each in team.plans() if each["host"] == victim.name)
    own = next(each for each in team.plans() if each["host"] == thief.name)
    table = "hermes_watchdog.plans"
    columns = "home, machine, plan, digest, title, words, approvers, code, lasts"
    row = f"'/h', 'm', 1, '{'a' * 64}', 't', '[]', '{{}}', 'AAAAAAAA', '1 hour'"
    attempts = [
        f"SELECT hermes_watchdog.answer(id, true, 'x') FROM {table}",
        f"UPDATE {table} SET state = 'approved'",
        f"UPDATE {table} SET words = '[\"rm\"]'",
        f"UPDATE {table} SET answered_by = 'anna_{team.number}'",
        f"DELETE FROM {table}",
        f"TRUNCATE {table}",
        f"INSERT INTO {table} (host, {columns}) VALUES ('{victim.name}', {row})",
        f"INSERT INTO {table} (state, answered_by, {columns}) VALUES ('approved', 'anna', {row})",
        f"INSERT INTO {table} (expires_at, {columns}) VALUES ('infinity', {row})",
        f"INSERT INTO {table} ({columns}) VALUES ({row.replace('AAAAAAAA', own['code'])})",
        "INSERT INTO hermes_watchdog.audit (what, host) VALUES ('approved', 'x')",
        "UPDATE hermes_watchdog.audit SET says = ''",
        "DELETE FROM hermes_watchdog.audit",
        "TRUNCATE hermes_watchdog.audit",
        f"INSERT INTO hermes_watchdog.homes (host, home, instance, profile, clock, every) "
        f"VALUES ('{victim.name}', '/x', 'x', 'x', now(), '1 min')",
        "UPDATE hermes_watchdog.homes SET checked_at = now()",
        "DELETE FROM hermes_watchdog.homes",
        "UPDATE hermes_watchdog.schema_version SET version = 99",
        "ALTER TABLE hermes_watchdog.plans DISABLE ROW LEVEL SECURITY",
        "DROP TRIGGER append_only ON hermes_watchdog.audit",
        "CREATE TABLE hermes_watchdog.mine (x int)",
        "LOCK TABLE hermes_watchdog.plans IN SHARE MODE",
        "LOCK TABLE hermes_watchdog.homes IN ACCESS EXCLUSIVE MODE",
        f"SELECT id FROM {table} FOR UPDATE",
        "SET ROLE hermes_watchdog_owner",
        "SET ROLE hermes_watchdog_approver",
        f"SET SESSION AUTHORIZATION {victim.name}",
        f"GRANT hermes_watchdog_approver TO {thief.name}",
        f"ALTER ROLE {victim.name} PASSWORD 'x'",
        "COPY hermes_watchdog.plans TO PROGRAM 'id'",
    ]
    for attempt in attempts:
        with pytest.raises(psycopg.Error):
            team.sql(attempt, thief.name)
    hidden = (
        f"SELECT count(*) FROM {table} WHERE host <> '{thief.name}'",
        f"SELECT count(*) FROM hermes_watchdog.homes WHERE host <> '{thief.name}'",
        f"SELECT count(*) FROM hermes_watchdog.audit WHERE host <> '{thief.name}'",
    )
    assert [team.sql(query, thief.name) for query in hidden] == [[(0,)]] * 3
    (victims,) = team.sql(f"SELECT id FROM {table} WHERE host = '{victim.name}'")
    assert team.sql(f"SELECT hermes_watchdog.close({victims[0]}, 'gone')", thief.name) == [(False,)]
    assert next(each for each in team.plans() if each["host"] == victim.name) == {
        **plan,
        "seconds_left": pytest.approx(plan["seconds_left"], abs=60),
    }
    victim.check()
    assert victim.done() == 0


def test_a_plan_that_a_thief_made_up_approves_nothing(team: Team):
    """With the host's own password: harmless words for the real plan, and commands for a plan of his own."""
    host = team.host("web1")
    host.check()
    (real,) = team.plans()
    (stored,) = team.sql("SELECT home, machine, plan, digest FROM hermes_watchdog.plans", host.name)
    for words in ('["print hello"]', '["rm -rf /"]'):
        code = "HARMLESS" if "hello" in words else "EVILEVIL"
        team.sql(
            "INSERT INTO hermes_watchdog.plans (home, machine, plan, digest, title, words, approvers, code, lasts) VALUES "
            f"('{stored[0]}', '{stored[1]}', {stored[2]}, '{stored[3]}', 'x', '{words}', "
            f"ARRAY['{team.anna.name}'], '{code}', '1 hour')",
            host.name,
        )
        assert team.anna.run("fleet", "approve", code).returncode == 0
        report = host.check()
        assert host.done() == 0 and "tenant" not in host.columns
        assert any("changed nothing" in note for note in report["notes"]), report["notes"]
    audit = host.run("audit").stdout
    assert "not the plan" in audit and real["code"] not in audit


def test_a_plan_that_the_owner_of_the_database_edited_is_not_carried_out(team: Team):
    host = team.host("web1")
    host.check()
    (plan,) = team.plans()
    for column, value in (("words", "'[\"print hello\"]'"), ("digest", f"'{'0' * 64}'"), ("plan", "9")):
        with pytest.raises(psycopg.Error, match="cannot be changed"):
            team.sql(f"UPDATE hermes_watchdog.plans SET {column} = {value}")
    team.sql(
        "ALTER TABLE hermes_watchdog.plans DISABLE TRIGGER keep; "
        "UPDATE hermes_watchdog.plans SET words = '[\"print hello\"]'"
    )
    assert "switched off: trigger keep of plans" in team.anna.run("fleet", "status").stdout
    assert team.anna.run("fleet", "approve", plan["code"]).returncode == 0
    report = host.check()
    assert host.done() == 0 and any("changed nothing" in note for note in report["notes"])


def test_a_yes_that_is_replayed_does_nothing_the_second_time(team: Team):
    host = team.host("web1")
    host.check()
    (plan,) = team.plans()
    team.anna.run("fleet", "approve", plan["code"])
    host.check()
    assert host.done() == 1
    # The database is put back to a moment ago, and the fault is there again.
    team.sql(
        "ALTER TABLE hermes_watchdog.plans DISABLE TRIGGER keep; "
        "UPDATE hermes_watchdog.plans SET closed_at = NULL, answered_at = clock_timestamp(), says = ''"
    )
    host.heal_by_hand()
    fresh = Host(team.top, "again", "", broken=True)
    for name in ("kanban.db", "logs/gateway.log", "logs/agent.log"):
        (fresh.home / name).replace(host.home / name)
    store = next(host.state.rglob("watchdog.db"))
    with sqlite3.connect(store) as db:
        db.execute("DELETE FROM cursors WHERE channel = 'postgres'")
        db.execute("DELETE FROM actions")  # no budget or cooldown stands in the way
    for _ in range(2):
        host.check()
    assert host.done() == 0 and "tenant" not in host.columns


def test_an_answer_of_somebody_who_is_not_listed_does_not_count_and_does_not_use_up_the_question(team: Team):
    host, ben = team.host("web1"), team.person("ben")
    host.check()
    (plan,) = team.plans()
    said = ben.run("fleet", "approve", plan["code"])
    assert said.returncode == 1 and "does not list your role" in said.stdout
    # The list in the row is the host's word; the host's own list decides.
    team.sql(
        "ALTER TABLE hermes_watchdog.plans DISABLE TRIGGER keep; "
        f"UPDATE hermes_watchdog.plans SET approvers = ARRAY['{ben.name}']"
    )
    assert ben.run("fleet", "approve", plan["code"]).returncode == 0
    assert any("not on the list" in note for note in host.check()["notes"])
    assert host.done() == 0


def test_time_is_the_servers_and_a_host_with_a_wrong_clock_is_told(team: Team):
    host = team.host("web1")
    host.check()
    (plan,) = team.plans()
    team.sql("UPDATE hermes_watchdog.homes SET clock = clock - interval '1 hour'")
    assert re.search(r"clock: 1 hour.* behind", team.anna.run("fleet", "status").stdout)
    team.sql(
        "ALTER TABLE hermes_watchdog.plans DISABLE TRIGGER keep; "
        "UPDATE hermes_watchdog.plans SET expires_at = clock_timestamp()"
    )
    said = team.anna.run("fleet", "approve", plan["code"])
    assert said.returncode == 1 and "has expired" in said.stdout
    host.check()
    assert host.done() == 0


@pytest.mark.parametrize("off", ["-1h", "+1h"])
def test_a_host_whose_clock_is_an_hour_off_is_asked_and_acts_all_the_same(team: Team, off: str):
    needs("faketime")
    host = team.host("web1", clock=off)
    host.check()
    (plan,) = team.plans()
    assert 1500 < plan["seconds_left"] <= 1800, "thirty minutes from now by the server's clock"
    assert team.anna.run("fleet", "approve", plan["code"]).returncode == 0
    host.check()
    assert host.done() == 1
    side = "behind" if off == "-1h" else "ahead"
    assert re.search(rf"clock: .*{side}", team.anna.run("fleet", "status").stdout)


def test_a_row_of_a_host_that_does_not_exist_is_told_and_cannot_be_approved(team: Team):
    host = team.host("web1")
    host.check()
    columns = "home, machine, plan, digest, title, words, approvers, code, lasts"
    team.sql(
        f"INSERT INTO hermes_watchdog.plans (host, {columns}) SELECT 'ghost', home, machine, plan, digest, title, "
        "words, approvers, 'GGGGGGGG', lasts FROM hermes_watchdog.plans; "
        "INSERT INTO hermes_watchdog.homes (host, home, instance, profile, clock, every) "
        "VALUES ('ghost', '/g', 'ghost', 'default', now(), '15 min')"
    )
    assert "no role" in team.anna.run("fleet", "plans").stdout
    said = team.anna.run("fleet", "approve", "GGGGGGGG")
    assert said.returncode == 1 and "has no role" in said.stdout
    status = team.anna.run("fleet", "status")
    assert status.returncode == 1 and "its rows are history" in status.stdout
    host.check()
    assert host.done() == 0


def test_a_newer_mailbox_is_left_alone_and_the_check_goes_on(team: Team):
    host = team.host("web1")
    team.sql("INSERT INTO hermes_watchdog.schema_version (version) VALUES (99)")
    report = host.check()
    assert report["plans"][0]["id"] == 1
    assert all("newer hermes-watchdog" in note for note in report["notes"]) and len(report["notes"]) == 2
    for words in (("fleet", "plans"), ("fleet", "status"), ("fleet", "init")):
        said = team.anna.run(*words)
        assert said.returncode == 2 and "newer hermes-watchdog" in said.stderr
    assert team.sql("SELECT count(*) FROM hermes_watchdog.plans") == [(0,)]


def test_an_older_mailbox_is_told_and_brought_up_to_date_by_init(team: Team):
    host = team.host("web1")
    team.sql(
        "ALTER TABLE hermes_watchdog.plans DROP CONSTRAINT few_approvers; "
        "DELETE FROM hermes_watchdog.schema_version WHERE version > 1"
    )
    assert all("run: hermes-watchdog fleet init" in note for note in host.check()["notes"])
    with postgres.connected(team.dsn("postgres"), check=False) as db:
        assert setup.initialise(db) == (1, schema.VERSION)
        assert setup.initialise(db) == (schema.VERSION, schema.VERSION)
    host.check()
    assert team.sql("SELECT conname FROM pg_constraint WHERE conname = 'few_approvers'") == [
        ("few_approvers",)
    ]


OWN_ROWS = "CREATE POLICY own ON {audit} FOR SELECT TO hermes_watchdog_host USING (host = session_user)"
TOO_MUCH = [  # what was granted, how to take it back, what is told
    ("ALTER ROLE {host} SUPERUSER", "ALTER ROLE {host} NOSUPERUSER", "superuser"),
    ("ALTER ROLE {host} BYPASSRLS", "ALTER ROLE {host} NOBYPASSRLS", "bypass-rls"),
    ("ALTER ROLE {host} CREATEROLE", "ALTER ROLE {host} NOCREATEROLE", "create-roles"),
    ("ALTER ROLE {host} REPLICATION", "ALTER ROLE {host} NOREPLICATION", "replication"),
    ("GRANT {approver} TO {host}", "REVOKE {approver} FROM {host}", "host-approves"),
    ("GRANT {owner} TO {host}", "REVOKE {owner} FROM {host}", "owner"),
    ("GRANT UPDATE ON {plans} TO {host}", "REVOKE UPDATE ON {plans} FROM {host}", "change-questions"),
    (
        "GRANT UPDATE (words) ON {plans} TO {host}",
        "REVOKE UPDATE (words) ON {plans} FROM {host}",
        "change-questions",
    ),
    ("GRANT pg_write_all_data TO {host}", "REVOKE pg_write_all_data FROM {host}", "change-audit"),
    ("GRANT DELETE ON {audit} TO PUBLIC", "REVOKE DELETE ON {audit} FROM PUBLIC", "change-audit"),
    (
        "GRANT EXECUTE ON FUNCTION {answer} TO {host}",
        "REVOKE EXECUTE ON FUNCTION {answer} FROM {host}",
        "answer",
    ),
    (
        "ALTER TABLE {plans} DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE {plans} ENABLE ROW LEVEL SECURITY",
        "row-level security of plans",
    ),
    (
        "ALTER TABLE {audit} DISABLE TRIGGER append_only",
        "ALTER TABLE {audit} ENABLE TRIGGER append_only",
        "trigger append_only of audit",
    ),
    (
        "CREATE POLICY hole ON {plans} USING (true)",
        "DROP POLICY hole ON {plans}",
        "an unknown policy hole of plans",
    ),
    (
        "GRANT pg_execute_server_program TO {host}",
        "REVOKE pg_execute_server_program FROM {host}",
        "server-files",
    ),
    (
        "GRANT CREATE ON SCHEMA hermes_watchdog TO {host}",
        "REVOKE CREATE ON SCHEMA hermes_watchdog FROM {host}",
        "create",
    ),
    ("GRANT UPDATE ON {plans} TO {third}", "REVOKE UPDATE ON {plans} FROM {third}", "change-questions"),
    (
        "GRANT EXECUTE ON FUNCTION {answer} TO {third}",
        "REVOKE EXECUTE ON FUNCTION {answer} FROM {third}",
        "answer",
    ),
    ("DROP POLICY own ON {audit}", OWN_ROWS, "policy own of audit"),
    (
        "ALTER POLICY own ON {plans} USING (true)",
        "ALTER POLICY own ON {plans} USING (host = session_user)",
        "policy own of plans",
    ),
    (
        "ALTER POLICY own ON {plans} WITH CHECK (true)",
        "ALTER POLICY own ON {plans} WITH CHECK (host = session_user)",
        "policy own of plans",
    ),
    (
        "ALTER POLICY every ON {audit} TO PUBLIC",
        "ALTER POLICY every ON {audit} TO {approver}",
        "policy every of audit",
    ),
]


def test_a_role_that_may_do_too_much_is_told(team: Team):
    host = team.host("web1", broken=False)
    team.passwords["third"] = ""
    team.sql("CREATE ROLE third LOGIN")
    names = {
        "host": host.name,
        "third": "third",
        "approver": "hermes_watchdog_approver",
        "owner": "hermes_watchdog_owner",
        **{name: f"hermes_watchdog.{name}" for name in ("plans", "audit", "answer")},
    }

    def told() -> list[str]:
        with postgres.connected(team.dsn(team.anna.name)) as db:
            return [may for _, may in setup.too_much(db)]

    assert host.check()["notes"] == [] and told() == []
    for grant, back, may in TOO_MUCH:
        team.sql(grant.format(**names))
        assert may in told(), grant
        team.sql(back.format(**names))
        assert told() == [], back
    team.sql(f"ALTER ROLE {host.name} BYPASSRLS")
    said = team.anna.run("fleet", "status")
    assert (
        said.returncode == 1 and f"role {host.name} may read and write the rows of every host" in said.stdout
    )
    assert any("may do too much" in note for note in host.check()["notes"])


def test_a_host_that_approves_does_not_answer_its_own_question(team: Team):
    host = team.host("web1")
    team.sql(f"GRANT hermes_watchdog_approver TO {host.name}")
    host.configure(f"fleet: {{postgres: '{team.dsn(host.name)}', approvers: [{host.name}]}}\n")
    host.check()
    (plan,) = team.plans()
    assert host.run("fleet", "approve", plan["code"]).returncode == 1
    host.check()
    assert host.done() == 0


@pytest.mark.parametrize("verb", ["UPDATE hermes_watchdog.audit SET says = 'x'", "DELETE FROM hermes_watchdog.audit",
                                  "TRUNCATE hermes_watchdog.audit"])  # fmt: skip
def test_the_audit_is_append_only_for_everybody(team: Team, verb: str):
    team.host("web1").check()
    with pytest.raises(psycopg.Error, match="append-only"):
        team.sql(verb)
    rows = team.sql("SELECT * FROM hermes_watchdog.audit")
    assert rows and team.plans()[0]["code"] not in str(rows)


FLOODS = {
    "plans": "(home, machine, plan, digest, title, words, approvers, code, lasts) "
    f"VALUES ('/h', 'm', {{0}}, '{'a' * 64}', 't', '[]', '{{{{}}}}', 'FLOOD{{0:03}}', '1 hour')",
    "homes": "(home, instance, profile, clock, every) VALUES ('/h{0}', 'x', 'x', now(), '1 min')",
}


@pytest.mark.parametrize("table", FLOODS)
def test_a_flood_from_one_host_ends_at_its_limit(team: Team, table: str):
    host = team.host("web1")
    host.check()
    with (
        psycopg.connect(team.dsn(host.name), autocommit=True) as db,
        pytest.raises(psycopg.Error, match="at most"),
    ):
        for number in range(110):
            db.execute(f"INSERT INTO hermes_watchdog.{table} {FLOODS[table].format(number)}")


def test_a_flood_of_questions_that_are_withdrawn_at_once_ends_at_the_limit_of_a_day(team: Team):
    host = team.host("web1")
    host.check()
    with psycopg.connect(team.dsn(host.name), autocommit=True) as db:
        own = db.execute("SELECT id FROM hermes_watchdog.plans").fetchone()
        assert own is not None
        for number in range(100):
            db.execute("SELECT hermes_watchdog.close(%s, %s)", (own[0], f"{number}"))
        kept = db.execute("SELECT count(*) FROM hermes_watchdog.audit WHERE what = 'told'").fetchone()
        assert kept is not None and 0 < kept[0] <= 20
        with pytest.raises(psycopg.Error, match="in a day at most"):
            for number in range(250):
                row = db.execute(
                    "INSERT INTO hermes_watchdog.plans (home, machine, plan, digest, title, words, approvers, code, lasts) "
                    f"VALUES ('/h', 'm', 1, '{'a' * 64}', 't', '[]', '{{}}', 'F{number:07}', '1 hour') RETURNING id"
                ).fetchone()
                assert row is not None
                db.execute("SELECT hermes_watchdog.close(%s, 'no')", row)


DEEP = "[" * 3000 + "]" * 3000
LONG_NUMBER = f"[{'9' * 60_000}]"


def _home(clock: str = "now()", every: str = "1 min", incidents: str = "[]") -> str:
    return (
        "INSERT INTO hermes_watchdog.homes (home, instance, profile, clock, every, incidents) "
        f"VALUES ('/h', 'i', 'p', {clock}, '{every}', '{incidents}')"
    )


def _question(words: str = "[]", about: str = "{}", approvers: str = "'{}'") -> str:
    return (
        "INSERT INTO hermes_watchdog.plans (home, machine, plan, digest, title, words, about, approvers, code, lasts) "
        f"VALUES ('/h', 'm', 9, '{'a' * 64}', 't', '{words}', '{about}', {approvers}, 'AAAAAAAA', '1 hour')"
    )


HOSTILE_ROWS = {
    "interval": _home(every="100000000 years"),
    "clock": _home(clock="'infinity'"),
    "far clock": _home(clock="'290000-01-01'"),
    "deep incidents": _home(incidents=DEEP),
    "long number": _home(incidents=LONG_NUMBER),
    "deep words": _question(words=DEEP),
    "long word": _question(words=LONG_NUMBER),
    "deep about": _question(about='{"a":' * 2000 + "1" + "}" * 2000),
    "approvers": _question(approvers="array_fill('x'::text, '{100000}')"),
}


@pytest.mark.parametrize("row", HOSTILE_ROWS.values(), ids=HOSTILE_ROWS)
def test_what_a_thief_writes_keeps_nobody_from_seeing_and_answering_the_others(team: Team, row: str):
    victim, thief = team.host("victim"), team.role("thief", approver=False)
    victim.check()
    with suppress(psycopg.Error):
        team.sql(row, thief)
    assert team.sql("SELECT count(*) FROM hermes_watchdog.plans WHERE length(approvers::text) > 30000") == [
        (0,)
    ]
    assert victim.name in team.anna.run("fleet", "status").stdout
    plan = next(each for each in team.plans() if each["host"] == victim.name)
    assert plan["code"] in team.anna.run("fleet", "plans").stdout
    assert team.anna.run("fleet", "approve", plan["code"]).returncode == 0


def _daemon(host: Host) -> subprocess.Popen[bytes]:
    with open(host.home.parent / "daemon.log", "w") as log:
        return subprocess.Popen(
            [parts.COMMAND, "run", "--home", host.home, "--config", host.config, "--state", host.state],
            stdout=log,
            stderr=log,
        )


def test_a_flood_of_notifications_does_not_keep_a_daemon_busy(team: Team):
    host, thief = team.host("web1"), team.role("thief", approver=False)
    daemon = _daemon(host)
    try:
        until(
            lambda: team.sql("SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")[0][0],
            "it listens",
        )

        def ticks() -> int:
            fields = Path(f"/proc/{daemon.pid}/stat").read_text().rpartition(")")[2].split()
            return int(fields[11]) + int(fields[12])

        began, before = time.monotonic(), ticks()
        with psycopg.connect(team.dsn(thief), autocommit=True) as db:
            while time.monotonic() < began + 10:
                db.execute("SELECT pg_notify('hermes_watchdog', %s)", (host.name,))
        used = (ticks() - before) / os.sysconf("SC_CLK_TCK")
        assert used < 2.5, f"{used} s of processor time in 10 s"
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(30)


def test_a_host_that_only_the_environment_names_is_not_spoken_to_in_the_clear(
    team: Team, monkeypatch: pytest.MonkeyPatch
):
    host = team.host("web1", broken=False)
    monkeypatch.setenv("PGHOST", "0.0.0.0")  # this machine, but not by a name that says so
    with (
        pytest.raises(FleetError, match="unencrypted"),
        postgres.connected(team.dsn(host.name).replace("host=127.0.0.1", "")),
    ):
        pass


class _Relay(threading.Thread):
    """Passes a connection on to PostgreSQL until it is told to hang: the network, or a server that stands still."""

    def __init__(self, port: int, after: int):
        super().__init__(daemon=True)
        self.server, self.to, self.after = socket.create_server(("127.0.0.1", 0)), port, after
        self.port, self.hanging = int(self.server.getsockname()[1]), 0
        self.start()

    def run(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.server.accept()
                threading.Thread(target=self.passes, args=(client,), daemon=True).start()

    def passes(self, client: socket.socket) -> None:
        with socket.create_connection(("127.0.0.1", self.to)) as server, client, suppress(OSError):
            answers = 0
            while True:
                for side in select.select([client, server], [], [])[0]:
                    if not (data := side.recv(65536)):
                        return
                    answers += side is server
                    if answers <= self.after:
                        (server if side is client else client).sendall(data)
                    elif side is server:
                        self.hanging += 1


def test_a_server_that_stands_still_after_the_login_does_not_stop_a_daemon(team: Team):
    host = team.host("web1")
    relay = _Relay(team.server.port, after=3)  # the login takes three answers
    settings = host.config / "settings.yaml"
    settings.write_text(settings.read_text().replace(f"port={team.server.port}", f"port={relay.port}"))
    daemon = _daemon(host)
    try:
        until(lambda: relay.hanging >= 3, "asked, polled, and listened", 90)
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(30)
        relay.server.close()


@pytest.mark.parametrize("after", [0, 3, 5, 8])
def test_a_server_that_stands_still_in_the_middle_of_a_question_ends_no_check(team: Team, after: int):
    host = team.host("web1")
    relay = _Relay(team.server.port, after)
    settings = host.config / "settings.yaml"
    settings.write_text(settings.read_text().replace(f"port={team.server.port}", f"port={relay.port}"))
    began = time.monotonic()
    report = host.check()
    assert time.monotonic() - began < 60
    assert report["plans"][0]["id"] == 1 and any("mailbox" in note for note in report["notes"]), report[
        "notes"
    ]
    code = json.loads(host.run("plan", "1", "--code", "--json").stdout)["code"]
    assert host.run("approve", code).returncode == 0 and host.done() == 1
    relay.server.close()


def test_two_homes_of_one_host_hear_only_their_own_answers(team: Team):
    host = team.host("web1")
    other = Host(
        team.top,
        "other",
        (host.config / "settings.yaml").read_text().partition("notify:")[2].partition("\n")[2],
    )
    host.check()
    other.check()
    plan = next(each for each in team.plans() if each["home"] == str(other.home))
    team.anna.run("fleet", "approve", plan["code"])
    assert host.check()["notes"] == []
    other.check()
    assert (host.done(), other.done()) == (0, 1)
    assert "wrong code" not in host.run("audit").stdout


class _Phone(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.server.taken.append(self.rfile.read(int(self.headers["Content-Length"])))  # type: ignore[attr-defined]
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_postgresql_down_checks_messages_and_local_approval_go_on_and_it_is_told(tmp_path: Path):
    needs("postgresql")
    phone = ThreadingHTTPServer(("127.0.0.1", 0), _Phone)
    phone.taken = []  # type: ignore[attr-defined]
    threading.Thread(target=phone.serve_forever, args=(0.05,), daemon=True).start()
    with folder() as base:
        server = Postgres(base)
        team = Team(server, tmp_path)
        target = f"notify: {{targets: [{{name: phone, url: 'json://127.0.0.1:{phone.server_port}/'}}]}}\n"
        host = team.host("web1")
        settings = (host.config / "settings.yaml").read_text()
        (host.config / "settings.yaml").write_text(
            settings.replace(f"notify: {{host: {host.name}}}\n", target)
        )
        server.stop()
        began = time.monotonic()
        report = host.check()
        assert time.monotonic() - began < 60  # six scenarios on two cores; connecting is refused at once
        assert sum("postgres" in note or "mailbox" in note for note in report["notes"]) == 2, report["notes"]
        assert any(b"hermes-watchdog approve" in body for body in phone.taken)  # type: ignore[attr-defined]
        code = host.run("plan", "1", "--code", "--json")
        approved = host.run("approve", json.loads(code.stdout)["code"])
        assert approved.returncode == 0, approved.stdout + approved.stderr
        assert host.done() == 1 and "tenant" in host.columns
        host.check()
        host.check()
        told = b" ".join(phone.taken)  # type: ignore[attr-defined]
        assert b"mailbox of plans" in told, "people are told like of any target that takes no message"
        server.start()
        assert host.check()["notes"] == []
        server.stop()
    phone.shutdown()
    phone.server_close()


def test_the_long_running_mode_hears_an_answer_at_once(team: Team):
    host = team.host("web1")
    daemon = _daemon(host)
    try:
        (plan,) = until(team.plans, "the plan is in the mailbox")
        listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
        until(lambda: team.sql(listening)[0][0], "the daemon listens")
        assert team.anna.run("fleet", "approve", plan["code"]).returncode == 0
        began = time.monotonic()
        until(lambda: "tenant" in host.columns, "it is carried out", 30)
        assert time.monotonic() - began < 8, "sooner than the next look of polling"
        until(lambda: not team.sql(listening)[0][0], "no connection is kept when nothing is asked", 30)
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(30)
