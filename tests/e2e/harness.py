# SPDX-License-Identifier: Apache-2.0
"""Real processes under test: a redis-server, distlockd, and a World that starts them, keeps their logs and ends them.

    with World(folder) as world:
        redis = world.redis()
        net = world.proxy(redis.url)
        daemon = world.distlockd(net.url, "--validity", "1s")
        with daemon.client() as client:
            grant = client.acquire(client.spec("k"))

Every process ends with the test run, even when that is killed (PR_SET_PDEATHSIG). Programs: DISTLOCKD (default
build/release/bin/distlockd), REDIS_SERVER (default redis-server; valkey-server works too).
"""
import contextlib
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import client as clients
import proxy as proxies
from client import boot_now
from proxy import PATIENCE_S

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DISTLOCKD = os.environ.get("DISTLOCKD", str(REPOSITORY / "build/release/bin/distlockd"))
REDIS_SERVER = os.environ.get("REDIS_SERVER", "redis-server")


def eventually(condition, what="the condition"):
    """The condition's first true value. PATIENCE_S only ends a test that hangs."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"{what} did not come true within {PATIENCE_S} s")


class Process:
    """A program with a log file. After its end it can be started again, with the same log."""

    def __init__(self, name, argv, folder):
        self.name, self.argv = name, [str(part) for part in argv]
        self.log_path = pathlib.Path(folder) / f"{name}.log"
        self.popen = None

    def launch(self):
        assert not self.alive(), f"{self.name} runs already"
        with open(self.log_path, "ab") as log:
            self.log_start = log.tell()
            self.popen = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *self.argv],
                                          stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @property
    def pid(self):
        return self.popen.pid

    def alive(self):
        return self.popen is not None and self.popen.poll() is None

    def log(self):
        """The output of the present run."""
        with open(self.log_path, "rb") as log:
            log.seek(self.log_start)
            return log.read().decode(errors="replace")

    def kill(self):
        if self.popen is not None:
            self.popen.kill()
            self.popen.wait()

    def stop(self):
        """Freezes the process, like a frozen machine: its sockets stay open. Returns once it is frozen."""
        self.popen.send_signal(signal.SIGSTOP)
        eventually(lambda: self._state() == "T", f"{self.name} stopping")

    def cont(self):
        self.popen.send_signal(signal.SIGCONT)

    def terminate(self):
        self.popen.terminate()

    def exit_code(self):
        """Waits for the end, and returns the exit code, or minus the number of the signal that ended it."""
        return self.popen.wait(timeout=PATIENCE_S)

    def _state(self):
        with open(f"/proc/{self.pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0]

    def await_ready(self, ready):
        def check():
            assert self.alive(), f"{self.name} ended with {self.popen.returncode}"
            return ready()
        try:
            return eventually(check, f"{self.name} being ready")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.log()}") from None


class Redis(Process):
    """One redis-server without persistence, on a unix socket and, with tcp, on a fixed port of `host`, which is an
    address of this machine."""

    def __init__(self, folder, name="redis", tcp=False, args=(), host="127.0.0.1"):
        self.host = host
        self.folder = pathlib.Path(folder)
        self.path = self.folder / f"{name}.sock"
        self.port = free_port() if tcp else 0
        self.url = f"redis://{host}:{self.port}" if tcp else f"unix://{self.path}"
        super().__init__(name, [REDIS_SERVER, "--port", self.port, "--bind", host, "--unixsocket", self.path,
                                "--save", "", "--appendonly", "no", "--dir", self.folder, "--dbfilename", f"{name}.rdb",
                                "--maxmemory-policy", "noeviction", "--enable-debug-command", "local", *args], folder)

    def start(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path)
        self.launch()
        self.await_ready(self._answers)
        return self

    def restart(self):
        """Restarts it as after a crash: all its data is lost."""
        self.kill()
        return self.start()

    def _answers(self):
        try:
            return self.command("PING") == "PONG"
        except (OSError, RedisError):
            return False

    def command(self, *args):
        """One command on a connection of its own that bypasses any proxy. Raises RedisError for an error reply."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(PATIENCE_S)
            sock.connect(str(self.path))
            parts = [a if isinstance(a, bytes) else str(a).encode() for a in args]
            sock.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
            with sock.makefile("rb") as stream:
                return read_reply(stream)

    def is_replica(self):
        """False, too, when the server ends this connection: a sentinel that demotes it makes it end all."""
        try:
            return self.command("ROLE")[0] == "slave"
        except OSError:
            return False

    def key(self, lock, part, namespace="default", prefix="dl"):
        """The name of a lock's key. `lock` and `namespace` must need no escaping."""
        return f"{prefix}:{{{namespace}/{lock}}}:{part}"


