"""serve: GET shows, POST with code and digest acts, and nobody else's page can do either."""

from __future__ import annotations

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest
from broken_home import make_broken_home
from pages import Page

from watchdog.approval.record import COMMAND_LINE, new_code
from watchdog.cli import main
from watchdog.errors import WatchdogError
from watchdog.job import Job, find_job
from watchdog.store import plans as rows
from watchdog.values import replace as changed
from watchdog.web import guard
from watchdog.web.app import Door
from watchdog.web.listen import listening, parse_address
from watchdog.web.server import LIFE, MOST, ShortLived, make_server
from watchdog.web.view import View, carry_out_in_child


@dataclass
class Site:
    """A running server and a browser of the simplest kind."""

    port: int
    job: Job
    view: View
    carried_out: list[int] = field(default_factory=list)
    cookie: str = ""

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: str = "", **headers: str) -> tuple[int, str, dict[str, str]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie:
            given.setdefault("Cookie", self.cookie)
        connection.request(method, path, body or None, given)
        answer = connection.getresponse()
        text = answer.read().decode()
        if found := re.search(rf"{guard.COOKIE}=[^;]+", answer.headers.get("set-cookie", "")):
            self.cookie = found[0]
        connection.close()
        return answer.status, text, {name.lower(): value for name, value in answer.getheaders()}

    def get(self, path: str = "/", **headers: str) -> str:
        status, text, _ = self.ask("GET", path, **headers)
        assert status == 200, text
        return text

    def code(self, number: int = 1) -> str:
        with self.job.store() as store:
            return new_code(store, number, COMMAND_LINE, datetime.now(UTC))

    def state(self, number: int = 1) -> str:
        with self.job.store() as store:
            stored = rows.get(store, number)
        assert stored is not None
        return stored.state

    def form(self, number: int = 1, **changed: str) -> dict[str, str]:
        """The fields of the form as the page has them, with a good code."""
        page = self.get(f"/plans/{number}")
        hidden = dict(re.findall(r'name="(digest|token)" value="([^"]+)"', page))
        return {**hidden, "code": self.code(number), "answer": "yes", **changed}

    def post(self, fields: dict[str, str], number: int = 1, **headers: str) -> tuple[int, str]:
        given = {"Origin": self.origin, "Content_Type": "application/x-www-form-urlencoded", **headers}
        status, text, _ = self.ask("POST", f"/plans/{number}", urlencode(fields), **given)
        return status, text

    def later(self, span: timedelta) -> None:
        self.view.clock = lambda: datetime.now(UTC) + span
        self.view.forget()


@contextmanager
def serving(
    folder: Path, door: Door | None = None, language: str = "en", real: bool = False
) -> Iterator[Site]:
    """A home with one open question below `folder`, served."""
    where = make_broken_home(folder, language)
    assert main(["check", "--quiet", *where]) == 1
    places = (where[1], where[3], where[5])
    site = Site(0, find_job(*places), View(lambda now: find_job(*places, now)))
    site.view.carry_out = carry_out_in_child if real else lambda job, number: site.carried_out.append(number)
    with listening("127.0.0.1:0", "", False) as (listener, _):
        site.port = listener.getsockname()[1]
        server = make_server(site.view, door or Door())
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield site
        finally:
            server.should_exit = True
            thread.join(10)


@pytest.fixture
def site(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Site]:
    with serving(tmp_path) as found:
        capsys.readouterr()
        yield found


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with serving(tmp_path_factory.mktemp("shared")) as found:
        yield found


@pytest.fixture
def unanswered(shared: Site) -> Iterator[Site]:
    """One site for every test after which nothing may have changed; each comes with a new browser."""
    yield replace(shared, cookie="")
    assert shared.state() == "pending" and shared.carried_out == []


def test_the_page_is_shown_with_headers_that_keep_others_out(unanswered: Site) -> None:
    status, text, headers = unanswered.ask("GET", "/")
    seen = Page(text)
    assert status == 200 and seen.open == [] and "lacks" in text and "/plans/1" in text
    assert set(seen.loads) <= {
        "/manifest.webmanifest",
        "/page.js",
        "/incidents",
        "/plans/1",
        "?language=en",
        "?language=zh",
    }
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    cookie = headers["set-cookie"].lower()
    assert "samesite=strict" in cookie and "httponly" in cookie
    assert headers["cache-control"] == "no-store" and headers["x-frame-options"] == "DENY"
    assert headers["connection"] == "close", "no form is sent twice"
    assert "server" not in headers and len(text) < 100_000


def test_looking_changes_nothing(unanswered: Site) -> None:
    before = unanswered.job.store_path.read_bytes()
    for path in ("/", "/plans/1", "/incidents", "/version", "/manifest.webmanifest", "/page.js"):
        unanswered.get(path)
    assert unanswered.job.store_path.read_bytes() == before
    for method in ("HEAD", "OPTIONS", "PUT", "DELETE"):
        assert unanswered.ask(method, "/plans/1")[0] in (200, 405)


def test_a_code_of_the_message_approves_once_and_is_recorded_as_every_other_answer(site: Site) -> None:
    form = site.form()
    assert site.post(form)[0] == 303
    assert site.state() == "approved" and site.carried_out == [1]
    status, text = site.post(form)  # a replay
    assert (
        status == 410 and "already approved by page via the status page" in text and site.carried_out == [1]
    )
    with site.job.store() as store:
        answered = [line for line in rows.audit_lines(store, 1) if line["what"] == "approved"]
    assert [(line["by"], line["via"]) for line in answered] == [("page", "page")]
    assert form["code"] not in site.get("/plans/1")


def test_a_page_knows_what_it_shows_so_that_it_is_loaded_anew_when_that_changes(site: Site) -> None:
    def shown(path: str) -> str:
        found = re.search(r'<body data-version="(\w+)">', site.get(path))
        assert found, path
        return found[1]

    before = json.loads(site.get("/version"))["version"]
    assert {shown("/"), shown("/plans/1"), shown("/incidents")} == {before}
    assert site.post(site.form())[0] == 303
    after = json.loads(site.get("/version"))["version"]
    assert after != before and {shown("/"), shown("/plans/1")} == {after}


def test_a_no_is_as_easy_as_a_yes(site: Site) -> None:
    assert site.post(site.form(answer="no"))[0] == 303
    assert site.state() == "refused" and site.carried_out == []
    assert "refused" in site.get("/plans/1") and "<form" not in site.get("/plans/1")


def test_a_yes_is_carried_out_by_a_process_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    begun: list[subprocess.Popen[bytes]] = []
    real = subprocess.Popen

    def noted(*args, **how):
        begun.append(real(*args, **how))
        return begun[-1]

    monkeypatch.chdir(tmp_path)  # files of somebody else lie where the server was started
    for name in ("watchdog", "json", "sqlite3", "yaml"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(9)")
    with serving(tmp_path, real=True) as site:
        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "Popen", noted)
            assert site.post(site.form())[0] == 303
        assert begun[-1].wait(60) == 0
        assert site.state() == "done"
        assert "done" in site.get("/plans/1")


def test_what_was_not_shown_is_not_approved(unanswered: Site) -> None:
    status, text = unanswered.post(unanswered.form(digest="0" * 64))
    assert status == 409 and "has changed" in text


def test_a_code_of_another_plan_does_not_fit(site: Site) -> None:
    with site.job.store() as store:
        stored = rows.get(store, 1)
        assert stored is not None
        other = rows.save(store, changed(stored.plan, digest="0" * 64), datetime.now(UTC))
    good = site.form()
    for _ in range(6):  # the code is right, so no try is counted
        status, text = site.post({**good, "code": site.code(other)})
        assert status == 409 and f"for plan {other}" in text
    assert site.state() == "pending" and site.carried_out == []
    assert site.post(good)[0] == 303


def test_five_wrong_codes_lock_the_page_and_not_the_shell(site: Site) -> None:
    good = site.form()
    for number in range(5):
        status, text = site.post({**good, "code": f"AAAAAAA{number + 2}"})
        assert status == 403 and "that code is not known" in text
    status, text = site.post(good)
    assert status == 429 and "no answer is taken" in text
    site.cookie = ""  # a new session does not help
    assert site.post(site.form())[0] == 429
    where = [
        "--home",
        str(site.job.home),
        "--config",
        str(site.job.config),
        "--state",
        str(site.job.state.parent),
    ]
    assert main(["refuse", site.code(), *where]) == 0 and site.state() == "refused"


def test_wrong_codes_that_come_at_once_are_five_tries_and_no_more(site: Site) -> None:
    good = site.form()
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda n: site.post({**good, "code": f"AAAAAA{n + 22}"})[0], range(12)))
    assert sorted(answers) == [403] * 5 + [429] * 7
    with site.job.store() as store:
        tries = store.db.execute("SELECT count(*) FROM audit WHERE what = 'wrong code'").fetchone()
    assert tries[0] == 5


