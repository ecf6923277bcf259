# SPDX-License-Identifier: Apache-2.0
"""Readers and writers, permits, and the order of the queue: all modes and policies, through each way to take a lock."""
import concurrent.futures
import itertools
import threading

import grpc
import pytest

from asking import Asking, ByAcquire, ByHold, BySession
from client import api, boot_now, failure, seconds
from harness import eventually
from proxy import PATIENCE_S


@pytest.fixture
def daemon(world):
    return world.distlockd(world.redis().url)


@pytest.fixture(params=[ByHold, BySession, ByAcquire])
def asking(request, world, daemon):
    return Asking(world.client(daemon.url), request.param)


def test_many_readers_share(asking):
    readers = [asking.reader(f"r{i}") for i in range(8)]
    grants = [reader.granted() for reader in readers]
    assert {grant.mode for grant in grants} == {api().LOCK_MODE_SHARED}
    assert len({grant.fencing_token for grant in grants}) == len({grant.lease_id for grant in grants}) == 8
    lock = asking.client.lock("k")
    assert lock.holder_count == 8 and lock.fencing_token == max(grant.fencing_token for grant in grants)
    assert [h.fencing_token for h in lock.holders] == sorted(grant.fencing_token for grant in grants)
    assert {h.mode for h in lock.holders} == {api().LOCK_MODE_SHARED}
    assert asking.one_try(api().LOCK_MODE_EXCLUSIVE) == "LOCK_HELD"
    for reader in readers:
        reader.leave()
    assert asking.shown() == ([], []) and asking.one_try(api().LOCK_MODE_EXCLUSIVE) is None


def test_a_writer_waits_for_all_readers_and_excludes_both_kinds(asking):
    readers = [asking.reader(f"r{i}") for i in range(3)]
    last = max(reader.granted().fencing_token for reader in readers)
    writer = asking.writer("w")
    asking.await_queue("w")
    for i, reader in enumerate(readers):
        holding, waiting = asking.shown()
        assert len(holding) == 3 - i and waiting == ["w"]
        reader.leave()
    assert writer.granted().fencing_token > last
    assert writer.granted().mode == api().LOCK_MODE_EXCLUSIVE
    assert asking.shown() == (["w"], [])
    assert asking.one_try(api().LOCK_MODE_SHARED) == asking.one_try(api().LOCK_MODE_EXCLUSIVE) == "LOCK_HELD"
    next_reader = asking.reader("r")
    asking.await_queue("r")
    next_writer = asking.writer("w2")
    asking.await_queue("r", "w2")
    assert asking.shown()[0] == ["w"]
    writer.leave()
    next_reader.granted()
    assert asking.shown() == (["r"], ["w2"])
    next_reader.leave()
    assert next_writer.granted().fencing_token > next_reader.granted().fencing_token


def test_neighbouring_readers_enter_together(asking):
    writer = asking.writer("w")
    writer.granted()
    names, waiting = ("r1", "r2", "w2", "r3"), []
    for owner in names:
        waiting.append(asking.writer(owner) if owner == "w2" else asking.reader(owner))
        asking.await_queue(*names[:len(waiting)])
    writer.leave()
    for reader in waiting[:2]:
        reader.granted()
    assert asking.shown() == (["r1", "r2"], ["w2", "r3"])
    for asker in waiting[:3]:
        asker.leave()
    waiting[3].granted()


@pytest.mark.parametrize("policy", ["FAIR", "WRITER_PREFERRING"])
def test_a_reader_behind_a_waiting_writer_waits(asking, policy):
    asking.fields["policy"] = getattr(api(), "QUEUE_POLICY_" + policy)
    first = asking.reader("r1")
    first.granted()
    writer = asking.writer("w1")
    asking.await_queue("w1")
    assert asking.one_try(api().LOCK_MODE_SHARED) == "LOCK_HELD"
    second = asking.reader("r2")
    asking.await_queue("w1", "r2")
    late = asking.writer("w2")
    asking.await_queue(*(["w1", "r2", "w2"] if policy == "FAIR" else ["w1", "w2", "r2"]))
    order = [writer, second, late] if policy == "FAIR" else [writer, late, second]
    assert asking.shown()[0] == ["r1"]
    token = first.granted().fencing_token
    first.leave()
    for asker in order:
        assert asker.granted().fencing_token > token
        token = asker.granted().fencing_token
        assert len(asking.shown()[0]) == 1
        asker.leave()
    assert asking.shown() == ([], [])


