# SPDX-License-Identifier: Apache-2.0
"""--wait-replicas: a grant counts only once the replicas have it. What callers, holders and operators see while they
have it, while they are away, and after a failover."""
import subprocess

import grpc
import pytest

from client import api, boot_now, failure
from faults import DISTLOCKCTL, Holder, waiter
from harness import eventually
from sentinel_set import NAME, SentinelSet
from test_start import CONFIG, UNAVAILABLE, complaint

WAIT = ("--wait-replicas", "1")
TTL_S = 12.0
MAX_TTL_S = 12
# From the promotion until the sentinels agree on it and we see that: the hold-off has begun meanwhile.
SEEN_LATE_S = 3


@pytest.fixture
def pair(world):
    """A primary and its replica, in step."""
    primary = world.redis(name="primary", tcp=True, args=("--repl-diskless-sync-delay", "0"))
    replica = world.redis(name="replica", tcp=True, args=("--replicaof", "127.0.0.1", primary.port))
    in_step(primary)
    return primary, replica


def in_step(primary):
    """A replica that is listed may still load what the primary has; one that confirms a write does not."""
    def confirms():
        primary.command("SET", "test:in-step", "1")
        return any(int(offset) > 0 for _, _, offset in primary.command("ROLE")[2])
    eventually(confirms, "the replica being in step")


def test_whoever_is_granted_a_lock_finds_it_at_the_replica(world, pair):
    primary, replica = pair
    with world.distlockd(primary.url, *WAIT).client() as client:
        for i in range(100):
            granted = client.acquire(client.spec(f"k{i}", ttl=TTL_S))
            assert replica.command("EXISTS", primary.key(f"k{i}", "h")) == 1, "granted before it was confirmed"
            assert granted.replicas_acked == 1
        holder = Holder(client, "session", ttl=TTL_S).granted()
        waiting = waiter(client, ttl=TTL_S)
        holder.release()
        assert waiting.granted().token > holder.token
        assert waiting.grant.replicas_acked == 1


def test_a_lock_passes_between_brokers_and_the_next_holder_is_confirmed(world, pair):
    primary, replica = pair
    first, second = (world.distlockd(primary.url, *WAIT, name=name) for name in ("first", "second"))
    holder = Holder(world.client(first.url), "session", ttl=TTL_S).granted()
    waiting = waiter(world.client(second.url), ttl=TTL_S)
    eventually(lambda: primary.command("EXISTS", primary.key("k", "q")), "the waiter being queued")
    holder.release()
    assert waiting.granted().token > holder.token
    assert waiting.grant.replicas_acked == 1


def test_while_the_replica_is_away_nothing_is_granted_and_leases_are_at_risk(world, pair):
    primary, replica = pair
    broker = world.distlockd(primary.url, *WAIT, "--store-timeout", "1s")
    with broker.client() as client:
        holder = Holder(client, "session", ttl=TTL_S).granted()
        replica.kill()
        refused = failure(client.acquire, client.spec("new"))
        assert refused.code == grpc.StatusCode.UNAVAILABLE and refused.reason == "STORE_UNAVAILABLE", refused
        assert "0 of 1 replicas confirmed it within 100 ms" in refused.message, refused
        assert broker.metric("distlock_store_wait_short_total") >= 2
        holder.wait_for("at_risk")
        replica.start()
        in_step(primary)
        holder.wait_for("renewed")
        assert holder.believes() and not holder.all("lost")
        assert client.acquire(client.spec("new", ttl=TTL_S, max_wait=30.0), timeout=60).replicas_acked == 1


def test_a_lease_that_no_replica_confirms_any_more_is_given_up_in_time(world, pair):
    primary, replica = pair
    with world.distlockd(primary.url, *WAIT).client() as client:
        holder = Holder(client, "session", ttl=3.0).granted()
        replica.kill()
        killed = boot_now()
        assert holder.wait_for("lost").reason == api().LOST_REASON_EXPIRED
        assert holder.until() <= killed + 3.0, "believed for longer than anything confirmed allows"


def test_a_start_without_enough_replicas_says_so(world, pair):
    primary, _ = pair
    listen = ("--listen", f"unix://{world.folder}/d.sock", "--http", "")
    code, line = complaint("--redis", primary.url, "--wait-replicas", "2", "--store-timeout", "2s", *listen)
    assert code == UNAVAILABLE and "1 of 2 replicas confirmed it" in line and "--wait-replicas" in line, line
    code, line = complaint("--wait-replicas", "1", *listen)
    assert code == CONFIG and "--wait-replicas" in line and "--redis" in line, line


def status(world, broker):
    done = subprocess.run([DISTLOCKCTL, "status", "--server", broker.url], capture_output=True, text=True, timeout=60,
                          check=True)
    return done.stdout


def test_after_a_failover_the_holder_goes_on_and_free_locks_wait_for_the_hold_off(world):
    servers = SentinelSet(world, server_args=("--repl-diskless-sync-delay", "0"))
    broker = world.distlockd(servers.url, "--wait-replicas", "1", "--store-nodes", "3", "--max-ttl", f"{MAX_TTL_S}s",
                             "--default-ttl", "5s", "--validity", "1s")
    with broker.client() as client:
        holder = Holder(client, "session", ttl=float(MAX_TTL_S))
        eventually(lambda: "held off" in status(world, broker), "the status showing the first hold-off")
        holder.granted()
        shown = status(world, broker)
        old = servers.primary()
        assert f"127.0.0.1:{old.port}, up" in shown and shown.count("replica ") == 2, shown
        assert "identity" in shown and "confirm   1 of the replicas" in shown, shown
        waiting = waiter(client, ttl=float(MAX_TTL_S))
        servers.sentinels[0].command("SENTINEL", "FAILOVER", NAME)
        new = servers.await_other_primary(old)
        promoted = boot_now()
        followed = eventually(lambda: next((line for line in status(world, broker).splitlines()
                                            if f"primary   127.0.0.1:{new.port}, held off" in line), None),
                              "the broker following the new primary")
        assert "epoch 1" in followed and "confirmed by replicas" in followed, followed
        granted = client.acquire(client.spec("free", ttl=2.0, max_wait=60.0), timeout=90)
        assert boot_now() - promoted >= MAX_TTL_S - SEEN_LATE_S, "granted although the old primary may have granted it"
        assert not holder.all("lost")
        holder.release()
        assert waiting.granted().token > holder.token
        assert granted.replicas_acked == 1
        assert new.command("EXISTS", new.key("free", "h")) == 1
