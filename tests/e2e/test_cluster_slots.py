# SPDX-License-Identifier: Apache-2.0
"""Slots move from node to node under a broker: leases stay, waiters keep their places, and it finds its way."""
import re
import time

import pytest

from cluster_set import ClusterSet, knows_atomic_moves, slot_of_lock
from faults import Holder, waiter
from harness import eventually
from test_cluster import TTL_S, lock_on, start

LONG_TTL_S = 30.0

@pytest.fixture
def cluster(world):
    return ClusterSet(world)


def test_a_held_lock_with_waiters_moves_key_by_key(world, cluster):
    brokers = [start(world, cluster.url, name=f"broker{i}") for i in range(2)]
    first, second = (world.client(b.url) for b in brokers)
    source, target, _ = cluster.primaries()
    key = lock_on(cluster, source)
    holder = Holder(first, "session", key=key, ttl=3.0).granted()
    waiting = [waiter(second, key=key, ttl=3.0), waiter(first, key=key, ttl=3.0)]

    def a_renewal_later(moved):
        begun = holder.until()
        eventually(lambda: holder.until() > begun + 0.5, f"a renewal after {moved} has moved")
    cluster.move_slot(slot_of_lock(key), source, target, between=a_renewal_later)
    assert holder.believes() and not holder.all("lost")
    assert target.command("EXISTS", target.key(key, "h")) == 1
    holder.release()
    assert waiting[0].granted().token > holder.token
    waiting[0].stream.cancel()
    assert waiting[1].granted().token > waiting[0].token


def key_by_key(cluster, *move):
    cluster.move_slot(*move)


def at_once(cluster, *move):
    cluster.move_slot_at_once(*move)


@pytest.mark.parametrize("move", [key_by_key, at_once] if knows_atomic_moves() else [key_by_key])
def test_a_held_lock_with_waiters_goes_to_and_fro(world, cluster, move):
    """Nobody loses a place or a lease. A waiter's broker that has not heard of the move finds the lock when it asks for
    the map, each 10 s, and not when the last lease would have ended."""
    brokers = [start(world, cluster.url, name=f"broker{i}") for i in range(2)]
    first, second = (world.client(b.url) for b in brokers)
    here, there, _ = cluster.primaries()
    key = lock_on(cluster, here)
    holder = Holder(first, "session", key=key, ttl=LONG_TTL_S).granted()
    waiting = [waiter(client, key=key, kind="session", ttl=LONG_TTL_S) for client in (second, first, second)]
    for one in waiting:
        move(cluster, slot_of_lock(key), here, there)
        here, there = there, here
        assert holder.believes() and not holder.all("lost")
        assert not one.all("granted")
        began = time.monotonic()
        holder.release()
        assert one.granted().token > holder.token
        assert time.monotonic() - began < LONG_TTL_S / 2
        holder = one


def test_a_lock_is_released_while_its_slot_is_on_its_way(world, cluster):
    broker = start(world, cluster.url)
    with broker.client() as client:
        source, target, _ = cluster.primaries()
        key = lock_on(cluster, source)
        holder = Holder(client, "session", key=key, ttl=TTL_S).granted()
        waiting = waiter(client, key=key, ttl=TTL_S)
        sent = []

        def release(_):
            if not sent:
                sent.append(holder.stream.release(holder.id))
        cluster.move_slot(slot_of_lock(key), source, target, between=release)
        assert waiting.granted().token > holder.token


def test_a_new_node_gets_slots(world, cluster):
    broker = start(world, cluster.url)
    with broker.client() as client:
        source = cluster.primaries()[0]
        key = lock_on(cluster, source)
        holder = Holder(client, "session", key=key, ttl=TTL_S).granted()
        new = cluster.add_node("new")
        cluster.nodes.append(new)
        cluster.cli("--cluster", "add-node", f"127.0.0.1:{new.port}", f"127.0.0.1:{source.port}")
        cluster.await_whole()
        cluster.move_slot(slot_of_lock(key), source, new)
        waiting = waiter(client, key=key, ttl=TTL_S)
        eventually(lambda: new.command("PUBSUB", "SHARDCHANNELS"), "the broker listening at the new node")
        holder.release()
        assert waiting.granted().token > holder.token


def test_one_moved_makes_the_whole_map_right(world, cluster):
    broker = start(world, cluster.url)
    source, target, _ = cluster.primaries()
    names = [name for name in (f"m{i}" for i in range(10_000)) if cluster.primary_of(name) is source][:20]
    with broker.client() as client:
        def moves():
            found = re.search(r"errorstat_MOVED:count=(\d+)", source.command("INFO", "errorstats"))
            return int(found.group(1)) if found else 0

        def take_without_a_move():
            before = moves()
            client.release(client.acquire(client.spec(names.pop(), ttl=TTL_S)).lease_id)
            return moves() == before
        for name in names:
            cluster.move_slot(slot_of_lock(name), source, target)
        assert not take_without_a_move(), "the broker knew of the move before"
        began = time.monotonic()
        eventually(take_without_a_move, "a lock of a moved slot being taken without MOVED")
        print(f"right within {1000 * (time.monotonic() - began):.0f} ms after the first MOVED")
        assert len(names) >= 10, "each slot was found by a MOVED of its own"
    assert broker.metric("distlock_store_redirects_total", kind="moved") >= 1
    assert broker.metric("distlock_store_slot_map_refreshes_total", outcome="adopted") >= 2
    assert abs(broker.metric("distlock_store_slot_map_time_seconds") - time.time()) < 60
