# SPDX-License-Identifier: Apache-2.0
"""Brokers of two builds on one store: clients move between them in either order, and the records of all that happened
are judged as those of the soak.

DISTLOCKD_OLD names the daemon of the release before. Without it the present build plays that release: it reads one
schema, the newer one two.
"""
import json
import os
import subprocess
import threading

import grpc
import pytest

from faults import LONG_TTL_S, PATIENT, Holder, waiter
from harness import DISTLOCKD, eventually
from proxy import PATIENCE_S
from soak_stage import BIN, Stage, Times

OLD = os.environ.get("DISTLOCKD_OLD")
BUILDS = {"old": [OLD] if OLD else ["env", "DISTLOCK_TEST_SCHEMA=1-1", DISTLOCKD],
          "new": ["env", "DISTLOCK_TEST_SCHEMA=1-2", DISTLOCKD]}
ROUNDS = int(os.environ.get("DISTLOCK_MIXED_ROUNDS", "3"))


def become(broker, build):
    """The broker is of that build from its next start on."""
    broker.argv = BUILDS[build] + broker.argv[broker.argv.index("--listen"):]


class LongTimes(Times):
    """Nothing is broken here, so no loss is excused; a process that the machine does not run for some seconds must cost
    none."""

    def __init__(self, short):
        super().__init__(short)
        self.validity = 9.0
        self.ttls = (15.0, 20.0)
        self.slot = 25.0
        self.slack = 10.0  # less than a ttl or a slot, by which a lock comes free that was not handed on
        self.drain = 30.0


class MixedStage(Stage):
    """Brokers of both builds, and clients that know all of them."""
    terms = LongTimes

    def _broker_args(self):
        # Long leases are renewed as often as those of a few seconds are by default, so some in each mixture.
        return "--limits", "renew-fraction=0.1"

    def _broker(self, url, name):
        broker = super()._broker(url, name)
        broker.kill()
        become(broker, "new" if len(self.brokers) % 2 else "old")
        return broker.start()

    def start_client(self, number):
        super().start_client(number)
        load = self.clients[number]
        load.kill()
        at = load.argv.index("--server") + 1
        order = self.brokers[number % len(self.brokers):] + self.brokers[:number % len(self.brokers)]
        load.argv[at] = ",".join(broker.url for broker in order)
        self.start(load.launch)

    def replace(self, broker, build):
        """A roll-out of one broker: it drains, and one of the build comes in its place."""
        assert broker.drain() == 0, broker.log()[-2000:]
        become(broker, build)
        self.start(broker.start)


def verdict(stage):
    checked = subprocess.run([BIN / "distlock_check_history", "--json", *stage.history.files()], capture_output=True,
                             text=True, check=False)
    assert checked.returncode < 2, checked.stdout + checked.stderr
    return json.loads(checked.stdout.splitlines()[-1]), checked.stdout


def test_a_roll_out_and_its_way_back_under_load(folder):
    with MixedStage(folder, seed=7, program="redis-server", short=True, brokers=3, clients=3) as stage:
        grants = [0]

        def goes_on():
            """Some more locks are granted through every mixture."""
            wanted = grants[0] + 20
            grants[0] = eventually(lambda: (n := stage.history.count_grants()) >= wanted and n, "more grants")
        goes_on()
        for turn in range(ROUNDS):
            for broker in stage.brokers:
                stage.replace(broker, "old" if turn % 2 else "new")
                goes_on()
        stage.heal()
        goes_on()
        stage.history.write("healed")
        assert stage.send_clients_home(patience=60) == []
        stage.note_leftovers()
        figures, text = verdict(stage)
        assert figures["violations"] == 0 and figures["false_losses"] == 0, text
        assert stage.store.command("HGET", "dl:schema", "writes") == "1"


@pytest.fixture(params=[("old", "new"), ("new", "old")], ids=["there", "back"])
def pair(world, request):
    redis = world.redis()
    brokers = []
    for build in request.param:
        broker = world.distlockd(redis.url, *PATIENT, name=build)
        broker.kill()
        become(broker, build)
        brokers.append(broker.start())
    return brokers


def test_a_lock_is_handed_on_between_the_builds(world, pair):
    holder = Holder(world.client(pair[0].url), "session", ttl=LONG_TTL_S).granted()
    waiting = waiter(world.client(pair[1].url), kind="session", ttl=LONG_TTL_S)
    holder.release()
    assert waiting.granted().token > holder.token


def tokens(client, key):
    """Of the holders, by the key; None when the store was not run for so long that it could not be asked."""
    try:
        return {key: [holder.fencing_token for holder in client.lock(key).holders]}
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNAVAILABLE, error
        return None


def test_a_lock_is_held_through_a_move_to_the_other_build(pair):
    """distlockctl run moves its lock when its broker drains, and keeps its token."""
    said = []
    run = subprocess.Popen([BIN / "distlockctl", "--server", ",".join(b.url for b in pair), "run", "k", "--ttl", "60s",
                            "--", "sh", "-c", "echo $DISTLOCK_TOKEN; read line"], stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    threading.Thread(target=lambda: said.append(run.stdout.readline()), daemon=True).start()
    try:
        token = int(eventually(lambda: said, "the lock")[0])
        first = next(b for b in pair if b.metric("distlock_leases") == 1)
        other = next(b for b in pair if b is not first)
        assert first.drain() == 0
        eventually(lambda: other.metric("distlock_leases") == 1, "the lease at the other broker")
        with other.client() as client:
            assert eventually(lambda: tokens(client, "k"), "an answer of the store") == {"k": [token]}
        run.communicate("\n", timeout=PATIENCE_S)
        assert run.returncode == 0
    finally:
        run.kill()
        run.wait()
