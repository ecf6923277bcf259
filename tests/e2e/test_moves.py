# SPDX-License-Identifier: Apache-2.0
"""Leases that move: a session adopts what another stream holds, through another broker of the same store."""
import contextlib
import pathlib
import threading
import uuid

import grpc
import pytest

from client import Failure, api, boot_now, failure
from faults import LONG_TTL_S, PATIENT, ctl
from harness import eventually
from promises import row

LEASES = 200


@pytest.fixture
def redis(world):
    return world.redis()


def two_brokers(world, redis, *args):
    return [world.distlockd(redis.url, *args, name=name) for name in ("left", "right")]


def adopt(session, grant, spec, request_id=None, **fields):
    """Sends the command, and returns its id."""
    return session.send(adopt=api().AdoptLease(lease_id=grant.lease_id, lock=spec,
                                               request_id=request_id or uuid.uuid4().hex, **fields))


@contextlib.contextmanager
def prober(client, keys):
    """Tries to take one of `keys` after the other, all the time. None must ever be free."""
    other, tries, over = [], [0], threading.Event()

    def probe():
        while not over.is_set():
            key = keys[tries[0] % len(keys)]
            try:
                other.append((key, client.acquire(client.spec(key, max_wait=0))))
            except grpc.RpcError as error:
                if Failure(error).reason != "LOCK_HELD":
                    other.append((key, Failure(error)))
            tries[0] += 1
    thread = threading.Thread(target=probe)
    thread.start()
    try:
        yield tries
    finally:
        over.set()
        thread.join()
    assert not other


def hold_many(client, session, keys, **fields):
    """{key: grant}"""
    specs = [client.spec(key, **fields) for key in keys]
    ids = session.acquire_each(specs)
    return {key: session.wait_for(i, "granted") for key, i in zip(keys, ids)}


def test_leases_move_from_a_draining_broker_and_none_is_ever_free(world, redis):
    left, right = two_brokers(world, redis, *PATIENT, "--drain-timeout", "60s")
    keys = [f"k{i}" for i in range(LEASES)]
    old, probe = world.client(left.url), world.client(right.url)
    former = old.session()
    grants = hold_many(old, former, keys)
    with prober(probe, keys) as tries:
        eventually(lambda: tries[0] > 10, "some tries")
        left.terminate()
        former.wait(lambda: former.all("draining"), "draining")
        new = world.client(right.url)
        heir = new.session()
        ids = {key: adopt(heir, grants[key], new.spec(key)) for key in keys}
        for key in keys:
            moved = heir.wait_for(ids[key], "granted")
            assert moved.fencing_token == grants[key].fencing_token
            assert moved.lease_id != grants[key].lease_id
            assert heir.believes(ids[key])
        former.goodbye()
        assert left.exit_code() == 0, "the drain is over: nothing is left"
        seen = tries[0]
        eventually(lambda: tries[0] > seen + 2 * LEASES, "two rounds of tries")
    assert all(heir.believes(i) for i in ids.values())
    assert not heir.all("lost")
    assert right.metric("distlock_adoptions_total") == LEASES


def test_a_lease_outlives_its_killed_broker(world, redis):
    left, right = two_brokers(world, redis, *PATIENT)
    old, new = world.client(left.url), world.client(right.url)
    former = old.session()
    grant = former.wait_for(former.acquire(old.spec("k", ttl=10)), "granted")
    left.kill()
    former.wait_end()
    heir = new.session()
    heir_id = adopt(heir, grant, new.spec("k", owner="heir"))
    assert heir.wait_for(heir_id, "granted").fencing_token == grant.fencing_token
    start = boot_now()
    eventually(lambda: boot_now() - start > 10.5, "the former ttl to pass")
    assert heir.believes(heir_id)
    assert [h.owner for h in new.lock("k").holders] == ["heir"]
    heir.wait_for(heir.release(heir_id), "released")
    assert not new.lock("k").holders


@row("the broker gets SIGTERM")
@pytest.mark.parametrize("terms", [{"resume": True}, {"on_disconnect": 3}], ids=["resume", "expire"])
def test_a_broker_restarted_in_place_leaves_what_is_adopted_from_the_next(world, redis, terms):
    broker = world.distlockd(redis.url, *PATIENT, "--drain-timeout", "1s")
    client = world.client(broker.url)
    session = client.session()
    spec = client.spec("k", ttl=LONG_TTL_S, **terms)
    grant = session.wait_for(session.acquire(spec), "granted")
    assert broker.drain() == 0
    session.wait_end()
    broker.start()
    client = world.client(broker.url)
    heir = client.session()
    assert heir.wait_for(adopt(heir, grant, spec), "granted").fencing_token == grant.fencing_token


