#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures failovers in a row: a primary, two replicas and three sentinels, one broker with a holder and a waiter.

For each: how long after the first +switch-master the lease was renewed at the new primary, and how long after the
promotion the waiter of the holder had the lock. Also checks that tokens grow, that the holder loses nothing, and that
the broker has no descriptor more in the end. Prints medians and percentiles; fails when a promise is broken, not when a
figure is large.
"""
import argparse
import contextlib
import os
import pathlib
import socket
import statistics
import sys
import tempfile
import threading

from client import boot_now
from faults import Holder, waiter
from harness import RedisError, World, eventually, read_reply
from proxy import PATIENCE_S
from sentinel_set import NAME, SentinelSet

TTL_S = 12.0


class SwitchWatch:
    """When each sentinel published +switch-master."""

    def __init__(self, sentinels):
        self.times = []
        for sentinel in sentinels:
            sock = socket.create_connection((sentinel.host, sentinel.port), timeout=PATIENCE_S)
            sock.settimeout(None)
            sock.sendall(b"*2\r\n$9\r\nSUBSCRIBE\r\n$14\r\n+switch-master\r\n")
            threading.Thread(target=self._read, args=(sock.makefile("rb"),), daemon=True).start()

    def _read(self, stream):
        while True:
            try:
                message = read_reply(stream)
            except OSError:
                return
            if message[0] == "message":
                self.times.append(boot_now())

    def first_after(self, at):
        return eventually(lambda: next((t for t in sorted(self.times) if t >= at), None), "+switch-master")


def promoted_at(servers, old):
    """When another server said that it is the primary; polled each few milliseconds."""
    def leads(server):
        # A server ends the connections of its clients when its role changes.
        with contextlib.suppress(OSError, RedisError):
            return server.command("ROLE")[0] == "master"
        return False
    others = [s for s in servers.servers if s is not old]
    new = eventually(lambda: next((s for s in others if leads(s)), None), "a promotion")
    return new, boot_now()


def one_failover(servers, client, watch, last_token):
    servers.await_whole()
    old = servers.primary()
    holder = Holder(client, "session", ttl=TTL_S).granted()
    assert holder.token > last_token, "a token came twice"
    waiting = waiter(client, ttl=TTL_S)
    key = old.key("k", "h")
    eventually(lambda: all(s.command("EXISTS", key) for s in servers.servers), "the replicas having the lock")
    before, began = old.command("PEXPIRETIME", key), boot_now()
    servers.sentinels[0].command("SENTINEL", "FAILOVER", NAME)
    new, promoted = promoted_at(servers, old)
    eventually(lambda: new.command("PEXPIRETIME", key) > before, "the lease being renewed there")
    renewed = boot_now()
    switched = watch.first_after(began)
    holder.release()
    waiting.granted()
    served = waiting.at("granted")
    assert not holder.all("lost"), "the holder lost its lock"
    assert waiting.grant.fencing_token > holder.token, "tokens do not grow"
    token = waiting.grant.fencing_token
    client.release(waiting.grant.lease_id)
    return (max(0.0, renewed - switched) * 1e3, (served - promoted) * 1e3), token


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="dlfail") as folder, World(pathlib.Path(folder)) as world:
        servers = SentinelSet(world)
        broker = world.distlockd(servers.url, "--failover-hold-off", "0")
        watch = SwitchWatch(servers.sentinels)
        renewals, services, token, fds = [], [], 0, 0
        with broker.client() as client:
            for i in range(options.count):
                (renewal, service), token = one_failover(servers, client, watch, token)
                renewals.append(renewal)
                services.append(service)
                if i == 0:
                    fds = len(os.listdir(f"/proc/{broker.pid}/fd"))
                print(f"{i + 1:4}: renewed after {renewal:6.1f} ms, waiter served after {service:7.1f} ms", flush=True)
        eventually(lambda: len(os.listdir(f"/proc/{broker.pid}/fd")) <= fds, "no descriptor more than at first")
        for what, values in (("renewed after +switch-master", renewals), ("waiter served after promotion", services)):
            values.sort()
            p99 = values[min(len(values) - 1, int(len(values) * 0.99))]
            print(f"{what}: median {statistics.median(values):.1f} ms, p99 {p99:.1f} ms, most {values[-1]:.1f} ms")
        print(f"{options.count} failovers, tokens grew, no lease lost, no descriptor left over")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
