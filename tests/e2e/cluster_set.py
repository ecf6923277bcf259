# SPDX-License-Identifier: Apache-2.0
"""A Cluster of real processes on free ports of 127.0.0.1, made by the server's own tool: three primaries, and a replica
of each.

    cluster = ClusterSet(world)
    daemon = world.distlockd(cluster.url)
    old = cluster.primary_of("k")
    old.kill()
    new = cluster.await_other_primary("k", old)
"""
import binascii
import contextlib
import os
import re
import subprocess
import time

from harness import REDIS_SERVER, RedisError, eventually, free_port

NODE_TIMEOUT_MS = 2000
ELECTION_S = 6.0  # the server gives a failover up after 5 s
SLOTS = 16384
PORT_TRIES = 5
CLI = os.environ.get("REDIS_CLI", re.sub(r"-server$", "-cli", REDIS_SERVER))


def knows_atomic_moves():
    said = subprocess.run([REDIS_SERVER, "--version"], capture_output=True, text=True, check=True).stdout
    version = re.search(r"Valkey server v=(\d+)", said)
    return version is not None and int(version.group(1)) >= 9


def slot_of_lock(lock, namespace="default"):
    """The slot of a lock's keys. `lock` and `namespace` must need no escaping."""
    return binascii.crc_hqx(f"{namespace}/{lock}".encode(), 0) % SLOTS


