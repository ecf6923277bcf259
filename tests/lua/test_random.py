# SPDX-License-Identifier: Apache-2.0
"""Random calls and mishaps on one lock: after each, the reply, the notices and every key are as the model says. The
model shares its rules with the scripts, so exclusion, order and tokens are also checked on what was seen, by other
means.

DISTLOCK_LUA_SEED=n runs just that world."""

import os
import random
import re

import pytest

from lock import GRANTED, HELD, INSPECTED, QUEUED, TENDED, TTL_MS, Ear, Lock, broker, owner
from model import Model

BROKERS, OWNERS, STEPS, LIMIT = 4, 9, 400, 6
SEEDS = [int(os.environ["DISTLOCK_LUA_SEED"])] if "DISTLOCK_LUA_SEED" in os.environ else range(1, 26)
PTTL_AT = {HELD: 2, QUEUED: 3, TENDED: 2}


class World:
    def __init__(self, server, redis, seed):
        self.random, self.redis, self.path = random.Random(seed), redis, server.path
        self.lock, self.model = Lock(redis), Model()
        self.ears = {}
        self.calm = seed % 3 == 0
        self.tokens, self.steps, self.queue_deleted = [], [], False

    def close(self):
        for ear in self.ears.values():
            ear.close()

    def toggle_ear(self):
        at = self.random.randrange(1, BROKERS + 1)
        if at in self.ears:
            self.ears.pop(at).close()
        else:
            self.ears[at] = Ear(self.path, at)
        self.model.ears = set(self.ears)
        return f"ear {at}"

    def mishap(self):
        lock, model = self.lock, self.model
        kind = self.random.choice(["h", "h", "h", "t", "q", "w", "b", "b", "entry", "all", "ear", "ear"])
        if kind == "ear":
            return self.toggle_ear()
        if kind == "all":
            self.redis("FLUSHALL")
            model.flush()
        elif kind == "b":
            at = self.random.randrange(1, BROKERS + 1)
            self.redis("DEL", lock.slot(at))
            model.slots.discard(at)
        elif kind == "entry":
            who = self.random.randrange(1, OWNERS + 1)
            self.redis("HDEL", lock.w, owner(who))
            model.entries.pop(who, None)
        else:
            self.redis("DEL", getattr(lock, kind))
            if kind == "h":
                model.holder = None
            elif kind == "t":
                model.last = 0
            elif kind == "q":
                model.queue, self.queue_deleted = [], True
            else:
                model.entries = {}
        return f"lose {kind}"

    def step(self):
        choose = self.random
        who, at = choose.randrange(1, OWNERS + 1), choose.randrange(1, BROKERS + 1)
        verb = choose.choices(["acquire", "enqueue", "release", "block", "withdraw", "tend", "renew", "mishap"],
                              [2, 8, 3, 0.3, 2, 3, 1, 0.2 if self.calm else 2])[0]
        if verb in ("release", "block") and choose.random() < 0.8:
            who = self.model.holder[0] if self.model.holder and self.model.holder[0] else who
        if verb == "tend" and self.model.queue and choose.random() < 0.8:
            who = self.model.queue[0]
        self.steps.append((verb, who, at))
        if verb == "mishap":
            self.steps.append(self.mishap())
            return self.compare_keys()
        queue = list(self.model.queue)
        if verb in ("acquire", "enqueue"):
            wait = int(verb == "enqueue")
            terms = (TTL_MS + choose.randrange(99), choose.randrange(99), choose.choice(["", "a;b", "x", "m60000;x"]))
            reply = self.lock.acquire(who, wait=wait, at=at, ttl=terms[0], delay=terms[1], info=terms[2], limit=LIMIT)
            expected = self.model.acquire(reply[1], who, at, wait, terms, LIMIT)
        elif verb == "block":
            reply = self.lock.release(who, at=at, block=60_000)
            expected = self.model.release(reply[1], who, at, 60_000)
        elif verb == "renew":
            reply = self.lock.renew((self.lock, who, TTL_MS))
            expected = self.model.renew(reply[1], who)
        elif verb == "tend":
            reply = self.lock.tend(at, first=who)
            expected = self.model.tend(reply[1], at, who)
        else:
            reply = getattr(self.lock, verb)(who, at=at)
            expected = getattr(self.model, verb)(reply[1], who, at)
        self.compare(reply, expected)
        self.observe(reply, queue)

    def compare(self, reply, expected):
        seen, notices = [item for i, item in enumerate(reply) if i != 1 and i != PTTL_AT.get(reply[0])], []
        assert seen == expected[0]
        for at, ear in sorted(self.ears.items()):
            notices += [(at, *notice[1:]) for notice in ear.heard()]
        assert notices == expected[1]
        self.compare_keys()

    def compare_keys(self):
        model, code_time = self.model, self.lock.inspect()
        seen = [item for i, item in enumerate(code_time) if i not in (1, 2)]
        entry = {who: f"{broker(e[0])};{e[1][0]};{e[1][1]};x;{e[1][2]}" for who, e in model.entries.items()}
        seen = [re.sub(r"^(\w+;\d+;\d+;x);\d+;", r"\1;", item) if isinstance(item, str) else item for item in seen]
        waiters = [item for who in model.queue for item in (owner(who), entry.get(who, ""))]
        assert seen == [INSPECTED, model.value(), str(model.last), len(model.queue), *waiters]
        assert self.redis("HLEN", self.lock.w) == len(entry)
        alive = {at for at in range(1, BROKERS + 1) if self.redis("EXISTS", self.lock.slot(at))}
        assert alive == model.slots

    def observe(self, reply, queue):
        """What any client can see: a new token is greater than all before, and in a calm world nobody is overtaken."""
        value = self.redis("GET", self.lock.h)
        if not value:
            return
        who, token = int(value.split(b";")[1], 16), int(value.split(b";")[2])
        if self.tokens and self.tokens[-1] == token:
            return
        assert not self.tokens or token > self.tokens[-1]
        self.tokens.append(token)
        if self.calm and who in queue:
            left = self.lock.waiters()
            overtaken = [waiter for waiter in queue[:queue.index(who)] if waiter in left]
            assert overtaken == [] or self.unreachable_seen(queue, who)

    def unreachable_seen(self, queue, who):
        """Those ahead of the winner who are still queued were passed over because their brokers could not hear."""
        return all(self.model.entries[waiter][0] not in self.ears for waiter in queue[:queue.index(who)]
                   if waiter in self.model.queue)

    def drain(self):
        """Once all is well again, everybody is served in turn and nothing is left. (Entries of a queue that was deleted
        stay until their TTL ends or somebody queues.)"""
        for at in range(1, BROKERS + 1):
            if at not in self.ears:
                self.ears[at] = Ear(self.path, at)
        self.redis("DEL", self.lock.h)
        members = self.lock.waiters()
        for who in members:
            assert self.lock.enqueue(who)[0] in (GRANTED, QUEUED)
        served = []
        while (holder := self.lock.holder()) is not None:
            served.append(holder)
            assert len(served) <= len(members)
            self.lock.release(holder)
        assert served == members
        assert self.redis("EXISTS", self.lock.h, self.lock.q) == 0
        assert self.redis("HLEN", self.lock.w) == 0 or self.queue_deleted


@pytest.mark.parametrize("seed", SEEDS)
def test_random_world(server, redis, seed):
    world = World(server, redis, seed)
    try:
        for _ in range(3):
            world.toggle_ear()
        for _ in range(STEPS):
            world.step()
        world.drain()
    except BaseException:
        print(f"seed {seed}, last steps:", *world.steps[-12:], sep="\n  ")
        raise
    finally:
        world.close()
