# SPDX-License-Identifier: Apache-2.0
"""A server of each kind installed, on a unix socket in a folder of its own. DISTLOCK_LUA_SERVERS (paths, joined with
':') names other server binaries to run on."""

import os
import shutil
import subprocess
import tempfile
import time

import pytest

import lock as lua
from resp import Connection


def _binaries():
    named = os.environ.get("DISTLOCK_LUA_SERVERS")
    if named:
        return named.split(":")
    return [path for path in map(shutil.which, ("redis-server", "valkey-server")) if path]


class Server:
    def __init__(self, binary, *args):
        self.binary = binary
        self._dir = tempfile.mkdtemp(prefix="distlock-lua-")
        self.path = os.path.join(self._dir, "s")
        self._log = open(os.path.join(self._dir, "log"), "wb")
        self._process = subprocess.Popen(
            [binary, "--port", "0", "--unixsocket", self.path, "--save", "", "--appendonly", "no", "--dir", self._dir,
             *map(str, args)],
            stdout=self._log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 20
        while True:
            try:
                Connection(self.path).close()
                return
            except OSError:
                assert self._process.poll() is None, f"{binary} ended: see {self._dir}/log"
                assert time.monotonic() < deadline, f"{binary} did not open {self.path}"
                time.sleep(0.01)

    def stop(self):
        self._process.kill()
        self._process.wait()
        self._log.close()
        shutil.rmtree(self._dir)


ALL_WAYS = ("test_acquire", "test_faults", "test_min_hold", "test_random", "test_random_kinds", "test_release",
            "test_rw", "test_watch")


def pytest_generate_tests(metafunc):
    if metafunc.module.__name__ in ALL_WAYS:
        metafunc.parametrize("way", ["alone", "by_token", "in_batch"], indirect=True)


@pytest.fixture(autouse=True)
def way(request, monkeypatch):
    """How acquires and releases are called: by their own scripts, a release with or without its token, or as batch."""
    param = getattr(request, "param", "alone")
    monkeypatch.setattr(lua.Lock, "by_token", param != "alone")
    monkeypatch.setattr(lua.Lock, "through_batch", param == "in_batch")


@pytest.fixture(scope="session", params=_binaries() or ["redis-server"], ids=os.path.basename)
def server(request):
    started = Server(request.param)
    yield started
    started.stop()


@pytest.fixture
def redis(server):
    """A connection to an empty server that has the scripts."""
    connection = Connection(server.path)
    connection("CONFIG", "SET", "maxmemory", "0")
    connection("FLUSHALL")
    lua.load(connection)
    yield connection
    connection("CONFIG", "SET", "maxmemory", "0")
    connection.close()


@pytest.fixture
def lock(redis):
    return lua.Lock(redis)


@pytest.fixture
def listen(server):
    """listen(n): broker n subscribes to its channel."""
    ears = []

    def start(at=1):
        ears.append(lua.Ear(server.path, at))
        return ears[-1]

    yield start
    for ear in ears:
        ear._connection.close()


@pytest.fixture
def until():
    """until(condition): waits for it, a few seconds at the most."""

    def wait(condition):
        deadline = time.monotonic() + 5
        while not condition():
            assert time.monotonic() < deadline, "it never came"
            time.sleep(0.005)

    return wait
