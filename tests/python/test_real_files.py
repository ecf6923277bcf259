# SPDX-License-Identifier: Apache-2.0
"""distlock.compat.filelock and distlock.compat.portalocker: beside the packages themselves, and when a broker, a store
or a host dies while a lock is held."""
import asyncio
import builtins
import os
import pathlib
import re
import subprocess
import sys

import distlock
import pages
import pytest
import tools
from conftest import REPOSITORY
from distlock.compat import filelock, portalocker
from harness import eventually

HERE = pathlib.Path(__file__).parent
# How a lock of each kind is made, how its loss is told, that others have it, and that nobody answered.
KINDS = {
    "FileLock": (filelock.FileLock, distlock.LockLost, filelock.Timeout, builtins.ConnectionError),
    "Lock": (portalocker.Lock, portalocker.LockLostError, portalocker.AlreadyLocked, portalocker.ConnectionError),
    "RLock": (portalocker.RLock, portalocker.LockLostError, portalocker.AlreadyLocked, portalocker.ConnectionError),
}


def in_the_environment(broker, *argv):
    done = subprocess.run([tools.python(), *argv], capture_output=True, text=True, timeout=200, env={
        **os.environ, "DISTLOCK_SERVER": broker.url, "PYTHONPATH": f"{REPOSITORY}/client/python"})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def store(world):
    return world.redis()


@pytest.fixture
def broker(world, store):
    return world.distlockd(store.url, "--default-ttl", "5s")


def test_filelock_itself(broker, tmp_path):
    assert in_the_environment(broker, HERE / "filelocks.py", broker.url, tmp_path) == "the same\n"


def test_portalocker_itself(broker, store, tmp_path):
    assert in_the_environment(broker, HERE / "portalockers.py", broker.url, store.url, tmp_path) == "the same\n"


def test_the_programs_of_the_page(broker, tmp_path):
    tokens = []
    os.environ["DISTLOCK_SERVER"] = broker.url
    try:
        for program in re.findall(r"^```python\n(.*?)^```$", pages.text("files.md"), re.DOTALL | re.MULTILINE):
            exec(program.replace("/shared", str(tmp_path)), {
                "rows": [], "save": lambda rows, token: tokens.append(token), "encode": lambda: tokens.append(0)})
    finally:
        del os.environ["DISTLOCK_SERVER"]
    assert len(tokens) == 2 and (tmp_path / "report.csv").read_text() == "ready\n"


@pytest.fixture(params=list(KINDS))
def kind(request):
    return KINDS[request.param]


@pytest.fixture
def make(kind, broker, connect, tmp_path):
    """Locks of one path, of this host or another one."""
    def made(dl=None, **options):
        return kind[0](tmp_path / "k", dl=dl or connect(broker.url), **options)
    return made


def test_a_broker_that_dies(kind, make, broker):
    _, lost, _, unreachable = kind
    lock = make()
    with pytest.raises(KeyError):
        with lock:
            broker.kill()
            eventually(lambda: not lock.held.is_held)
            with pytest.raises(lost):
                lock.acquire()
            raise KeyError
    with pytest.raises(unreachable) as nobody:
        make(timeout=0).acquire()
    assert isinstance(nobody.value, distlock.Unavailable)
    broker.start()
    lock = make(timeout=60)
    with pytest.raises(lost) as told:
        with lock:
            broker.kill()
            eventually(lambda: not lock.held.is_held)
    assert isinstance(told.value, distlock.LockLost)


def test_a_store_that_dies(kind, make, store, connect, broker):
    _, lost, busy, unreachable = kind
    lock, other = make(), make(timeout=0.5)
    lock.acquire()
    with pytest.raises(busy):
        other.acquire()
    store.kill()
    with pytest.raises(unreachable):
        other.acquire()
    assert lock.held.is_held
    eventually(lambda: not lock.held.is_held, "the end of the ttl")
    with pytest.raises(lost):
        lock.release()
    store.start()
    with make(timeout=60):
        pass


def test_a_host_that_dies(kind, make, broker, tmp_path):
    program = (f"import distlock.compat.{'filelock' if kind[0] is filelock.FileLock else 'portalocker'} as c, time\n"
               f"lock = c.{kind[0].__name__}({str(tmp_path / 'k')!r})\nlock.acquire()\nprint('held', flush=True)\n"
               "time.sleep(1000)")
    host = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env={
        **os.environ, "DISTLOCK_SERVER": broker.url, "PYTHONPATH": os.pathsep.join(sys.path)})
    try:
        assert host.stdout.readline() == "held\n"
        with pytest.raises(kind[2]):
            make(timeout=0).acquire()
    finally:
        host.kill()
        host.communicate()
    with make(timeout=60):
        pass


def test_a_loss_of_asyncios(broker, tmp_path):
    async def whole():
        async with distlock.aio.connect(broker.url) as dl:
            lock = filelock.AsyncFileLock(tmp_path / "k", dl=dl)
            with pytest.raises(distlock.LockLost):
                async with lock:
                    broker.kill()
                    await lock.held.lost.wait()
                    assert not lock.is_locked
            with pytest.raises(builtins.ConnectionError):
                await lock.acquire(blocking=False)
    asyncio.run(whole())


def test_a_lost_permit_and_a_lost_channel(broker, connect):
    dl, told = connect(broker.url), []
    semaphore = portalocker.BoundedSemaphore(2, "two", dl=dl)
    channel = portalocker.RedisLock("channel", dl, on_lost=told.append)
    with pytest.raises(portalocker.LockLostError):
        with semaphore as slot, channel:
            broker.kill()
            eventually(lambda: channel.lost and not slot.is_held)
            with pytest.raises(portalocker.LockLostError):
                channel.ensure_held()
    eventually(lambda: told == [channel])
    assert semaphore.lock is None and channel.lost
