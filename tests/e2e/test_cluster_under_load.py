# SPDX-License-Identifier: Apache-2.0
"""Slots move and primaries fail while clients take and release locks through two brokers. The history of all is judged
by the project's checker: nobody believes beside another, tokens grow, nobody is forgotten."""
import shutil
import tempfile

import pytest

from client import boot_now
from cluster_set import slot_of_lock
from cluster_stage import ClusterStage
from harness import eventually

RESHARDED = 1000
LOCKS = [f"lock-{i}" for i in range(12)]  # of the load


@pytest.fixture
def folder():
    made = tempfile.mkdtemp(prefix="dlcl")
    yield made
    shutil.rmtree(made, ignore_errors=True)


def test_a_thousand_slots_move(folder):
    with ClusterStage(folder) as stage:
        stage.load()
        cluster = stage.cluster
        source, target, _ = cluster.primaries()
        began, before = boot_now(), stage.history.count_grants()
        cluster.reshard(source, target, RESHARDED)
        # The slots of the locks that are used, too, key by key, to each node in turn.
        for turn in range(3):
            for lock in LOCKS:
                source = cluster.agreed_primary_of(lock)
                others = [n for n in cluster.primaries() if n is not source]
                cluster.move_slot(slot_of_lock(lock), source, others[turn % 2])
                # The next move must get a later epoch than this one, else nodes never agree who has the slot.
                assert cluster.agreed_primary_of(lock) is others[turn % 2]
        during = stage.history.count_grants() - before
        print(f"{RESHARDED} slots, and 3 times those of {len(LOCKS)} locks in {boot_now() - began:.1f} s, "
              f"{during} grants meanwhile")
        assert during > 20, "nothing was granted meanwhile, so nothing is shown"
        figures = stage.judge()
        assert figures["violations"] == 0 and figures["false_losses"] == 0
        refused = [r for r in stage.records() if r.get("kind") == "refused"]
        assert not [r for r in refused if r["reason"] == "STORE_UNAVAILABLE"], refused[:5]


def kill(cluster, old):
    old.kill()


def stop(cluster, old):
    old.stop()


def command(cluster, old):
    cluster.replica_of(old).command("CLUSTER", "FAILOVER")


def takeover(cluster, old):
    cluster.replica_of(old).command("CLUSTER", "FAILOVER", "TAKEOVER")


@pytest.mark.parametrize("fail", [kill, stop, command, takeover])
def test_every_primary_fails(folder, fail):
    """Replicas follow as they can, so a new primary may have forgotten some grants: the hold-off is what keeps others
    from being granted these."""
    with ClusterStage(folder, hold_off="auto") as stage:
        stage.load()
        cluster = stage.cluster
        for old in cluster.primaries():
            cluster.replica_of(old)
            began = boot_now()
            fail(cluster, old)
            asked = next(n for n in cluster.nodes if n is not old and n.alive())
            eventually(lambda o=old, a=asked: o.port not in {p for _, _, p in cluster.map_of(a)}, "another primary")
            if fail is kill:
                old.start()
            if fail is stop:
                old.cont()
            eventually(old.is_replica, "the old primary following")
            cluster.await_whole()
            stage.fault("failover", began)
        figures = stage.judge()
        assert figures["violations"] == 0