class RedisError(Exception):
    pass


def read_reply(stream):
    line = stream.readline()
    if not line.endswith(b"\r\n"):
        raise ConnectionResetError("the connection ended inside a reply")
    kind, rest = line[:1], line[1:-2].decode()
    if kind == b"-":
        raise RedisError(rest)
    if kind == b"+":
        return rest
    if kind == b":":
        return int(rest)
    if int(rest) < 0:
        return None
    if kind == b"*":
        return [read_reply(stream) for _ in range(int(rest))]
    return stream.read(int(rest) + 2)[:-2].decode(errors="surrogateescape")


_kept_ports = []  # what keeps them for this process, until its end


def free_port():
    """A port at which nobody listens, for this process alone: no other test run is told the same one while this process
    lives. It is none of those that the kernel gives to outgoing connections and to whoever binds port 0, so it stays
    free before its server starts, and while that is down."""
    ports = _ports_not_given_out()
    return next(port for port in random.sample(ports, len(ports)) if _keep_port(port))


def _ports_not_given_out():
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as given:
        first, last = map(int, given.read().split())
    # Where the kernel gives out all of them, it at least gives none to two test runs.
    return range(max(first // 2, 1024), first) or range(last + 1, 65536) or range(first, last + 1)


def _keep_port(port):
    """Whether it is free and nobody else keeps it. A name without a file is seen by all processes that share the ports,
    and ends with the process."""
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind(f"\0distlock-test-port-{port}")
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("0.0.0.0", port))
    except OSError:
        mark.close()
        return False
    _kept_ports.append(mark)
    return True


class Distlockd(Process):
    """One broker on a unix socket, or at `listen`. start() returns when it serves and has reached its store."""

    def __init__(self, folder, redis_url, *args, name="distlockd", listen=None):
        self.url = listen or f"unix://{folder}/{name}.sock"
        super().__init__(name, [DISTLOCKD, "--listen", self.url, "--redis", redis_url, "--http", "127.0.0.1:0", *args],
                         folder)

    def start(self, await_ready=True):
        """await_ready=False: for a broker that waits for its store or refuses to start."""
        self.launch()
        if await_ready:
            self.await_ready(self.serving)
        return self

    def restart(self):
        self.kill()
        return self.start()

    def serving(self):
        return clients.health(self.url) == clients.SERVING

    def drain(self):
        """Sends SIGTERM, and returns the exit code when the broker has ended."""
        self.terminate()
        return self.exit_code()

    def client(self, url=None, token=None):
        """A client of this broker; `url`: of a proxy before it; `token`: that it shows with each call."""
        return clients.Client(url or self.url, token)

    @property
    def http(self):
        """http://host:port, as in the broker's log."""
        shown = self.await_ready(lambda: re.search(r'\bhttp"?[=:]"?(127\.0\.0\.1:\d+)', self.log()))
        return f"http://{shown.group(1)}"

    def get(self, path):
        """(status, body) of a GET on the HTTP port."""
        try:
            with urllib.request.urlopen(self.http + path, timeout=PATIENCE_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name, **labels):
        """The value of one series; 0 when it does not exist."""
        for line in self.get("/metrics")[1].splitlines():
            found = re.fullmatch(rf"{name}(?:\{{(.*)\}})? (\S+)", line)
            if found and dict(re.findall(r'(\w+)="([^"]*)"', found.group(1) or "")) == labels:
                return float(found.group(2))
        return 0.0


class World:
    """All processes that one test has started. Leaving it ends them, the youngest first; a failed test shows the
    logs."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.processes = []
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()

    def _add(self, process):
        taken = sum(p.log_path == process.log_path for p in self.processes)
        assert not taken, f"two processes are named {process.name}; give one another name"
        self.processes.append(process)
        self._stack.callback(process.kill)
        return process

    def redis(self, name="redis", tcp=False, args=(), host="127.0.0.1"):
        return self._add(Redis(self.folder, name, tcp, args, host)).start()

    def distlockd(self, redis_url, *args, name="distlockd", listen=None, await_ready=True):
        return self._add(Distlockd(self.folder, redis_url, *args, name=name, listen=listen)).start(await_ready)

    def proxy(self, target, listen=None):
        return self._stack.enter_context(proxies.Proxy(target, self.folder, listen))

    def client(self, url):
        return self._stack.enter_context(clients.Client(url))

    def logs(self):
        return "\n".join(f"---- {p.name} ----\n{p.log()}" for p in self.processes if p.popen is not None)


__all__ = ["Distlockd", "Process", "Redis", "RedisError", "World", "boot_now", "eventually", "free_port"]
