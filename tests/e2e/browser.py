# SPDX-License-Identifier: Apache-2.0
"""Chromium without a window, driven by the DevTools protocol over two pipes. It reaches this machine only."""
import base64
import contextlib
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import threading
import time

from harness import eventually
from proxy import PATIENCE_S

CHROMIUM = shutil.which("chromium")
PICTURES = pathlib.Path(os.environ["DISTLOCK_SCREENSHOTS"]) if os.environ.get("DISTLOCK_SCREENSHOTS") else None
# The page counts what its rules of content refuse, from before its first script.
WITNESS = """window.violations = [];
document.addEventListener('securitypolicyviolation', e => violations.push(`${e.violatedDirective} ${e.blockedURI}`));"""


class Browser:
    def __init__(self, folder):
        self._ids, self._answers, self._events = itertools.count(1), {}, {}
        self._come = threading.Condition()
        commands, self._to = os.pipe()
        self._from, answers = os.pipe()
        argv = [CHROMIUM, "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={folder}", "--no-first-run",
                "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
                "--disable-component-update", "--disable-sync", "--no-default-browser-check", "--mute-audio",
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "about:blank"]
        # It reads commands from descriptor 3 and answers on 4.
        self._popen = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", "bash", "-c", 'exec "${@:3}" 3<&"$1" 4>&"$2"', "bash",
             str(commands), str(answers), *argv],
            pass_fds=(commands, answers), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(commands)
        os.close(answers)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        rest = b""
        while chunk := os.read(self._from, 1 << 16):
            *whole, rest = (rest + chunk).split(b"\0")
            with self._come:
                for message in map(json.loads, whole):
                    if "id" in message:
                        self._answers[message["id"]] = message
                    else:
                        self._events.setdefault(message.get("sessionId"), []).append(message)
                self._come.notify_all()

    def ask(self, method, session=None, **params):
        number = next(self._ids)
        command = {"id": number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        os.write(self._to, json.dumps(command).encode() + b"\0")
        with self._come:
            assert self._come.wait_for(lambda: number in self._answers, PATIENCE_S), f"{method} was not answered"
            answer = self._answers.pop(number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        return answer["result"]

    def events(self, session, method):
        with self._come:
            return [event["params"] for event in self._events.get(session, ()) if event["method"] == method]

    @contextlib.contextmanager
    def open(self, url, width=1280):
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable", session)
        self.ask("Page.addScriptToEvaluateOnNewDocument", session, source=WITNESS)
        self.ask("Emulation.setDeviceMetricsOverride", session, width=width, height=800, deviceScaleFactor=1,
                 mobile=width < 600)
        self.ask("Page.navigate", session, url=url)
        try:
            yield Tab(self, session)
        finally:
            self.ask("Target.closeTarget", targetId=target)

    def close(self):
        self._popen.kill()
        self._popen.wait()
        self._reader.join()
        os.close(self._to)
        os.close(self._from)


class Tab:
    def __init__(self, browser, session):
        self.browser, self.session = browser, session

    def run(self, script):
        """The value of an expression, in the page."""
        done = self.browser.ask("Runtime.evaluate", self.session, expression=script, returnByValue=True,
                                awaitPromise=True)
        assert "exceptionDetails" not in done, done
        return done["result"].get("value")

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def await_text(self, selector, wanted):
        begun = time.monotonic()
        eventually(lambda: wanted in self.text(selector), f"{wanted!r} in {selector}")
        return time.monotonic() - begun

    def type(self, selector, text):
        self.run(f"""{{ const field = document.querySelector({json.dumps(selector)}); field.value = {json.dumps(text)};
                        field.dispatchEvent(new Event('input', {{bubbles: true}})); }}""")

    def requested(self):
        return [event["request"]["url"] for event in self.browser.events(self.session, "Network.requestWillBeSent")]

    def problems(self):
        """What went wrong in it by itself: exceptions, and what its rules of content refused."""
        thrown = [event["exceptionDetails"] for event in self.browser.events(self.session, "Runtime.exceptionThrown")]
        return thrown + self.run("window.violations")

    def keep_picture(self, name):
        """As a PNG in the folder of pictures, if there is one."""
        if PICTURES is not None:
            picture = self.browser.ask("Page.captureScreenshot", self.session)["data"]
            PICTURES.mkdir(parents=True, exist_ok=True)
            (PICTURES / f"{name}.png").write_bytes(base64.b64decode(picture))
