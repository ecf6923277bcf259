# SPDX-License-Identifier: Apache-2.0
"""The package is interrupted many times, with a real broker and store: it never stands still, and no lock is left.
DISTLOCK_CANCELLATIONS: how many threads and tasks are cancelled."""
import asyncio
import gc
import os
import time

import distlock
import interrupts
import pytest
from harness import eventually

SIGNALS = 10_000
CANCELLATIONS = int(os.environ.get("DISTLOCK_CANCELLATIONS", 1000))
INTERRUPTED = {"fresh": 4000, "again": 2000, "several": 1000, "by hand": 1000, "stack": 1000, "decorated": 1000}


@pytest.fixture
def broker(world):
    return world.distlockd(world.redis().url)


def test_signals_at_random_moments(broker, connect):
    interrupts.call_everything(connect(broker.url), SIGNALS)


@pytest.mark.parametrize("kind", INTERRUPTED)
def test_interrupted_blocks(broker, connect, kind):
    use = interrupts.kinds_of_use(connect(broker.url))[kind]
    interrupts.interrupt(use, INTERRUPTED[kind])
    gc.collect()
    other = connect(broker.url)
    eventually(lambda: not [lock.key for lock in other.list()])
    use()


@pytest.fixture
def patient(world):
    """No stall of a busy machine loses a lock of this broker, and its ttl frees none that is left."""
    return world.distlockd(world.redis().url, "--validity", "30s", "--default-ttl", "60s")


def test_cancelled_threads(patient, connect):
    dl, other = connect(patient.url), connect(patient.url)
    interrupts.cancel_threads(dl, CANCELLATIONS)
    nothing_is_left(dl, other)


def test_cancelled_tasks(patient, connect):
    other = connect(patient.url)

    async def whole():
        async with distlock.aio.connect(patient.url) as dl:
            await interrupts.cancel_tasks(dl, CANCELLATIONS)
            await asyncio.get_running_loop().run_in_executor(None, nothing_is_left, dl, other)

    asyncio.run(whole())


def nothing_is_left(dl, other):
    gc.collect()
    eventually(lambda: not [lock.key for lock in other.list()])
    eventually(lambda: (dl.stats().held, dl.stats().waiting) == (0, 0))
    with other.all("abcd", wait=0):
        pass


def test_dropped_clients(broker):
    before, files = len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd"))
    for number in range(60):
        with distlock.connect(broker.url).lock(f"k{number}", wait=20):
            pass
    gc.collect()
    eventually(lambda: len(os.listdir("/proc/self/fd")) < files + 10)
    eventually(lambda: len(os.listdir("/proc/self/task")) < before + 20)


def test_what_is_given_back_while_no_broker_is_there_is_free_with_the_next(broker, connect):
    dl = connect(broker.url, unreachable_after=60)
    resumed, plain = dl.lock("resumed", resume=True).acquire(), dl.lock("plain").acquire()
    broker.kill()
    plain.release_soon()  # before or after this client has noticed
    eventually(lambda: resumed.at_risk)
    assert resumed.release() is distlock.Outcome.UNKNOWN
    broker.restart()
    began = time.monotonic()
    with connect(broker.url, unreachable_after=60).lock("resumed", wait=60):
        assert time.monotonic() - began < 5  # the ttl is 15 s
