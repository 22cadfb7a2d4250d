"""A real Chromium by the WebDriver protocol: look, type, press keys, take pictures; nothing is installed for it."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

TAB, ENTER, SPACE = "\ue004", "\ue007", " "
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


class Browser:
    """One browser with a profile of its own; `names` are resolved to this machine."""

    def __init__(self, folder: Path, names: tuple[str, ...] = ()):
        self.driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.driver.stdout is not None
        port = next(
            found[1]
            for line in self.driver.stdout
            if (found := re.search(r"successfully on port (\d+)", line))
        )
        self.base = f"http://127.0.0.1:{port}/session"
        options = {
            "args": [
                "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={folder}",
                "--host-resolver-rules=" + ", ".join(f"MAP {name} 127.0.0.1" for name in names),
            ]
        }  # fmt: skip
        wanted = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}
        self.base += "/" + self.call("POST", "", {"capabilities": wanted})["sessionId"]
        self.call("POST", "/timeouts", {"script": 30_000, "pageLoad": 30_000})

    def call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if method == "GET" else json.dumps(body or {}).encode()
        request = urllib.request.Request(
            self.base + path, data, {"Content-Type": "application/json"}, method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(json.load(error)["value"]["message"]) from None

    def go(self, address: str) -> None:
        self.call("POST", "/url", {"url": address})

    def run(self, script: str, *arguments: Any) -> Any:
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script: str) -> Any:
        return self.call("POST", "/execute/async", {"script": script, "args": []})

    def text(self) -> str:
        return str(self.run("return document.body.innerText"))

    def find(self, selector: str) -> str:
        found = self.call("POST", "/element", {"using": "css selector", "value": selector})
        return str(found[ELEMENT])

    def click(self, selector: str) -> None:
        self.call("POST", f"/element/{self.find(selector)}/click")

    def follow(self, selector: str) -> None:
        """Click what leads to another page, and wait until that page is there."""
        self.run("window.before = true")
        self.click(selector)
        ends = time.monotonic() + 30
        while not self.run("return !window.before && document.readyState === 'complete'"):
            assert time.monotonic() < ends, f"{selector} led to no other page"
            time.sleep(0.1)
        # Chromium drops clicks on a page that was not painted yet.
        self.run_async("requestAnimationFrame(() => requestAnimationFrame(arguments[arguments.length - 1]))")

    def type(self, selector: str, text: str) -> None:
        self.call("POST", f"/element/{self.find(selector)}/value", {"text": text})

    def press(self, keys: str) -> None:
        """Keys as the keyboard sends them, to whatever has the focus."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def focused(self) -> str:
        """What has the focus: its tag, name and value or text."""
        return str(
            self.run(
                "const e = document.activeElement; return [e.tagName, e.name || '', e.value || e.innerText || ''].join(' ').trim()"
            )
        )

    def size(self, width: int, height: int = 800, dark: bool = False) -> None:
        """The width of a screen, and whether its owner likes it dark."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.cdp("Emulation.setDeviceMetricsOverride", metrics)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.cdp("Emulation.setEmulatedMedia", {"features": [scheme]})

    def cdp(self, command: str, parameters: dict[str, Any]) -> Any:
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def picture(self, path: Path) -> None:
        """The whole page, not only what the window shows."""
        path.parent.mkdir(parents=True, exist_ok=True)
        taken = self.cdp("Page.captureScreenshot", {"captureBeyondViewport": True})
        path.write_bytes(base64.b64decode(taken["data"]))

    def loaded(self) -> list[str]:
        """Every address that the page asked for besides itself."""
        return list(self.run("return performance.getEntriesByType('resource').map(entry => entry.name)"))

    def end(self) -> None:
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(10)
            if self.driver.stdout:
                self.driver.stdout.close()
