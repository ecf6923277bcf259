# SPDX-License-Identifier: Apache-2.0
"""A lock taken from its holders by an administrator, and a writer that goes on as a reader, across two brokers."""
import concurrent.futures

import grpc
import pytest

from client import api, boot_now, failure
from harness import eventually


@pytest.fixture
def pair(world):
    """Clients of two brokers on one store."""
    redis = world.redis()
    return [world.client(world.distlockd(redis.url, name=name).url) for name in "ab"]


def shared():
    return api().LOCK_MODE_SHARED


@pytest.mark.parametrize("by", ["hold", "session"])
def test_a_holder_at_the_other_broker_gets_lost_and_the_next_is_granted(pair, by):
    here, there = pair
    if by == "hold":
        stream = there.hold(there.spec("k", lock_delay=30))
        granted, lost = stream.wait_for("granted"), lambda: stream.wait_for("lost")
    else:
        session = there.session()
        command = session.acquire(there.spec("k", lock_delay=30))
        granted, lost = session.wait_for(command, "granted"), lambda: session.wait_for(command, "lost")
    waiter = here.hold(here.spec("k"))
    waiter.wait_for("queued")
    began = boot_now()
    assert here.force_release("k", reason="host is gone") == 1
    assert boot_now() - began < 15
    told = lost()
    assert told.reason == api().LOST_REASON_FORCED and "host is gone" in told.message
    assert waiter.wait_for("granted").fencing_token > granted.fencing_token
    assert here.force_release("k", holder_id=granted.holder_id) == 0


def test_detached_leases_are_freed_at_once_wherever_they_are(pair):
    here, there = pair
    for taker in (here, there):
        grant = taker.acquire(taker.spec("k", ttl=600))
        assert here.force_release("k", holder_id=grant.holder_id) == 1
        assert failure(taker.renew, grant.lease_id).reason == "NOT_HOLDER"
        assert not here.lock("k").holders


def test_force_release_of_all_readers_or_of_one(pair):
    here, there = pair
    readers = [taker.acquire(taker.spec("k", mode=shared())) for taker in (here, there, here)]
    assert here.force_release("k", holder_id=readers[1].holder_id) == 1
    assert {h.holder_id for h in there.lock("k").holders} == {readers[0].holder_id, readers[2].holder_id}
    assert there.force_release("k") == 2
    assert not there.lock("k").holders


def test_a_holder_whose_broker_died_is_removed_at_once(world):
    redis = world.redis()
    a, b = world.distlockd(redis.url, name="a"), world.distlockd(redis.url, name="b")
    here, there = world.client(a.url), world.client(b.url)
    there.hold(there.spec("k", ttl=600)).wait_for("granted")
    b.kill()
    assert here.force_release("k") == 1
    here.acquire(here.spec("k", 0))


def test_every_shard_of_the_other_broker_is_reached(world):
    redis = world.redis()
    a = world.distlockd(redis.url, name="a")
    b = world.distlockd(redis.url, "--shards=4", name="b")
    here, there = world.client(a.url), world.client(b.url)
    session = there.session()
    commands = [session.acquire(there.spec(f"k{i}")) for i in range(6)]
    for command in commands:
        session.wait_for(command, "granted")
    assert len({h.broker_id for i in range(6) for h in here.lock(f"k{i}").holders}) == 1
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        assert list(pool.map(lambda i: here.force_release(f"k{i}"), range(6))) == [1] * 6
    for command in commands:
        assert session.wait_for(command, "lost").reason == api().LOST_REASON_FORCED


def test_the_log_names_the_caller(world):
    daemon = world.distlockd(world.redis().url)
    client = world.client(daemon.url)
    grant = client.acquire(client.spec("k"))
    assert client.force_release("k", reason="why not") == 1
    eventually(lambda: "forced release" in daemon.log(), "the line of the audit log")
    line = next(line for line in daemon.log().splitlines() if "forced release" in line)
    assert "why not" in line and grant.holder_id in line and grant.lease_id not in line, line


def test_a_downgrade_admits_the_first_readers_and_no_writer(pair):
    here, there = pair
    writer = here.hold(here.spec("k"))
    granted = writer.wait_for("granted")
    reader = there.hold(there.spec("k", mode=shared()))
    reader.wait_for("queued")
    other = there.hold(there.spec("k"))
    other.wait_for("queued")
    here.downgrade(granted.lease_id)
    assert reader.wait_for("granted").fencing_token > granted.fencing_token
    assert {h.mode for h in there.lock("k").holders} == {shared()}
    assert granted.fencing_token in {h.fencing_token for h in there.lock("k").holders}
    assert failure(there.acquire, there.spec("k", 0)).reason == "LOCK_HELD"
    here.downgrade(granted.lease_id)
    here.release(granted.lease_id)
    assert failure(here.downgrade, granted.lease_id).reason == "NOT_HOLDER"
    assert failure(there.acquire, there.spec("k", 0)).reason == "LOCK_HELD", "the reader still holds it"


def test_a_permit_is_not_downgraded(pair):
    here, _ = pair
    permit = here.acquire(here.spec("p", mode=api().LOCK_MODE_PERMIT, limit=2))
    assert failure(here.downgrade, permit.lease_id).reason == "NOT_SUPPORTED"
