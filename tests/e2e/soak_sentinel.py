# SPDX-License-Identifier: Apache-2.0
"""The soak behind Sentinel: a primary, two replicas and three sentinels, and the faults of that set. Brokers ask a
replica to confirm each grant and hold off after a failover, so the history is judged without any excuse: no failover
may give a lock to two, or a token twice.
"""
import contextlib
import threading

from client import boot_now
from harness import RedisError, eventually
from sentinel_set import NAME, SentinelSet
from soak_direct import DirectStage, rows_of_processes
from soak_table import LONG, Row

MAX_TTL_S = 5
FOLLOWED_S = 3.0  # from a promotion until the brokers' census there: the hold-off counts from then
SERVER_ARGS = ("--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes")


class PrimaryNow:
    """The primary that the sentinels name, in the place of a store."""

    name, can_step = "servers", False

    def __init__(self, servers):
        self.servers = servers

    def command(self, *args):
        return self.servers.primary().command(*args)

    @staticmethod
    def key(*args):
        raise NotImplementedError("faults of single keys are not for this stage")

    @staticmethod
    def alive():
        return True  # each of its processes may be gone at times


class SentinelStage(DirectStage):
    def _open_servers(self):
        self.servers = SentinelSet(self.world, server_args=SERVER_ARGS)
        self.store = PrimaryNow(self.servers)

    def _store_url(self):
        return self.servers.url

    def _broker_args(self):
        return ("--wait-replicas", "1", "--store-nodes", "3", "--max-ttl", f"{MAX_TTL_S}s", "--default-ttl", "4s")

    def heal(self):
        super().heal()
        self.servers.await_whole()


def _failover(fault, lose, mend=lambda primary: None):
    """Loses the primary, waits for its successor and for the time to be up, and mends the set."""
    servers = fault.stage.servers
    servers.await_whole()
    old = servers.primary()
    fault.actor = old.name
    lose(old)
    new = servers.await_other_primary(old)
    fault.wait()
    mend(old)
    servers.await_whole()
    fault.value = boot_now() - fault.began + MAX_TTL_S + FOLLOWED_S
    return f"{new.name} after {old.name}"


def ask_failover(fault):
    sentinel = fault.dice.choice(fault.stage.servers.sentinels)
    return _failover(fault, lambda old: sentinel.command("SENTINEL", "FAILOVER", NAME))


def kill_primary(fault):
    return _failover(fault, lambda old: old.kill(), lambda old: fault.stage.start(old.start))


def stop_primary(fault):
    return _failover(fault, lambda old: old.stop(), lambda old: old.cont())


def sleep_primary(fault):
    def lose(old):
        def sleep():
            with contextlib.suppress(OSError, RedisError):
                old.command("DEBUG", "SLEEP", f"{max(fault.seconds, 4):.1f}")
        threading.Thread(target=sleep, daemon=True).start()
    return _failover(fault, lose)


def kill_replica(fault):
    """One replica is gone: the other one confirms."""
    servers = fault.stage.servers
    servers.await_whole()
    primary = servers.primary()
    replica = fault.dice.choice([server for server in servers.servers if server is not primary])
    fault.actor = replica.name
    replica.kill()
    seen = fault.wait_for(lambda: len(primary.command("ROLE")[2]) == 1 and f"{replica.name} is gone")
    fault.stage.start(replica.start)
    servers.await_whole()
    return seen


def kill_sentinel(fault):
    sentinel = fault.dice.choice(fault.stage.servers.sentinels)
    fault.actor = sentinel.name
    sentinel.kill()
    fault.wait()
    fault.stage.start(sentinel.start)
    eventually(lambda: int(sentinel.fields()["num-other-sentinels"]) == 2, "the sentinel knowing the others")
    return f"{sentinel.name} ended with -9"


SENTINEL_ROWS = rows_of_processes() + [
    Row("a failover is asked for", "promoted", "store", 4, ask_failover, "store"),
    Row("the primary is killed", "promoted", "store", 8, kill_primary, "store"),
    Row("the primary stands still", "promoted", "store", LONG, stop_primary, "store"),
    Row("the primary sleeps", "promoted", "store", 8, sleep_primary, "store"),
    Row("a replica is killed", "store_restarted", "store", 6, kill_replica, "store"),
    Row("a sentinel is killed", "link_reset", "store", 6, kill_sentinel, "store"),
]
