"""A browser without a window, driven by the plain WebDriver protocol of chromedriver: nothing to install for Python."""

import json
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
_FLAGS = ["headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking"]
_FLAGS += ["disable-component-update", "disable-sync", "disable-dev-shm-usage", "hide-scrollbars"]


class Browser:
    def __init__(self, folder: Path):
        self._driver = subprocess.Popen(
            [str(DRIVER), "--port=0"], stdout=subprocess.PIPE, text=True, env={**os.environ, "HOME": str(folder)}
        )
        assert self._driver.stdout is not None
        port = next(
            found.group(1) for line in self._driver.stdout if (found := re.search(r"successfully on port (\d+)", line))
        )
        self._address = f"http://127.0.0.1:{port}/session"
        self._session = ""
        options = {"binary": BROWSER, "args": [f"--{flag}" for flag in _FLAGS] + [f"--user-data-dir={folder}/profile"]}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        try:
            self._session = f"/{self._post('', {'capabilities': {'alwaysMatch': wanted}})['sessionId']}"
        except BaseException:
            self.close()
            raise

    def close(self):
        try:
            if self._session:
                request = urllib.request.Request(self._address + self._session, method="DELETE")
                urllib.request.urlopen(request, timeout=30).close()
        finally:
            self._driver.terminate()
            self._driver.communicate(timeout=30)

    def open(self, file: Path, moment: str = "", width: int = 1280, height: int = 1000):
        """Open a page at a moment ("run=1&t=0.5"), as from a file manager."""
        self._post("/goog/cdp/execute", {"cmd": "Emulation.setDeviceMetricsOverride", "params": _screen(width, height)})
        self._post("/url", {"url": "about:blank"})
        self._post("/url", {"url": f"{file.as_uri()}#{moment}"})
        # Keys that come before a page's first picture are lost, and a page has loaded before it is drawn.
        drawn = "const told = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => told()));"
        self._post("/execute/async", {"script": drawn, "args": []})

    def run(self, code: str):
        """What JavaScript returns."""
        return self._post("/execute/sync", {"script": code, "args": []})

    def press(self, *keys: str):
        """Keys, one after the other, to whatever has the focus."""
        names = {"left": "\ue012", "right": "\ue014"}
        pressed = [{"type": kind, "value": names.get(key, key)} for key in keys for kind in ("keyDown", "keyUp")]
        self._post("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": pressed}]})

    def media(self, **features: str):
        """What the reader prefers: prefers_color_scheme="dark"."""
        wanted = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self._post("/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {"features": wanted}})

    def complaints(self):
        """What the console has said since it was asked last."""
        return [entry["message"] for entry in self._post("/se/log", {"type": "browser"})]

    def _post(self, path: str, document):
        body = json.dumps(document).encode()
        address = self._address + self._session + path
        request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            with error:
                raise RuntimeError(json.load(error)["value"]["message"]) from None


def _screen(width: int, height: int):
    return {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