def test_a_word_that_cannot_be_a_code_costs_no_try(site: Site) -> None:
    good = site.form()
    for _ in range(7):
        assert site.post({**good, "code": "1"})[0] == 400
    assert site.post(good)[0] == 303


def test_an_expired_question_is_not_answered(site: Site) -> None:
    form = site.form()
    site.later(timedelta(hours=2))
    status, text = site.post(form)
    assert status == 410 and "expired" in text and "<form" not in text
    assert site.state() == "expired" and site.carried_out == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://127.0.0.1.evil.example"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "none"},
    ],
    ids=str,
)
def test_a_form_of_another_origin_is_refused(unanswered: Site, headers: dict[str, str]) -> None:
    status, text = unanswered.post(unanswered.form(), **headers)
    assert status == 403 and "came from another page" in text


def test_a_form_without_an_origin_is_refused(unanswered: Site) -> None:
    kind = {"Content_Type": "application/x-www-form-urlencoded"}
    assert unanswered.ask("POST", "/plans/1", urlencode(unanswered.form()), **kind)[0] == 403


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8790", "127.0.0.1.evil.example", "localhost@evil", "", "a:b:c"]
)
def test_a_name_that_was_made_to_point_here_gets_nothing(unanswered: Site, host: str) -> None:
    """DNS rebinding: the browser sends the name of the attacker's page as Host."""
    status, text, _ = unanswered.ask("GET", "/", Host=host)
    assert status in (400, 421) and "lacks" not in text and "hermes-session" not in unanswered.cookie


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1", "[::1]:8790", "LOCALHOST"])
def test_the_own_names_work_on_any_port_as_through_a_tunnel(unanswered: Site, host: str) -> None:
    assert unanswered.ask("GET", "/", Host=host)[0] == 200


