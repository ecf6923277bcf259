# SPDX-License-Identifier: Apache-2.0
"""The servers under measurement, each started when a row first needs it, and the programs that measure them."""
import contextlib
import functools
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import time
import types
import urllib.request

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests/e2e"))

from harness import Distlockd, Process, free_port  # noqa: E402
from measures import cpu_seconds  # noqa: E402

BENCH = os.environ.get("DISTLOCK_BENCH", str(REPOSITORY / "build/release/bin/distlock_bench"))
PATIENCE_S = 180


class Invalid(Exception):
    """A measurement that went wrong."""


class NotRun(Exception):
    """Why another lock system has no numbers, which is no error of the bench."""


def answer_of(argv, error):
    """The values that a program prints as JSON; raises `error` when it prints none or says what is wrong."""
    done = subprocess.run(["setpriv", "--pdeathsig", "KILL", "--", *map(str, argv)], capture_output=True, text=True,
                          timeout=PATIENCE_S, check=False)
    try:
        answer = json.loads(done.stdout)
    except json.JSONDecodeError:
        raise error(done.stderr[-300:].strip() or f"it ended with {done.returncode}") from None
    if "error" in answer:
        raise error(answer["error"])
    return answer["values"]


def listens(port):
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0


class Hoard:
    """Sessions that take and keep leases. Leaving it gives them back."""

    def __init__(self, broker, sessions, leases=0, ttl=3000):
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", BENCH, "hoard", "--target", broker.url, "--clients", str(sessions),
             "--leases", str(leases), "--ttl", str(ttl)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self):
        self._reach("open")
        return self

    def take(self):
        self._go_on()
        self._reach("held")

    def __exit__(self, problem, *_):
        try:
            if problem is None:
                said = self.process.communicate("\n\n")[0]  # whatever it waits for
                if "error" in said or self.process.returncode != 0:
                    raise Invalid(said)
        finally:
            self.process.kill()
            self.process.wait()

    def _go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def _reach(self, what):
        said = self.process.stdout.readline().strip()
        if said != what:
            raise Invalid(said or "the sessions' program ended")


class Lab:
    """`delay_ms`: how far away the store of `near` is, for the broker and all others."""

    def __init__(self, world, size, delay_ms):
        self.world, self.size, self.delay_ms = world, size, delay_ms

    @functools.cached_property
    def near(self):
        """One Redis and a broker: redis, path and port (of a proxy before it, with a delay), broker."""
        redis = self.world.redis(tcp=True)
        path, port = redis.path, redis.port
        if self.delay_ms:
            path, port = self.world.folder / "far.sock", free_port()
            self._serve("delay", path.exists, "--port", port, "--listen", path, "--redis-socket", redis.path, "--delay",
                        self.delay_ms)
        return types.SimpleNamespace(redis=redis, path=path, port=port, broker=self._broker(f"unix://{path}", "near"))

    @functools.cached_property
    def relay(self):
        """The address of a bare relay before the Redis of `near`."""
        port = free_port()
        self._serve("relay", lambda: listens(port), "--listen", f"127.0.0.1:{port}", "--redis-socket", self.near.path)
        return f"127.0.0.1:{port}"

    @functools.cache
    def quorum(self, count):
        """Two brokers, which reach so many independent servers over TCP."""
        servers = [self.world.redis(f"redis-{number}-of-{count}", tcp=True) for number in range(count)]
        if count == 1:
            url, new = servers[0].url, ()
        else:
            url, new = "redlock://" + ",".join(f"127.0.0.1:{server.port}" for server in servers), ("--quorum-new",)
        return [self._broker(url, f"first-of-{count}", *new), self._broker(url, f"second-of-{count}")]

    @contextlib.contextmanager
    def fresh_broker(self, *args):
        """A broker with keys of its own; none of its locks may be left."""
        broker = Distlockd(self.world.folder, f"unix://{self.near.path}", "--key-prefix", "fresh", *args, name="fresh",
                           listen=f"127.0.0.1:{free_port()}")
        try:
            yield broker.start()
            self._end(broker)
            if left := self.near.redis.command("KEYS", "fresh:*:h"):
                raise Invalid(f"the broker left {len(left)} locks held in the store")
        finally:
            broker.kill()

    @contextlib.contextmanager
    def etcd(self):
        """The address of a fresh etcd of one member, with its own defaults."""
        clients, peers = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        data = self.world.folder / f"etcd-{time.monotonic_ns()}"
        etcd = Process("etcd", ["etcd", "--name", "bench", "--data-dir", data, "--listen-client-urls", clients,
                                "--advertise-client-urls", clients, "--listen-peer-urls", peers,
                                "--initial-advertise-peer-urls", peers, "--initial-cluster", f"bench={peers}",
                                "--log-level", "warn"], self.world.folder)

        def healthy():
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{clients}/health", timeout=5) as answer:
                return json.load(answer)["health"] == "true"
            return False
        etcd.launch()
        try:
            try:
                etcd.await_ready(healthy)
            except AssertionError as problem:
                raise NotRun(str(problem)) from None
            yield clients.removeprefix("http://")
        finally:
            etcd.kill()

    def load(self, work, **options):
        """One closed loop of distlock_bench."""
        words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
        return answer_of([BENCH, work, "--warm", self.size.warm, "--seconds", self.size.seconds, *words], Invalid)

    def script_calls(self):
        found = re.search(r"cmdstat_evalsha:calls=(\d+)", self.near.redis.command("INFO", "commandstats"))
        return int(found.group(1)) if found else 0

    def cpu_seconds(self):
        """Of this process, all that it has started and that have ended, and the servers."""
        servers = [process for process in self.world.processes if process.alive()]
        return sum(os.times()[:4]) + sum(cpu_seconds(server.pid) for server in servers)

    def end(self):
        for process in self.world.processes:
            if isinstance(process, Distlockd):
                self._end(process)

    def _broker(self, url, name, *args):
        return self.world.distlockd(url, *args, name=name, listen=f"127.0.0.1:{free_port()}")

    def _serve(self, work, ready, *args):
        process = self.world._add(Process(work, [BENCH, work, *args], self.world.folder))
        process.launch()
        process.await_ready(ready)

    @staticmethod
    def _end(broker):
        code = broker.drain()
        if code != 0:
            raise Invalid(f"{broker.name} ended with {code}: {broker.log()[-300:]}")
