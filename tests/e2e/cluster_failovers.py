#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures failovers of a Cluster in a row: three primaries with a replica each, one broker with a holder and a waiter.
The primary of their lock is killed, stopped, and asked to hand over, by turns.

For each: how long after the fault its replica was the primary, how long after that the lease was renewed there, and
how long after the promotion the waiter of the holder had the lock. Also checks that tokens grow, that the holder loses
nothing, and that the broker has no descriptor more in the end. Prints medians and percentiles; fails when a promise is
broken, not when a figure is large.
"""
import argparse
import contextlib
import os
import pathlib
import statistics
import sys
import tempfile

from client import boot_now
from cluster_set import NODE_TIMEOUT_MS, ClusterSet
from faults import Holder, waiter
from harness import RedisError, World, eventually

TTL_S = 12.0
KEY = "k"


def kill(_, old, _replica, look):
    look()
    old.kill()


def stop(_, old, _replica, look):
    look()
    old.stop()


def hand_over(cluster, _, replica, look):
    # The lease may be renewed on the old primary between two attempts.
    cluster.fail_over(replica, before_asking=look)


FAULTS = (kill, stop, hand_over)


def is_true(question):
    """False also while a server does not answer, as when its role changes."""
    with contextlib.suppress(OSError, RedisError):
        return question()
    return False


def one_failover(cluster, client, fault, last_token):
    cluster.await_whole()
    old = cluster.primary_of(KEY)
    holder = Holder(client, "session", key=KEY, ttl=TTL_S).granted()
    assert holder.token > last_token, "a token came twice"
    waiting = waiter(client, key=KEY, ttl=TTL_S)
    new, stored = cluster.replica_of(old), old.key(KEY, "h")
    before, began = 0, 0.0

    def look():
        nonlocal before, began
        before, began = old.command("PEXPIRETIME", stored), boot_now()
    fault(cluster, old, new, look)
    eventually(lambda: is_true(lambda: new.command("ROLE")[0] == "master"), "a promotion")
    promoted = boot_now()
    eventually(lambda: is_true(lambda: new.command("PEXPIRETIME", stored) > before), "the lease being renewed there")
    renewed = boot_now()
    holder.release()
    served = waiting.granted().at("granted")
    assert not holder.all("lost"), "the holder lost its lock"
    assert waiting.token > holder.token, "tokens do not grow"
    client.release(waiting.grant.lease_id)
    if fault is kill:
        old.start()
    if fault is stop:
        old.cont()
    eventually(lambda: is_true(old.is_replica), "the old primary following")
    return [(at - since) * 1e3 for at, since in ((promoted, began), (renewed, promoted), (served, promoted))], \
        waiting.token


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=99, help="failovers in a row")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="dlfail") as folder, World(pathlib.Path(folder)) as world:
        cluster = ClusterSet(world)
        broker = world.distlockd(cluster.url, "--failover-hold-off", "0", "--max-ttl", "60s")
        figures, token, most_fds = {fault: [] for fault in FAULTS}, 0, 0
        with broker.client() as client:
            for i in range(options.count):
                fault = FAULTS[i % len(FAULTS)]
                took, token = one_failover(cluster, client, fault, token)
                figures[fault].append(took)
                if i < len(FAULTS):
                    most_fds = max(most_fds, len(os.listdir(f"/proc/{broker.pid}/fd")))
                print(f"{i + 1:4}: {fault.__name__}: promoted after {took[0]:6.0f} ms, then renewed after "
                      f"{took[1]:6.1f} ms, waiter served after {took[2]:6.1f} ms", flush=True)
        # Nodes that have lost their slots are left after some seconds.
        eventually(lambda: len(os.listdir(f"/proc/{broker.pid}/fd")) <= most_fds, "no descriptor more than at first")
        for fault, rows in figures.items():
            for what, values in zip(("promoted", "renewed after that", "waiter served after that"), zip(*rows)):
                values = sorted(values)
                p99 = values[min(len(values) - 1, int(len(values) * 0.99))]
                print(f"{fault.__name__}, {what}: median {statistics.median(values):.0f} ms, p99 {p99:.0f} ms, most "
                      f"{values[-1]:.0f} ms")
        print(f"{options.count} failovers with a node-timeout of {NODE_TIMEOUT_MS} ms: tokens grew, no lease lost, no "
              "descriptor left over")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
