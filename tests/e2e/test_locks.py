# SPDX-License-Identifier: Apache-2.0
"""Locks without faults: one try, waiting, order, hand-off, detached leases, lists."""
import concurrent.futures
import random
import uuid

import grpc
import pytest

from client import api, boot_now, failure, seconds
from harness import eventually
from promises import row


@pytest.fixture
def daemon(world):
    return world.distlockd(world.redis().url)


def queue_length(client, key):
    return client.lock(key).queue_length


def test_one_try_on_a_held_lock_names_the_holder_and_leaves_nothing(world, daemon):
    client = world.client(daemon.url)
    grant = client.acquire(client.spec("k", owner="billing@host7", ttl=20, metadata={"job": "42"}))
    refused = failure(client.acquire, client.spec("k", 0))
    assert refused.code == grpc.StatusCode.ABORTED and refused.reason == "LOCK_HELD"
    assert 15 < refused.retry_after <= 20
    assert "billing@host7" in refused.message and grant.lease_id not in refused.message
    assert queue_length(client, "k") == 0
    hold = client.hold(client.spec("k", 0))
    assert hold.wait_end().reason == "LOCK_HELD"
    session = client.session()
    answer = session.wait_for(session.acquire(client.spec("k", 0)), "refused")
    assert answer.reason == api().REFUSAL_REASON_LOCK_HELD
    assert [h.owner for h in answer.holders] == ["billing@host7"]
    assert answer.holders[0].holder_id == grant.holder_id
    client.release(grant.lease_id)
    # Nothing blocks the next holder.
    assert client.acquire(client.spec("k", 0)).fencing_token > grant.fencing_token


def test_a_bounded_wait_ends_in_time_and_does_not_affect_others(world, daemon):
    client = world.client(daemon.url)
    first = client.acquire(client.spec("k"))
    before = boot_now()
    refused = failure(client.acquire, client.spec("k", 0.3))
    assert refused.reason == "WAIT_TIMEOUT" and boot_now() - before >= 0.3
    waiting = client.hold(client.spec("k"))
    waiting.wait_for("queued")
    assert client.release(first.lease_id) == api().RELEASE_OUTCOME_RELEASED
    assert waiting.wait_for("granted").fencing_token > first.fencing_token


def test_a_detached_lease_is_renewed_by_its_caller_and_ends_by_its_ttl(world, daemon):
    client = world.client(daemon.url)
    grant = client.acquire(client.spec("k", ttl=1))
    assert 0.9 < seconds(grant.valid_for) <= 1
    renewed = client.renew(grant.lease_id)
    assert 0.9 < seconds(renewed.valid_for) <= 1
    eventually(lambda: not client.lock("k").holders, "the end of the ttl")
    refused = failure(client.renew, grant.lease_id)
    assert refused.code == grpc.StatusCode.FAILED_PRECONDITION and refused.reason == "NOT_HOLDER"
    assert client.release(grant.lease_id) == api().RELEASE_OUTCOME_ALREADY_GONE
    assert client.release(grant.lease_id) == api().RELEASE_OUTCOME_ALREADY_GONE


def test_the_same_request_id_gets_the_same_grant_through_any_broker(world):
    redis = world.redis()
    a, b = (world.distlockd(redis.url, name=n) for n in "ab")
    one, two = world.client(a.url), world.client(b.url)
    request_id = str(uuid.uuid4())
    grant = one.acquire(one.spec("k"), request_id)
    again = two.acquire(two.spec("k"), request_id)
    assert again.fencing_token == grant.fencing_token and again.holder_id == grant.holder_id
    assert failure(two.acquire, two.spec("k", 0), str(uuid.uuid4())).reason == "LOCK_HELD"
    # A lease that was taken through one broker is released through the other, by either id.
    assert two.release(grant.lease_id) == api().RELEASE_OUTCOME_RELEASED
    assert one.release(again.lease_id) == api().RELEASE_OUTCOME_ALREADY_GONE
    assert one.acquire(one.spec("k"), request_id).fencing_token > grant.fencing_token


