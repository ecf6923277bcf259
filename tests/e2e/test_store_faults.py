# SPDX-License-Identifier: Apache-2.0
"""The store stands still, restarts, loses data, refuses: what holders and waiters see. test_lost_replies.py has lost
replies; test_store_under_load.py has load while connections and scripts are killed.
"""
import random
import shutil

import grpc
import pytest

from client import api, boot_now, failure
from faults import (SLACK_S, Admin, Belief, Holder, RedisError, ctl, expiry, handed_over, in_background, waiter)
from harness import eventually
from promises import row

FAST = ("--validity", "1s")
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.fixture
def redis(world):
    return world.redis(args=DURABLE)


def hold_both(client, ttl):
    return [Holder(client, kind, kind, ttl=ttl).granted() for kind in ("session", "hold")]


def must_be_at_risk_and_then_renewed(holders, heal):
    for holder in holders:
        holder.wait_for("at_risk")
        assert holder.believes()
    heal()
    for holder in holders:
        holder.stream.wait(lambda h=holder: max(h.times("renewed"), default=0) > h.at("at_risk"), "renewed")
        assert holder.believes() and not holder.all("lost")


# ---- Away ----

def stand_still(redis, net):
    redis.stop()
    return redis.cont


def restart_with_data(redis, net):
    redis.kill()
    return redis.start


def refuse(redis, net):
    net.refuse_new()
    net.reset_all()
    return net.accept_new


def cut(redis, net):
    net.pause()
    return net.resume


AWAY = pytest.mark.parametrize("away", [stand_still, restart_with_data, refuse, cut], ids=lambda away: away.__name__)


@row("the store is away for less than the lease has left")
@AWAY
def test_a_store_that_is_back_in_time_costs_no_lease(world, redis, away):
    net = world.proxy(redis.url)
    daemon = world.distlockd(net.url, *FAST)
    client = world.client(daemon.url)
    holders = hold_both(client, ttl=5)
    waiting = waiter(client, "session", kind="session", ttl=5)
    back = away(redis, net)
    must_be_at_risk_and_then_renewed(holders, back)
    eventually(daemon.serving, "health")
    # The waiter kept its place and gets the lock by a hand-off.
    assert not waiting.all("granted") and waiting.stream.end is None
    assert holders[0].release() == api().RELEASE_OUTCOME_RELEASED
    assert waiting.granted().token > holders[0].token


@row("the store is away for longer")
@AWAY
def test_a_store_that_is_away_for_too_long_ends_leases_before_their_keys(world, redis, away):
    net = world.proxy(redis.url)
    daemon = world.distlockd(net.url, *FAST)
    client = world.client(daemon.url)
    holders = hold_both(client, ttl=1)
    owners = {h.grant.key: redis.command("GET", redis.key(h.grant.key, "h")).split(";")[1] for h in holders}
    waiting = waiter(client, "session", ttl=1)
    beliefs = [Belief(h) for h in holders]
    # Reads the keys' expiry, where the store can still be reached.
    forgets = {h.grant.key: 0.0 for h in holders}
    back = away(redis, net)

    def all_are_lost():
        if away in (refuse, cut):
            for key, before in forgets.items():
                forgets[key] = max(before, expiry(redis, redis.key(key, "h")))
        return all(h.all("lost") for h in holders)
    eventually(all_are_lost, "lost")
    for holder, belief in zip(holders, beliefs):
        assert holder.all("lost")[0].reason == api().LOST_REASON_EXPIRED
        assert holder.all("at_risk") and not holder.believes()
        until, forgotten = belief.stop(), forgets[holder.grant.key]
        if forgotten:
            print(f"belief ended {(forgotten - until) * 1000:.1f} ms before the key")
            assert until < forgotten
    back()
    returned = boot_now()
    handed_over(waiting, holders[0].at("lost"), holders[0].token, returned, within=1 + 1 + 2)
    eventually(lambda: not client.lock("hold").holders, "the end of the other")
    # No old grant is valid again.
    for key, owner in owners.items():
        assert owner not in (redis.command("GET", redis.key(key, "h")) or "")
    assert not [h for h in holders if h.believes()]