def test_a_reader_passes_a_waiting_writer_under_reader_preferring(asking):
    asking.fields["policy"] = api().QUEUE_POLICY_READER_PREFERRING
    first = asking.reader("r1")
    first.granted()
    writer = asking.writer("w")
    asking.await_queue("w")
    assert asking.one_try(api().LOCK_MODE_SHARED) is None
    second = asking.reader("r2")
    second.granted()
    assert asking.shown() == (["r1", "r2"], ["w"])
    first.leave()
    second.leave()
    writer.granted()
    assert asking.one_try(api().LOCK_MODE_SHARED) == "LOCK_HELD"


def test_a_one_shot_writer_does_not_block_readers(asking):
    first = asking.reader("r1")
    first.granted()
    assert asking.one_try(api().LOCK_MODE_EXCLUSIVE) == "LOCK_HELD"
    assert asking.shown() == (["r1"], [])
    asking.reader("r2").granted()
    assert asking.shown() == (["r1", "r2"], [])


def test_permits_are_given_up_to_the_limit_in_order(asking):
    two, three = asking.permits("two", 2, 5), asking.permits("three", 3, 5)
    assert {asker.granted().mode for asker in (two, three)} == {api().LOCK_MODE_PERMIT}
    assert sorted(h.permits for h in asking.client.lock("k").holders) == [2, 3]
    assert asking.one_try(api().LOCK_MODE_PERMIT, permits=1, limit=5) == "LOCK_HELD"
    four = asking.permits("four", 4, 5)
    asking.await_queue("four")
    one = asking.permits("one", 0, 5)  # 0 means 1
    asking.await_queue("four", "one")
    assert [w.permits for w in asking.client.lock("k").waiters] == [4, 1]
    two.leave()
    # Two permits are free, but the first in the queue wants four: no other waiter passes it.
    assert asking.one_try(api().LOCK_MODE_PERMIT, permits=1, limit=5) == "LOCK_HELD"
    assert asking.shown() == (["three"], ["four", "one"])
    three.leave()
    assert four.granted().fencing_token < one.granted().fencing_token
    assert asking.shown() == (["four", "one"], [])
    four.leave()
    assert asking.one_try(api().LOCK_MODE_PERMIT, permits=4, limit=5) is None
    assert asking.one_try(api().LOCK_MODE_PERMIT, permits=5, limit=5) == "LOCK_HELD"


def test_another_limit_or_mode_is_refused_to_one_try_and_waits_otherwise(world, daemon):
    client = world.client(daemon.url)
    permit, exclusive, shared = (getattr(api(), "LOCK_MODE_" + name) for name in ("PERMIT", "EXCLUSIVE", "SHARED"))
    takes = {"two": dict(mode=permit, limit=2), "three": dict(mode=permit, limit=3), "exclusive": dict(mode=exclusive),
             "shared": dict(mode=shared)}
    mixing = {frozenset(pair) for pair in (("exclusive", "shared"), ("two",), ("three",), ("shared",), ("exclusive",))}
    for held, other in itertools.product(takes, takes):
        if frozenset((held, other)) in mixing:
            continue
        holder = client.acquire(client.spec("k", **takes[held]))
        once = client.spec("k", 0, **takes[other])
        refused, ended = failure(client.acquire, once), client.hold(once).wait_end()
        for one in (refused, ended):
            assert one.code == grpc.StatusCode.FAILED_PRECONDITION, (held, other, one)
            assert one.reason == "LIMIT_MISMATCH", (held, other, one)
        session = client.session()
        answer = session.wait_for(session.acquire(once), "refused")
        assert answer.reason == api().REFUSAL_REASON_LIMIT_MISMATCH
        assert failure(client.acquire, client.spec("k", 0.2, **takes[other])).reason == "WAIT_TIMEOUT", (held, other)
        waiting = client.hold(client.spec("k", **takes[other]))
        waiting.wait_for("queued")
        assert not waiting.all("granted")
        client.release(holder.lease_id)
        grant = waiting.wait_for("granted")
        assert (grant.mode, grant.fencing_token > holder.fencing_token) == (takes[other]["mode"], True)
        client.release(grant.lease_id)


