"""A browser without a window, spoken to by its own protocol over a pipe: nothing else is needed.

    command   {"id": 1, "method": "Page.navigate", ...}   ─► descriptor 3
    answer    {"id": 1, "result": ...}, and events        ◄─ descriptor 4

A zero byte ends each.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import pathlib
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")
PATH = next(filter(None, map(shutil.which, NAMES)), None)
"""Where there is one."""

PATIENCE = 60
"""Seconds until an answer, on a machine that does much else."""


class Browser:
    """A browser with one page."""

    def __init__(self, profile: pathlib.Path):
        assert PATH
        self._to, commands = _pipe()
        answers, self._from = _pipe()
        options = [
            *("--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu"),
            *("--disable-dev-shm-usage", "--no-first-run", f"--user-data-dir={profile}"),
        ]
        # Not sh, which knows descriptors of one digit alone.
        moved = f'exec "$@" 3<&{commands} 4>&{answers}'
        self._process = subprocess.Popen(
            ["bash", "-c", moved, "bash", PATH, *options],
            pass_fds=(commands, answers),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self._count, self._rest, self._session = 0, b"", ""
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Any:
        """The result of a command."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        for answer in self._messages():
            if answer.get("id") == self._count:
                assert "error" not in answer, (method, answer["error"])
                return answer["result"]
            self._note(answer)
        raise AssertionError("the browser has ended")

    def _messages(self) -> Iterator[dict[str, Any]]:
        while True:
            while b"\0" in self._rest:
                message, self._rest = self._rest.split(b"\0", 1)
                yield json.loads(message)
            assert select.select([self._from], [], [], PATIENCE)[0], "the browser does not answer"
            read = os.read(self._from, 1 << 16)
            if not read:
                return
            self._rest += read

    def _note(self, event: dict[str, Any]) -> None:
        """Keeps what a page says to its console, and what it has thrown."""
        if event.get("method") in (
            "Runtime.consoleAPICalled",
            "Runtime.exceptionThrown",
            "Log.entryAdded",
        ):
            self.complaints.append(json.dumps(event["params"]))

    def tell(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def wait(self, expression: str) -> None:
        """Waits until an expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.tell(expression):
            assert time.monotonic() < end, f"{expression} stays false"
            time.sleep(0.02)

    def open(
        self, page: pathlib.Path, place: str = "", width: int = 1100, height: int = 900
    ) -> None:
        """Loads a page from a file, in a window of some width."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 500,
        )
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url=f"{page.as_uri()}{place}")
        self.wait("document.readyState === 'complete' && location.protocol === 'file:'")

    def prefer(self, **features: str) -> None:
        """What the reader prefers, as of colours and motion."""
        named = [{"name": k.replace("_", "-"), "value": v} for k, v in features.items()]
        self.call("Emulation.setEmulatedMedia", features=named)

    def press(self, key: str) -> None:
        """Presses a key."""
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def picture(self, path: pathlib.Path) -> None:
        """Writes what is seen of the page."""
        data = self.call("Page.captureScreenshot", captureBeyondViewport=False)["data"]
        path.write_bytes(base64.b64decode(data))

    def close(self) -> None:
        """Ends it."""
        os.close(self._to)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._from)


def _pipe() -> tuple[int, int]:
    """The ends of a pipe, the one to write to first, with numbers that the browser's are not."""
    ends = os.pipe()
    read, write = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in ends)
    for end in ends:
        os.close(end)
    return write, read