def test_acquires_wait_for_a_store_that_is_away_and_are_refused_when_it_stays_away(world, redis):
    daemon = world.distlockd(redis.url, *FAST, "--store-timeout", "1s")
    client = world.client(daemon.url)
    redis.stop()
    asked = boot_now()
    refused = failure(client.acquire, client.spec("k"))
    assert refused.code == grpc.StatusCode.UNAVAILABLE and refused.reason == "STORE_UNAVAILABLE", refused
    assert refused.retry_after > 0 and 1 <= boot_now() - asked < 1 + SLACK_S
    eventually(lambda: not daemon.serving(), "health")
    assert daemon.get("/readyz")[0] == 503 and daemon.get("/healthz")[0] == 200
    redis.cont()
    eventually(daemon.serving, "health")
    assert client.acquire(client.spec("k", 20)).fencing_token > 0


# ---- Data lost ----

def restart_empty(redis):
    redis.restart()


def flush_all(redis):
    redis.command("FLUSHALL")


def delete_the_keys(redis):
    for key in ("session", "hold", "real"):
        assert redis.command("DEL", redis.key(key, "h")) == 1


def give_it_to_another(redis):
    for key in ("session", "hold", "real"):
        assert redis.command("SET", redis.key(key, "h"), f"1;{'ab' * 16};5;6;1000;0;", "PX", 1000) == "OK"


@row("the store is emptied, or somebody deletes the key")
@pytest.mark.parametrize("forget", [restart_empty, flush_all, delete_the_keys, give_it_to_another],
                         ids=lambda forget: forget.__name__)
def test_leases_that_the_store_lost_end_as_taken_and_tokens_still_grow(world, forget):
    redis = world.redis()
    daemon = world.distlockd(redis.url, *FAST)
    client = world.client(daemon.url)
    holders = hold_both(client, ttl=2)
    real = ctl(world, daemon.url, "hold", "real", "--ttl", "2s")
    tokens = {h.grant.key: h.token for h in holders} | {"real": real.wait_for("granted")["token"]}
    forgot = boot_now()
    forget(redis)
    for holder in holders:
        assert holder.wait_for("lost").reason == api().LOST_REASON_TAKEN
        assert not holder.believes()
        assert holder.at("lost") - forgot < 2 + SLACK_S
    assert real.wait_for("lost")["reason"] == "TAKEN" and real.exit_code() == 75
    for key, token in tokens.items():
        assert client.acquire(client.spec(key, 20)).fencing_token > token


@row("the store is emptied, or somebody deletes the key")
def test_a_queue_survives_a_store_that_lost_its_data(world, redis):
    """Waiters get their places again, at the latest when their broker renews its slot in the queue."""
    daemon = world.distlockd(redis.url, *FAST, "--queue-slot", "2s")
    client = world.client(daemon.url)
    holder = Holder(client, "session", ttl=2).granted()
    waiting = [waiter(client, ttl=2) for _ in range(3)]
    redis.command("FLUSHALL")
    forgot = boot_now()
    holder.wait_for("lost")
    waiting[0].granted()
    assert waiting[0].at("granted") - forgot < 2 / 3 + 1 + SLACK_S  # a third of --queue-slot, and a look at the queue
    token = holder.token
    for one in waiting:  # in the old order
        assert one.granted().token > token
        token = one.token
        assert client.release(one.grant.lease_id) == api().RELEASE_OUTCOME_RELEASED


