# SPDX-License-Identifier: Apache-2.0
"""A broker dies, freezes, or drains: what its holders see, and when a waiter of another broker gets the lock."""
import re
import signal

import grpc
import pytest

from client import api, boot_now, duration, failure, health
from faults import (SLACK_S, Belief, Holder, Monitor, await_nothing_left, ctl, expiry, handed_over, script_sha, waiter)
from harness import eventually
from promises import row

FAST = ("--validity", "1s")


@pytest.fixture
def redis(world):
    return world.redis()


def two_brokers(world, redis, *args):
    return [world.distlockd(redis.url, *(args or FAST), name=name) for name in ("left", "right")]


def holders_and_waiters(world, a, b, ttl):
    """A Session and a Hold through broker `a`, and a waiter for each through broker `b`."""
    mine, other = world.client(a.url), world.client(b.url)
    holders = [Holder(mine, kind, kind, ttl=ttl).granted() for kind in ("session", "hold")]
    return holders, [waiter(other, kind, ttl=ttl) for kind in ("session", "hold")]


# ---- Killed ----

@row("the broker is killed")
def test_a_killed_broker_ends_every_stream_and_its_locks_go_on_within_the_ttl(world, redis):
    a, b = two_brokers(world, redis)
    holders, waiting = holders_and_waiters(world, a, b, ttl=2)
    behind = waiter(world.client(a.url), "session")  # waits through the broker that will be killed
    beliefs = [Belief(h) for h in holders]
    real = ctl(world, a.url, "hold", "real", "--ttl", "2s")
    real.wait_for("granted")
    killed = boot_now()
    a.kill()
    for stream in [h.stream for h in holders] + [behind.stream]:
        assert stream.wait_end().code == grpc.StatusCode.UNAVAILABLE
    for holder, next_one, belief in zip(holders, waiting, beliefs):
        handed_over(next_one, belief.stop(), holder.token, killed, within=2 + 1)
    assert real.exit_code() == 75 and real.all()[-1]["event"] == "lost"
    assert world.client(b.url).acquire(world.client(b.url).spec("real", 10)).fencing_token
    # A waiter of the dead broker blocks nobody.
    waiting[0].stream.cancel()
    world.client(b.url).acquire(world.client(b.url).spec("session", 10))


@row("the broker is killed")
def test_a_restarted_broker_serves_clients_that_reconnect(world, redis):
    a = world.distlockd(redis.url, *FAST)
    client = world.client(a.url)
    holder = Holder(client, "session", ttl=1).granted()
    a.restart()
    holder.stream.wait_end()
    again = Holder(client, "session", ttl=1).granted()
    assert again.token > holder.token
    again.release()
    await_nothing_left(redis)


# ---- Frozen ----

@row("the broker stops for longer than T")
def test_a_frozen_broker_renews_nothing_that_has_lapsed(world, redis):
    a, b = two_brokers(world, redis)
    holders, waiting = holders_and_waiters(world, a, b, ttl=1)
    owners = [redis.command("GET", redis.key(kind, "h")).split(";")[1] for kind in ("session", "hold")]
    beliefs = [Belief(h) for h in holders]
    a.stop()
    frozen = boot_now()
    for holder, next_one, belief in zip(holders, waiting, beliefs):
        handed_over(next_one, belief.stop(), holder.token, frozen, within=1 + 1)
        assert not holder.believes()
    eventually(lambda: boot_now() - frozen > 2, "twice the ttl of standing still")
    with Monitor(redis) as monitor:
        a.cont()
        for holder in holders:
            ended = holder.stream.wait_end()
            lost = [e for e in holder.all("lost") if e.reason == api().LOST_REASON_EXPIRED]
            assert lost and ended.reason == "LEASE_LOST"
            assert not holder.believes()
        client = world.client(a.url)
        client.release(client.acquire(client.spec("other")).lease_id)  # the broker works again
        seen = monitor.seen(redis)
        assert any(script_sha("acquire").decode() in line for line in seen)
        assert not [line for line in seen if script_sha("renew").decode() in line and
                    any(owner in line for owner in owners)]
    # The new holders keep their locks.
    for next_one in waiting:
        assert next_one.stream.end is None and next_one.believes() and not next_one.all("lost")
        assert world.client(a.url).lock(next_one.grant.key).holders[0].fencing_token == next_one.token


@row("the broker stops for longer than T")
def test_the_waiters_of_a_frozen_broker_delay_the_next_until_their_places_end(world, redis):
    slot, ttl = 2, 1
    a, b = two_brokers(world, redis, *FAST, "--queue-slot", f"{slot}s")
    mine, other = world.client(a.url), world.client(b.url)
    holder = Holder(other, "session", ttl=20).granted()
    # One after the other, they would have it for longer than their places last.
    owners = [f"frozen-{i}" for i in range(slot + ttl + SLACK_S + 2)]
    first = [waiter(mine, owner=owner, ttl=ttl) for owner in owners]
    behind = waiter(other, owner="behind", ttl=ttl)
    assert [w.owner for w in other.lock("k").waiters] == [*owners, "behind"]
    a.stop()
    frozen = boot_now()
    assert holder.release() == api().RELEASE_OUTCOME_RELEASED
    eventually(lambda: any(h.owner in owners for h in other.lock("k").holders), "a waiter of the frozen broker")
    assert behind.granted().token > holder.token
    assert frozen + ttl <= behind.at("granted") < frozen + slot + ttl + SLACK_S
    assert not any(one.all("granted") for one in first)


