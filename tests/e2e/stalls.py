#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Stalls of the kernel's own TCP: for a while all packets of the connections that brokers have to their servers are
lost, and new connections flow, as when a path or a firewall fails over. What was written to the old connections arrives
later, beside the new ones.

In each round a broker's connections stall for 1.2 to 4.5 s, sometimes those of both brokers. At the same time
`distlockctl hold -n` and a detached try that repeats its request_id each want a lock, for which a waiter queues at the
other broker then, and all three kinds want one more. A round is good when no two believed at a time, tokens grew, the
store kept what its holder believed in, and all were served. Needs root, for a network of its own.

Prints a line for each round. Exit code: 0 all good, 1 one was not, 2 a round proves nothing, 77 there are no rights.
"""
import argparse
import itertools
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import threading
import time

import grpc

from client import boot_now
from cluster_set import ClusterSet
from faults import SLACK_S
from harness import World, eventually
from kernel_tcp import connections_of, undelivered
from packet_filter import PacketFilter, is_possible
from sentinel_set import SentinelSet
from soak_quorum import ServerSet
from stalled_parties import Detached, HoldProgram, Waiter

TOPOLOGIES = ("single", "sentinel", "cluster", "quorum")
SHORTEST_S, LONGEST_S = 1.2, 4.5
SERVED_S = 15 + SLACK_S  # a ttl: by then a lock is free that nobody gave back
READ_LATE_S = 0.1        # so late this program may read that a program has lost its lock
OWN_NETWORK = "DISTLOCK_STALLS_OWN_NETWORK"


class Stage:
    """The servers of a topology and two brokers."""

    def __init__(self, world, topology):
        self.packets = PacketFilter()
        if topology == "single":
            redis = world.redis(tcp=True)
            self.servers, url = [redis], redis.url
        elif topology == "sentinel":
            found = SentinelSet(world)
            self.servers, url = found.servers, found.url
        elif topology == "cluster":
            found = ClusterSet(world)
            self.servers, url = found.nodes, found.url
        else:
            found = ServerSet(world)
            self.servers, url = found.servers, found.url
        new = ("--quorum-new",) if topology == "quorum" else ()
        self.brokers = [world.distlockd(url, *new, name="one"), world.distlockd(url, name="other")]
        self.tokens = {}  # the last one of each lock
        for key in ("held", "detached", "contended"):
            self._await_free(key)

    def _await_free(self, key):
        """Servers that are new may grant nothing for a while."""
        def served():
            with self.brokers[0].client() as client:
                try:
                    client.release(client.acquire(client.spec(key, max_wait=5.0), timeout=20).lease_id)
                except grpc.RpcError:
                    return False
                return True
        eventually(served, f"{key} being granted")

    def holder_tokens(self, key):
        with self.brokers[1].client() as client:
            return [holder.fencing_token for holder in client.lock(key).holders]


class Stall:
    """Begins at once, and ends by itself."""

    def __init__(self, stage, brokers, seconds):
        self.packets, self.seconds = stage.packets, seconds
        self.connections = [one for broker in brokers for one in connections_of(broker.pid)]
        self.late = 0  # how many had something to deliver when the stall ended
        self.packets.cut_connections(self.connections)
        self._thread = threading.Thread(target=self._end, daemon=True)
        self._thread.start()

    def _end(self):
        time.sleep(self.seconds)
        self.late = len(undelivered(self.connections))
        self.packets.mend_connections(self.connections)

    def await_delivered(self):
        self._thread.join()
        eventually(lambda: not undelivered(self.connections), "the late bytes arriving")


class Round:
    def __init__(self, stage, dice):
        self.stage, self.dice = stage, dice
        self.problems = []
        one, other = stage.brokers
        self.first = [HoldProgram(one, "held"), Detached(one, "detached")]
        self.next = [Waiter(other, party.key, after=party) for party in self.first]
        self.contended = [kind(broker, "contended") for kind, broker in
                          ((HoldProgram, one), (Detached, one), (Waiter, other))]
        self.parties = [*self.first, *self.next, *self.contended]
        self.stalls = []

    def run(self):
        end = boot_now() + LONGEST_S * 2 + SERVED_S * 2
        self._stall()
        for party in self.dice.sample(self.parties, len(self.parties)):
            time.sleep(self.dice.uniform(0, 0.1))
            party.start(end)
        self.stalls[0].await_delivered()
        for party in self.first:
            self._await_served(party)
            self._check_kept(party)
        # Now the locks change hands, at times while connections stall.
        if self.dice.random() < 0.5:
            self._stall()
        for party in self.first + self.contended:
            party.let_go()
        for party in self.parties:
            self._await_served(party)
            party.let_go()
        for party in self.parties:
            party.join()
        for stall in self.stalls:
            stall.await_delivered()
        self._judge()

    def _stall(self):
        brokers = [self.stage.brokers[0]] if self.dice.random() < 2 / 3 else self.stage.brokers
        self.stalls.append(Stall(self.stage, brokers, self.dice.uniform(SHORTEST_S, LONGEST_S)))

    def _await_served(self, party):
        party.granted.wait(LONGEST_S + SERVED_S)

    def _check_kept(self, party):
        """What has arrived late took nothing away from a holder."""
        def shown():
            try:
                return self.stage.holder_tokens(party.key)
            except grpc.RpcError:
                return None  # the other broker's connections stalled, too
        tokens = eventually(lambda: shown() is not None and [shown()], "an answer of the store")[0]
        if party.believes() and tokens != [party.token]:
            # The waiter of this lock has it in a moment: two believe then.
            follower = self.next[self.first.index(party)]
            follower.granted.wait(SLACK_S)
            self.problems.append(f"the store shows {tokens} as holders beside {party}")

    def _judge(self):
        for party in self.parties:
            if party.error or not party.granted.is_set():
                self.problems.append(f"{party}: {party.error or 'not served'}")
        served = [party for party in self.parties if party.granted.is_set()]
        for one, other in itertools.combinations(sorted(served, key=lambda p: p.begin), 2):
            beside = (one.end or float("inf")) - other.begin
            if one.key == other.key and beside > (READ_LATE_S if one.was_told_of_loss() else 0):
                self.problems.append(f"TWO BELIEVERS for {beside:.1f} s: {one} and {other}")
        for party in sorted(served, key=lambda p: p.begin):
            before = self.stage.tokens.get(party.key, 0)
            if party.token <= before:
                self.problems.append(f"{party} is NOT GREATER than {before}")
            self.stage.tokens[party.key] = max(before, party.token)

    @property
    def late(self):
        return [stall.late for stall in self.stalls]

    def __str__(self):
        took = " and ".join(f"{stall.seconds:.1f} s of {len(stall.connections)} connections, {stall.late} late"
                            for stall in self.stalls)
        return f"{took}: {'NOT: ' + '; '.join(self.problems) if self.problems else 'HOLDS'}"


def enter_own_network(argv):
    """Runs this program again in a network of its own."""
    if os.environ.get(OWN_NETWORK):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    if not is_possible() or subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode:
        print("this needs root, iptables, setpriv and network namespaces", file=sys.stderr)
        sys.exit(77)
    os.environ[OWN_NETWORK] = "yes"
    os.execvp("unshare", ["unshare", "--net", "--", sys.executable, "-B", __file__, *argv])


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--topology", choices=TOPOLOGIES, default="quorum")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=0, help="of the first round; 0: any")
    options = parser.parse_args(argv)
    enter_own_network(argv)
    first = options.seed or random.SystemRandom().randrange(1, 1_000_000)
    bad, two, void = 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="dlstall") as folder, World(pathlib.Path(folder)) as world:
        stage = Stage(world, options.topology)
        for seed in range(first, first + options.rounds):
            ran = Round(stage, random.Random(seed))
            ran.run()
            bad += bool(ran.problems)
            two += any("TWO BELIEVERS" in problem for problem in ran.problems)
            void += not any(ran.late)
            print(f"{options.topology} {seed}: {ran}{'' if any(ran.late) else ' VOID: nothing was late'}", flush=True)
    print(f"{options.rounds} rounds on {options.topology}, {bad} were not good, {two} had two believers")
    return 1 if bad else 2 if void else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
