# SPDX-License-Identifier: Apache-2.0
"""Scripts are flushed, connections killed and the hand-off channel cut, again and again while locks change hands: no
client gets an error, two clients never hold one lock, and every waiter is served."""
import threading

import pytest

from client import api, boot_now
from faults import SLACK_S, Holder, await_nothing_left, waiter
from harness import eventually


@pytest.fixture
def redis(world):
    return world.redis()


def script_flush(redis):
    redis.command("SCRIPT", "FLUSH")
    return 1


def kill_normal(redis):
    return redis.command("CLIENT", "KILL", "TYPE", "normal")


def kill_pubsub(redis):
    return redis.command("CLIENT", "KILL", "TYPE", "pubsub")


FAULTS = pytest.mark.parametrize("fault", [script_flush, kill_normal, kill_pubsub], ids=lambda fault: fault.__name__)


class Workers:
    """Threads that take and release the same few locks, by session, Hold and unary calls, and check each other."""

    KEYS = ("a", "b")

    def __init__(self, urls, world):
        self.inside, self.token, self.grants = dict.fromkeys(self.KEYS), dict.fromkeys(self.KEYS, 0), 0
        self.errors, self.lock, self.done = [], threading.Lock(), threading.Event()
        works = [w for url in urls for w in ((self.by_session, url), (self.by_session, url), (self.by_unary, url),
                                             (self.by_hold, url))]
        self.threads = [threading.Thread(target=self.run, args=(work, world.client(url), f"{work.__name__} {n}"),
                                         daemon=True) for n, (work, url) in enumerate(works)]
        for thread in self.threads:
            thread.start()

    def run(self, work, client, name):
        try:
            work(client, name)
        except BaseException as error:  # pylint: disable=broad-except
            self.errors.append((name, repr(error)))

    def rounds(self):
        number = 0
        while not self.done.is_set() and not self.errors:
            number += 1
            yield self.KEYS[number % 2]

    def enter(self, key, name, grant):
        with self.lock:
            assert self.inside[key] is None, f"{name} got {key} while {self.inside[key]} holds it"
            assert grant.fencing_token > self.token[key]
            self.inside[key], self.token[key] = name, grant.fencing_token
            self.grants += 1

    def leave(self, key):
        with self.lock:
            self.inside[key] = None

    def by_session(self, client, name):
        session = client.session()
        for key in self.rounds():
            lock = session.acquire(client.spec(key, ttl=20))
            eventually(lambda: session.all("granted", lock) or session.all("refused", lock), f"an answer on {key}")
            assert not session.all("refused", lock), session.all("refused", lock)
            self.enter(key, name, session.all("granted", lock)[0])
            self.leave(key)
            outcome = session.wait_for(session.release(lock), "released").outcome
            assert outcome == api().RELEASE_OUTCOME_RELEASED, outcome
            assert not session.all("lost")
        session.goodbye()
        session.wait_end()

    def by_unary(self, client, name):
        for key in self.rounds():
            grant = client.acquire(client.spec(key, ttl=20))
            self.enter(key, name, grant)
            self.leave(key)
            outcome = client.release(grant.lease_id)
            # ALREADY_GONE: the broker repeated the release after a lost reply. It keeps no record of a detached lease,
            # so it cannot know that it freed the lease itself.
            assert outcome in (api().RELEASE_OUTCOME_RELEASED, api().RELEASE_OUTCOME_ALREADY_GONE), outcome

    def by_hold(self, client, name):
        for key in self.rounds():
            hold = client.hold(client.spec(key, ttl=20))
            grant = hold.wait_for("granted")
            self.enter(key, name, grant)
            self.leave(key)
            assert client.release(grant.lease_id) == api().RELEASE_OUTCOME_RELEASED
            hold.wait_for("released")
            assert not hold.all("lost")

    def stop(self):
        self.done.set()
        for thread in self.threads:
            thread.join(60)
        assert not self.errors, self.errors
        assert not any(t.is_alive() for t in self.threads), "a worker is stuck"


