# SPDX-License-Identifier: Apache-2.0
"""The table "When X dies, callers see Y" of proto/promises.md: every row names tests, and they name it. Here are those
that belong to no other file."""
import uuid

import pytest

from client import api, boot_now, failure
from faults import (LONG_TTL_S, PATIENT, SLACK_S, Holder, Monitor, await_nothing_left, ctl, handed_over, script_sha,
                    thin_client, waiter)
from harness import eventually
from promises import CLOCK_TESTS, claimed, clock_rows, clock_tests_missing, row, rows

V = 1.0
FAST = ("--validity", "1s", "--limits", "keepalive-time=1s,keepalive-timeout=500ms,min-ping-interval=100ms")
KEEPALIVE_S = 1 + 0.5 + 1  # a silent connection is pinged at most a keepalive-time after its last message
TTL = 20  # so long that no test can pass by its expiry


@pytest.fixture
def redis(world):
    return world.redis()


def two_brokers(world, redis, *args):
    return [world.distlockd(redis.url, *args, name=name) for name in ("left", "right")]


def queue(client, key="k"):
    """The owners of those who wait."""
    return [w.owner for w in client.lock(key).waiters]


def test_every_row_names_tests_that_name_it():
    assert [cell for cell, named in rows().items() if not named] == []
    wrong = [(cell, test) for cell, named in rows().items() for test in named if test not in claimed().get(cell, ())]
    assert not wrong, f"no test of this folder is called so and has @row for it: {wrong}"


def test_every_row_of_the_clocks_has_the_tests_that_are_named():
    assert {client: list(files) for client, files in CLOCK_TESTS.items()} == clock_rows()
    assert not clock_tests_missing()


# ---- Release ----

@row("release, goodbye")
@pytest.mark.parametrize("leave", ["release", "goodbye"])
def test_one_script_frees_a_lock_and_hands_it_on(world, redis, leave):
    left, right = two_brokers(world, redis, *PATIENT)
    holder = Holder(world.client(left.url), "session", ttl=LONG_TTL_S).granted()
    waiting = waiter(world.client(right.url), ttl=LONG_TTL_S)
    with Monitor(redis) as monitor:
        if leave == "release":
            assert holder.release() == api().RELEASE_OUTCOME_RELEASED
        else:
            holder.stream.goodbye()
        assert waiting.granted().token > holder.token
        seen = [line for line in monitor.seen(redis) if "EVALSHA" in line.upper()]
    assert sum(script_sha("release").decode() in line for line in seen) == 1
    assert not [line for line in seen if script_sha("acquire").decode() in line], "the waiter's broker asked again"


# ---- The holder's process ----

@row("the holder's process is killed")
def test_a_killed_holder_of_a_detached_lease_keeps_it_until_its_ttl_ends(world, redis):
    """Its broker has promised it nothing: V ends long before the ttl, and the lock is not free then."""
    daemon = world.distlockd(redis.url, *FAST)
    ttl = 3 * V
    began = boot_now()
    holder = ctl(world, daemon.url, "acquire", "k", "--ttl", f"{int(ttl)}s")  # ends as soon as it has the lease
    assert holder.exit_code() == 0
    granted = boot_now()
    waiting = Holder(world.client(daemon.url), "hold").granted()
    assert began + ttl * 0.99 < waiting.at("granted") < granted + ttl + SLACK_S


@row("the holder's process stops (SIGSTOP, swap, GC) for more than V")
def test_a_stopped_holder_of_a_hold_stream_loses_it_by_the_keepalive(world, redis):
    daemon = world.distlockd(redis.url, *FAST)
    holder = thin_client(world, daemon.url, "hold", "k", TTL)
    token = holder.wait_for("granted")["token"]
    waiting = waiter(world.client(daemon.url))
    holder.stop()
    frozen, until = boot_now(), holder.believed_until()
    handed_over(waiting, until, token, frozen, within=KEEPALIVE_S + V)
    holder.cont()
    assert holder.wait_for("lost")["at"] > waiting.at("granted")
    holder.wait_for("ended")


# ---- The broker ----