def test_another_limit_counts_when_the_holders_of_the_old_one_have_left(asking):
    permit = api().LOCK_MODE_PERMIT
    old = []
    for owner in ("old1", "old2"):
        old.append(asking.permits(owner, 1, 2))
        old[-1].granted()
    wide = asking.permits("wide", 3, 5)
    asking.await_queue("wide")
    also_wide = asking.permits("also wide", 2, 5)
    asking.await_queue("wide", "also wide")
    assert asking.one_try(permit, permits=1, limit=5) == "LIMIT_MISMATCH"
    old[0].leave()
    # A permit of the old limit is free, but the first in the queue waits for another one: nobody passes it.
    assert asking.one_try(permit, permits=1, limit=2) == "LOCK_HELD"
    newcomer = asking.permits("newcomer", 1, 2)
    asking.await_queue("wide", "also wide", "newcomer")
    assert asking.shown()[0] == ["old2"]
    old[1].leave()
    assert wide.granted().fencing_token < also_wide.granted().fencing_token
    assert asking.shown() == (["wide", "also wide"], ["newcomer"])
    assert asking.one_try(permit, permits=1, limit=2) == "LIMIT_MISMATCH"
    wide.leave()
    assert asking.shown() == (["also wide"], ["newcomer"])
    also_wide.leave()
    newcomer.granted()
    assert asking.shown() == (["newcomer"], [])
    assert asking.one_try(permit, permits=1, limit=2) is None


@pytest.mark.parametrize("way", [ByHold, BySession])
@pytest.mark.parametrize("kind", ["reader", "permits"])
def test_a_crashed_holders_share_goes_to_the_waiters(world, way, kind):
    daemon = world.distlockd(world.redis().url, "--validity", "1s")
    net = world.proxy(daemon.url)
    asking, crashing = Asking(world.client(daemon.url), way), Asking(world.client(net.url), way)

    def take(through, owner):
        return through.reader(owner) if kind == "reader" else through.permits(owner, 1, 2)
    other, crashed = take(asking, "other"), take(crashing, "crashed")
    other.granted()
    crashed.granted()
    waiter = asking.writer("w") if kind == "reader" else asking.permits("w", 2, 2)
    asking.await_queue("w")
    net.refuse_new()
    net.reset_all()
    # Only the crashed holder's share: the other holder keeps its own.
    eventually(lambda: asking.shown() == (["other"], ["w"]), "the end of the crashed one's share")
    other.leave()
    assert waiter.granted().fencing_token > crashed.granted().fencing_token
    assert asking.shown() == (["w"], [])


def test_a_writer_follows_the_only_reader_when_it_is_killed(world):
    daemon = world.distlockd(world.redis().url, "--validity", "1s")
    asking = Asking(world.client(daemon.url), ByHold)
    readers = [world.client(daemon.url) for _ in range(3)]
    for client in readers:
        client.hold(client.spec("k", mode=api().LOCK_MODE_SHARED)).wait_for("granted")
    writer = asking.writer("w")
    asking.await_queue("w")
    for client in readers:
        client.close()
    writer.granted()
    assert asking.shown() == (["w"], [])


def test_a_detached_share_lasts_by_its_own_renewals(world, daemon):
    client = world.client(daemon.url)
    shared = api().LOCK_MODE_SHARED
    renewed = client.acquire(client.spec("k", ttl=1, mode=shared, owner="renewed"))
    client.acquire(client.spec("k", ttl=2, mode=shared, owner="left alone"))

    def alone():
        client.renew(renewed.lease_id)
        return [h.owner for h in client.lock("k").holders] == ["renewed"]
    eventually(alone, "the end of the ttl of the other one")
    assert failure(client.acquire, client.spec("k", 0)).reason == "LOCK_HELD"
    assert client.release(renewed.lease_id) == api().RELEASE_OUTCOME_RELEASED
    refused = failure(client.renew, renewed.lease_id)
    assert refused.code == grpc.StatusCode.FAILED_PRECONDITION and refused.reason == "NOT_HOLDER"
    assert client.release(renewed.lease_id) == api().RELEASE_OUTCOME_ALREADY_GONE
    client.acquire(client.spec("k", 0))