@FAULTS
def test_faults_of_connections_under_load_cause_no_error(world, redis, fault):
    brokers = [world.distlockd(redis.url, "--queue-slot", "3s", name=n) for n in ("left", "right")]
    workers = Workers([b.url for b in brokers], world)
    hits, rounds, before = 0, 20, 0
    for _ in range(rounds):
        eventually(lambda: workers.grants >= before + 10 or workers.errors, "ten more grants")
        before = workers.grants
        hits += fault(redis) > 0
    eventually(lambda: workers.grants >= before + 20 or workers.errors, "grants after the last one")
    workers.stop()
    assert hits >= rounds / 2, "the faults had no effect"
    print(f"{workers.grants} grants through {hits} faults")
    assert all(b.metric("distlock_lost_total", reason=r) == 0 for b in brokers for r in ("expired", "taken"))
    await_nothing_left(redis)


@FAULTS
def test_hand_off_keeps_the_order_through_faults(world, redis, fault):
    daemon = world.distlockd(redis.url)
    clients = [world.client(daemon.url) for _ in range(3)]
    first = Holder(clients[0], "session", ttl=20).granted()
    waiting = [waiter(clients[n % 3], kind="session", ttl=20) for n in range(12)]
    token, holder = first.token, first
    for n, one in enumerate(waiting):
        fault(redis)
        assert holder.release() == api().RELEASE_OUTCOME_RELEASED
        assert one.granted().token > token
        assert not [w for w in waiting[n + 1:] if w.all("granted")], "a waiter further back holds it"
        token, holder = one.token, one
    holder.release()
    await_nothing_left(redis)


# ---- The channel that announces other brokers' hand-offs ----

def test_a_waiter_behind_a_cut_channel_is_served_when_the_holders_ttl_ends(world, redis):
    a = world.distlockd(redis.url, name="a")
    net = world.proxy(redis.url)
    b = world.distlockd(net.url, name="b")
    holder = Holder(world.client(a.url), "session", ttl=2).granted()
    waiting = waiter(world.client(b.url), ttl=2)
    net.refuse_new()
    assert redis.command("CLIENT", "KILL", "TYPE", "pubsub") == 2
    eventually(lambda: redis.command("PUBSUB", "NUMPAT") == 0 and len(redis.command("PUBSUB", "CHANNELS", "*")) == 1,
               "the other broker's new channel")
    released = boot_now()
    holder.release()
    assert waiting.granted().token > holder.token
    took = waiting.at("granted") - released
    print(f"granted {took:.2f} s after the release, without a channel")
    assert took < 2 + 1 + SLACK_S
    assert world.client(b.url).release(waiting.grant.lease_id) == api().RELEASE_OUTCOME_RELEASED


def test_a_grant_whose_notice_is_lost_arrives_when_the_channel_is_back(world, redis):
    """The store handed the lock to the waiter, and the notice is lost: the waiter does not know of it."""
    a = world.distlockd(redis.url, name="a")
    net = world.proxy(redis.url)
    b = world.distlockd(net.url, name="b")
    holder = Holder(world.client(a.url), "session", ttl=20).granted()
    waiting, behind = (waiter(world.client(b.url), ttl=20) for _ in range(2))
    lost = net.drop_reply_after(b"$4\r\nPING\r\n", reply=b"message")  # the channel's PING, every 3 s
    eventually(lambda: lost.link is not None, "the channel's ping")
    released = boot_now()
    holder.release()
    assert b"message" in lost.wait()
    assert waiting.granted().token > holder.token
    took = waiting.at("granted") - released
    print(f"granted {took:.2f} s after the release, by looking after it")
    assert took < 20 - 5, "only when the ttl had ended"
    assert not behind.all("granted")
    # To the store the waiter has held the lock all the time, so this is the same grant.
    assert str(waiting.token) == redis.command("GET", redis.key("k", "h")).split(";")[2]


def test_a_queue_that_the_store_lost_in_part_is_restored(world, redis):
    daemon = world.distlockd(redis.url, "--queue-slot", "2s")
    client = world.client(daemon.url)
    for gone in ("q", "w"):
        holder = Holder(client, "session", ttl=20).granted()
        waiting = [waiter(client, ttl=20) for _ in range(3)]
        assert redis.command("DEL", redis.key("k", gone)) == 1
        holder.release()
        for one in waiting:
            one.granted()
            client.release(one.grant.lease_id)
    await_nothing_left(redis)