class ClusterSet:
    """Started and settled: every node knows all slots and all others."""

    def __init__(self, world, primaries=3, replicas=1, server_args=(), node_args=None):
        """node_args(i): more arguments of node i."""
        self.world, self.replicas = world, replicas
        self.nodes = []
        for i in range(primaries * (1 + replicas)):
            self.nodes.append(self.add_node(f"node{i}", (*server_args, *(node_args(i) if node_args else ()))))
        self.cli("--cluster", "create", *(f"127.0.0.1:{n.port}" for n in self.nodes), "--cluster-replicas", replicas,
                 "--cluster-yes")
        self.await_whole()

    def add_node(self, name, args=()):
        """A node of no Cluster yet."""
        for attempt in range(PORT_TRIES):
            node_name = f"{name}-{attempt}" if attempt else name
            folder = self.world.folder / node_name
            folder.mkdir()
            try:
                return self.world.redis(name=node_name, tcp=True, args=(
                    "--cluster-enabled", "yes", "--cluster-node-timeout", NODE_TIMEOUT_MS, "--dir", folder,
                    "--cluster-require-full-coverage", "no", "--cluster-port", free_port(),
                    "--repl-diskless-sync-delay", "0", *args))
            except AssertionError as failed:
                # Another process has come to a port since it was found to be free.
                if "Address already in use" not in str(failed) or attempt + 1 == PORT_TRIES:
                    raise
        return None

    def cli(self, *args):
        done = subprocess.run([CLI, *map(str, args)], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{CLI} {args}: {done.stdout}\n{done.stderr}"
        return done.stdout

    @property
    def url(self):
        return self.url_of(self.nodes)

    @staticmethod
    def url_of(nodes, scheme="redis+cluster"):
        return f"{scheme}://" + ",".join(f"127.0.0.1:{n.port}" for n in nodes)

    def living(self):
        return [n for n in self.nodes if n.alive()]

    def map_of(self, node):
        """(first, last, port of the primary) of each range."""
        return sorted((r[0], r[1], r[2][1]) for r in node.command("CLUSTER", "SLOTS"))

    def by_port(self, port):
        return next(n for n in self.nodes if n.port == port)

    def primaries(self, asked=None):
        asked = asked or self.living()[0]
        return [self.by_port(port) for port in sorted({port for _, _, port in self.map_of(asked)})]

    def primary_of(self, lock, asked=None):
        slot = slot_of_lock(lock)
        for first, last, port in self.map_of(asked or self.living()[0]):
            if first <= slot <= last:
                return self.by_port(port)
        return None

    def agreed_primary_of(self, lock):
        """Once all nodes that run say the same: a node hears of a move only after a while."""
        def agreed():
            named = {self.primary_of(lock, n) for n in self.living()}
            return named.pop() if len(named) == 1 else None
        return eventually(agreed, f"all nodes agreeing where {lock} is")

    def id_of(self, node):
        return node.command("CLUSTER", "MYID")

    def replica_of(self, primary):
        """A living one that has all that the primary has written."""
        def found():
            _, written, followers = primary.command("ROLE")
            for node in self.living():
                role = node.command("ROLE")
                if role[0] == "slave" and role[2] == primary.port and role[3] == "connected":
                    confirmed = [int(offset) for _, port, offset in followers if int(port) == node.port]
                    return node if confirmed and confirmed[0] >= written else None
            return None
        return eventually(found, "a replica in step")

    def fail_over(self, replica, *how, before_asking=lambda: None):
        """CLUSTER FAILOVER at a replica, until it is the primary: the server gives up when an election fails, as one
        does when the others have voted a moment ago. before_asking() is called ahead of each attempt."""
        asked = float("-inf")

        def promoted():
            nonlocal asked
            if replica.command("ROLE")[0] == "master":
                return True
            if time.monotonic() - asked > ELECTION_S:
                asked = time.monotonic()
                before_asking()
                try:
                    replica.command("CLUSTER", "FAILOVER", *how)
                except RedisError:
                    if replica.command("ROLE")[0] != "master":  # else an earlier call has promoted it meanwhile
                        raise
            return False
        eventually(promoted, "the replica being promoted")

    def await_other_primary(self, lock, than):
        """The node that has the lock's slot instead of `than`, once all living nodes say so and it takes writes."""
        def agreed():
            living = [n for n in self.living() if n is not than]
            names = {self.primary_of(lock, n) for n in living}
            if len(names) != 1 or names & {than, None}:
                return None
            node = names.pop()
            return node if node.command("ROLE")[0] == "master" else None
        return eventually(agreed, "another primary")

    def await_whole(self):
        """All nodes that run know each other and agree on the map, all slots are served, and each primary has its
        replicas in step."""
        def whole():
            with contextlib.suppress(OSError, RedisError):  # a server ends its connections when its role changes
                return self._is_whole()
            return False
        eventually(whole, "the Cluster being whole")

    def _is_whole(self):
        maps = {tuple(self.map_of(n)) for n in self.living()}
        if len(maps) != 1 or sum(last - first + 1 for first, last, _ in maps.pop()) != SLOTS:
            return False
        states = [n.command("CLUSTER", "INFO") for n in self.living()]
        if any("cluster_state:ok" not in s or "cluster_slots_ok:16384" not in s for s in states):
            return False
        known = [n.command("CLUSTER", "NODES") for n in self.living()]
        if any(self.id_of(n) not in nodes for n in self.living() for nodes in known):
            return False
        roles = [n.command("ROLE") for n in self.living()]
        return all(r[3] == "connected" for r in roles if r[0] == "slave")

    # ---- Moving slots ----

    def move_slot(self, slot, source, target, keys_at_a_time=1, between=None):
        """As redis-cli reshards: step by step, the keys one by one. `between` is called between two keys."""
        target.command("CLUSTER", "SETSLOT", slot, "IMPORTING", self.id_of(source))
        source.command("CLUSTER", "SETSLOT", slot, "MIGRATING", self.id_of(target))
        while keys := source.command("CLUSTER", "GETKEYSINSLOT", slot, keys_at_a_time):
            source.command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
            if between:
                between(keys)
        for node in (target, source, *self.primaries()):
            node.command("CLUSTER", "SETSLOT", slot, "NODE", self.id_of(target))

    def move_slot_at_once(self, slot, source, target):
        """As Valkey 9 does it; the server must know_atomic_moves."""
        source.command("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", self.id_of(target))
        eventually(lambda: all(any(first <= slot <= last and port == target.port for first, last, port in
                                   self.map_of(n)) for n in self.living()), f"slot {slot} being at the other node")

    def reshard(self, source, target, slots):
        self.cli("--cluster", "reshard", f"127.0.0.1:{target.port}", "--cluster-from", self.id_of(source),
                 "--cluster-to", self.id_of(target), "--cluster-slots", slots, "--cluster-yes")


__all__ = ["CLI", "ClusterSet", "NODE_TIMEOUT_MS", "RedisError", "knows_atomic_moves", "slot_of_lock"]
