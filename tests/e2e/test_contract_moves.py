# SPDX-License-Identifier: Apache-2.0
"""A client that does only what session.md says keeps its locks while its brokers are restarted in turn."""
import itertools
import threading

from client import Client, boot_now
from contract_client import SlowClock
from harness import eventually
from moving_client import MovingClient, MovingLease

KEPT = [f"k{i}" for i in range(20)]


class Program:
    """Takes a lock, and records from when to when it believed. `holds`: for how long; None: for as long as it can."""

    def __init__(self, client, key, holds=None):
        self.client, self.key, self.holds = client, key, holds
        self.beliefs = []  # [begin, end, token]
        self.moves, self.losses, self.over = 0, [], False
        self.lease = None
        self.ask()

    def ask(self):
        if not self.over:
            self.client.acquire(MovingLease(self, Client.spec(self.key, ttl=10), resume=True))

    def granted(self, lease):
        self.lease = lease
        self.beliefs.append([boot_now(), boot_now(), lease.token])
        if self.holds is not None:
            threading.Timer(self.holds, lambda: self.client.do(lambda: self.give_back(lease))).start()

    def believes(self, lease):
        self.beliefs[-1][1] = self.client.clock.true(lease.deadline)

    def moved(self, lease):
        self.moves += 1

    def lost(self, lease, why):
        self.beliefs[-1][1] = min(self.beliefs[-1][1], boot_now())
        self.lease = None
        self.losses.append(why)
        self.ask()

    def refused(self, lease, refusal):
        self.ask()

    def give_back(self, lease):
        if self.lease is lease:
            self.beliefs[-1][1] = min(self.beliefs[-1][1], boot_now())
            self.lease = None
            self.client.release(lease)
            self.ask()


def overlaps(programs):
    found = []
    for _, group in itertools.groupby(sorted(programs, key=lambda p: p.key), key=lambda p: p.key):
        beliefs = sorted(tuple(belief) for program in group for belief in program.beliefs)
        found += [(a, b) for a, b in itertools.pairwise(beliefs) if b[0] < a[1] or b[2] <= a[2]]
    return found


def test_two_brokers_restarted_in_turn_cost_no_lock_and_killed_ones_no_overlap(world):
    redis = world.redis()
    brokers = [world.distlockd(redis.url, "--drain-timeout", "60s", name=name) for name in ("left", "right")]
    urls = [broker.url for broker in brokers]
    keeper, rival = MovingClient(urls, SlowClock(1.0)), MovingClient(urls[::-1], SlowClock(1.0))
    keepers = [Program(keeper, key) for key in KEPT]
    eventually(lambda: all(program.beliefs for program in keepers), "the grants")
    rivals = [Program(rival, key) for key in KEPT]
    busy = [Program(client, "shared", holds) for client in (keeper, rival) for holds in (0.02, 0.3)]
    everybody = keepers + rivals + busy

    for rounds, broker in enumerate(brokers, 1):
        assert broker.drain() == 0, "everything has moved: the drain is over long before its timeout"
        broker.start()
        eventually(lambda: all(program.moves == rounds for program in keepers), f"move {rounds}")
        grants = [len(program.beliefs) for program in busy]
        eventually(lambda: all(len(p.beliefs) > n for p, n in zip(busy, grants)), "a grant for each who takes turns")
        assert not overlaps(everybody)
    assert not any(program.losses for program in keepers)
    assert not any(program.beliefs for program in rivals), "no lock was ever free"
    assert all(len(program.beliefs) == 1 for program in keepers), "one grant, and so one token"

    for broker in brokers:
        broker.kill()
        broker.start()
        for key in KEPT:
            eventually(lambda: any(p.lease is not None for p in keepers + rivals if p.key == key), f"a holder of {key}")
        grants = [len(program.beliefs) for program in busy]
        eventually(lambda: all(len(p.beliefs) > n for p, n in zip(busy, grants)), "a grant for each who takes turns")
        assert not overlaps(everybody)
    assert all(program.moves > 2 or program.losses for program in keepers)
    for program in everybody:
        program.over = True
    for client in (keeper, rival):
        client.close()
    assert not overlaps(everybody)
