# SPDX-License-Identifier: Apache-2.0
"""The soak on a Cluster: three primaries with a replica each, failovers of the primaries of locks that are in use, and
slots that move. Replicas follow as they can, so a new primary may have forgotten grants; the hold-off is what keeps
others from these, and the history is judged without any excuse: no fault may give a lock to two, or a token twice.
"""
import contextlib
import threading

from client import boot_now
from cluster_set import NODE_TIMEOUT_MS, ClusterSet, slot_of_lock
from cluster_stage import HOLD_OFF_S, MAX_TTL_S
from harness import RedisError
from soak_direct import DirectStage, rows_of_processes
from soak_table import LONG, Row

FOLLOWED_S = 3.0  # from a promotion until the brokers' census there: the hold-off counts from then


class NodesNow:
    """All primaries, in the place of a store."""

    name, can_step, popen = "nodes", False, None

    def __init__(self, cluster):
        self.cluster = cluster

    def command(self, *args):
        """A command whose reply is a list of keys, at all primaries."""
        return [key for node in self.cluster.primaries() for key in node.command(*args)]

    @staticmethod
    def alive():
        return True  # each of its processes may be gone at times


class ClusterSoakStage(DirectStage):
    def _open_servers(self):
        self.servers = ClusterSet(self.world)
        self.store = NodesNow(self.servers)

    def _store_url(self):
        return self.servers.url

    def _broker_args(self):
        return ("--max-ttl", f"{MAX_TTL_S}s", "--default-ttl", "4s")

    def _warm_up(self):
        # A server that is new grants nobody a lock for a while.
        with self.brokers[0].client() as client:
            for node in self.servers.primaries():
                key = next(f"w{i}" for i in range(10_000) if self.servers.primary_of(f"w{i}") is node)
                client.release(client.acquire(client.spec(key, ttl=2.0, max_wait=60.0), timeout=90).lease_id)
        super()._warm_up()

    def heal(self):
        super().heal()
        self.servers.await_whole()


def _a_lock(fault):
    return f"lock-{fault.dice.randrange(fault.stage.locks)}"


def _failover(fault, lose, mend=lambda primary: None):
    """Loses the primary of some lock, waits for its successor and for the time to be up, and mends the Cluster."""
    servers, lock = fault.stage.servers, _a_lock(fault)
    servers.await_whole()
    old = servers.agreed_primary_of(lock)
    fault.actor = old.name
    lose(old)
    new = servers.await_other_primary(lock, old)
    fault.wait()
    mend(old)
    servers.await_whole()
    fault.value = boot_now() - fault.began + HOLD_OFF_S + NODE_TIMEOUT_MS / 1000 + FOLLOWED_S
    return f"{new.name} after {old.name}"


def ask_failover(fault):
    how = fault.dice.choice(((), ("TAKEOVER",)))
    servers = fault.stage.servers
    return _failover(fault, lambda old: servers.fail_over(servers.replica_of(old), *how))


def kill_primary(fault):
    return _failover(fault, lambda old: old.kill(), lambda old: fault.stage.start(old.start))


def stop_primary(fault):
    return _failover(fault, lambda old: old.stop(), lambda old: old.cont())


def sleep_primary(fault):
    def lose(old):
        def sleep():
            with contextlib.suppress(OSError, RedisError):
                old.command("DEBUG", "SLEEP", f"{max(fault.seconds, 4 * NODE_TIMEOUT_MS / 1000):.1f}")
        threading.Thread(target=sleep, daemon=True).start()
    return _failover(fault, lose)


def kill_replica(fault):
    servers = fault.stage.servers
    servers.await_whole()
    primary = servers.agreed_primary_of(_a_lock(fault))
    replica = servers.replica_of(primary)
    fault.actor = replica.name
    replica.kill()
    seen = fault.wait_for(lambda: not primary.command("ROLE")[2] and f"{replica.name} is gone")
    fault.stage.start(replica.start)
    servers.await_whole()
    return seen


def move_slot(fault):
    """The slot of a lock that is in use moves, key by key."""
    servers, lock = fault.stage.servers, _a_lock(fault)
    servers.await_whole()
    source = servers.agreed_primary_of(lock)
    target = fault.dice.choice([node for node in servers.primaries() if node is not source])
    fault.actor = source.name
    servers.move_slot(slot_of_lock(lock), source, target)
    moved = servers.agreed_primary_of(lock) is target
    return moved and f"the slot of {lock} moved from {source.name} to {target.name}"


CLUSTER_ROWS = rows_of_processes() + [
    Row("a failover is asked for", "promoted", "store", 4, ask_failover, "store"),
    Row("a primary is killed", "promoted", "store", 8, kill_primary, "store"),
    Row("a primary stands still", "promoted", "store", LONG, stop_primary, "store"),
    Row("a primary sleeps", "promoted", "store", 8, sleep_primary, "store"),
    Row("a replica is killed", "store_restarted", "store", 6, kill_replica, "store"),
    Row("a slot moves", "scripts_flushed", "store", 1, move_slot, "store"),
]
