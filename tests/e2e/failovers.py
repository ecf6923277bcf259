#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures failovers in a row: a primary, two replicas and three sentinels, one broker with a holder and a waiter.

For each: how long after the first +switch-master the lease was renewed at the new primary, and how long after the
promotion the waiter of the holder had the lock. Also checks that tokens grow, that the holder loses nothing, and that
the broker has no descriptor more in the end. Prints medians and percentiles; fails when a promise is broken, not when a
figure is large.

With --leases it measures one failover under so many leases instead: how long after +switch-master each of them was
renewed at the new primary.
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
import time

from client import boot_now
from faults import Holder, waiter
from harness import RedisError, World, eventually, read_reply
from proxy import PATIENCE_S
from sentinel_set import NAME, SentinelSet

TTL_S = 12.0
MANY_TTL_S = 60.0
SESSIONS = 10
# How many of the holders' keys end later than ARGV[1] (unix ms).
RENEWED = """
local renewed, cursor = 0, '0'
repeat
  local page = redis.call('SCAN', cursor, 'MATCH', '*:h', 'COUNT', 1000)
  cursor = page[1]
  for _, key in ipairs(page[2]) do
    if redis.call('PEXPIRETIME', key) > tonumber(ARGV[1]) then renewed = renewed + 1 end
  end
until cursor == '0'
return renewed
"""


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


def ask_failover(servers):
    """Asks a sentinel for a failover. Until it has heard of a recovered replica it promotes none: NOGOODSLAVE."""
    def is_begun():
        try:
            return servers.sentinels[0].command("SENTINEL", "FAILOVER", NAME) == "OK"
        except RedisError as refusal:
            if not str(refusal).startswith(("NOGOODSLAVE", "INPROG")):
                raise
            return False
    eventually(is_begun, "a sentinel beginning a failover")


def one_failover(servers, client, watch, last_token):
    servers.await_whole()
    old = servers.primary()
    holder = Holder(client, "session", ttl=TTL_S).granted()
    assert holder.token > last_token, "a token came twice"
    waiting = waiter(client, ttl=TTL_S)
    key = old.key("k", "h")
    eventually(lambda: all(s.command("EXISTS", key) for s in servers.servers), "the replicas having the lock")
    before, began = old.command("PEXPIRETIME", key), boot_now()
    ask_failover(servers)
    new, promoted = promoted_at(servers, old)
    def is_renewed():
        with contextlib.suppress(OSError, RedisError):
            return new.command("PEXPIRETIME", key) > before
        return False
    eventually(is_renewed, "the lease being renewed there")
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


def hold_many(client, count):
    sessions = [client.session() for _ in range(SESSIONS)]
    for first in range(0, count, 1000):
        session = sessions[first // 1000 % SESSIONS]
        session.acquire_each([client.spec(f"many{i}", ttl=MANY_TTL_S) for i in range(first, min(first + 1000, count))])
        granted = min(first + 1000, count)
        eventually(lambda n=granted: sum(len(s.all("granted")) for s in sessions) == n, f"{granted} grants")
    return sessions


def when_renewals_paused(broker):
    """When the last lease was renewed before no other was for two seconds."""
    count, since = 0, boot_now()
    while boot_now() - since < 2.0:
        now_renewed = broker.metric("distlock_renewals_total", outcome="renewed")
        if now_renewed != count:
            count, since = now_renewed, boot_now()
    return since


def failover_under_leases(servers, broker, client, watch, count):
    """How long after +switch-master all leases were renewed at the new primary, ms."""
    sessions = hold_many(client, count)
    servers.await_whole()
    old, began = servers.primary(), boot_now()
    ask_failover(servers)
    switched = watch.first_after(began)
    last_end = time.time() * 1e3
    renewed = when_renewals_paused(broker)
    new = promoted_at(servers, old)[0]
    # A ttl counts from the renewal, so an end later than the switch plus ttl shows that the renewal came after it.
    assert new.command("EVAL", RENEWED, 0, int(last_end + MANY_TTL_S * 1e3)) == count, "some were not renewed there"
    assert not any(s.all("lost") for s in sessions), "a lease was lost"
    return (renewed - switched) * 1e3


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="failovers in a row")
    parser.add_argument("--leases", type=int, default=0, help="measure one failover under so many leases instead")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="dlfail") as folder, World(pathlib.Path(folder)) as world:
        servers = SentinelSet(world)
        broker = world.distlockd(servers.url, "--failover-hold-off", "0", "--max-ttl", "60s",
                                 "--limits", "max-leases-per-session=100000")
        watch = SwitchWatch(servers.sentinels)
        if options.leases:
            with broker.client() as client:
                took = failover_under_leases(servers, broker, client, watch, options.leases)
            print(f"{options.leases} leases: the last was renewed {took:.0f} ms after +switch-master, none was lost")
            return 0
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
