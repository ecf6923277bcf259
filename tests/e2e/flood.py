# SPDX-License-Identifier: Apache-2.0
"""Sessions that ask for more than a broker can do, in a process of their own.

    flood.py NAME --target HOST:PORT|/path/of/the.sock [--seconds S] [--sessions N]

Each of the sessions packs its commands as tightly as messages allow, sends MOST of them as fast as the broker takes
them, keeps its heart beating, and comes again when it is ended. Prints what they did as JSON.
"""
import argparse
import collections
import contextlib
import itertools
import json
import sys
import threading
import time

import grpc

from client import api

CHANNELS = 8
MOST = 24_500  # commands of a session; 25 600 events that it does not read would end it
MESSAGE_BYTES, MESSAGE_COMMANDS = 60_000, 2_500
BIG_HOLDERS = 16


def one_try(key, mode="LOCK_MODE_EXCLUSIVE", **fields):
    spec = api().LockSpec(key=key, mode=mode, **fields)
    spec.max_wait.SetInParent()
    return api().AcquireLocks(locks=[spec])


def refused(number):
    """A try for a lock whose holders are as large as they may be."""
    return api().SessionCommand(id=number, acquire=one_try("big"))


def churn(number):
    """A lock is taken, and given back."""
    if number % 2:
        return api().SessionCommand(id=number, acquire=one_try(f"free/{number % 400}"))
    return api().SessionCommand(id=number, release=api().ReleaseLease(acquire_id=number - 1))


def heartbeat(number):
    return api().SessionCommand(heartbeat=api().Heartbeat(seq=number))


def proof(number):
    return api().SessionCommand(id=number, authenticate=api().Authenticate(authorization=f"Bearer dlt_{number}"))


# By the name of the attack: what a session sends, and whether it reads what comes back.
KINDS = {"commands": (refused, False), "commands-read": (refused, True), "churn-read": (churn, True),
         "heartbeats": (heartbeat, True), "proofs": (proof, True)}


def packed(make, count):
    """Messages with `count` commands in all."""
    numbers = itertools.count(11)
    left = count
    while left > 0:
        message, size = api().SessionRequest(), 0
        while left > 0 and size < MESSAGE_BYTES and len(message.commands) < MESSAGE_COMMANDS:
            command = make(next(numbers))
            message.commands.append(command)
            size += command.ByteSize() + 4
            left -= 1
        yield message.SerializeToString()


class Flood:
    def __init__(self, name, target, seconds):
        make, self.reads = KINDS[name]
        self.messages = list(packed(make, MOST))
        self.deadline = time.monotonic() + seconds
        self.lock = threading.Lock()
        self.connections = self.cut = self.sent = 0
        self.ends = collections.Counter()
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
        address = f"unix:{target}" if target.startswith("/") else target
        self.channels = [grpc.insecure_channel(address, options=options) for _ in range(CHANNELS)]

    def goes_on(self):
        return time.monotonic() < self.deadline

    def requests(self, over):
        opening = api().SessionCommand(id=1, open=api().OpenSession(client="flood"))
        yield api().SessionRequest(commands=[opening]).SerializeToString()
        for message in self.messages:
            if over.is_set() or not self.goes_on():
                return
            with self.lock:
                self.sent += len(message)
            yield message
        for number in itertools.count(10**9):
            if over.wait(0.8) or not self.goes_on():
                return
            yield api().SessionRequest(commands=[heartbeat(number)]).SerializeToString()

    def session(self, number):
        while self.goes_on():
            over = threading.Event()
            call = self.channels[number % CHANNELS].stream_stream("/distlock.v1.LockService/Session", None, None)(
                self.requests(over), timeout=max(self.deadline - time.monotonic(), 0.001))
            with self.lock:
                self.connections += 1
            try:
                if not self.reads:
                    while self.goes_on() and call.is_active():
                        time.sleep(0.05)
                for _ in call if self.reads else ():
                    pass
            except grpc.RpcError as error:
                if self.goes_on():
                    self.ends[f"{error.code().name}: {error.details()}"[:150]] += 1
            over.set()
            if self.goes_on():
                with self.lock:
                    self.cut += 1
                time.sleep(0.05)
            call.cancel()

    def run(self, sessions):
        threads = [threading.Thread(target=self.session, args=(i,), daemon=True) for i in range(sessions)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"connections": self.connections, "cut": self.cut, "megabytes": round(self.sent / 1e6, 1),
                "ends": dict(self.ends)}


def call(channel, name, request, answer):
    return channel.unary_unary(f"/distlock.v1.LockService/{name}", request.SerializeToString, answer.FromString)


@contextlib.contextmanager
def big_holders(channel, wanted):
    """What a try for "big" is refused with: holders with as much metadata as they may have."""
    take = call(channel, "Acquire", api().AcquireRequest, api().AcquireResponse)
    release = call(channel, "Release", api().ReleaseRequest, api().ReleaseResponse)
    held = []
    for _ in range(BIG_HOLDERS if wanted else 0):
        locks = one_try("big", "LOCK_MODE_SHARED", owner="o" * 250, metadata={"k": "v" * 1000})
        locks.locks[0].ttl.FromSeconds(60)
        held += take(api().AcquireRequest(locks=locks.locks), timeout=10, wait_for_ready=True).grants
    yield
    for grant in held:
        release(api().ReleaseRequest(lease_id=grant.lease_id), timeout=10)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=KINDS)
    parser.add_argument("--target", required=True)
    parser.add_argument("--seconds", type=float, default=9)
    parser.add_argument("--sessions", type=int, default=80)
    args = parser.parse_args()
    flood = Flood(args.name, args.target, args.seconds)
    with big_holders(flood.channels[0], args.name.startswith("commands")):
        did = flood.run(args.sessions)
    print(json.dumps(did), flush=True)
    sys.exit(0)


if __name__ == "__main__":
    main()
