# SPDX-License-Identifier: Apache-2.0
"""Whole programs with a real broker: how they end, are interrupted and send errors. Whatever they do, no lock is left
of them: at once, for the last promise of this broker lasts 30 s."""
import os
import signal
import subprocess
import sys

import pytest
import tools
from harness import eventually

AT_ONCE_S = 20  # a machine may stall, and a process of Linux before 6.9 does not prove itself
HEAD = """
import asyncio, atexit, gc, os, signal, sys, threading, time
import distlock
dl = distlock.connect(os.environ["BROKER"])
say = lambda *words: print(*words, flush=True)
"""


@pytest.fixture
def broker(world):
    return world.distlockd(world.redis().url, "--validity", "30s", "--default-ttl", "60s")


@pytest.fixture
def start(broker):
    """Starts a program, behind HEAD."""
    begun = []

    def run(text, *options, python=sys.executable, head=HEAD):
        begun.append(subprocess.Popen(
            [python, "-B", *options, "-c", head + text], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True,
            env={**os.environ, "BROKER": broker.url, "PYTHONPATH": os.pathsep.join(sys.path)}))
        return begun[-1]

    yield run
    for program in begun:
        program.kill()
        program.communicate()


def ended(program, code=0):
    """What it has printed."""
    out, errors = program.communicate(timeout=100)
    assert program.returncode == code, out + errors
    return out.split("\n")[:-1], errors


def is_free(broker, connect, *keys):
    dl = connect(broker.url)
    for key in keys:
        with dl.lock(key, wait=AT_ONCE_S):
            pass


def test_what_is_held_at_the_end(broker, connect, start):
    """By a handle that is kept, a body of a thread that goes on, and one that an exception leaves."""
    _, errors = ended(start("""
kept = dl.lock("kept").acquire()
def work():
    with dl.lock("thread") as held:
        time.sleep(0.5)
        held.check()
        say("worked")
threading.Thread(target=work).start()
with dl.lock("body"):
    raise SystemExit(7)
"""), 7)
    assert errors == ""
    is_free(broker, connect, "kept", "thread", "body")


def test_threads_of_an_ended_program(broker, connect, start):
    """Daemons that hold, wait, and take one lock after the other."""
    with connect(broker.url).lock("busy"):
        _, errors = ended(start("""
def again():
    while True:
        with dl.lock("again"):
            pass
def hold():
    with dl.lock("held"):
        time.sleep(1000)
def daemon(work):
    try:
        work()
    except distlock.ClientClosed:
        pass
for work in (again, hold, lambda: dl.lock("busy").acquire()):
    threading.Thread(target=daemon, args=(work,), daemon=True).start()
while dl.stats().waiting != 1 or not dl.inspect("busy").queue_length or not dl.inspect("held").holder_count:
    time.sleep(0.01)
"""))
        assert errors == ""
        is_free(broker, connect, "held", "again")
        eventually(lambda: not connect(broker.url).inspect("busy").queue_length)


def test_handlers_of_the_end(broker, connect, start):
    """One of this package's own closes all clients that are there then; one that runs before it may take locks, one
    that runs after it is told, or makes a client of its own."""
    out, errors = ended(start(f"""
import atexit, os
def after():
    import distlock
    try:
        dl.lock("b", wait=5).acquire()
    except distlock.ClientClosed:
        print("closed", flush=True)
    with distlock.connect(os.environ["BROKER"]).lock("c", wait=20):
        print("anew", flush=True)
atexit.register(after)
exec({HEAD!r})
def before():
    with dl.lock("a"):
        say("before")
atexit.register(before)
""", head=""))
    assert out == ["before", "closed", "anew"] and errors == ""
    is_free(broker, connect, "a", "b", "c")


def test_a_program_that_is_told_to_end(broker, connect, start):
    """By a handler that exits, in a body, and while a lock is waited for."""
    program = """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
with dl.lock("held"):
    say("inside")
    {}
"""
    with connect(broker.url).lock("busy"):
        for wait in ("time.sleep(1000)", "dl.lock('busy').acquire()", "dl.drained()"):
            running = start(program.format(wait))
            assert running.stdout.readline() == "inside\n"
            if "busy" in wait:
                eventually(lambda: connect(broker.url).inspect("busy").queue_length)
            running.terminate()
            _, errors = ended(running, 9)
            assert errors == ""
            is_free(broker, connect, "held")
            eventually(lambda: not connect(broker.url).inspect("busy").queue_length)


@pytest.mark.parametrize("body", ["""
with dl.lock("k", wait=0, min_hold=3600):
    say("ran")
""", """
dl.locked("k", wait=0, min_hold=3600)(lambda: say("ran"))()
""", """
async def job():
    async with distlock.aio.connect(os.environ["BROKER"]).lock("k", wait=0, min_hold=3600):
        say("ran")
    os._exit(0)
asyncio.run(job())
"""], ids=["with", "locked", "async with"])
def test_a_min_hold_of_a_program_that_does_not_say_goodbye(broker, connect, start, body):
    """As a worker of RQ or of multiprocessing ends: the release has arrived, for a death would leave no block."""
    out, errors = ended(start(body + "os._exit(0)"))
    assert out == ["ran"] and errors == ""
    assert connect(broker.url).inspect("k").block.time_left > 3000