def test_the_former_session_hears_that_its_lease_has_moved(world, redis):
    left, right = two_brokers(world, redis, *PATIENT)
    old, new = world.client(left.url), world.client(right.url)
    former = old.session()
    for mode in (api().LOCK_MODE_EXCLUSIVE, api().LOCK_MODE_SHARED):
        key = f"k{mode}"
        former_id = former.acquire(old.spec(key, mode=mode, ttl=10))  # it hears of it when a third has passed
        grant = former.wait_for(former_id, "granted")
        heir = new.session()
        heir_id = adopt(heir, grant, new.spec(key, mode=mode))
        heir.wait_for(heir_id, "granted")
        lost = former.wait_for(former_id, "lost")
        assert lost.reason == api().LOST_REASON_MOVED
        assert old.release(grant.lease_id) == api().RELEASE_OUTCOME_ALREADY_GONE
        assert heir.believes(heir_id)
        assert len(new.lock(key).holders) == 1


def test_a_repeated_adoption_takes_it_from_the_first_try(world, redis):
    left, right = two_brokers(world, redis, "--validity", "6s", "--default-ttl", f"{LONG_TTL_S}s")
    clients = [world.client(broker.url) for broker in (left, right, left)]
    grant = clients[0].acquire(clients[0].spec("k"))
    request_id, sessions, ids = uuid.uuid4().hex, [], []
    for client in clients:
        sessions.append(client.session())
        ids.append(adopt(sessions[-1], grant, client.spec("k"), request_id))
        assert sessions[-1].wait_for(ids[-1], "granted").fencing_token == grant.fencing_token
    # The fate of the sessions of earlier tries does not touch it.
    sessions[0].goodbye()
    sessions[1].call.cancel()
    for session in sessions[:2]:
        session.wait_end()
    start = boot_now()
    eventually(lambda: boot_now() - start > 7, "longer than the validity")
    assert sessions[2].believes(ids[2])
    assert len(clients[2].lock("k").holders) == 1
    assert failure(clients[0].renew, grant.lease_id).reason == "NOT_HOLDER"


# ---- distlockctl ----

class Command:
    """`run long` through these brokers, of a command that ends when the test lets it."""

    def __init__(self, world, brokers, *flags):
        self.brokers, self.clients = brokers, {b: world.client(b.url) for b in brokers}
        self.may_end = pathlib.Path(world.folder, "may-end")
        until = f'until [ -e "{self.may_end}" ]; do sleep 0.05; done'
        self.running = ctl(world, ",".join(b.url for b in brokers), "run", "long", "--ttl", f"{int(LONG_TTL_S)}s",
                           *flags, "--", "sh", "-c", until)

    def broker(self):
        """The one that it has the lock through."""
        client = self.clients[self.brokers[0]]
        holder, = eventually(lambda: client.lock("long").holders, "the grant")
        return next(b for b, c in self.clients.items() if c.status().broker_id == holder.broker_id)

    def await_holder(self, broker):
        """Until it has the lock through this one."""
        client = self.clients[broker]
        wanted = client.status().broker_id
        eventually(lambda: [h.broker_id for h in client.lock("long").holders] == [wanted], "the lock at the other one")

    def exit_code(self, let_end=True):
        if let_end:
            self.may_end.touch()
        return self.running.exit_code()


@row("the broker gets SIGTERM")
def test_a_command_goes_on_while_its_broker_drains(world, redis):
    brokers = two_brokers(world, redis, *PATIENT, "--drain-timeout", "60s")
    command = Command(world, brokers)
    broker = command.broker()
    assert broker.drain() == 0, "long before the command ends"
    [other] = [b for b in brokers if b is not broker]
    command.await_holder(other)
    assert command.exit_code() == 0


@row("the broker is killed")
@pytest.mark.parametrize("flags, code", [([], 0), (["--no-resume"], 75)])
def test_a_command_outlives_its_broker_when_it_may_resume(world, redis, flags, code):
    brokers = two_brokers(world, redis, *PATIENT)
    command = Command(world, brokers, *flags)
    broker = command.broker()
    broker.kill()
    [other] = [b for b in brokers if b is not broker]
    if code == 0:
        command.await_holder(other)
    assert command.exit_code(let_end=code == 0) == code
