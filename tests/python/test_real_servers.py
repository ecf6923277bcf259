# SPDX-License-Identifier: Apache-2.0
"""Forks as servers make them: gunicorn with a preloaded application, celery's prefork pool, multiprocessing."""
import http.client
import multiprocessing
import os
import pathlib
import signal
import socket
import subprocess
import sys
from concurrent import futures

import pytest
from conftest import REPOSITORY
from harness import eventually
from tools import Program

APPLICATION = """
import os, time
import distlock

dl = distlock.connect(os.environ["BROKER"])
master = dl.lock("master").acquire()          # gRPC runs before the workers are forked
kept = []


def application(environ, start_response):
    if environ["PATH_INFO"] == "/hold":
        kept.append(dl.lock("held by a worker").acquire())
        answer = "held"
    else:
        with dl.lock("request", wait=60) as held:
            answer = f"{held.token} {master.cause}"
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [f"{os.getpid()} {answer}".encode()]
"""
TASKS = """
import os
import celery, distlock

dl = distlock.connect(os.environ["BROKER"])
parent = dl.lock("parent").acquire()          # gRPC runs before the pool is forked
app = celery.Celery("tasks", broker="filesystem://", backend="file://" + os.environ["FOLDER"] + "/results")
app.conf.update(broker_transport_options={"data_folder_in": os.environ["FOLDER"] + "/queue",
                                          "data_folder_out": os.environ["FOLDER"] + "/queue",
                                          "store_processed": False})


@app.task
def work(number):
    with dl.lock("task", wait=60) as held:
        return [number, os.getpid(), held.token, parent.cause]
"""
CALLER = """
import unittest.mock

with unittest.mock.patch("distlock.client.Acquire.acquire"):  # the worker holds that lock
    import tasks
done = [tasks.work.delay(number) for number in range(12)]
for one in done:
    print(*one.get(timeout=100), flush=True)
"""


@pytest.fixture
def one(world):
    redis = world.redis()
    return world.distlockd(redis.url)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=100)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(100)
        self.sock.connect(self._path)


def get(path, what="/"):
    connection = UnixConnection(path)
    connection.request("GET", what)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert answer.status == 200, text
    return text.split(" ", 1)


def test_gunicorn(world, one, connect):
    dl = connect(one.url)
    path = f"{world.folder}/web.sock"
    # Workers end in the usual way after some requests, and others are forked by a master that runs gRPC.
    server = Program(world, "gunicorn", "gunicorn", "--preload", "--workers", "2", "--bind", f"unix:{path}",
                     "--timeout", "100", "--graceful-timeout", "20", "--max-requests", "12", "--no-control-socket",
                     "application", files={"application.py": APPLICATION}, variables={"BROKER": one.url})
    server.await_ready(lambda: "Booting worker" in server.log())
    with futures.ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: get(path), range(40)))
    tokens = [answer.split() for _, answer in answers]
    assert len({token for token, _ in tokens}) == 40 and {cause for _, cause in tokens} == {"FORKED"}
    assert len({pid for pid, _ in answers}) > 2, "no worker was replaced"
    assert dl.inspect("master").holder_count == 1

    holder, _ = get(path, "/hold")
    assert dl.inspect("held by a worker").holder_count == 1
    os.kill(int(holder), signal.SIGKILL)
    assert dl.lock("held by a worker", wait=60).acquire().is_held

    server.terminate()
    assert server.exit_code() == 0
    with dl.lock("master", wait=20):
        pass


def test_celery(world, one):
    for name in ("queue", "results"):
        (world.folder / name).mkdir()
    variables = {"BROKER": one.url, "FOLDER": str(world.folder), "C_FORCE_ROOT": "1"}
    worker = Program(world, "celery", "celery", "--app", "tasks", "worker", "--pool", "prefork", "--concurrency", "2",
                     "--max-tasks-per-child", "4", "--without-gossip", "--without-mingle", "--without-heartbeat",
                     "--loglevel", "INFO", files={"tasks.py": TASKS}, variables=variables)
    worker.await_ready(lambda: "ready." in worker.log())
    asked = Program(world, "caller", "caller", files={"caller.py": CALLER}, variables=variables)
    assert asked.exit_code() == 0, asked.log()
    answers = [line.split() for line in asked.log().splitlines()]
    assert [int(number) for number, *_ in answers] == list(range(12))
    assert len({token for _, _, token, _ in answers}) == 12 and {cause for *_, cause in answers} == {"FORKED"}
    assert len({pid for _, pid, _, _ in answers}) > 2, "no process of the pool was replaced"
    worker.terminate()
    worker.exit_code()


