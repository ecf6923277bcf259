# SPDX-License-Identifier: Apache-2.0
"""A client that does only what session.md says never believes in a lock that another one may have."""
import itertools
import random
import threading

from client import Client, boot_now
from contract_client import ContractClient, Lease, SlowClock
from harness import eventually

V = 1.0
DRIFT = 500e-6


class Program:
    """Takes one lock again and again, and records from when to when it believed: by the machine's true clock."""

    def __init__(self, client, spec, dice):
        self.client, self.spec, self.dice = client, spec, dice
        self.beliefs = []  # [begin, end, token]
        self.losses = 0
        self.over = False

    def ask(self, rules=None):
        if not self.over:
            self.client.do(lambda rules: rules.acquire(Lease(self, self.spec)))

    def granted(self, lease):
        self.beliefs.append([boot_now(), boot_now(), lease.token])
        threading.Timer(self.dice.choice([0.005, 0.05, 3.0]), lambda: self.client.do(self.give_back)).start()

    def believes(self, lease):
        self.beliefs[-1][1] = self.client.clock.true(lease.deadline)

    def lost(self, lease, why):
        self.beliefs[-1][1] = min(self.beliefs[-1][1], boot_now())
        self.losses += 1
        self.ask()

    def refused(self, lease, refusal):
        self.ask()

    def give_back(self, rules):
        for lease_id, lease in list(rules.leases.items()):
            if lease.state == "HELD":
                self.beliefs[-1][1] = min(self.beliefs[-1][1], boot_now())
                rules.release(lease_id)
                self.ask()


def overlaps(programs):
    beliefs = sorted(tuple(belief) for program in programs for belief in program.beliefs)
    return [(a, b) for a, b in itertools.pairwise(beliefs) if b[0] < a[1]]


def tokens_grow(programs):
    tokens = [belief[2] for belief in sorted(belief for program in programs for belief in program.beliefs)]
    return tokens == sorted(set(tokens))


def test_it_holds_locks_through_delays_pauses_and_a_slow_clock(world):
    dice = random.Random(7)
    daemon = world.distlockd(world.redis().url, "--validity", f"{V:.0f}s")
    nets = [world.proxy(daemon.url) for _ in range(3)]
    clients = [ContractClient(net.url, SlowClock(rate)) for net, rate in zip(nets, (1 - DRIFT, 1.0, 1 + DRIFT))]
    programs = [Program(client, Client.spec("k", ttl=2), random.Random(i)) for i, client in enumerate(clients)]
    for program in programs:
        program.ask()
    eventually(lambda: all(program.beliefs for program in programs), "the first grant of each")

    end = boot_now() + 15
    while boot_now() < end:
        net, client = dice.choice(nets), dice.choice(clients)
        match dice.randrange(4):
            case 0:
                net.delay(dice.randrange(400))
            case 1:
                net.delay(0)
            case 2:
                net.pause(dice.choice([("up",), ("down",), ("up", "down")]))
                threading.Timer(dice.uniform(0.1, 2 * V), net.resume).start()
            case 3:
                client.pause()
                threading.Timer(dice.uniform(0.1, 2 * V), client.resume).start()
        threading.Event().wait(dice.uniform(0.05, 0.5))
        assert not overlaps(programs)
    for net, client in zip(nets, clients):
        net.resume()
        net.delay(0)
        client.resume()
    grants = [len(program.beliefs) for program in programs]
    eventually(lambda: all(len(p.beliefs) > n for p, n in zip(programs, grants)), "a grant for each after the faults")
    for program in programs:
        program.over = True
    for client in clients:
        client.close()
    assert not overlaps(programs)
    assert tokens_grow(programs)
    assert sum(program.losses for program in programs) > 0, "the faults cost nobody a lock: they were too weak"


def test_a_calm_client_with_a_slow_clock_loses_nothing(world):
    daemon = world.distlockd(world.redis().url, "--validity", f"{V:.0f}s")
    client = ContractClient(daemon.url, SlowClock(1 - DRIFT))
    holder = Program(client, Client.spec("k", ttl=1), random.Random(1))
    holder.granted = lambda lease: holder.beliefs.append([boot_now(), boot_now(), lease.token])
    holder.ask()
    eventually(lambda: holder.beliefs and holder.beliefs[0][1] > holder.beliefs[0][0] + 4 * V, "renewals for 4 s")
    assert holder.losses == 0
    client.close()