def test_a_further_name_is_allowed_by_the_one_who_starts_the_server(tmp_path: Path) -> None:
    with serving(tmp_path, Door(("server.tail1234.ts.net",))) as site:
        assert site.ask("GET", "/", Host="server.tail1234.ts.net")[0] == 200
        assert site.ask("GET", "/", Host="other.tail1234.ts.net")[0] == 421


def test_a_session_of_somebody_else_does_not_answer(unanswered: Site) -> None:
    form = unanswered.form()
    unanswered.cookie = f"{guard.COOKIE}=stolen"
    status, text = unanswered.post(form)
    assert status == 403 and "too long ago" in text
    status, _ = unanswered.post({**form, "token": ""})
    assert status == 403


def test_behind_a_proxy_the_record_says_who_and_nobody_comes_without_a_name(tmp_path: Path) -> None:
    with serving(tmp_path, Door((), "Remote-User")) as site:
        assert site.ask("GET", "/")[0] == 401
        page = site.get("/plans/1", Remote_User="anna")
        hidden = dict(re.findall(r'name="(digest|token)" value="([^"]+)"', page))
        fields = {**hidden, "code": site.code(), "answer": "yes"}
        assert site.post(fields, Remote_User="anna")[0] == 303
        with site.job.store() as store:
            stored = rows.get(store, 1)
    assert stored is not None and stored.answered_by == "anna" and stored.answered_via == "page"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("answer=maybe", "application/x-www-form-urlencoded"),
        ("answer=yes&answer=no", "application/x-www-form-urlencoded"),
        ("x" * 5000, "application/x-www-form-urlencoded"),
        ('{"answer": "yes"}', "application/json"),
        ("answer=yes", "text/plain"),
        ("%ff%fe=\udcff".encode("utf-8", "replace").decode(), "application/x-www-form-urlencoded"),
    ],
)
def test_a_form_that_cannot_be_understood_does_nothing(unanswered: Site, body: str, kind: str) -> None:
    status, _, _ = unanswered.ask("POST", "/plans/1", body, Origin=unanswered.origin, Content_Type=kind)
    assert status == 400