def take(url, number):
    import distlock
    with distlock.connect(url).lock("shared", wait=60) as held:
        return number, held.token


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_a_pool_of_processes(one, connect, method):
    dl = connect(one.url)
    parent = dl.lock("parent").acquire()
    context = multiprocessing.get_context(method)
    with futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        answers = list(pool.map(take, [one.url] * 8, range(8)))
    assert [number for number, _ in answers] == list(range(8)) and len({token for _, token in answers}) == 8
    assert parent.is_held


def test_forking_while_clients_come_and_go(one):
    """Version 1.51 of gRPC hangs in fork(), or aborts, while its threads stop with its last channel."""
    program = """
import faulthandler, os, sys, distlock
faulthandler.dump_traceback_later(60, exit=True)
for _ in range(30):
    with distlock.connect(sys.argv[1]) as dl:
        dl.lock("k", wait=20).acquire()
    for _ in range(8):
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)
"""
    done = subprocess.run([sys.executable, "-c", program, one.url], capture_output=True, text=True, timeout=100,
                          env={"PYTHONPATH": f"{REPOSITORY}/client/python"})
    assert done.returncode == 0, done.stderr


def test_a_grandchild_does_not_keep_its_parents_locks(world, one, connect):
    """It has a copy of the pipes to the process that makes its parent's calls."""
    program = """
import os, sys, distlock
dl = distlock.connect(sys.argv[1])
parent = dl.lock("parent").acquire()
if os.fork() == 0:
    kept = dl.lock("child", wait=20).acquire()
    if os.fork() == 0:
        print("ready", os.getppid(), flush=True)
    sys.stdin.read()
    os._exit(0)
sys.stdin.read()
"""
    process = subprocess.Popen([sys.executable, "-c", program, one.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               text=True, env={"PYTHONPATH": f"{REPOSITORY}/client/python"})
    dl = connect(one.url)
    try:
        _, child = process.stdout.readline().split()
        pids = relays_of(child)
        assert len(pids) == 1
        os.kill(int(child), signal.SIGKILL)
        eventually(lambda: not alive(pids[0]))
        assert dl.lock("child", wait=20).acquire().is_held and dl.inspect("parent").holder_count == 1
    finally:
        process.communicate("")


def relays_of(parent):
    """The processes that make calls for this one."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            about = (folder / "stat").read_text().rpartition(")")[2].split()
            if about[1] == parent and b"_relay_main" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:  # it has just ended
            pass
    return found


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


GREENLETS = """
from gevent import monkey
monkey.patch_all()
import os, time
import gevent
import distlock

longest, last = 0, time.monotonic()
dl = distlock.connect(os.environ["BROKER"])


def tick():
    global longest, last
    while True:
        gevent.sleep(0.01)
        longest, last = max(longest, time.monotonic() - last), time.monotonic()


def work(number):
    for _ in range(20):
        with dl.lock("k", wait=60) as held:
            gevent.sleep(0.001)
            assert held.is_held


gevent.spawn(tick)
gevent.joinall([gevent.spawn(work, number) for number in range(5)], raise_error=True)
assert dl.lock("last").acquire().release() is distlock.Outcome.RELEASED
print(f"stopped for {longest:.3f} s", flush=True)
os._exit(0 if longest < 5 else 1)
"""


def test_gevent(world, one):
    program = Program(world, "greenlets", "greenlets", files={"greenlets.py": GREENLETS}, variables={"BROKER": one.url})
    assert program.exit_code() == 0, program.log()
    assert "stopped for" in program.log()