@row("the broker is killed")
@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_lock_that_was_released_is_free_whatever_becomes_of_its_broker(world, redis, how):
    """Also when sessions of that broker have taken it again and again."""
    left, right = two_brokers(world, redis, *PATIENT)
    client, other = world.client(left.url), world.client(right.url)
    for n in range(5):
        session = client.session()
        for _ in range(3):
            mine = session.acquire(client.spec(f"k{n}", ttl=LONG_TTL_S))
            token = session.wait_for(mine, "granted").fencing_token
            released = session.wait_for(session.release(mine), "released")
            assert released.outcome == api().RELEASE_OUTCOME_RELEASED
        (left.kill if how == "killed" else left.stop)()
        grant = other.acquire(other.spec(f"k{n}", 0))  # one try
        assert grant.fencing_token > token
        if how == "killed":
            left.start()
            client = world.client(left.url)
        else:
            left.cont()


# ---- Waiters ----

@row("a waiter's stream breaks, or its broker drains")
def test_a_waiter_whose_stream_breaks_keeps_its_place(world, redis):
    daemon = world.distlockd(redis.url, *PATIENT)
    net, client = world.proxy(daemon.url), world.client(daemon.url)
    holder = Holder(client, "session", ttl=LONG_TTL_S).granted()
    first = ctl(world, net.url, "hold", "k", "--owner", "first", "--ttl", f"{int(LONG_TTL_S)}s")
    eventually(lambda: queue(client) == ["first"], "the first to wait")
    behind = waiter(client, owner="behind", ttl=LONG_TTL_S)
    asked = net.counters().accepted
    net.reset_all()
    eventually(lambda: net.counters().accepted > asked and net.counters().open, "another connection")
    assert holder.release() == api().RELEASE_OUTCOME_RELEASED
    assert first.wait_for("granted")["token"] > holder.token
    assert queue(client) == ["behind"] and not behind.all("granted")
    first.terminate()
    behind.granted()


@row("a waiter's stream breaks, or its broker drains")
def test_a_waiter_whose_broker_drains_keeps_its_place_at_another_one(world, redis):
    brokers = two_brokers(world, redis, *PATIENT, "--drain-timeout", "60s")
    by_id = {world.client(b.url).status().broker_id: b for b in brokers}
    nobody = world.client(world.distlockd(redis.url, *PATIENT, name="third").url)
    holder = Holder(nobody, "session", ttl=LONG_TTL_S).granted()
    first = ctl(world, ",".join(b.url for b in brokers), "hold", "k", "--owner", "first",
                "--ttl", f"{int(LONG_TTL_S)}s")
    eventually(lambda: queue(nobody) == ["first"], "the first to wait")
    behind = waiter(nobody, owner="behind", ttl=LONG_TTL_S)
    at = nobody.lock("k").waiters[0].broker_id
    by_id[at].terminate()
    eventually(lambda: [w.broker_id != at for w in nobody.lock("k").waiters] == [True, True], "the move")
    assert queue(nobody) == ["first", "behind"]
    assert holder.release() == api().RELEASE_OUTCOME_RELEASED
    assert first.wait_for("granted")["token"] > holder.token
    assert not behind.all("granted")
    first.terminate()
    behind.granted()


@row("a waiter's stream breaks, or its broker drains")
def test_what_reaches_a_waiter_that_a_drain_has_sent_away_goes_on_within_half_a_second(world, redis):
    left, right = two_brokers(world, redis, *PATIENT, "--drain-timeout", "60s")
    client, old = world.client(right.url), world.client(left.url)
    holder = Holder(client, "session", ttl=LONG_TTL_S).granted()
    session = old.session()
    spec = old.spec("k", owner="gone", ttl=LONG_TTL_S)
    gone = session.send(acquire=api().AcquireLocks(locks=[spec], request_id=uuid.uuid4().hex))
    session.wait_for(gone, "queued")
    behind = waiter(client, owner="behind", ttl=LONG_TTL_S)
    left.terminate()
    assert session.wait_for(gone, "refused").reason == api().REFUSAL_REASON_DRAINING
    assert queue(client) == ["gone", "behind"]
    released = boot_now()
    assert holder.release() == api().RELEASE_OUTCOME_RELEASED
    handed_over(behind, released, holder.token, released, within=0.5)  # --validity is 20 s
    assert not session.all("granted", gone)


