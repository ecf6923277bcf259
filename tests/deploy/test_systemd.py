# SPDX-License-Identifier: Apache-2.0
"""The unit of deploy/systemd: its hardening, as systemd-analyze counts it, and what the broker tells systemd."""
import concurrent.futures
import contextlib
import ctypes
import os
import pathlib
import re
import signal
import socket
import subprocess

import pytest

from client import Client
from conftest import REPOSITORY
from harness import DISTLOCKD, PATIENCE_S, eventually

UNIT = REPOSITORY / "deploy/systemd/distlockd.service"
SOCKET = REPOSITORY / "deploy/systemd/distlockd.socket"
EXPOSURE_MAX = 1.5  # of 10: https://www.freedesktop.org/software/systemd/man/systemd-analyze.html


def analyze(*args):
    return subprocess.run(["systemd-analyze", *map(str, args)], capture_output=True, text=True, timeout=60,
                          check=False)


def test_the_units_are_proper(tmp_path):
    unit, sockets = tmp_path / UNIT.name, tmp_path / SOCKET.name
    text = UNIT.read_text(encoding="utf-8")
    unit.write_text(text.replace("/usr/bin/distlockd", DISTLOCKD), encoding="utf-8")
    sockets.write_text(SOCKET.read_text(encoding="utf-8"), encoding="utf-8")
    done = analyze("verify", "--man=no", unit, sockets)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_units_of_the_page_about_jobs_are_proper(tmp_path):
    page = (REPOSITORY / "deploy/jobs.md").read_text(encoding="utf-8")
    units = re.findall(r"^```ini file=(\S+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(units) == 3
    for name, text in units:
        programs = re.sub(r"/usr/(?:local/)?bin/\w+", "/bin/true", text)
        (tmp_path / name).write_text(programs, encoding="utf-8")
    done = analyze("verify", "--man=no", *(tmp_path / name for name, _ in units))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_socket_is_the_one_that_the_configuration_of_the_package_names():
    path, user = (re.search(rf"^{key}=(.*)$", SOCKET.read_text(encoding="utf-8"), re.MULTILINE)[1]
                  for key in ("ListenStream", "SocketUser"))
    config = (REPOSITORY / "deploy/systemd/distlockd.yaml").read_text(encoding="utf-8")
    assert f"listen: unix://{path}\n" in config
    assert f"User={user}\n" in UNIT.read_text(encoding="utf-8")


def test_the_unit_exposes_little(tmp_path):
    done = analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX * 10:.0f}", "--no-pager", UNIT)
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert found and float(found[1]) <= EXPOSURE_MAX and done.returncode == 0, done.stdout


def test_the_unit_lets_clients_be_told_apart_and_leaves_time_to_drain():
    text = UNIT.read_text(encoding="utf-8")
    assert not re.search(r"^PrivateUsers=(?!no)", text, re.MULTILINE)
    options = (REPOSITORY / "server/ops/option_table.cc").read_text(encoding="utf-8")
    drain = int(re.search(r'"drain-timeout".*?"(\d+)s"', options)[1])
    assert int(re.search(r"^TimeoutStopSec=(\d+)$", text, re.MULTILINE)[1]) >= drain + 10