def test_a_loop_that_is_interrupted(broker, connect, start):
    running = start("""
async def work(key):
    async with distlock.aio.connect(os.environ["BROKER"]) as client:
        async with client.lock(key), client.lock(key + "2"):
            say("inside")
            await asyncio.sleep(1000)
async def whole():
    await asyncio.gather(work("a"), work("b"))
try:
    asyncio.run(whole())
except KeyboardInterrupt:
    say("interrupted")
    os._exit(3)
""")
    assert [running.stdout.readline() for _ in range(2)] == ["inside\n"] * 2
    running.send_signal(signal.SIGINT)
    out, errors = ended(running, 3)
    assert out == ["interrupted"] and errors == ""
    is_free(broker, connect, "a", "a2", "b", "b2")


def test_a_child_that_leaves_the_body_of_its_parent(broker, connect, start):
    """By returning, by an exception, and by exiting: the lock is the parent's all the same."""
    out, errors = ended(start("""
def child(leave):
    try:
        with dl.lock("k", wait=20) as held:
            pid = os.fork()
            if pid == 0:
                return leave()
            code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
            held.check()
            say(code, dl.inspect("k").holder_count)
    except distlock.LockLost as lost:
        os._exit(5 if lost.cause == "FORKED" else 6)
    except KeyError:
        os._exit(4)
def fails():
    raise KeyError
child(lambda: None)
child(fails)
child(lambda: sys.exit(3))
"""))
    assert out == ["5 1", "4 1", "3 1"] and errors == ""


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_errors_of_a_pool(broker, connect, start, tmp_path, method):
    """They cross processes whole, and the pool works on."""
    (tmp_path / "jobs.py").write_text("""
import distlock, os
def lose():
    with distlock.connect(os.environ["BROKER"]).lock("lost", ttl=1, max_hold=1) as held:
        held.lost.wait(60)
        held.check()
def find_busy():
    distlock.connect(os.environ["BROKER"]).lock("busy", wait=0).acquire()
def err():
    distlock.connect(os.environ["BROKER"]).permits("k", limit=2, n=3).acquire()
""")
    with connect(broker.url).lock("busy", owner="me"):
        out, errors = ended(start(f"""
sys.path.append({str(tmp_path)!r})
import concurrent.futures, jobs, multiprocessing
with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context({method!r})) as pool:
    for job in (jobs.lose, jobs.find_busy, jobs.err, jobs.find_busy):
        error = pool.submit(job).exception(60)
        say(type(error).__name__, getattr(error, "cause", [one.owner for one in getattr(error, "holders", ())]),
            getattr(error, "field_problems", ()))
"""))
    assert out[0] in ("LockLost MAX_HOLD ()", "LockLost LAPSED ()"), out
    assert out[1] == out[3] == "Busy ['me'] ()" and out[2].startswith("InvalidRequest [] (('limit', 'is 2;")


def test_nothing_is_warned_of(broker, connect, start):
    """In a mode in which Python warns of what is not closed, or is awaited by nobody."""
    _, errors = ended(start("""
async def whole():
    client = distlock.aio.connect(os.environ["BROKER"])
    async with client.lock("a"), client.permits("p", limit=2):
        waiting = asyncio.ensure_future(client.lock("a").acquire())
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    async for lock in client.watch("a"):
        break
    await (await client.acquire_detached("d")).release()
    await client.close()
asyncio.run(whole(), debug=True)
with dl.lock("a") as held:
    held.on_loss(id)
for lock in dl.watch("a"):
    break
gc.collect()
""", "-X", "dev", "-W", "error"))
    assert errors == ""


def test_a_profiler_and_a_tracer(broker, connect, start):
    """Called at each step of this package's own code, they may call what does not wait."""
    out, errors = ended(start("""
seen, inside = [0], [False]
held = dl.lock("kept").acquire()
def look(frame, event, argument):
    if not inside[0]:
        inside[0] = True
        seen[0] += 1
        assert held.is_held and not held.lost and dl.stats().held >= 1
        held.on_loss(id)
        dl.lock("never")
        inside[0] = False
    return look
for arm in (sys.setprofile, sys.settrace):
    arm(look)
    for number in range(20):
        with dl.lock("k", wait=20):
            pass
    arm(None)
say(seen[0] > 1000, held.is_held)
"""))
    assert out == ["True True"] and errors == ""


GREENLETS = """
from gevent import monkey
monkey.patch_all()
import gevent
""" + HEAD + """
def work(key, most):
    with gevent.Timeout(most, False):
        with dl.lock(key, wait=20):
            gevent.sleep(0.002)
import random
for number in range(150):
    one = gevent.spawn(work, f"k{number % 3}", random.uniform(0, 0.01))
    gevent.sleep(random.uniform(0, 0.004))
    if random.random() < 0.5:
        one.kill()
    one.join()
gc.collect()
deadline = time.monotonic() + 20
while (dl.stats().held or dl.stats().waiting) and time.monotonic() < deadline:
    gevent.sleep(0.01)
say(dl.stats().held, dl.stats().waiting)
with dl.lock("k0", wait=20), dl.lock("k1", wait=20), dl.lock("k2", wait=20):
    say("free")
os._exit(0)
"""


def test_greenlets_that_are_killed(broker, start):
    out, _ = ended(start(GREENLETS, python=tools.python(), head=""))
    assert out == ["0 0", "free"]


def test_eventlet_is_refused(start):
    out, _ = ended(start("""
import eventlet
eventlet.monkey_patch()
for connect in (distlock.connect, distlock.aio.connect):
    try:
        connect(os.environ["BROKER"])
    except RuntimeError as error:
        say("eventlet" in str(error))
""", python=tools.python()))
    assert out == ["True", "True"]
