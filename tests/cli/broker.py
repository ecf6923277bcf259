# SPDX-License-Identifier: Apache-2.0
"""The broker of a test, with one interface for the fake and for a real distlockd (with a redis-server of its own)."""
import os
import signal
import socket
import subprocess
import time
import uuid

import grpc

from fake_broker import FakeBroker

PATIENCE_S = 60


def eventually(condition, what="the condition"):
    """The condition's first true value. PATIENCE_S only ends a test that hangs."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"{what} did not come true within {PATIENCE_S} s")


class Broker:
    """Common to both brokers: other clients' view of the locks, by GetLock."""

    def __init__(self, api, address):
        self.api, self.address = api, address
        # Quick retries, because a daemon that is starting is ready in a moment. How long one attempt may take stays as
        # it is (grpc.min_reconnect_backoff_ms): a call fails with it, also when the daemon is only slow to be run.
        self.channel = grpc.insecure_channel(address, [("grpc.initial_reconnect_backoff_ms", 20),
                                                       ("grpc.max_reconnect_backoff_ms", 100)])

    def lock(self, key, namespace="default"):
        call = self.channel.unary_unary("/distlock.v1.LockService/GetLock", lambda m: m.SerializeToString(),
                                        self.api.GetLockResponse.FromString)
        return call(self.api.GetLockRequest(namespace=namespace, key=key), timeout=PATIENCE_S).lock

    def held(self, key, namespace="default"):
        return bool(self.lock(key, namespace).holders)

    def free(self, key, namespace="default"):
        lock = self.lock(key, namespace)
        return not lock.holders and not lock.HasField("block")

    def take(self, keys):
        """Takes a detached lease of an hour on each key."""
        call = self.channel.unary_unary("/distlock.v1.LockService/Acquire", lambda m: m.SerializeToString())
        requests = [self.api.AcquireRequest(locks=[self.api.LockSpec(key=key)], request_id=uuid.uuid4().hex)
                    for key in keys]
        for request in requests:
            request.locks[0].ttl.FromSeconds(3600)
        for answer in [call.future(request, timeout=PATIENCE_S) for request in requests]:
            answer.result()

    def queue_length(self, key):
        return self.lock(key).queue_length


class Fake(Broker):
    real = False

    def __init__(self, api, folder):
        address = f"unix://{folder}/broker.sock"
        self.fake = FakeBroker(api)
        self.fake.start(address)
        super().__init__(api, address)

    def lose(self, key):
        self.fake.lose(key)

    def fall_silent(self):
        self.fake.silent = True

    def close(self):
        self.channel.close()
        self.fake.stop()


class Real(Broker):
    real = True

    def __init__(self, api, folder, distlockd, *options):
        self.redis_path = f"{folder}/redis.sock"
        self.redis = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", self.redis_path, "--save", "",
                                       "--dir", str(folder)], stdout=subprocess.DEVNULL)
        eventually(lambda: os.path.exists(self.redis_path), "the redis socket")
        super().__init__(api, f"unix://{folder}/broker.sock")
        with open(f"{folder}/distlockd.log", "wb") as log:
            self.daemon = subprocess.Popen([distlockd, "--listen", self.address, "--redis", f"unix://{self.redis_path}",
                                            "--http", "", *options], stderr=log)
        eventually(self._serving, "the broker having its store")

    def _serving(self):
        check = self.channel.unary_unary("/grpc.health.v1.Health/Check")  # bytes in, bytes out: no stub is needed
        try:
            return check(b"", timeout=PATIENCE_S, wait_for_ready=True) == b"\x08\x01"
        except grpc.RpcError:
            return False

    def lose(self, key):
        """Deletes the lock's key in the store; the broker notices at the next renewal."""
        name = f"dl:{{default/{key}}}:h"
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.redis_path)
            s.sendall(f"*2\r\n$3\r\nDEL\r\n${len(name)}\r\n{name}\r\n".encode())
            assert s.recv(64) == b":1\r\n"

    def fall_silent(self):
        self.daemon.send_signal(signal.SIGSTOP)

    def close(self):
        self.channel.close()
        for process in (self.daemon, self.redis):
            process.kill()
            process.wait()
