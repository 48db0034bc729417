"""A headless Chromium over the WebDriver protocol, the little of it that the test needs (W3C: HTTP and JSON).

Needs the system's chromium and chromedriver (Debian: `apt-get install chromium chromium-driver`), no Python package.
"""

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)


def missing() -> str | None:
    """Why no browser can be driven here, or None."""
    if not any(map(shutil.which, CHROMIUM)):
        return "no chromium: install the packages chromium and chromium-driver"
    if not shutil.which("chromedriver"):
        return "no chromedriver: install the package chromium-driver"
    return None


def free_port() -> int:
    """A TCP port of this machine that nothing listens on just now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Browser:
    """One window. Use as a context manager; the processes end with it.

    profile: an empty folder for the browser's files.
    """

    def __init__(self, profile: Path, width: int = 1200, height: int = 900):
        self._profile, self._size = profile, (width, height)

    def __enter__(self) -> "Browser":
        port = free_port()
        self._driver = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._base = f"http://127.0.0.1:{port}"
        try:
            wait_for(lambda: self._call("GET", "/status")["ready"], 20, "chromedriver does not answer")
            options = {
                "binary": next(filter(None, map(shutil.which, CHROMIUM))),
                "args": [*FLAGS, f"--user-data-dir={self._profile}", "--window-size={},{}".format(*self._size)],
            }
            capabilities = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}
            session = self._call("POST", "/session", {"capabilities": capabilities})
            self._base += f"/session/{session['sessionId']}"
            self._call("POST", "/timeouts", {"script": 600_000, "pageLoad": 60_000})
        except BaseException:
            self._driver.kill()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        try:
            self._call("DELETE", "")
        finally:
            self._driver.terminate()
            self._driver.wait(10)

    def open(self, url: str) -> None:
        """Load a page and wait until it is loaded."""
        self._call("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """The value that the body of an async JavaScript function returns; `arguments` are there by that name."""
        body = f"return (async () => {{ {script} }})();"
        return self._call("POST", "/execute/sync", {"script": body, "args": list(arguments)})

    def screenshot(self) -> bytes:
        """What the window shows, as a PNG."""
        return base64.b64decode(self._call("GET", "/screenshot"))

    def resize(self, width: int, height: int) -> None:
        """Give the page this size, in CSS pixels, however large the screen is."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        command = {"cmd": "Emulation.setDeviceMetricsOverride", "params": metrics}
        self._call("POST", "/goog/cdp/execute", command)

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=660) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            value = json.load(error)["value"]
            raise RuntimeError(f"{value['error']}: {value['message'].splitlines()[0]}") from None


def wait_for(condition: Any, seconds: float, failure: str) -> Any:
    """The first true value of `condition()`, asked again for so many seconds; exceptions count as not yet."""
    end = time.monotonic() + seconds
    while True:
        try:
            value = condition()
        except (OSError, RuntimeError):
            value = None
        if value:
            return value
        if time.monotonic() > end:
            raise TimeoutError(f"{failure} within {seconds:g} s")
        time.sleep(0.1)
