# SPDX-License-Identifier: Apache-2.0
"""Locks whose holders change quickly: what each broker shows is true."""
import json
import subprocess

import pytest

from client import api
from faults import DISTLOCKCTL, PATIENT

TURNS = 30


@pytest.fixture
def pair(world):
    """The holders' broker, further from the store than the other one: what only it knows is not in the store for some
    time."""
    redis = world.redis()
    net = world.proxy(redis.url)
    brokers = [world.distlockd(url, *PATIENT, name=name) for url, name in ((net.url, "left"), (redis.url, "right"))]
    net.delay(10)
    return brokers


def ctl(daemon, *args):
    """What distlockctl prints, as JSON."""
    done = subprocess.run([DISTLOCKCTL, *args, "-o", "json", "--server", daemon.url], capture_output=True, text=True,
                          check=False)
    return [json.loads(line) for line in done.stdout.splitlines()]


def take(client, session, key, **fields):
    """The command's id, and the grant."""
    mine = session.acquire(client.spec(key, **fields))
    return mine, session.wait_for(mine, "granted")


def give(session, mine):
    released = session.wait_for(session.release(mine), "released")
    assert released.outcome == api().RELEASE_OUTCOME_RELEASED


def test_a_valid_holder_is_never_denied(world, pair):
    clients = [world.client(daemon.url) for daemon in pair]
    session = clients[0].session()
    former = 0
    for turn in range(TURNS):
        mine, grant = take(clients[0], session, "k")
        assert grant.fencing_token > former
        for client in reversed(clients):
            answer = client.check_token("k", grant.fencing_token)
            assert answer.newest and answer.newest_token == grant.fencing_token, f"turn {turn}: {answer}"
            if former:
                assert not client.check_token("k", former).newest
        former = grant.fencing_token
        give(session, mine)


def test_the_present_holder_is_shown_and_no_former_one(world, pair):
    clients = [world.client(daemon.url) for daemon in pair]
    session = clients[0].session()
    for turn in range(TURNS):
        mine, grant = take(clients[0], session, "k", owner=f"turn {turn}")
        for client in reversed(clients):
            for lock in (client.lock("k"), *client.locks().locks):
                shown = [(h.owner, h.fencing_token) for h in lock.holders]
                assert shown == [(f"turn {turn}", grant.fencing_token)]
        give(session, mine)
        for client in clients:
            assert not client.lock("k").holders and not client.locks().locks, f"turn {turn}: shown as held"


def test_distlockctl_shows_the_present_leader_and_what_is_held(world, pair):
    client = world.client(pair[0].url)
    session = client.session()
    for turn in range(5):
        mine, grant = take(client, session, "boss", metadata={"distlock.election": f"turn {turn}"})
        for daemon in pair:
            [shown] = ctl(daemon, "elect", "boss", "--leader")
            assert (shown["leader"]["value"], shown["leader"]["token"]) == (f"turn {turn}", grant.fencing_token)
            [held] = ctl(daemon, "ls")
            assert held["key"] == "boss"
        give(session, mine)
        for daemon in pair:
            [shown] = ctl(daemon, "elect", "boss", "--leader")
            assert shown["leader"] is None and not ctl(daemon, "ls")
