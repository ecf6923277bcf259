# SPDX-License-Identifier: Apache-2.0
"""--wait-replicas: a grant counts only once the replicas have it. What callers, holders and operators see while they
have it, while they are away, and after a failover."""
import subprocess
import threading

import grpc
import pytest

from client import Failure, api, boot_now, failure
from failovers import ask_failover
from faults import DISTLOCKCTL, LONG_TTL_S, PATIENT, Holder, waiter
from harness import eventually
from promises import row
from sentinel_set import NAME, SentinelSet
from test_start import CONFIG, UNAVAILABLE, complaint

WAIT = ("--wait-replicas", "1")
# A primary with a replica is one that fails over: without --max-ttl no lease may be as long as these.
PATIENTLY = (*WAIT, *PATIENT, "--max-ttl", f"{LONG_TTL_S}s")
NOBODY = "0" * 32  # the holder of a lock that is blocked
MAX_TTL_S = 20
SHORT_TTL_S = 3.0
# A failover begins when it is asked for, and is not given up, however long the machine lets a process wait.
SENTINEL_SETTINGS = (f"sentinel down-after-milliseconds {NAME} 60000", f"sentinel failover-timeout {NAME} 60000")


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
    with world.distlockd(primary.url, *PATIENTLY).client() as client:
        for i in range(100):
            granted = client.acquire(client.spec(f"k{i}", ttl=LONG_TTL_S))
            assert replica.command("EXISTS", primary.key(f"k{i}", "h")) == 1, "granted before it was confirmed"
            assert granted.replicas_acked == 1
        holder = Holder(client, "session", ttl=LONG_TTL_S).granted()
        waiting = waiter(client, ttl=LONG_TTL_S)
        holder.release()
        assert waiting.granted().token > holder.token
        assert waiting.grant.replicas_acked == 1


def test_a_lock_passes_between_brokers_and_the_next_holder_is_confirmed(world, pair):
    primary, replica = pair
    first, second = (world.distlockd(primary.url, *PATIENTLY, name=name) for name in ("first", "second"))
    holder = Holder(world.client(first.url), "session", ttl=LONG_TTL_S).granted()
    waiting = waiter(world.client(second.url), ttl=LONG_TTL_S)
    eventually(lambda: primary.command("EXISTS", primary.key("k", "q")), "the waiter being queued")
    holder.release()
    assert waiting.granted().token > holder.token
    assert waiting.grant.replicas_acked == 1


@row("a lock is released before its `min_hold` is over")
def test_the_block_that_a_min_hold_leaves_is_at_the_replica_before_the_release_is_answered(world):
    primary = world.redis(name="primary", tcp=True, args=("--repl-diskless-sync-delay", "0"))
    between = world.proxy(primary.url)
    replica = world.redis(name="replica", tcp=True, args=("--replicaof", *between.url.split("://")[-1].split(":")))
    in_step(primary)
    between.delay(20)  # each way: an answer that does not wait comes before the write
    keys = [f"k{i}" for i in range(5)]
    with world.distlockd(primary.url, *PATIENTLY).client() as client:
        for key in keys:
            granted = client.acquire(client.spec(key, ttl=LONG_TTL_S, min_hold=LONG_TTL_S))
            assert client.release(granted.lease_id) == api().RELEASE_OUTCOME_RELEASED
            assert replica.command("GET", primary.key(key, "h")).split(";")[1] == NOBODY, "answered before it was there"
    primary.kill()
    replica.command("REPLICAOF", "NO", "ONE")
    with world.distlockd(replica.url, *PATIENT, name="heir").client() as client:
        for key in keys:
            assert client.lock(key).block.min_hold.ToMilliseconds() == LONG_TTL_S * 1000


def test_while_the_replica_is_away_nothing_is_granted_and_leases_are_at_risk(world, pair):
    primary, replica = pair
    # Renewals come often, so that the lease is soon at risk and has most of its ttl left then.
    broker = world.distlockd(primary.url, *PATIENTLY, "--limits", "renew-fraction=0.1", "--store-timeout", "1s",
                             "--wait-for-store")
    with broker.client() as client:
        holder = Holder(client, "session", ttl=LONG_TTL_S).granted()
        replica.kill()

        def refused():
            """Each try is refused. The reason is another one when the store was not run for the store-timeout."""
            refusal = failure(client.acquire, client.spec("new"))
            assert refusal.code == grpc.StatusCode.UNAVAILABLE and refusal.reason == "STORE_UNAVAILABLE", refusal
            return "0 of 1 replicas confirmed it within 100 ms" in refusal.message

        def granted():
            """The grant; None when that other reason has refused it."""
            try:
                return client.acquire(client.spec("new", ttl=LONG_TTL_S, max_wait=30.0), timeout=60)
            except grpc.RpcError as error:
                assert Failure(error).reason == "STORE_UNAVAILABLE", Failure(error)
                return None
        eventually(refused, "a refusal for want of replicas")
        assert broker.metric("distlock_store_wait_short_total") >= 2
        holder.wait_for("at_risk")
        replica.start()
        in_step(primary)
        holder.wait_for("renewed")
        assert holder.believes() and not holder.all("lost")
        assert eventually(granted, "a grant").replicas_acked == 1


