"""Headless Chromium, driven over a pipe, for the tests and for the still picture."""

import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator

PROGRAM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
FLAGS = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run"
FLAGS += " --window-size=1280,900"


class Page:
    """One page of a browser. Errors of its scripts, and its requests, are kept."""

    def __init__(self, read: int, write: int):
        self.read, self.write, self.rest = read, write, b""
        self.numbers, self.session = itertools.count(1), None
        self.errors: list[str] = []
        self.requests: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params) -> dict:
        """What the browser answers to a command. Raises RuntimeError for an error."""
        number = next(self.numbers)
        message = {"id": number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def receive(self) -> dict:
        """The next message. Raises TimeoutError if none comes."""
        while b"\0" not in self.rest:
            if not select.select([self.read], [], [], 60)[0]:
                raise TimeoutError("Chromium says nothing for 60 s.")
            self.rest += os.read(self.read, 1 << 20)
        first, _, self.rest = self.rest.partition(b"\0")
        message = json.loads(first)
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(message["params"]["exceptionDetails"]["exception"]["description"])
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        return message

    def evaluate(self, expression: str):
        """The value of an expression in the page, awaited. Raises RuntimeError if it throws."""
        asked = {"expression": expression, "awaitPromise": True, "returnByValue": True}
        answer = self.send("Runtime.evaluate", **asked)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"]["exception"].get("description"))
        return answer["result"].get("value")

    def wait(self, expression: str, seconds: float = 300) -> None:
        """Waits until an expression is true. Raises TimeoutError if it stays false."""
        start = time.monotonic()
        while not self.evaluate(expression):
            if time.monotonic() - start > seconds:
                raise TimeoutError(f"After {seconds} s this is still false: {expression}.")
            time.sleep(0.02)

    def open(self, address: str) -> None:
        self.send("Page.navigate", url=address)
        self.wait("document.readyState === 'complete'")


@contextlib.contextmanager
def page() -> Iterator[Page]:
    """A fresh browser with one page, closed at the end."""
    if PROGRAM is None:
        raise FileNotFoundError("Chromium is not installed: on Debian, apt install chromium.")
    (commands, write), (read, answers) = os.pipe(), os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = f"{FLAGS} --user-data-dir={profile} --remote-debugging-pipe"
        words = f"exec {PROGRAM} {options} 3<&{commands} 4>&{answers}"
        browser = subprocess.Popen(
            ["bash", "-c", words], pass_fds=(commands, answers), stderr=subprocess.DEVNULL
        )
        os.close(commands)
        os.close(answers)
        try:
            yield Page(read, write)
        finally:
            browser.terminate()
            browser.wait(20)
            os.close(read)
            os.close(write)
