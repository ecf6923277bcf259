# SPDX-License-Identifier: Apache-2.0
"""Those who want locks while connections stall: `distlockctl hold -n` again and again, a detached try that repeats its
request_id, and a waiter. Each takes its lock once, in a thread of its own, believes in it until it is told to let go,
and knows from when to when it believed.
"""
import json
import os
import signal
import subprocess
import threading
import time

import grpc

from client import boot_now, seconds
from faults import DISTLOCKCTL
from harness import eventually
from proxy import PATIENCE_S

PAUSE_S = 0.1     # between two tries
MAX_WAIT_S = 30.0  # of one request of a waiter


class Party:
    """begin, end: of its belief, on the boot clock; end is None while it lasts. error: why it has no lock."""

    def __init__(self, broker, key, after=None):
        """after: another party, which has the lock before this one begins."""
        self.broker, self.key, self.after = broker, key, after
        self.token, self.begin, self.end, self.error = 0, 0.0, None, ""
        self.granted, self.may_end = threading.Event(), threading.Event()
        self._deadline = 0.0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __str__(self):
        return f"{type(self).__name__} of {self.key} (token {self.token})"

    def start(self, deadline):
        """It wants the lock until then, on the boot clock."""
        self._deadline = deadline
        self._thread.start()
        return self

    def _run(self):
        try:
            if self.after:
                assert self.after.granted.wait(max(0.0, self._deadline - boot_now())), f"{self.after} has no lock"
            self.token = self.take()
            self.begin = boot_now()
            self.granted.set()
            self.may_end.wait()
            self.end = min(boot_now(), self.lost_at())
            self.give_back()
        except (AssertionError, OSError, grpc.RpcError, ValueError) as error:
            self.error = f"{type(error).__name__}: {error}"[:300]
        finally:
            self.close()

    def tries(self):
        """Paces the tries; fails when it is too late for another one."""
        while boot_now() < self._deadline:
            yield
            time.sleep(PAUSE_S)
        raise AssertionError("it was never granted")

    def believes(self):
        return self.granted.is_set() and self.end is None and boot_now() < self.lost_at()

    def was_told_of_loss(self):
        """By a program, which this one reads a moment later."""
        return False

    def let_go(self):
        self.may_end.set()

    def join(self):
        self.may_end.set()
        self._thread.join(PATIENCE_S + max(0.0, self._deadline - boot_now()))
        assert not self._thread.is_alive(), f"{self} never ended"

    def close(self):
        pass


class HoldProgram(Party):
    """`distlockctl hold -n`, started again until one is granted."""
    _program, _lost = None, None

    def take(self):
        for _ in self.tries():
            self._program = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", DISTLOCKCTL, "hold", self.key, "-n", "-o", "json", "--server",
                 self.broker.url], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            for event in map(json.loads, self._program.stdout):
                if event["event"] == "granted":
                    threading.Thread(target=self._follow, args=(self._program.stdout,), daemon=True).start()
                    return int(event["token"])
            self._program.wait()

    def _follow(self, lines):
        for line in lines:
            if json.loads(line)["event"] == "lost":
                self._lost = boot_now()

    def lost_at(self):
        return self._lost or float("inf")

    def was_told_of_loss(self):
        return self._lost is not None

    def give_back(self):
        if self._program.poll() is None:
            os.kill(self._program.pid, signal.SIGTERM)
        self._program.wait(PATIENCE_S)

    def close(self):
        if self._program and self._program.poll() is None:
            self._program.kill()
            self._program.wait()


class Detached(Party):
    """Acquire with max_wait 0 and one request_id, called again until it is granted."""
    _until, _lease = float("inf"), ""

    def take(self):
        request = os.urandom(12).hex()
        with self.broker.client() as client:
            for _ in self.tries():
                sent = boot_now()
                try:
                    grant = client.acquire(client.spec(self.key, max_wait=0.0, owner="detached"), request, timeout=10)
                except grpc.RpcError:
                    continue
                self._until, self._lease = sent + seconds(grant.waited) + seconds(grant.valid_for), grant.lease_id
                if boot_now() < self._until:
                    return grant.fencing_token
        raise AssertionError("no try was left")

    def lost_at(self):
        return self._until

    def give_back(self):
        with self.broker.client() as client:
            client.release(self._lease, timeout=20)


class Waiter(Party):
    """A session that waits for the lock, and asks again when the wait is refused."""
    _session, _client, _id = None, None, 0

    def take(self):
        self._client = self.broker.client()
        for _ in self.tries():
            self._session = self._client.session()
            self._id = self._session.acquire(self._client.spec(self.key, max_wait=MAX_WAIT_S, owner="waiter"))
            told = self._session.wait(lambda: self._told("granted") or self._told("refused"), "an answer")
            if found := self._told("granted"):
                return found[0].fencing_token
            assert told
            self._session.cancel()
        raise AssertionError("no try was left")

    def _told(self, kind):
        return self._session.all(kind, self._id)

    def is_queued(self):
        return self.granted.is_set() or self._session is not None and bool(self._told("queued"))

    def lost_at(self):
        times = [at for at, event in list(self._session.events)
                 if event.WhichOneof("event") == "lost" and event.id == self._id]
        return min(times + [self._session.furthest.get(self._id, float("inf"))])

    def give_back(self):
        self._session.release(self._id)
        eventually(lambda: self._session.all("released"), f"the release by {self}")

    def close(self):
        if self._client:
            self._client.close()


__all__ = ["Detached", "HoldProgram", "Waiter"]