def test_a_lock_delay_keeps_a_lost_readers_place_from_writers_only(world, daemon):
    asking = Asking(world.client(daemon.url), ByHold)
    asking.reader("lost", max_hold=0.2, lock_delay=1).stream.wait_for("lost")
    before = boot_now()
    block = eventually(lambda: (lock := asking.client.lock("k")).HasField("block") and lock.block, "the delay")
    assert block.owner == "lost" and 0 < seconds(block.time_left) <= 1
    assert asking.shown() == ([], [])
    assert asking.one_try(api().LOCK_MODE_SHARED) is None
    asking.writer("w").granted()
    assert boot_now() - before > 0.7


@pytest.mark.parametrize("way", [ByHold, BySession, ByAcquire])
def test_readers_at_one_broker_and_writers_at_another_hand_off_both_ways(world, way):
    redis = world.redis()
    reading, writing = (Asking(world.client(world.distlockd(redis.url, name=n).url), way) for n in "ab")
    readers = [reading.reader(f"r{i}") for i in range(2)]
    for reader in readers:
        reader.granted()
    for turn in range(3):
        writer = writing.writer("w")
        reading.await_queue("w")
        for reader in readers:
            reader.leave()
        token = writer.granted().fencing_token
        assert reading.shown() == (["w"], [])
        readers = []
        for i in range(2):
            readers.append(reading.reader(f"r{turn}.{i}"))
            writing.await_queue(*[f"r{turn}.{j}" for j in range(i + 1)])
        writer.leave()
        assert all(reader.granted().fencing_token > token for reader in readers)
        assert writing.shown() == ([f"r{turn}.{i}" for i in range(2)], [])


def test_permits_are_handed_over_between_brokers(world):
    redis = world.redis()
    here, there = (Asking(world.client(world.distlockd(redis.url, name=n).url), ByHold) for n in "ab")
    held = [here.permits("a", 1, 2), there.permits("b", 1, 2)]
    for asker in held:
        asker.granted()
    first = there.permits("c", 1, 2)
    here.await_queue("c")
    second = here.permits("d", 1, 2)
    here.await_queue("c", "d")
    held[0].leave()
    first.granted()
    assert here.shown() == (["b", "c"], ["d"])
    held[1].leave()
    second.granted()
    assert here.shown() == (["c", "d"], [])


@pytest.mark.parametrize("kind", ["exclusive", "permit"])
def test_an_adaptive_waiter_gets_the_lock_in_the_end_despite_newcomers(world, daemon, kind):
    fields = {"policy": api().QUEUE_POLICY_ADAPTIVE}
    if kind == "permit":
        fields.update(mode=api().LOCK_MODE_PERMIT, limit=1)
    client = world.client(daemon.url)
    first = client.acquire(client.spec("k", **fields))
    waiter = client.hold(client.spec("k", **fields))
    waiter.wait_for("queued")
    done, tried = threading.Event(), itertools.count()

    def come_and_go():
        mine = world.client(daemon.url)
        while not done.is_set():
            next(tried)
            try:
                grant = mine.acquire(mine.spec("k", 0, **fields))
            except grpc.RpcError:
                continue
            mine.release(grant.lease_id)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        newcomers = [pool.submit(come_and_go) for _ in range(4)]
        try:
            eventually(lambda: next(tried) > 20, "newcomers")
            client.release(first.lease_id)
            waiter.wait_for("granted")
        finally:
            done.set()
        for newcomer in newcomers:
            newcomer.result(PATIENCE_S)
    assert [h.fencing_token for h in client.lock("k").holders] == [waiter.wait_for("granted").fencing_token]
