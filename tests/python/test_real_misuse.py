# SPDX-License-Identifier: Apache-2.0
"""Programs that use the package as it is not meant, with a real broker: no lock is left, and none has two holders."""
import asyncio
import concurrent.futures
import contextlib
import copy
import gc
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading

import distlock
import interrupts
import pytest
from distlock.compat import redis as compat

PATIENCE_S = 20


@pytest.fixture
def broker(world):
    return world.distlockd(world.redis().url, "--validity", "30s", "--default-ttl", "60s")


def test_handles_that_a_pool_of_threads_drops(broker, connect, caplog):
    """They are given back although the threads live on; the error of a job keeps what its frames have."""
    dl, other = connect(broker.url), connect(broker.url)

    def drops(number):
        dl.lock(f"k{number % 4}", wait=PATIENCE_S).acquire()

    def fails():
        held = dl.lock("failed").acquire()
        raise KeyError(held.token)

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        list(pool.map(drops, range(40)))
        with other.all(["k0", "k1", "k2", "k3"], wait=PATIENCE_S):
            pass
        assert caplog.text.count("given back because its handle was dropped") == 40
        job = pool.submit(fails)
        assert isinstance(job.exception(PATIENCE_S), KeyError) and not other.inspect("failed").is_free
        del job
        gc.collect()
        with other.lock("failed", wait=PATIENCE_S):
            pass


def test_a_handler_that_releases_what_is_being_left(broker, connect):
    """Whichever comes first gives it back: the other one finds it gone."""
    dl, held, outcomes = connect(broker.url), [None], set()

    def handle():
        if held[0] is not None:
            outcomes.add(held[0].release())

    def work():
        with dl.lock("k", wait=PATIENCE_S) as held[0]:
            held[0].lost.wait(0.0003)

    interrupts.storm(handle, work, 2000)
    assert outcomes == {distlock.Outcome.RELEASED, distlock.Outcome.ALREADY_GONE}
    with connect(broker.url).lock("k", wait=0):
        pass


def test_releases_that_are_cancelled(broker):
    """Each is carried out, or has not begun: then the lock is held, and can be released."""
    async def whole():
        async with distlock.aio.connect(broker.url) as dl, distlock.aio.connect(broker.url) as other:
            begun = 0
            for number in range(400):
                held = await dl.lock("k", wait=PATIENCE_S).acquire()
                releases = asyncio.ensure_future(held.release())
                for _ in range(number % 5):
                    await asyncio.sleep(0)
                releases.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await releases
                if held.is_held:
                    assert number % 5 == 0 and await held.release() is distlock.Outcome.RELEASED
                else:
                    begun += 1
                    assert held.cause == "GIVEN_BACK"
                async with other.lock("k", wait=PATIENCE_S):
                    pass
            assert begun == 320 and await dl.drained(PATIENCE_S)

    asyncio.run(whole())


def test_a_release_in_another_loop(broker):
    """In the thread of a loop that has not taken the lock, while its own loop is busy."""
    async def whole():
        async with distlock.aio.connect(broker.url) as dl:
            held = await dl.lock("k").acquire()
            outcome = []
            other = threading.Thread(target=lambda: outcome.append(asyncio.run(held.release())))
            other.start()
            other.join(PATIENCE_S)
            assert outcome == [distlock.Outcome.RELEASED] and not held.is_held
            assert await held.release() is distlock.Outcome.ALREADY_GONE

    asyncio.run(whole())


def look(dl, key):
    return dl.inspect(key).holder_count, distlock.SKIP


def test_a_handle_has_no_copies(broker, connect):
    """Two owners would each give it back, and another process cannot hold it. A copy of a client is another client."""
    dl = connect(broker.url)
    held, both = dl.lock("k").acquire(), dl.all(["a", "b"]).acquire()
    for one in (held, [both]):
        for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
            if one is held or duplicate is not copy.copy:
                with pytest.raises(TypeError, match="has one handle, which cannot be copied or pickled"):
                    duplicate(one)
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        with pytest.raises(TypeError, match="cannot be copied or pickled"):
            pool.submit(look, held, "k").result(PATIENCE_S)
        assert pool.submit(look, dl, "k").result(PATIENCE_S) == (1, distlock.SKIP)
    for duplicate in (copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
        with duplicate(dl) as other, pytest.raises(distlock.Busy):
            other.lock("k", wait=0).acquire()
    assert held.is_held and both.is_held

    async def whole():
        async with distlock.aio.connect(broker.url) as client:
            one = await client.lock("other").acquire()
            async with copy.copy(client) as other:
                with pytest.raises(distlock.Busy):
                    await other.lock("other", wait=0).acquire()
            for duplicate in (copy.copy, pickle.dumps):
                with pytest.raises(TypeError, match="cannot be copied or pickled"):
                    duplicate(one)

    asyncio.run(whole())


def test_a_program_that_becomes_another_one_in_a_body(world, connect):
    """The process lives on, but not its locks."""
    broker = world.distlockd(world.redis().url)
    program = subprocess.Popen([sys.executable, "-B", "-c", """
import distlock, os
with distlock.connect(os.environ["BROKER"]).lock("k") as held:
    print(held.is_held, flush=True)
    os.execvp("sleep", ["sleep", "1000"])
"""], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "BROKER": broker.url, "PYTHONPATH": os.pathsep.join(sys.path)})
    try:
        assert program.stdout.readline() == "True\n"
        with connect(broker.url).lock("k", wait=PATIENCE_S):
            assert program.poll() is None
    finally:
        program.kill()
        program.communicate()


@pytest.mark.parametrize("end", ["sys.exit(3)", "os._exit(3)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_a_shim_in_a_program_that_ends(broker, connect, end):
    """With a timeout far away, whose thread waits: the lock is free at once all the same."""
    done = subprocess.run([sys.executable, "-B", "-c", f"""
import distlock, os, signal, sys
from distlock.compat.redis import Lock
lock = Lock(distlock.connect(os.environ["BROKER"]), "k", timeout=3600)
print(lock.acquire(), flush=True)
{end}
"""], stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S,
        env={**os.environ, "BROKER": broker.url, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.stdout == "True\n" and done.returncode in (3, -signal.SIGKILL)
    assert compat.Lock(connect(broker.url), "k", blocking_timeout=PATIENCE_S).acquire()