def test_a_lease_that_no_replica_confirms_any_more_is_given_up_in_time(world, pair):
    primary, replica = pair
    with world.distlockd(primary.url, *PATIENTLY).client() as client:
        holder = Holder(client, "session", ttl=SHORT_TTL_S).granted()
        replica.kill()
        killed = boot_now()
        assert holder.wait_for("lost").reason == api().LOST_REASON_EXPIRED
        furthest = holder.stream.furthest[holder.id]
        assert furthest <= killed + SHORT_TTL_S, "believed for longer than anything confirmed allows"


def test_a_start_without_enough_replicas_says_so(world, pair):
    primary, _ = pair
    listen = ("--listen", f"unix://{world.folder}/d.sock", "--http", "")

    def too_few():
        """Ends each time; with another reason when the store was not run for the store-timeout."""
        code, line = complaint("--redis", primary.url, "--wait-replicas", "2", "--store-timeout", "2s", *listen)
        assert code == UNAVAILABLE, line
        return "1 of 2 replicas confirmed it" in line and "--wait-replicas" in line
    eventually(too_few, "a complaint about too few replicas")
    code, line = complaint("--wait-replicas", "1", *listen)
    assert code == CONFIG and "--wait-replicas" in line and "--redis" in line, line


def status(broker):
    """What distlockctl status says; nothing when the broker was not run for too long to answer it."""
    done = subprocess.run([DISTLOCKCTL, "status", "--server", broker.url], capture_output=True, text=True, timeout=60,
                          check=False)
    return done.stdout


def shown(broker, *wanted):
    """The status once it has all of these."""
    return eventually(lambda: (text := status(broker)) and all(part in text for part in wanted) and text,
                      f"the status with {wanted}")


class LastFollower:
    """`at`: a time, seen in a thread, at which none of the replicas had been promoted yet."""

    def __init__(self, replicas):
        self.replicas, self.at, self._done = replicas, boot_now(), threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self):
        while not self._done.wait(0.005):
            now = boot_now()
            if not all(replica.is_replica() for replica in self.replicas):
                return
            self.at = now

    def stop(self):
        self._done.set()
        self._thread.join()
        return self.at


def test_after_a_failover_the_holder_goes_on_and_free_locks_wait_for_the_hold_off(world):
    servers = SentinelSet(world, server_args=("--repl-diskless-sync-delay", "0"), sentinel_settings=SENTINEL_SETTINGS)
    broker = world.distlockd(servers.url, "--wait-replicas", "1", "--store-nodes", "3", "--max-ttl", f"{MAX_TTL_S}s",
                             "--default-ttl", f"{MAX_TTL_S}s", "--validity", "15s", "--store-timeout", "30s")
    with broker.client() as client:
        holder = Holder(client, "session", ttl=float(MAX_TTL_S))
        shown(broker, "held off")
        holder.granted()
        old = servers.primary()
        text = shown(broker, f"127.0.0.1:{old.port}, up", "identity", "confirm   1 of the replicas")
        assert text.count("replica ") == 2, text
        waiting = waiter(client, ttl=float(MAX_TTL_S))
        following = LastFollower([server for server in servers.servers if server is not old])
        ask_failover(servers)
        new = servers.await_other_primary(old)
        not_promoted = following.stop()
        text = shown(broker, f"primary   127.0.0.1:{new.port}, held off")
        line = next(line for line in text.splitlines() if f"primary   127.0.0.1:{new.port}" in line)
        assert "epoch 1" in line and "confirmed by replicas" in line, line
        granted = client.acquire(client.spec("free", ttl=float(MAX_TTL_S), max_wait=60.0), timeout=90)
        assert boot_now() - not_promoted >= MAX_TTL_S, "granted although the old primary may have granted it"
        assert new.command("EXISTS", new.key("free", "h")) == 1
        assert granted.replicas_acked == 1
        assert not holder.all("lost")
        holder.release()
        assert waiting.granted().token > holder.token
