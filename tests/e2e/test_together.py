# SPDX-License-Identifier: Apache-2.0
"""Several locks at once, re-entry, and fairness, through real brokers and a real store."""
import threading
import time

import grpc
import pytest

from client import Failure, api, failure
from harness import eventually


@pytest.fixture(params=[1, 4], ids=["1 shard", "4 shards"])
def pair(world, request):
    """Clients of two brokers on one store."""
    redis = world.redis()
    return [
        world.client(world.distlockd(redis.url, "--shards", str(request.param), name=name).url) for name in ("a", "b")
    ]


def held(client, *keys):
    return [len(client.lock(key).holders) for key in keys]


def test_detached_locks_are_all_granted_each_with_its_token(pair):
    here, there = pair
    grants = here.acquire_all([here.spec(key, owner="me") for key in "cab"])
    assert [grant.key for grant in grants] == ["c", "a", "b"], "in the order of the request"
    assert len({grant.lease_id for grant in grants}) == 3 and all(grant.fencing_token for grant in grants)
    assert held(there, "a", "b", "c") == [1, 1, 1]
    there.renew(grants[1].lease_id)
    assert there.release(grants[0].lease_id) == api().RELEASE_OUTCOME_RELEASED
    assert held(here, "a", "b", "c") == [1, 1, 0]


def test_when_one_is_held_none_is_taken(pair):
    here, there = pair
    there.acquire(there.spec("b", owner="bob"))
    refused = failure(here.acquire_all, [here.spec(key, max_wait=0) for key in "abc"])
    assert refused.reason == "LOCK_HELD" and '"default:b"' in refused.message, refused
    eventually(lambda: held(there, "a", "b", "c") == [0, 1, 0])
    refused = failure(here.acquire_all, [here.spec(key, max_wait=0.3) for key in "abc"])
    assert refused.reason == "WAIT_TIMEOUT", refused
    eventually(lambda: held(there, "a", "b", "c") == [0, 1, 0])


def test_a_repeat_gets_the_same_grants(pair):
    here, there = pair
    specs = [here.spec(key) for key in "ab"]
    first = here.acquire_all(specs, "a-request-id-of-two-locks")
    again = there.acquire_all(specs, "a-request-id-of-two-locks")
    assert [grant.fencing_token for grant in again] == [grant.fencing_token for grant in first]


def test_wrong_requests_name_each_field(pair):
    here, _ = pair
    refused = failure(here.acquire_all, [here.spec("a"), here.spec("a"), here.spec("b", max_wait=1)])
    assert refused.code == grpc.StatusCode.INVALID_ARGUMENT
    assert set(refused.fields) == {"locks[1].key", "locks[2].max_wait"}
    refused = failure(here.acquire_all, [here.spec(str(i)) for i in range(65)])
    assert refused.code == grpc.StatusCode.INVALID_ARGUMENT and "64" in refused.message
    assert failure(here.acquire_all, []).fields == refused.fields == ["locks"]


def test_on_a_session_each_is_a_lease_like_any_other(pair):
    here, there = pair
    first = there.acquire(there.spec("b"))
    session = here.session()
    ids = session.acquire_all([here.spec(key) for key in "abc"])
    session.wait_for(ids[1], "queued")
    assert not session.all("granted")
    there.release(first.lease_id)
    grants = [session.wait_for(i, "granted") for i in ids]
    assert grants[1].fencing_token > first.fencing_token
    assert session.wait_for(session.release(ids[0]), "released").outcome == api().RELEASE_OUTCOME_RELEASED
    assert held(there, "a", "b", "c") == [0, 1, 1]
    session.goodbye()
    eventually(lambda: held(there, "a", "b", "c") == [0, 0, 0])


def test_opposite_orders_do_not_deadlock(pair):
    failures = []

    def take(client, keys):
        try:
            for _ in range(20):
                for grant in client.acquire_all([client.spec(key) for key in keys], timeout=60):
                    client.release(grant.lease_id)
        except grpc.RpcError as error:
            failures.append(Failure(error))

    threads = [threading.Thread(target=take, args=(client, keys)) for client in pair for keys in ("abc", "cba", "bca")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_session_reenters_its_lock(pair):
    here, there = pair
    session = here.session()
    spec = here.spec("k", owner="me", reentrant=True)
    one = session.acquire(spec)
    first = session.wait_for(one, "granted")
    two = session.acquire(spec)
    second = session.wait_for(two, "granted")
    assert (first.hold_count, second.hold_count) == (1, 2) and first.fencing_token == second.fencing_token
    assert session.wait_for(session.release(one), "released").outcome == api().RELEASE_OUTCOME_STILL_HELD
    assert held(there, "k") == [1]
    assert session.wait_for(session.release(two), "released").outcome == api().RELEASE_OUTCOME_RELEASED
    assert held(there, "k") == [0]


def test_no_writer_starves_among_readers_under_fair(pair):
    """No reader that asks after the writer queued is served before the writer."""
    done, order, mutex = threading.Event(), [], threading.Lock()

    def read(client):
        while not done.is_set():
            grant = client.acquire(client.spec("k", mode=api().LOCK_MODE_SHARED))
            with mutex:
                order.append(("reader", grant.fencing_token))
            time.sleep(0.005)
            client.release(grant.lease_id)

    threads = [threading.Thread(target=read, args=(client,)) for client in pair for _ in range(5)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(order) > 50)
    longest = 0.0
    for _ in range(20):
        before = len(order)
        asked = time.monotonic()
        grant = pair[0].acquire(pair[0].spec("k", owner="writer"))
        longest = max(longest, time.monotonic() - asked)
        with mutex:
            overtaking = len(order) - before
        assert overtaking <= 3 * len(threads), (
            "at most those that were there, and a round of those that asked at the same time")
        pair[0].release(grant.lease_id)
    done.set()
    for thread in threads:
        thread.join()
    print(f"longest wait of a writer among 10 readers: {longest * 1000:.0f} ms")
