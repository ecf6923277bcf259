# SPDX-License-Identifier: Apache-2.0
"""curl against the HTTP face of a broker, and its answers."""
import json
import re
import subprocess
import time

from proxy import PATIENCE_S

JSON = "Content-Type: application/json"


class Answer:
    def __init__(self, text):
        head, _, self.body = text.partition("\r\n\r\n")
        while re.match(r"HTTP/1\.1 1\d\d ", head):  # 100 Continue
            head, _, self.body = self.body.partition("\r\n\r\n")
        lines = head.split("\r\n")
        self.status = int(lines[0].split()[1])
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}

    @property
    def json(self):
        return json.loads(self.body)

    def detail(self, name):
        """The detail of this type; {}: there is none."""
        return next((d for d in self.json["details"] if d["@type"].endswith("." + name)), {})

    @property
    def reason(self):
        return self.detail("ErrorInfo").get("reason", "")


def http_face(daemon):
    """The address of --http-api, from the log: http://host:port, or the path of a unix socket."""
    shown = daemon.await_ready(lambda: re.search(r'http_api=(\S+)', daemon.log()))[1]
    return shown.removeprefix("unix://") if shown.startswith("unix://") else f"http://{shown}"


class Curl:
    def __init__(self, at, *options):
        self.options = list(options)
        if at.startswith("/"):
            self.options += ["--unix-socket", at]
            at = "http://localhost"
        self.at = at

    def argv(self, path, *options):
        return ["curl", "-sS", "--path-as-is", "--max-time", str(PATIENCE_S), *self.options, *options, self.at + path]

    def __call__(self, path, *options):
        done = subprocess.run(self.argv(path, "-i", *options), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return Answer(done.stdout.decode())

    def post(self, path, body, *options):
        return self(path, "-H", JSON, "--data-binary", body if isinstance(body, str) else json.dumps(body), *options)

    def acquire(self, key, *options, wait="0s", request_id="", **spec):
        return self.post("/v1/acquire", {"locks": [{"key": key, "maxWait": wait, **spec}], "requestId": request_id},
                         *options)

    def later(self, path, *options):
        """A request under way: a Popen whose output is the answer with its head."""
        return subprocess.Popen(self.argv(path, "-i", "-N", *options), stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def acquire_later(self, key, wait="30s", **spec):
        return self.later("/v1/acquire", "-H", JSON, "--data-binary",
                          json.dumps({"locks": [{"key": key, "maxWait": wait, **spec}]}))


def answer_of(popen):
    return Answer(popen.communicate(timeout=PATIENCE_S)[0].decode())


class Events:
    """Reads a stream of server-sent events."""

    def __init__(self, popen):
        self.popen = popen
        self.head = self._until(b"\r\n\r\n")

    def _until(self, mark):
        got, deadline = b"", time.monotonic() + PATIENCE_S
        while not got.endswith(mark):
            byte = self.popen.stdout.read(1)
            assert byte and time.monotonic() < deadline, f"the stream ended: {got!r}"
            got += byte
        return got.decode()

    def next(self):
        """(event, data); comments are left out."""
        while True:
            lines = self._until(b"\n\n").strip().split("\n")
            fields = dict(line.split(": ", 1) for line in lines if not line.startswith(":"))
            if fields:
                return fields["event"], json.loads(fields["data"])

    def close(self):
        self.popen.kill()
        self.popen.wait()
