# SPDX-License-Identifier: Apache-2.0
"""--failover-hold-off with a store without persistence: who held a lock before it was killed may believe in it for a
while, so nobody else is granted it meanwhile."""
import pytest

from client import api, boot_now
from faults import Holder, waiter
from harness import eventually

MAX_TTL_S = 4
HOLD_OFF = ("--failover-hold-off", "auto", "--max-ttl", f"{MAX_TTL_S}s", "--default-ttl", "3s", "--validity", "1s")
FIXED = ("--failover-hold-off", f"{MAX_TTL_S}s", "--default-ttl", "3s", "--validity", "1s")


@pytest.mark.parametrize("flags", [HOLD_OFF, FIXED], ids=["auto", "fixed"])
def test_a_restarted_store_grants_nobody_what_it_may_have_forgotten(world, flags):
    redis = world.redis()
    daemon = world.distlockd(redis.url, *flags)
    client = world.client(daemon.url)
    started = boot_now()
    holder = Holder(client, "session", ttl=3).granted()  # the first hold-off: the store is new
    waiting = waiter(client, ttl=3)
    redis.kill()
    killed = boot_now()
    redis.start()
    assert holder.wait_for("lost").reason == api().LOST_REASON_TAKEN
    granted = waiting.granted()
    assert boot_now() - killed >= MAX_TTL_S, "the old holder's ttl could have lasted until then"
    assert granted.token > holder.token and killed >= started
    assert "append-only" not in daemon.log(), "warned of what the hold-off takes care of"


def test_a_store_that_lost_only_its_connections_holds_nobody_off(world):
    redis = world.redis()
    daemon = world.distlockd(redis.url, *HOLD_OFF)
    client = world.client(daemon.url)
    holder = Holder(client, "session", ttl=3).granted()
    redis.command("CLIENT", "KILL", "TYPE", "normal")
    assert client.release(holder.grant.lease_id) == api().RELEASE_OUTCOME_RELEASED
    before = boot_now()
    assert Holder(client, "session", ttl=3).granted()
    assert boot_now() - before < MAX_TTL_S
    assert redis.command("EXISTS", "dl:m") == 1


def test_who_is_off_is_warned_and_has_no_marker(world):
    redis = world.redis()
    daemon = world.distlockd(redis.url, "--failover-hold-off", "0")
    client = world.client(daemon.url)
    assert Holder(client, "session", ttl=3).granted()
    assert redis.command("EXISTS", "dl:m") == 0
    assert "--failover-hold-off" in daemon.log()


def test_a_broker_with_a_shorter_max_ttl_than_another_is_told_of_it(world):
    redis = world.redis()
    world.distlockd(redis.url, *HOLD_OFF, name="first")
    shorter = ("--failover-hold-off", "auto", "--max-ttl", "3s", "--default-ttl", "3s", "--validity", "1s")
    second = world.distlockd(redis.url, *shorter, name="second")
    eventually(lambda: "leases of up to 4000 ms, this one of up to 3000 ms: give all brokers the same --max-ttl"
               in second.log(), "the warning")