def test_addresses_that_do_not_exist_are_said_plainly(unanswered: Site) -> None:
    for path in (
        "/nothing",
        "/plans/99",
        "/plans/99999999999999999999999",
        "/static/..%2fapp.py",
        "/static/app.py",
    ):
        status, text, headers = unanswered.ask("GET", path)
        assert (status == 404 and "no such page" in text) or "no plan" in text
        assert "default-src 'none'" in headers["content-security-policy"]
    assert unanswered.ask("GET", "/incidents?page=99999999")[0] == 200
    assert unanswered.ask("GET", "/incidents?page=-1%27")[0] == 200


def test_the_page_is_in_the_readers_language_and_can_be_changed(tmp_path: Path) -> None:
    with serving(tmp_path, language="zh") as site:
        assert '<html lang="zh">' in site.get("/") and "同意" in site.get("/plans/1")
        assert '<html lang="en">' in site.get("/?language=en")
        assert '<html lang="zh">' in site.get("/?language=<script>")


def test_the_page_can_be_installed_on_a_phone(unanswered: Site) -> None:
    # Without the attribute a browser asks for the manifest without the login of a proxy.
    assert (
        '<link rel="manifest" href="/manifest.webmanifest" crossorigin="use-credentials">'
        in unanswered.get("/")
    )
    text = unanswered.get("/manifest.webmanifest")
    for size in (192, 512):
        assert f"/static/icon-{size}.png" in text
        status, _, headers = unanswered.ask("HEAD", f"/static/icon-{size}.png")
        assert status == 200 and headers["content-type"] == "image/png"


def test_a_store_that_is_damaged_is_shown_as_a_problem(site: Site) -> None:
    site.job.store_path.write_bytes(b"no database" * 1000)
    site.view.forget()
    assert "The gateway has a problem" in site.get("/")
    status, text, _ = site.ask("GET", "/plans/1")
    assert status == 500 and "The page could not be made: " in text


def test_an_edit_with_a_mistake_is_shown_and_the_page_goes_on(site: Site) -> None:
    site.get("/")
    (site.job.config / "settings.yaml").write_text("timezone: Nowhere\n")
    site.view.forget()
    assert "has a mistake and is not used" in site.get("/")