def test_a_deadline_or_cancel_of_acquire_withdraws_it(world, daemon):
    client = world.client(daemon.url)
    held = client.acquire(client.spec("k"))
    with pytest.raises(grpc.RpcError) as error:
        client.acquire(client.spec("k"), timeout=0.3)
    assert error.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    eventually(lambda: queue_length(client, "k") == 0, "the withdrawal")
    client.release(held.lease_id)
    assert client.acquire(client.spec("k", 0)).fencing_token > held.fencing_token


@row("`max_hold` passes")
def test_max_hold_ends_a_lease_that_could_be_renewed(world, daemon):
    client = world.client(daemon.url)
    hold = client.hold(client.spec("k", max_hold=0.5))
    hold.wait_for("granted")
    assert hold.wait_for("lost").reason == api().LOST_REASON_MAX_HOLD
    ended = hold.wait_end()
    assert ended.code == grpc.StatusCode.ABORTED and ended.reason == "LEASE_LOST"
    assert ended.facts["lost_reason"] == "MAX_HOLD"
    client.acquire(client.spec("k", 5))


@row("`max_hold` passes")
def test_a_waiter_at_another_broker_gets_the_lock_when_a_lock_delay_ends(world):
    redis = world.redis()
    a, b = (world.client(world.distlockd(redis.url, name=name).url) for name in "ab")
    holder = a.hold(a.spec("k", max_hold=1, lock_delay=1))
    holder.wait_for("granted")
    waiter = b.hold(b.spec("k"))
    waiter.wait_for("queued")
    holder.wait_for("lost")
    lost = boot_now()
    waiter.wait_for("granted")
    # Without a notice, the broker would look at the queue only after 10 s.
    assert 0.9 < boot_now() - lost < 5


def test_a_lock_delay_applies_after_a_loss_and_not_after_a_release(world, daemon):
    client = world.client(daemon.url)
    hold = client.hold(client.spec("k", max_hold=0.2, lock_delay=1, owner="ann"))
    granted = hold.wait_for("granted")
    hold.wait_for("lost")
    before = boot_now()
    shown = eventually(lambda: (lock := client.lock("k")).HasField("block") and lock, "the delay")
    assert not shown.holders and shown.holder_count == 0 and shown.fencing_token == granted.fencing_token
    assert shown.block.owner == "ann" and 0 < seconds(shown.block.time_left) <= 1
    # Both times are the store's.
    now = client.acquire(client.spec("now")) and client.lock("now").holders[0].acquire_time
    assert 0 <= now.ToNanoseconds() - shown.block.start_time.ToNanoseconds() < 60e9
    refused = failure(client.acquire, client.spec("k", 0))
    assert refused.reason == "LOCK_HELD" and not {"holder_id", "blocked"} & set(refused.facts)
    left = refused.facts["block_time_left"]
    assert left.endswith("s") and 0 < float(left[:-1]) <= 1
    session = client.session()
    answer = session.wait_for(session.acquire(client.spec("k", 0)), "refused")
    assert answer.block.owner == "ann" and not answer.holders
    grant = client.acquire(client.spec("k", 20, lock_delay=60))
    assert boot_now() - before > 0.7
    assert not client.lock("k").HasField("block")
    client.release(grant.lease_id)
    client.acquire(client.spec("k", 0))