def test_a_store_that_begins_to_evict_is_refused(world, redis):
    daemon = world.distlockd(redis.url, *FAST)
    client = world.client(daemon.url)
    client.acquire(client.spec("k", 20))
    redis.command("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
    eventually(lambda: not daemon.serving(), "health")
    assert "its maxmemory-policy is 'allkeys-random'" in daemon.log()
    redis.command("CONFIG", "SET", "maxmemory-policy", "noeviction")
    eventually(daemon.serving, "health")
    assert client.acquire(client.spec("other", 20)).fencing_token > 0


# ---- Error replies ----

def read_only(redis):
    redis.command("REPLICAOF", "127.0.0.1", "1")
    return lambda: redis.command("REPLICAOF", "NO", "ONE")


def broken_disk(redis):
    shutil.rmtree(redis.folder / "gone", ignore_errors=True)
    (redis.folder / "gone").mkdir()
    redis.command("CONFIG", "SET", "dir", redis.folder / "gone")
    shutil.rmtree(redis.folder / "gone")
    redis.command("CONFIG", "SET", "save", "3600 1")
    redis.command("BGSAVE")
    eventually(lambda: "rdb_last_bgsave_status:err" in redis.command("INFO", "persistence"), "the failed save")
    return lambda: redis.command("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")


def too_few_replicas(redis):
    redis.command("CONFIG", "SET", "min-replicas-to-write", 1)
    return lambda: redis.command("CONFIG", "SET", "min-replicas-to-write", 0)


@row("the store answers READONLY, LOADING, BUSY, NOREPLICAS, MISCONF")
@pytest.mark.parametrize("trouble,word", [(read_only, "READONLY"), (broken_disk, "MISCONF"),
                                          (too_few_replicas, "NOREPLICAS")], ids=["READONLY", "MISCONF", "NOREPLICAS"])
def test_a_store_that_refuses_to_write_for_a_while(world, trouble, word):
    redis = world.redis(args=("--enable-protected-configs", "yes"))
    # A server that was a replica would be held off, as after a failover.
    daemon = world.distlockd(redis.url, *FAST, "--store-timeout", "500ms", "--failover-hold-off", "0")
    client = world.client(daemon.url)
    holders = hold_both(client, ttl=4)
    heal = trouble(redis)
    with pytest.raises(RedisError, match=word):
        redis.command("SET", "x", "y")
    refused = failure(client.acquire, client.spec("new"))
    assert refused.reason == "STORE_UNAVAILABLE" and refused.retry_after > 0, refused
    must_be_at_risk_and_then_renewed(holders, heal)
    assert client.acquire(client.spec("new", 20)).fencing_token > 0
    assert holders[0].release() == api().RELEASE_OUTCOME_RELEASED


@row("the store answers READONLY, LOADING, BUSY, NOREPLICAS, MISCONF")
def test_a_store_that_loads_its_data(world):
    redis = world.redis()
    daemon = world.distlockd(redis.url, *FAST)
    client = world.client(daemon.url)
    holders = hold_both(client, ttl=6)
    for n in range(60):
        redis.command("SET", f"filler{n}", random.randbytes(3000))  # random, so that it cannot be compressed
    redis.command("CONFIG", "SET", "loading-process-events-interval-bytes", 1024)
    redis.command("CONFIG", "SET", "key-load-delay", 20_000)  # microseconds
    with in_background(redis.command, "DEBUG", "RELOAD") as loading:
        eventually(lambda: "loading:1" in redis.command("INFO", "persistence"), "the load")
        with pytest.raises(RedisError, match="LOADING"):
            redis.command("GET", "x")
        grant = client.acquire(client.spec("new", 20))  # waits until the store has loaded
        loading.join()
    assert grant.fencing_token > 0
    for holder in holders:
        assert holder.believes() and not holder.all("lost")


@row("the store is full (`maxmemory`)")
def test_a_full_store_refuses_newcomers_and_serves_holders_and_waiters(world):
    redis = world.redis()
    daemon = world.distlockd(redis.url, *FAST)
    client = world.client(daemon.url)
    holder = Holder(client, "session", ttl=2).granted()
    waiting = waiter(client, kind="session", ttl=2)
    redis.command("CONFIG", "SET", "maxmemory", 1)
    refused = failure(client.acquire, client.spec("new"))
    assert refused.code == grpc.StatusCode.RESOURCE_EXHAUSTED and refused.reason == "STORE_FULL", refused
    session = client.session()
    answer = session.wait_for(session.acquire(client.spec("new")), "refused")
    assert answer.reason == api().REFUSAL_REASON_STORE_FULL
    first = expiry(redis, redis.key("k", "h"))
    eventually(lambda: expiry(redis, redis.key("k", "h")) > first + 0.3, "a renewal")
    assert holder.believes() and not holder.all("at_risk")
    assert holder.release() == api().RELEASE_OUTCOME_RELEASED
    assert waiting.granted().token > holder.token
    assert waiting.release() == api().RELEASE_OUTCOME_RELEASED
    redis.command("CONFIG", "SET", "maxmemory", 0)
    assert client.acquire(client.spec("new", 20)).fencing_token > 0


def test_a_paused_store_causes_delay_and_no_loss(world, redis):
    daemon = world.distlockd(redis.url, *FAST)
    client = world.client(daemon.url)
    holders = hold_both(client, ttl=4)
    paused = boot_now()
    redis.command("CLIENT", "PAUSE", 1500, "ALL")
    assert client.acquire(client.spec("new", 20)).fencing_token > 0
    assert boot_now() - paused >= 1.5
    for holder in holders:
        assert holder.believes() and not holder.all("lost")


@row("the store answers READONLY, LOADING, BUSY, NOREPLICAS, MISCONF")
def test_a_store_busy_with_somebody_elses_script(world, redis):
    daemon = world.distlockd(redis.url, *FAST)
    client = world.client(daemon.url)
    holders = hold_both(client, ttl=5)
    redis.command("CONFIG", "SET", "busy-reply-threshold", 50)

    def endless():
        with pytest.raises(RedisError, match="SCRIPT KILL|killed"):
            redis.command("EVAL", "while true do end", 0)

    def kill():
        assert redis.command("SCRIPT", "KILL") == "OK"
    with in_background(endless):
        must_be_at_risk_and_then_renewed(holders, kill)
    assert client.acquire(client.spec("new", 20)).fencing_token > 0


def test_a_store_without_room_for_another_connection(world, redis):
    daemon = world.distlockd(redis.url, *FAST)
    client = world.client(daemon.url)
    holders = hold_both(client, ttl=4)
    with Admin(redis) as admin:
        admin("CONFIG", "SET", "maxclients", 1)
        late = world.distlockd(redis.url, name="late", await_ready=False)
        assert late.exit_code() == 69 and "max number of clients" in late.log()
        for kind in ("normal", "pubsub"):
            assert admin("CLIENT", "KILL", "TYPE", kind) > 0
        must_be_at_risk_and_then_renewed(holders, lambda: admin("CONFIG", "SET", "maxclients", 1000))
    assert "max number of clients" in daemon.log() and "file descriptor" not in daemon.log()
    assert client.acquire(client.spec("new", 20)).fencing_token > 0


# ---- Unfit stores and foreign keys ----

def test_an_unfit_store_is_refused_at_the_start_with_the_reason(world):
    evicting = world.redis("evicting", args=("--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"))
    daemon = world.distlockd(evicting.url, name="a", await_ready=False)
    assert daemon.exit_code() == 78 and "maxmemory-policy" in daemon.log() and "noeviction" in daemon.log()
    locked = world.redis("locked")
    locked.command("CONFIG", "SET", "requirepass", "open sesame")
    for name, secret, exit_code in (("b", None, 69), ("c", "wrong", 69), ("d", "open sesame", 0)):
        args = []
        if secret:
            (world.folder / f"{name}.pw").write_text(secret)
            args = ["--redis-password-file", world.folder / f"{name}.pw"]
        daemon = world.distlockd(locked.url, *args, name=name, await_ready=secret == "open sesame")
        if exit_code:
            assert daemon.exit_code() == exit_code and "password" in daemon.log()
        else:
            client = world.client(daemon.url)
            client.release(client.acquire(client.spec("k")).lease_id)
            assert daemon.drain() == 0
        assert "sesame" not in daemon.log() and "wrong" not in daemon.log()


def test_foreign_keys_are_reported_and_left_alone(world, redis):
    daemon = world.distlockd(redis.url, *FAST)
    client = world.client(daemon.url)
    redis.command("RPUSH", redis.key("list", "h"), "mine")
    redis.command("SET", redis.key("text", "h"), "mine")
    redis.command("SET", redis.key("queue", "q"), "mine")
    for key in ("list", "text", "queue"):
        refused = failure(client.acquire, client.spec(key))
        assert refused.code == grpc.StatusCode.FAILED_PRECONDITION and refused.reason == "FOREIGN_KEY", refused
        assert f"{{default/{key}}}" in refused.message
    assert redis.command("LRANGE", redis.key("list", "h"), 0, -1) == ["mine"]
    assert redis.command("GET", redis.key("text", "h")) == "mine" == redis.command("GET", redis.key("queue", "q"))
    # A key becomes foreign while the lock is held: the lock is lost, and the foreign value stays.
    holder = Holder(client, "session", "later", ttl=1).granted()
    redis.command("SET", redis.key("later", "h"), "mine")
    assert holder.wait_for("lost").reason == api().LOST_REASON_TAKEN
    assert redis.command("GET", redis.key("later", "h")) == "mine"