def test_a_broker_frozen_for_a_moment_loses_nothing(world, redis):
    a = world.distlockd(redis.url, "--validity", "4s")
    client = world.client(a.url)
    holders = [Holder(client, kind, kind, ttl=5).granted() for kind in ("session", "hold")]
    a.stop()
    frozen = boot_now()
    eventually(lambda: boot_now() - frozen > 0.7, "some silence")
    a.cont()
    heard = len(holders[0].stream.all("heartbeat_ack"))
    holders[0].stream.wait(lambda: len(holders[0].stream.all("heartbeat_ack")) > heard, "an answer")
    holders[1].stream.wait_for("renewed", len(holders[1].all("renewed")) + 1)
    for holder in holders:
        assert holder.believes() and not holder.all("lost") and not holder.all("at_risk")


# ---- Drained ----

@row("the broker gets SIGTERM")
def test_a_drain_lets_holders_finish(world, redis):
    a, b = two_brokers(world, redis, "--validity", "3s", "--drain-timeout", "60s")
    holders, waiting = holders_and_waiters(world, a, b, ttl=4)
    client = world.client(a.url)
    queued = [waiter(client, "session"), waiter(client, "session", kind="session")]
    real = ctl(world, a.url, "hold", "real", "--ttl", "10s")
    real.wait_for("granted")
    a.terminate()
    for holder in holders:
        told = holder.stream.wait(lambda h=holder: h.stream.all("draining"), "draining")[0]
        assert health(a.url) != 1, "health must become NOT_SERVING first"
        assert 30 < told.time_left.seconds <= 60
    real.wait_for("draining")
    assert queued[0].stream.wait_end().reason == "DRAINING"
    assert queued[1].wait_for("refused").reason == api().REFUSAL_REASON_DRAINING
    # Uses present streams: new connections, and new calls on present ones, may be refused in other ways.
    refused = holders[0].stream.wait_for(holders[0].stream.acquire(client.spec("new")), "refused")
    assert refused.reason == api().REFUSAL_REASON_DRAINING
    called = failure(client.acquire, client.spec("new"))
    assert called.code == grpc.StatusCode.UNAVAILABLE and called.reason in ("DRAINING", None)
    # Holders go on as before until they release.
    beaten = len(holders[0].stream.all("heartbeat_ack"))
    holders[0].stream.wait(lambda: len(holders[0].stream.all("heartbeat_ack")) > beaten, "an answer")
    assert all(h.believes() for h in holders) and a.alive()
    assert holders[0].release() == api().RELEASE_OUTCOME_RELEASED
    assert waiting[0].granted().token > holders[0].token
    other = world.client(b.url)
    assert other.release(holders[1].grant.lease_id) == api().RELEASE_OUTCOME_RELEASED  # through the other broker
    assert waiting[1].granted().token > holders[1].token
    assert holders[1].wait_for("lost").reason == api().LOST_REASON_TAKEN  # its own broker sees that at the next renewal
    real.terminate()
    assert real.exit_code() == 0
    assert a.exit_code() == 0


@row("the broker gets SIGTERM")
def test_a_drain_that_times_out_ends_leases_with_drained(world, redis):
    a, b = two_brokers(world, redis, "--validity", "1s", "--drain-timeout", "500ms")
    holders, waiting = holders_and_waiters(world, a, b, ttl=20)
    beliefs = [Belief(h) for h in holders]
    asked = boot_now()
    a.terminate()
    for holder in holders:
        assert holder.wait_for("lost").reason == api().LOST_REASON_DRAINED
        assert holder.at("lost") - asked >= 0.5
        ended = holder.stream.wait_end()
        assert ended.reason in ("LEASE_LOST", "DRAINING"), ended
    for holder, next_one, belief in zip(holders, waiting, beliefs):
        # Lost was sent, so belief ended then at the latest, whatever had been promised before.
        belief.stop()
        handed_over(next_one, holder.at("lost"), holder.token, asked, within=0.5 + 1)
    assert a.exit_code() == 0


def test_without_holders_a_drain_is_quick_and_a_second_signal_ends_at_once(world, redis):
    a, b = two_brokers(world, redis, "--drain-timeout", "600s")
    asked = boot_now()
    assert a.drain() == 0
    assert boot_now() - asked < 5 + SLACK_S
    client = world.client(b.url)
    holder = Holder(client, "hold", ttl=1).granted()
    b.terminate()
    holder.wait_for("draining")
    b.popen.send_signal(signal.SIGTERM)
    assert b.exit_code() == 1
    assert expiry(redis, redis.key("k", "h")) <= boot_now() + 1  # left to its ttl
    eventually(lambda: not redis.command("EXISTS", redis.key("k", "h")), "the end of the ttl")


def test_the_first_signal_joins_a_drain_that_was_asked_for(world, redis):
    # Kubernetes sends SIGTERM when the preStop hook, distlockctl drain, has returned.
    a, b = two_brokers(world, redis, "--drain-timeout", "600s")
    held = {}
    for broker in (a, b):
        client = world.client(broker.url)
        held[broker] = client.hold(client.spec(broker.name))
        held[broker].wait_for("granted")
        request = api().DrainRequest(timeout=duration(300))
        client.unary("Drain", request, api().DrainResponse, service="AdminService")
        held[broker].wait_for("draining")
        broker.terminate()
        eventually(lambda broker=broker: "signal to stop" in broker.log() or not broker.alive(),
                   "a word about the signal")
        assert broker.alive(), "only one signal was sent"
        assert re.search(r"signal to stop time_left=(4m\d+|5m)", broker.log()), "the signal did not prolong the drain"
    assert len(held[a].all("draining")) == 1
    held[a].cancel()
    assert a.exit_code() == 0 and "second signal" not in a.log()
    b.terminate()
    assert b.exit_code() == 1