def test_forty_interleaved_waiters_of_two_brokers_are_served_in_order(world):
    redis = world.redis()
    brokers = [world.distlockd(redis.url, name=n) for n in "ab"]
    sessions = [world.client(b.url).session() for b in brokers for _ in range(2)]
    client = world.client(brokers[0].url)
    first = client.acquire(client.spec("k", ttl=30))
    waiters = []
    for i in range(40):
        session = sessions[i % 4]
        command = session.acquire(client.spec("k", ttl=30))
        assert session.wait_for(command, "queued").position == i
        waiters.append((session, command))
    # Some waiters leave, in the middle and at the head of the queue; a whole client dies.
    random.seed(7)
    gone = set(random.sample(range(40), 8)) | {0}
    for i in gone:
        session, command = waiters[i]
        session.cancel_acquire(command)
        assert session.wait_for(command, "refused").reason == api().REFUSAL_REASON_CANCELLED
    sessions[3].cancel()
    left = [w for i, w in enumerate(waiters) if i not in gone and i % 4 != 3]
    eventually(lambda: queue_length(client, "k") == len(left), "those who left being out of the queue")
    calls = lambda: int(redis.command("INFO", "commandstats").count("cmdstat_") and
                        [l for l in redis.command("INFO", "commandstats").splitlines()
                         if l.startswith("cmdstat_evalsha:")][0].split("calls=")[1].split(",")[0])
    scripts = calls()
    client.release(first.lease_id)
    token = first.fencing_token
    for n, (session, command) in enumerate(left):
        granted = session.wait_for(command, "granted")
        assert granted.fencing_token > token
        token = granted.fencing_token
        holding = [c for s, c in left[n + 1:] if s.all("granted", c)]
        assert not holding, "a waiter further back holds it, too"
        session.wait_for(session.release(command), "released")
    # One script per hand-off, and some room for renewals and for tending the queue.
    assert calls() - scripts <= (len(left) + 1) * 1.2 + 10
    assert queue_length(client, "k") == 0


def test_fifty_waiters_cause_few_store_commands(world, daemon):
    redis = world.processes[0]
    client = world.client(daemon.url)

    def total():
        lines = redis.command("INFO", "commandstats").splitlines()
        return sum(int(l.split("calls=")[1].split(",")[0]) for l in lines
                   if l.startswith("cmdstat_") and not l.startswith("cmdstat_info"))

    def rate():
        before, start = total(), boot_now()
        eventually(lambda: boot_now() - start >= 10, "ten seconds")
        return (total() - before) / (boot_now() - start)
    sessions = [client.session() for _ in range(5)]
    holder = sessions[0].acquire(client.spec("k"))
    sessions[0].wait_for(holder, "granted")
    without = rate()
    assert without < 12, f"{without:.2f} commands a second look after the server and one lease"
    for session in sessions:
        for command in session.acquire_each([client.spec("k")] * 10):
            session.wait_for(command, "queued")
    waiting = rate()
    assert waiting < without + 2, f"{waiting:.2f} commands a second while 50 wait, {without:.2f} before"


def test_many_concurrent_clients_exclude_each_other(world, daemon):
    client = world.client(daemon.url)
    inside, most = [], []

    def work(n):
        mine = world.client(daemon.url)
        for _ in range(5):
            grant = mine.acquire(mine.spec("k"))
            inside.append(grant.fencing_token)
            most.append(len(inside))
            inside.remove(grant.fencing_token)
            assert mine.release(grant.lease_id) == api().RELEASE_OUTCOME_RELEASED
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work, n) for n in range(8)]:
            done.result()
    assert max(most) == 1
    assert queue_length(client, "k") == 0


def test_locks_are_listed_by_prefix_in_pages_without_secrets(world, daemon):
    client = world.client(daemon.url)
    session = client.session()
    keys = {f"job/{i}" for i in range(250)} | {"other", "job*?[x]"}
    for command in session.acquire_each([client.spec(k, owner="o") for k in sorted(keys)]):
        grant = session.wait_for(command, "granted")
    found, token = [], ""
    while True:
        page = client.locks(key_prefix="job", page_size=40, page_token=token)
        assert len(page.locks) <= 40
        assert grant.lease_id not in str(page)
        found += [lock.key for lock in page.locks]
        token = page.next_page_token
        if not token:
            break
    assert set(found) == keys - {"other"}
    assert {lock.key for lock in client.locks(key_prefix="job*").locks} == {"job*?[x]"}
    assert not client.locks(namespace="elsewhere").locks


def test_all_namespaces_are_listed_together(world):
    client = world.client(world.distlockd(world.redis().url, "--shards", "4").url)
    taken = {(namespace, key) for namespace in ("default", "a/b", "*", "--") for key in ("one", "two*")}
    for namespace, key in taken:
        client.acquire(client.spec(key, namespace=namespace))
    found, page = [], client.locks(namespace="-", page_size=3)
    while True:
        found += [(lock.namespace, lock.key) for lock in page.locks]
        if not page.next_page_token:
            break
        page = client.locks(namespace="-", page_size=3, page_token=page.next_page_token)
    assert set(found) == taken
    assert failure(client.acquire, client.spec("k", namespace="-")).fields == ["locks[0].namespace"]
    assert failure(client.lock, "k", namespace="-").fields == ["namespace"]
    assert failure(client.locks, namespace="-", key_prefix="o").fields == ["key_prefix"]


