"""The page in a real Chromium: read in ten seconds, answered by hand and by keyboard, and safe from other pages."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from . import parts
from .browser import ENTER, TAB, Browser
from .conftest import needs

sys.path.insert(0, str(Path(__file__).parent.parent))
from broken_home import make_broken_home

PICTURES = Path(os.environ.get("LAB_PICTURES") or parts.CACHE / "pictures")
EVIL = "evil.example"
HOSTILE = "<img src=x onerror='window.hacked=1'><script>window.hacked=2</script>\"'</title></style>"


@dataclass
class Site:
    """The installed watchdog serving a home with one open question."""

    where: list[str]
    folder: Path
    process: subprocess.Popen[str]
    address: str

    def run(self, *words: str) -> str:
        done = subprocess.run([str(parts.COMMAND), *words, *self.where], capture_output=True, text=True)
        return done.stdout + done.stderr

    def code(self) -> str:
        found = re.search(r"approve ([A-Z2-9]{8})\b", self.run("plan", "1", "--code"))
        assert found
        return found[1]

    def state(self) -> str:
        return self.run("plan", "1").split("\n")[0]


@pytest.fixture
def site(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Site]:
    needs("chromium", "chromium-driver", "axe-core")
    where = make_broken_home(tmp_path, getattr(request, "param", "en"))
    subprocess.run([str(parts.COMMAND), "check", "--quiet", *where], capture_output=True)
    process = subprocess.Popen(
        [str(parts.COMMAND), "serve", "--listen", "127.0.0.1:0", *where], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    found = re.search(r"http://\S+", process.stdout.readline())
    assert found
    yield Site(where, tmp_path, process, found[0])
    process.terminate()
    process.wait(15)
    process.stdout.close()


@pytest.fixture
def browser(site: Site, tmp_path: Path) -> Iterator[Browser]:
    made = Browser(tmp_path / "profile", (EVIL,))
    yield made
    made.end()


def until(browser: Browser, words: str, seconds: float = 60) -> None:
    """Wait until the page itself shows the words: it loads anew when something changed."""
    ends = time.monotonic() + seconds
    while words not in browser.text():
        assert time.monotonic() < ends, browser.text()
        threading.Event().wait(0.5)


def test_a_plan_is_approved_by_a_person_and_the_page_shows_the_result(site: Site, browser: Browser) -> None:
    browser.go(site.address)
    assert "The gateway has a problem" in browser.text() and "Waits for your answer" in browser.text()
    browser.follow("a.button")
    browser.type("#code", site.code())
    browser.picture(PICTURES / "plan-1280.png")
    browser.follow("button.yes")
    until(browser, "done by page")
    browser.picture(PICTURES / "plan-done-1280.png")
    assert "done" in site.state() and "via the status page" in site.run("plan", "1")


def test_a_plan_is_refused(site: Site, browser: Browser) -> None:
    browser.go(f"{site.address}plans/1")
    browser.type("#code", site.code())
    browser.follow("button.no")
    assert "refused" in browser.text() and "refused" in site.state()


def test_the_keyboard_alone_is_enough_and_enter_in_the_field_says_nothing(
    site: Site, browser: Browser
) -> None:
    browser.go(site.address)
    for _ in range(12):
        browser.press(TAB)
        if "Look and answer" in browser.focused():
            break
    browser.press(ENTER)
    until(browser, "The eight characters", 10)
    for _ in range(12):
        browser.press(TAB)
        if browser.focused().startswith("INPUT code"):
            break
    browser.press(site.code() + ENTER)
    assert "waits for you" in site.state()
    browser.press(TAB)
    assert browser.focused() == "BUTTON answer yes"
    browser.press(ENTER)
    until(browser, "done by page")


def test_a_wrong_code_is_explained_where_it_was_typed_and_five_lock(site: Site, browser: Browser) -> None:
    browser.go(f"{site.address}plans/1")
    for _ in range(5):
        browser.type("#code", "AAAAAAAA")
        browser.follow("button.yes")
        assert "that code is not known" in browser.run(
            "return document.querySelector('[role=alert]').innerText"
        )
    browser.type("#code", site.code())
    browser.follow("button.yes")
    assert "no answer is taken" in browser.text() and "waits for you" in site.state()
    browser.size(360)
    browser.picture(PICTURES / "locked-360.png")


def test_a_page_with_a_refused_answer_comes_anew_without_sending_it_again(
    site: Site, browser: Browser
) -> None:
    browser.go(f"{site.address}plans/1")
    browser.type("#code", "AAAAAAAA")
    browser.follow("button.yes")
    site.run("refuse", site.code())
    until(browser, "refused by", 30)
    assert site.run("audit").count("wrong code") == 1


def test_a_question_that_expired_while_the_page_was_open_is_not_answered(
    site: Site, browser: Browser
) -> None:
    browser.go(f"{site.address}plans/1")
    browser.type("#code", site.code())
    (store,) = (site.folder / "state").glob("*/watchdog.db")
    with sqlite3.connect(store) as db:
        db.execute("UPDATE plans SET expires_at = '2026-01-01T00:00:00.000000+00:00'")
    browser.follow("button.yes")
    assert ("expired" in browser.text() and "no answer" in site.state()) or "expired" in site.state()


class EvilPage(BaseHTTPRequestHandler):
    """A page of somebody else that posts a good form of ours."""

    target = ""

    def do_GET(self) -> None:
        body = (
            f"<form id=f method=post action='{self.target}plans/1'><input name=code value=ABCDEFGH>"
            "<input name=answer value=yes><input name=digest value=x><input name=token value=x></form>"
            f"<iframe src='{self.target}'></iframe><script>document.querySelector('#f').submit()</script>"
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def test_a_page_of_another_origin_can_neither_answer_nor_frame(site: Site, browser: Browser) -> None:
    browser.go(site.address)  # there is a session to ride on
    EvilPage.target = site.address
    server = ThreadingHTTPServer(("127.0.0.1", 0), EvilPage)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        browser.go(f"http://{EVIL}:{server.server_port}/")
        until(browser, "came from another page", 10)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert "waits for you" in site.state()


def test_a_name_made_to_point_here_gets_nothing(site: Site, browser: Browser) -> None:
    browser.go(site.address.replace("127.0.0.1", EVIL))
    assert "does not answer to that name" in browser.text() and "kanban" not in browser.text()


def test_hostile_text_runs_nothing_and_loads_nothing(site: Site, browser: Browser) -> None:
    (store,) = (site.folder / "state").glob("*/watchdog.db")
    with sqlite3.connect(store) as db:
        db.execute("UPDATE incidents SET key = ?, says = ?, title = ?, fields = NULL", [HOSTILE] * 3)
        db.execute("UPDATE incidents SET rule = ?", [HOSTILE])
        db.execute("UPDATE plans SET title = ?, answered_by = ?, answered_via = ?", [HOSTILE] * 3)
        for column, part in (
            ("content", "kanban.db"),
            ("content", "tasks.tenant"),
            ("recipes", "add-missing"),
        ):
            db.execute(
                f"UPDATE plans SET {column} = replace({column}, ?, ?)", (part, json.dumps(HOSTILE)[1:-1])
            )
        db.execute("UPDATE checks SET blind = ?", [json.dumps({HOSTILE: HOSTILE})])
    page = site.folder / "file.html"
    site.run("status", "--html", str(page))
    for address in (site.address, f"{site.address}incidents", f"{site.address}plans/1", f"file://{page}"):
        browser.go(address)
        assert "onerror" in browser.text()  # it is there, as text
        assert browser.run("return window.hacked") is None
        assert all(name.startswith(site.address) for name in browser.loaded())
        assert browser.run("return document.images.length") == 0


@pytest.mark.parametrize("site", ["en", "zh"], indirect=True)
def test_every_page_is_readable_at_each_width_and_by_a_screen_reader(site: Site, browser: Browser) -> None:
    page = site.folder / "file.html"
    site.run("status", "--html", str(page))
    language = "zh" if "同意" in Path(page).read_text() or 'lang="zh"' in page.read_text() else "en"
    axe = (parts.CACHE / "axe-core" / "axe.min.js").read_text()
    for name, address in (
        ("status", site.address), ("plan", f"{site.address}plans/1"), ("incidents", f"{site.address}incidents"), ("file", f"file://{page}"),
    ):  # fmt: skip
        for width in (360, 1280):
            for dark in (False, True):
                browser.size(width, dark=dark)
                browser.go(address)
                wide = browser.run("return document.documentElement.scrollWidth")
                assert wide <= width, f"{name} is {wide} wide at {width}"
                browser.picture(PICTURES / f"{name}-{language}-{width}{'-dark' if dark else ''}.png")
                browser.run(axe + "; window.axe = axe")
                found = browser.run_async(
                    "const done = arguments[arguments.length - 1]; axe.run().then(r => done(r.violations))"
                )
                assert found == [], [(each["id"], [node["html"] for node in each["nodes"]]) for each in found]
        if name == "file":
            assert browser.loaded() == []


def test_a_store_that_another_process_holds_is_told_on_the_page(site: Site, browser: Browser) -> None:
    (store,) = (site.folder / "state").glob("*/watchdog.db")
    with closing(sqlite3.connect(store, isolation_level=None)) as db:
        db.execute("BEGIN EXCLUSIVE")
        browser.go(site.address)
        assert "database is locked" in browser.text()
    until(browser, "Waits for your answer")


def test_the_page_can_be_installed(site: Site, browser: Browser) -> None:
    browser.go(site.address)
    assert browser.cdp("Page.getAppManifest", {})["errors"] == []
    found = browser.cdp("Page.getInstallabilityErrors", {})["installabilityErrors"]
    assert [error["errorId"] for error in found] == []


def test_the_file_is_one_request_of_less_than_100_kb(site: Site, browser: Browser) -> None:
    page = site.folder / "file.html"
    site.run("status", "--html", str(page))
    browser.go(f"file://{page}")
    assert page.stat().st_size < 100_000 and browser.loaded() == []
    assert browser.run("return getComputedStyle(document.querySelector('.light')).borderTopWidth") == "2px"