@row("a waiter's stream breaks, or its broker drains")
@pytest.mark.parametrize("kind", ["session", "hold"])
def test_without_a_request_id_a_place_is_given_up_at_once(world, redis, kind):
    daemon = world.distlockd(redis.url, *PATIENT)
    client = world.client(daemon.url)
    holder = Holder(client, "session", ttl=LONG_TTL_S).granted()
    gone = world.client(daemon.url)
    waiter(gone, kind=kind, owner="gone", ttl=LONG_TTL_S)
    behind = waiter(client, owner="behind", ttl=LONG_TTL_S)
    gone.close()
    broken = boot_now()
    eventually(lambda: queue(client) == ["behind"], "the place to be free")
    assert boot_now() - broken < SLACK_S  # --validity is 20 s
    assert holder.release() == api().RELEASE_OUTCOME_RELEASED
    behind.granted()


@row("a waiter's stream breaks, or its broker drains")
def test_the_place_of_a_killed_waiter_delays_the_next_by_the_validity(world, redis):
    daemon = world.distlockd(redis.url, *FAST)
    client = world.client(daemon.url)
    holder = Holder(client, "session", ttl=TTL).granted()
    first = ctl(world, daemon.url, "hold", "k", "--owner", "first", "--ttl", f"{TTL}s")
    eventually(lambda: queue(client) == ["first"], "the first to wait")
    behind = waiter(client, owner="behind", ttl=TTL)
    first.kill()
    killed = boot_now()
    assert holder.release() == api().RELEASE_OUTCOME_RELEASED
    handed_over(behind, killed, holder.token, killed, within=V)
    behind.stream.cancel()
    await_nothing_left(redis)


# ---- The store ----

@row("the store answers READONLY, LOADING, BUSY, NOREPLICAS, MISCONF")
def test_a_store_that_refuses_to_write_for_good_ends_leases_in_time(world, redis):
    daemon = world.distlockd(redis.url, *FAST, "--store-timeout", "1s")
    client = world.client(daemon.url)
    holder = Holder(client, "session", ttl=2).granted()
    redis.command("CONFIG", "SET", "min-replicas-to-write", 1)
    began = boot_now()
    refused = failure(client.acquire, client.spec("new"))
    took = boot_now() - began
    assert refused.reason == "STORE_UNAVAILABLE" and 1 <= took < 1 + SLACK_S, (refused, took)
    holder.wait_for("at_risk")
    assert holder.wait_for("lost").reason == api().LOST_REASON_EXPIRED
    assert holder.at("lost") - began < 2 + SLACK_S and not holder.believes()


# ---- max_hold ----

@row("`max_hold` passes")
def test_the_next_waiter_gets_a_lock_when_max_hold_passes(world, redis):
    daemon = world.distlockd(redis.url, *PATIENT)
    client = world.client(daemon.url)
    holder = Holder(client, "session", "stream", ttl=LONG_TTL_S, max_hold=1).granted()
    detached = client.acquire(client.spec("detached", ttl=LONG_TTL_S, max_hold=1))
    began = boot_now()
    waiting = {key: Holder(client, "hold", key) for key in ("stream", "detached")}
    assert holder.wait_for("lost").reason == api().LOST_REASON_MAX_HOLD
    for key, token in (("stream", holder.token), ("detached", detached.fencing_token)):
        assert waiting[key].granted().token > token
        assert waiting[key].at("granted") - began < 1 + SLACK_S, "only when the ttl had ended"
    assert failure(client.renew, detached.lease_id).reason == "NOT_HOLDER"


# ---- min_hold ----

@row("a lock is released before its `min_hold` is over")
def test_a_lock_that_is_released_early_is_free_when_its_min_hold_has_passed_since_the_grant(world, redis):
    left, right = (world.client(daemon.url) for daemon in two_brokers(world, redis, *PATIENT))
    holder = Holder(left, "session", ttl=LONG_TTL_S, min_hold=1.5).granted()
    granted = boot_now()
    assert holder.release() == api().RELEASE_OUTCOME_RELEASED
    assert left.lock("k").block.min_hold.ToMilliseconds() == 1500
    waiting = waiter(right, ttl=LONG_TTL_S)
    assert waiting.granted().token > holder.token
    assert 1.4 < waiting.at("granted") - granted < 1.5 + SLACK_S, "only when the ttl had ended"