def test_the_exit_codes_that_no_restart_mends_are_those_of_the_daemon():
    codes = re.search(r"^RestartPreventExitStatus=(.*)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)[1].split()
    options = (REPOSITORY / "server/ops/options.cc").read_text(encoding="utf-8")
    assert codes == re.findall(r"kExit(?:Usage|Config) = (\d+);", options)


@pytest.mark.parametrize("what", ["sysusers", "tmpfiles"])
def test_user_and_folder_are_proper(tmp_path, what):
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\ndistlock:x:998:998::/:/bin/false\n", encoding="utf-8")
    (tmp_path / "etc/group").write_text("root:x:0:\ndistlock:x:998:\n", encoding="utf-8")
    file = REPOSITORY / f"deploy/systemd/{what}.conf"
    args = ["--create"] if what == "tmpfiles" else []
    subprocess.run([f"systemd-{what}", f"--root={tmp_path}", *args, file], check=True, timeout=60)
    if what == "tmpfiles":
        assert (tmp_path / "run/distlock").stat().st_uid == 998


def test_the_configuration_of_the_package_is_proper():
    done = subprocess.run([DISTLOCKD, "--config", REPOSITORY / "deploy/systemd/distlockd.yaml", "--print-config"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and done.stderr == ""


class ServiceManager:
    """systemd's end of NOTIFY_SOCKET."""

    def __init__(self, folder):
        self.path = f"{folder}/notify.sock"
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.settimeout(PATIENCE_S)

    def next(self):
        return dict(line.split("=", 1) for line in self.socket.recv(4096).decode().splitlines())

    def until(self, key):
        """The next message with the key."""
        while True:
            told = self.next()
            if key in told:
                return told

    def quiet_for(self, seconds):
        """Whatever has come before does not count."""
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.socket.recv(4096)
        self.socket.settimeout(seconds)
        with pytest.raises(TimeoutError):
            self.socket.recv(4096)
        self.socket.settimeout(PATIENCE_S)


@pytest.fixture
def manager(world, monkeypatch):
    made = ServiceManager(world.folder)
    monkeypatch.setenv("NOTIFY_SOCKET", made.path)
    yield made
    made.socket.close()


def test_the_broker_says_when_it_is_ready_and_when_it_stops(world, manager):
    daemon = world.distlockd(world.redis().url, await_ready=False)
    assert manager.next()["READY"] == "1"
    assert daemon.serving()
    daemon.terminate()
    assert manager.until("STOPPING")["STOPPING"] == "1"
    assert daemon.exit_code() == 0


def test_a_broker_that_waits_for_its_store_is_not_ready_yet(world, manager):
    redis = world.redis()
    redis.kill()
    daemon = world.distlockd(redis.url, "--wait-for-store", await_ready=False)
    eventually(lambda: "waiting for the store" in daemon.log(), "a word about waiting")
    assert "READY" not in manager.next()
    redis.start()
    assert manager.until("READY")["READY"] == "1"


def test_the_watchdog_is_fed_while_the_shards_turn(world, manager, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "2000000")
    redis = world.redis()
    daemon = world.distlockd(redis.url, "--shards", "2", await_ready=False)
    for _ in range(3):
        manager.until("WATCHDOG")
    redis.stop()  # a store that hangs is no reason to end the broker
    for _ in range(3):
        manager.until("WATCHDOG")
    redis.cont()
    daemon.stop()
    manager.quiet_for(2)
    daemon.cont()
    manager.until("WATCHDOG")


PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
SYS_ptrace = {"x86_64": 101, "aarch64": 117}[os.uname().machine]


@contextlib.contextmanager
def frozen_thread(daemon, name):
    """One thread of the broker does not run, as if it were stuck."""
    libc = ctypes.CDLL(None, use_errno=True)

    def ptrace(what, thread):
        done = libc.syscall(SYS_ptrace, what, int(thread.name), 0, 0)
        assert done == 0, os.strerror(ctypes.get_errno())
    thread = next(task for task in pathlib.Path(f"/proc/{daemon.pid}/task").iterdir()
                  if (task / "comm").read_text(encoding="utf-8").strip() == name)
    ptrace(PTRACE_SEIZE, thread)
    ptrace(PTRACE_INTERRUPT, thread)
    eventually(lambda: (thread / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "t", "its stop")
    try:
        yield
    finally:
        ptrace(PTRACE_DETACH, thread)


@pytest.mark.parametrize("thread", ["calls-0", "shard-0"])
def test_the_watchdog_is_not_fed_while_a_thread_that_matters_is_stuck(world, manager, monkeypatch, thread):
    monkeypatch.setenv("WATCHDOG_USEC", "2000000")
    daemon = world.distlockd(world.redis().url, await_ready=False)
    manager.until("WATCHDOG")
    with frozen_thread(daemon, thread):
        with contextlib.suppress(TimeoutError):
            manager.socket.settimeout(1.5)
            manager.next()  # of the turn before
        manager.quiet_for(2.5)
    manager.until("WATCHDOG")


@pytest.mark.parametrize("why", ["its address is gone", "the thread that accepts is stuck"])
def test_the_watchdog_is_not_fed_while_nobody_can_connect(world, manager, monkeypatch, why):
    """The rest of the broker is well. An address counts as dead when no connection was accepted for 15 s."""
    monkeypatch.setenv("WATCHDOG_USEC", "2000000")
    daemon = world.distlockd(world.redis().url, await_ready=False)
    manager.until("READY")
    gone = why == "its address is gone"
    if gone:
        os.unlink(daemon.url.removeprefix("unix://"))
    with contextlib.nullcontext() if gone else frozen_thread(daemon, "acceptor"):
        eventually(lambda: daemon.get("/healthz")[0] == 503, "the end of its health")
        assert daemon.url in daemon.get("/healthz")[1]
        manager.quiet_for(2.5)
    if not gone:
        manager.until("WATCHDOG")
        assert daemon.serving()


def test_a_restart_by_the_socket_unit_refuses_nobody(world):
    """As systemd does it: the socket stays open, and the next process takes it over."""
    path = f"{world.folder}/s.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(100)
    redis = world.redis()
    script = 'exec 3<&"$0"; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'

    def start():
        return subprocess.Popen(["bash", "-c", script, str(listener.fileno()), DISTLOCKD, "--listen", f"unix://{path}",
                                 "--redis", redis.url, "--http", ""], pass_fds=[listener.fileno()],
                                stderr=subprocess.DEVNULL)
    first = start()
    try:
        with Client(f"unix://{path}") as client:
            client.release(client.acquire(client.spec("k")).lease_id)
        first.terminate()
        assert first.wait(PATIENCE_S) == 0
        with Client(f"unix://{path}") as early, concurrent.futures.ThreadPoolExecutor() as pool:
            waiting = pool.submit(early.acquire, early.spec("k"))
            first = start()
            waiting.result(PATIENCE_S)
    finally:
        first.kill()
        first.wait()
        listener.close()


def test_the_watchdog_of_another_process_is_not_fed(world, manager, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "200000")
    monkeypatch.setenv("WATCHDOG_PID", "1")
    daemon = world.distlockd(world.redis().url, await_ready=False)
    manager.until("READY")
    manager.quiet_for(1)
    daemon.popen.send_signal(signal.SIGTERM)
    assert daemon.exit_code() == 0
