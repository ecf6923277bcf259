# SPDX-License-Identifier: Apache-2.0
"""Random calls of all kinds on one lock, by brokers that live and hear, with holders that expire now and then: after
each call, what the keys say must be possible, by rules that are not those of the scripts.

DISTLOCK_LUA_SEED=n runs just that world."""

import os
import random

import pytest

from kinds import RwLock
from lock import GRANTED, HELD, MISMATCH, QUEUED, RELEASED, TENDED, WITHDRAWN, Ear, broker, owner

BROKERS, OWNERS, STEPS, LIMIT = 2, 12, 300, 4
SEEDS = [int(os.environ["DISTLOCK_LUA_SEED"])] if "DISTLOCK_LUA_SEED" in os.environ else range(1, 13)


class World:
    def __init__(self, server, redis, seed):
        self.random, self.redis = random.Random(seed), redis
        self.policy = ["fair", "writer", "reader"][seed % 3]
        self.rw = RwLock(redis, self.policy)
        self.family = self.random.choice(["rw", "rw", "permit"])
        self.ears = [Ear(server.path, at) for at in range(1, BROKERS + 1)]
        self.wants = {}  # of those who wait or hold
        self.tokens = {}
        self.best, self.steps, self.handed_on = 0, [], False

    def close(self):
        for ear in self.ears:
            ear.close()

    def want(self):
        if self.family == "permit":
            return ("p", self.random.randrange(1, LIMIT + 1))
        return self.random.choice([("s", 1), ("s", 1), ("x", 1)])

    def compatible(self, want, holders):
        kinds = {self.wants[n][0] for n in holders}
        if not holders:
            return True
        if "x" in kinds or want[0] == "x":
            return False
        return want[0] == "s" or sum(holders.values()) + want[1] <= LIMIT

    def step(self):
        choose = self.random
        who, at = choose.randrange(1, OWNERS + 1), choose.randrange(1, BROKERS + 1)
        verb = choose.choices(["ask", "try", "release", "leave", "look", "expire"], [8, 3, 6, 2, 2, 0.4])[0]
        holders, queue = self.rw.holders(), self.rw.waiters()
        if verb == "release" and holders and choose.random() < 0.9:
            who = choose.choice(list(holders))
        if verb in ("leave", "look") and queue:
            who = choose.choice(queue)
        want = self.wants.get(who) if who in holders or who in queue else self.want()
        self.steps.append((verb, who, at, want))
        self.handed_on = False
        if verb in ("ask", "try"):
            text = want[0] if want[0] != "p" else f"p{want[1]}/{LIMIT}"
            if verb == "try" and who in queue:
                return
            reply = self.rw.ask(who, text, wait=int(verb == "ask"), at=at)
            if reply[0] in (GRANTED, QUEUED):
                self.wants[who] = want
            self.judge_ask(reply, who, want, holders, queue)
        elif verb == "release":
            reply = self.rw.call("release", owner(who), 0, 0, 1000, 1, broker(at), 0, 0)
            self.handed_on = reply[0] == RELEASED
            assert self.handed_on == (who in holders)
        elif verb == "leave":
            code = self.rw.leave(who, at=at)[0]
            self.handed_on = code == WITHDRAWN
            assert not self.handed_on or who in queue
        elif verb == "look":
            self.handed_on = self.rw.call("tend", broker(at), 30_000, 1000, 1, 0, 0, owner(who))[0] == TENDED
        elif holders:
            self.expire(choose.choice(list(holders)))
        self.judge(holders, queue)

    def expire(self, n):
        """As if its ttl had ended now: nobody is told."""
        if self.wants[n][0] == "x":
            self.redis("DEL", self.rw.h)
        else:
            slot = self.redis("HGET", self.rw.h, owner(n)).split(b";")
            head = self.redis("HGET", self.rw.h, "holders").split(b";")
            expired, header = b";".join([b"1", *slot[1:]]), b";".join([*head[:3], b"1"])
            self.redis("HSET", self.rw.h, owner(n), expired, "holders", header)

    def judge_ask(self, reply, who, want, holders, queue):
        assert reply[0] in (GRANTED, QUEUED, HELD), reply
        if reply[0] == MISMATCH or who in holders or who in queue:
            return
        preferred = (self.policy, want[0]) in (("writer", "x"), ("reader", "s"))
        front = (("writer", "x"), ("reader", "s"))
        ahead = [n for n in queue if not preferred or (self.policy, self.wants[n][0]) in front]
        if not queue:
            assert (reply[0] == GRANTED) == self.compatible(want, holders)
        if reply[0] == GRANTED:
            assert self.compatible(want, holders) and not any(n in self.rw.waiters() for n in ahead)

    def judge(self, before, queue):
        rw = self.rw
        holders, waiting = rw.holders(), rw.waiters()
        kinds = [self.wants[n][0] for n in holders]
        assert kinds.count("x") == 0 or len(holders) == 1
        assert len(set(kinds)) <= 1 and (self.family != "permit" or sum(holders.values()) <= LIMIT)
        for n in holders:
            assert holders[n] == self.wants[n][1] and n not in waiting
            token = int(rw.token_of(n) if self.wants[n][0] != "x" else self.redis("GET", rw.h).split(b";")[2])
            if n not in before:
                assert token > self.best, "tokens grow with each grant"
                self.best = token
        # Granted waiters stood in front of all who still wait.
        left = [queue.index(n) for n in waiting if n in queue]
        assert all(not left or queue.index(n) < min(left) for n in holders if n in queue)
        if self.handed_on and waiting:
            assert not self.compatible(self.wants[waiting[0]], holders), "free, and the first waiter has not got it"
        assert self.redis("HLEN", rw.w) == len(waiting)
        if self.redis("TYPE", rw.h) == "hash" and (head := self.redis("HGET", rw.h, "holders").split(b";"))[3] != b"1":
            assert int(head[2]) == sum(holders.values())
        self.best = max([self.best] + [int(self.redis("GET", rw.t) or 0)])

    def drain(self):
        while (holders := self.rw.holders()) or self.rw.waiters():
            for n in list(holders)[:1]:
                self.rw.give_back(n)
            self.judge(holders, self.rw.waiters())
            for n in self.rw.waiters()[:1]:
                self.rw.look(n)
        assert self.redis("EXISTS", self.rw.h, self.rw.q, self.rw.w) == 0


@pytest.mark.parametrize("seed", SEEDS)
def test_random_kinds(server, redis, seed):
    world = World(server, redis, seed)
    try:
        for _ in range(STEPS):
            world.step()
        world.handed_on = False
        world.drain()
    except BaseException:
        print(f"seed {seed} ({world.policy}), last steps:", *world.steps[-12:], sep="\n  ")
        raise
    finally:
        world.close()
