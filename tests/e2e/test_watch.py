# SPDX-License-Identifier: Apache-2.0
"""WatchLock and WatchLocks through real brokers and a real store."""
import grpc
import pytest

from client import Stream, api, boot_now, seconds


class Watch(Stream):
    def __init__(self, client, key):
        call = client.channel.unary_stream("/distlock.v1.LockService/WatchLock",
                                           api().WatchLockRequest.SerializeToString,
                                           api().WatchLockResponse.FromString)
        super().__init__(call(api().WatchLockRequest(key=key)))

    def unpack(self, response):
        return [response.lock]

    def wait_for(self, holders, waiters=0):
        """(time, lock) of the first change with these counts."""
        def latest():
            when, lock = self.events[-1] if self.events else (0, None)
            return lock is not None and (len(lock.holders), lock.queue_length) == (holders, waiters) and (when, lock)
        return self.wait(latest, f"{holders} holders and {waiters} waiters")


class WatchMany(Stream):
    """The events are responses; `locks` has each lock as it was told last."""

    def __init__(self, client, prefix="", namespace=""):
        self.locks = {}
        call = client.channel.unary_stream("/distlock.v1.LockService/WatchLocks",
                                           api().WatchLocksRequest.SerializeToString,
                                           api().WatchLocksResponse.FromString)
        super().__init__(call(api().WatchLocksRequest(namespace=namespace, key_prefix=prefix)))

    def unpack(self, response):
        self.locks.update((lock.key, lock) for lock in response.locks)
        return [response]

    def wait_until_listed(self):
        self.wait(lambda: any(response.listed for _, response in self.events), "that all are listed")

    def wait_for(self, key, holders, waiters=0):
        """The lock, with these counts."""
        def there():
            lock = self.locks.get(key)
            return lock is not None and (len(lock.holders), lock.queue_length) == (holders, waiters) and lock
        return self.wait(there, f"{key} with {holders} holders and {waiters} waiters")


@pytest.fixture
def pair(world):
    """Clients of two brokers on one store."""
    redis = world.redis()
    a, b = world.distlockd(redis.url, name="a"), world.distlockd(redis.url, name="b")
    return world.client(a.url), world.client(b.url)


def test_a_change_through_another_broker_is_seen(pair):
    here, there = pair
    watch = Watch(here, "k")
    watch.wait_for(0)
    grant = there.acquire(there.spec("k", owner="bob"))
    _, held = watch.wait_for(1)
    assert held.holders[0].holder_id == grant.holder_id and held.holders[0].owner == "bob"
    assert grant.lease_id not in str(held)
    waiting = there.session()
    command = waiting.acquire(there.spec("k", owner="eve"))
    assert watch.wait_for(1, 1)[1].waiters[0].owner == "eve"
    there.release(grant.lease_id)
    _, handed = watch.wait_for(1)
    assert handed.holders[0].owner == "eve" and handed.fencing_token > grant.fencing_token
    waiting.wait_for(command, "granted")
    waiting.goodbye()
    watch.wait_for(0)


def test_expiry_is_seen_without_a_notice(pair):
    here, there = pair
    there.acquire(there.spec("k", ttl=2))
    watch = Watch(here, "k")
    held_at, held = watch.wait_for(1)
    freed_at, _ = watch.wait_for(0)
    assert freed_at - held_at < seconds(held.holders[0].time_left) + 5, "only seen when the slot was refreshed"


def test_renewals_are_not_changes(pair):
    here, there = pair
    watch = Watch(here, "k")
    watch.wait_for(0)
    grant = there.acquire(there.spec("k", ttl=1))
    watch.wait_for(1)
    until = boot_now() + 2  # longer than the ttl: the broker reads the lock again whenever the ttl would have ended
    while boot_now() < until:
        there.renew(grant.lease_id)
    there.release(grant.lease_id)
    watch.wait_for(0)
    assert len(watch.events) == 3


def test_changes_while_the_store_was_away_are_sent_afterwards(world):
    redis = world.redis()
    net = world.proxy(redis.url)
    a, b = world.distlockd(net.url, name="a"), world.distlockd(redis.url, name="b")
    here, there = world.client(a.url), world.client(b.url)
    watch = Watch(here, "k")
    watch.wait_for(0)
    net.pause()
    there.acquire(there.spec("k"))
    net.resume()
    watch.wait_for(1)


def test_a_foreign_key_ends_it(world):
    redis = world.redis()
    daemon = world.distlockd(redis.url)
    client = world.client(daemon.url)
    redis.command("RPUSH", "dl:{default/k}:h", "x")
    refused = Watch(client, "k").wait_end()
    assert (refused.code, refused.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "FOREIGN_KEY")


def test_a_drain_ends_it(world):
    daemon = world.distlockd(world.redis().url)
    client = world.client(daemon.url)
    watch = Watch(client, "k")
    watch.wait_for(0)
    daemon.terminate()
    assert daemon.exit_code() == 0
    assert watch.wait_end().code == grpc.StatusCode.UNAVAILABLE


def test_all_locks_under_a_prefix_whichever_broker_takes_them(pair):
    here, there = pair
    first = there.acquire(there.spec("job/1", owner="bob"))
    there.acquire(there.spec("other"))
    watch = WatchMany(here, "job/")
    watch.wait_until_listed()
    assert list(watch.locks) == ["job/1"] and watch.locks["job/1"].holders[0].owner == "bob"
    there.release(first.lease_id)
    watch.wait_for("job/1", 0)
    second = there.acquire(there.spec("job/2"))
    watch.wait_for("job/2", 1)
    waiting = here.session()
    command = waiting.acquire(here.spec("job/2", owner="eve"))
    watch.wait_for("job/2", 1, 1)
    there.release(second.lease_id)
    waiting.wait_for(command, "granted")
    assert watch.wait_for("job/2", 1).holders[0].owner == "eve"
    waiting.goodbye()
    watch.wait_for("job/2", 0)
    assert "other" not in watch.locks
    assert sum(response.listed for _, response in watch.events) == 1


def test_many_locks_are_listed_in_several_messages(world):
    redis = world.redis()
    a, b = world.distlockd(redis.url, "--shards=3", name="a"), world.distlockd(redis.url, name="b")
    here, there, count = world.client(a.url), world.client(b.url), 900
    session = there.session()
    commands = [session.acquire(there.spec(f"k{i}", metadata={"m": "x" * 900})) for i in range(count)]
    for command in commands:
        session.wait_for(command, "granted")
    watch = WatchMany(here)
    watch.wait_until_listed()
    assert len(watch.locks) == count and all(len(lock.holders) == 1 for lock in watch.locks.values())
    session.goodbye()
    for i in range(count):
        watch.wait_for(f"k{i}", 0)


def test_too_many_locks_end_it(world):
    redis = world.redis()
    daemon = world.distlockd(redis.url, "--limits=max-watched-locks=2")
    client = world.client(daemon.url)
    for key in ("a", "b", "c"):
        client.acquire(client.spec(key))
    end = WatchMany(client).wait_end()
    assert (end.code, end.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED")


def test_locks_are_found_while_the_store_comes_and_goes(world):
    redis = world.redis()
    net = world.proxy(redis.url)
    a, b = world.distlockd(net.url, name="a"), world.distlockd(redis.url, name="b")
    here, there = world.client(a.url), world.client(b.url)
    watch = WatchMany(here)
    watch.wait_until_listed()
    net.pause()
    there.acquire(there.spec("k"))
    net.resume()
    watch.wait_for("k", 1)