def test_as_many_waiters_are_shown_as_are_asked_for(world, daemon):
    client = world.client(daemon.url)
    client.acquire(client.spec("k"))
    session = client.session()
    for command in session.acquire_each([client.spec("k")] * 101):
        session.wait_for(command, "queued")
    for asked, shown in ((None, 100), (0, 0), (1, 1), (1000, 101)):
        lock = client.lock("k", max_waiters=asked)
        assert (len(lock.waiters), lock.queue_length) == (shown, 101), asked


def test_whether_a_token_is_the_newest_is_the_same_at_every_broker(world):
    redis = world.redis()
    here, there = (world.client(world.distlockd(redis.url, name=name).url) for name in "ab")

    def told(key, token, **at):
        answers = [client.check_token(key, token, **at) for client in (here, there)]
        assert answers[0] == answers[1]
        return answers[0].newest, answers[0].newest_token
    first = here.acquire(here.spec("k", namespace="ns"))
    assert told("k", first.fencing_token, namespace="ns") == (True, first.fencing_token)
    here.release(first.lease_id)
    assert told("k", first.fencing_token, namespace="ns") == (True, first.fencing_token), "no newer one was given"
    second = there.acquire(there.spec("k", namespace="ns"))
    assert told("k", first.fencing_token, namespace="ns") == (False, second.fencing_token)
    assert told("k", second.fencing_token, namespace="ns") == (True, second.fencing_token)
    assert not told("k", second.fencing_token + 1, namespace="ns")[0], "a token that was never given"
    assert told("k", first.fencing_token) == (False, 0), "another lock, which nobody took"


def test_a_session_is_told_its_limits(world):
    daemon = world.distlockd(world.redis().url, "--limits", "max-message-bytes=131072,max-leases-per-session=3")
    client = world.client(daemon.url)
    session = client.session()
    assert (session.opened.max_message_bytes, session.opened.max_leases) == (131072, 3)
    assert "permit" in session.opened.features
    *most, last = session.acquire_each([client.spec(f"k{i}") for i in range(4)])
    for command in most:
        session.wait_for(command, "granted")
    assert session.wait_for(last, "refused").reason == api().REFUSAL_REASON_QUOTA_EXCEEDED


def test_a_request_cancelled_at_one_broker_goes_on_at_the_other(world):
    redis = world.redis()
    net = world.proxy(redis.url)
    a, b = world.distlockd(net.url, name="a"), world.distlockd(redis.url, name="b")
    one, two = world.client(a.url), world.client(b.url)
    request_id = str(uuid.uuid4())
    net.pause()
    with pytest.raises(grpc.RpcError):
        one.acquire(one.spec("k"), request_id, timeout=0.5)
    grant = two.acquire(two.spec("k"), request_id)
    net.resume()
    eventually(lambda: one.lock("k").holders, "the first broker's store being back")
    # When a later command is answered, the first broker has sent everything about the cancelled request.
    for _ in range(3):
        assert failure(one.acquire, one.spec("k", 0)).reason == "LOCK_HELD"
    assert [h.fencing_token for h in two.lock("k").holders] == [grant.fencing_token]
    two.renew(grant.lease_id)


def test_a_drain_of_several_shards_waits_for_the_holders_of_each(world):
    daemon = world.distlockd(world.redis().url, "--shards", "4", "--drain-timeout", "60s")
    client = world.client(daemon.url)
    session = client.session()
    commands = [session.acquire(client.spec(f"k{i}")) for i in range(3)]
    for command in commands:
        session.wait_for(command, "granted")
    daemon.terminate()
    session.wait(lambda: session.all("draining"), "draining")
    session.wait_ack(session.beat())
    for command in commands:
        assert session.believes(command)
        session.wait_for(session.release(command), "released")
    assert daemon.exit_code() == 0
    assert session.wait_end().reason == "DRAINING"