def test_a_client_that_sends_a_header_a_minute_is_let_go_and_one_that_waits_for_an_answer_is_not() -> None:
    """One connection lives a few seconds, and many slow ones do not keep others out.

    Browsers keep connections in store, and send a form a second time when one ends under the first.
    """
    gone: list[str] = []

    class Transport:
        def __init__(self, name: str, protocol: ShortLived) -> None:
            self.name, self.protocol = name, protocol

        def abort(self) -> None:
            gone.append(self.name)
            self.protocol.connection_lost(None)

        def close(self) -> None:
            pass

        def get_extra_info(self, name: str) -> None:
            return None

    class Loop:
        now = 0.0

        def __init__(self) -> None:
            self.due: dict[float, Callable[[], None]] = {}

        def time(self) -> float:
            self.now += 1
            return self.now

        def call_later(self, seconds: float, call: Callable[[], None]) -> SimpleNamespace:
            assert seconds == LIFE <= 30
            at = self.time()
            self.due[at] = call
            return SimpleNamespace(cancel=lambda: self.due.pop(at, None))

        def ring(self) -> None:
            self.due.pop(min(self.due))()

    import uvicorn
    from uvicorn.server import ServerState

    config, state, loop = uvicorn.Config(lambda: None, log_level="warning", ws="none"), ServerState(), Loop()
    config.load()

    def come(name: str) -> ShortLived:
        protocol = ShortLived(config, state, {}, _loop=loop)  # type: ignore[arg-type]
        protocol.connection_made(Transport(name, protocol))  # type: ignore[arg-type]
        return protocol

    protocols = [come(str(number)) for number in range(MOST + 1)]
    assert gone == ["0"]  # the oldest made room
    loop.ring()
    assert gone == ["0", "1"]
    protocols[2].cycle = SimpleNamespace(  # type: ignore[assignment]
        more_body=False, response_complete=False, message_event=SimpleNamespace(set=lambda: None)
    )
    for name in ("a", "b"):
        come(name)
    assert gone == ["0", "1", "3"]
    loop.ring()
    assert gone == ["0", "1", "3"], "it has its form and answers"
    while protocols[2] in state.connections:
        loop.ring()
    assert len(gone) > MOST, "but none stays for ever"


def test_slow_connections_do_not_keep_the_page_from_others(unanswered: Site) -> None:
    slow = []
    for _ in range(MOST + 10):
        client = socket.create_connection(("127.0.0.1", unanswered.port), timeout=5)
        client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0")
        slow.append(client)
    assert "lacks" in unanswered.get("/")
    for client in slow:
        client.close()


# Where it listens.


@pytest.mark.parametrize("text", ["0.0.0.0:8790", "192.168.1.5:80", "[::]:8790", "10.0.0.1:8790"])
def test_an_address_that_others_reach_is_refused_unless_a_login_is_stated(text: str) -> None:
    with pytest.raises(WatchdogError, match="can be reached by others"):
        parse_address(text, login=False)
    assert parse_address(text, login=True)[1] in (8790, 80)


@pytest.mark.parametrize(
    "text", ["", "x", "127.0.0.1", "127.0.0.1:99999", "example.org:80", "127.0.0.1:-1", "127.0.0.1:²"]
)
def test_what_is_no_address_is_said(text: str) -> None:
    with pytest.raises(WatchdogError, match="is not an"):
        parse_address(text, login=True)


def test_two_servers_on_one_socket_are_told_apart_from_a_name_left_behind(tmp_path: Path) -> None:
    path = tmp_path / "s.sock"
    with listening("", str(path), False):
        assert path.stat().st_mode & 0o777 == 0o600
        with pytest.raises(WatchdogError, match="another server listens"), listening("", str(path), False):
            pass
        assert path.exists()
    assert not path.exists()
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    with listening("", str(path), False):
        pass
    path.write_text("mine")
    with pytest.raises(WatchdogError, match="is no socket"), listening("", str(path), False):
        pass
    assert path.read_text() == "mine"
    with pytest.raises(WatchdogError, match="No such file"), listening("", "/nowhere/s.sock", False):
        pass


def test_a_port_that_is_taken_is_said() -> None:
    with listening("127.0.0.1:0", "", False) as (listener, address):
        port = listener.getsockname()[1]
        assert address == f"http://127.0.0.1:{port}/"
        with pytest.raises(WatchdogError, match="is taken"), listening(f"127.0.0.1:{port}", "", False):
            pass


def test_without_the_extra_the_command_says_what_to_install(tmp_path: Path) -> None:
    where = make_broken_home(tmp_path)
    blocker = "import sys; sys.modules['uvicorn'] = None; sys.modules['starlette'] = None; from watchdog.cli import entry; entry()"
    done = subprocess.run(
        [sys.executable, "-c", blocker, "serve", "--listen", "127.0.0.1:0", *where],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 2 and "hermes-watchdog[web]" in done.stderr
