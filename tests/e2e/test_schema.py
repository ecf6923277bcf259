# SPDX-License-Identifier: Apache-2.0
"""Brokers of two releases on one store: the mark of the schema says who may use it, in every topology.

One build plays both releases: DISTLOCK_TEST_SCHEMA says which schemas it reads.
"""
import subprocess

import pytest

from cluster_set import ClusterSet
from faults import DISTLOCKCTL, Holder
from harness import eventually
from sentinel_set import SentinelSet
from test_quorum import ServerSet
from test_start import CONFIG, UNAVAILABLE, complaint

BEFORE, AFTER = "1-1", "1-2"
HOUR_US = 3_600_000_000


@pytest.fixture
def release(world, monkeypatch):
    """Starts a broker of a release."""
    def start(url, reads, *args, name):
        monkeypatch.setenv("DISTLOCK_TEST_SCHEMA", reads)
        return world.distlockd(url, *args, name=name)
    return start


def upgrade(broker, to):
    """distlockctl store upgrade at the broker: its exit code and its last line."""
    done = subprocess.run([DISTLOCKCTL, "store", "upgrade", "--to", str(to), "--server", broker.url],
                          capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, (done.stdout + done.stderr).strip().splitlines()[-1]


def refusal(world, url, reads):
    return complaint("--redis", url, "--listen", f"unix://{world.folder}/x.sock", "--http", "",
                     env={"DISTLOCK_TEST_SCHEMA": reads})


def marks(server):
    return [key for key in server.command("KEYS", "*") if key.endswith(":schema")]


def written(server):
    """The schema by each mark of the server."""
    return [server.command("HGET", key, "writes") for key in marks(server)]


def an_hour_passes(servers):
    """For the marks: nobody has announced itself lately."""
    for server in servers:
        for key in marks(server):
            for field in server.command("HKEYS", key):
                at, _, who = server.command("HGET", key, field).partition(";")
                if field.startswith("reads:"):
                    server.command("HSET", key, field, f"{int(at) - HOUR_US};{who}")


def test_a_release_is_followed_by_the_next_without_losing_a_lock(world, release):
    redis = world.redis()
    old = release(redis.url, BEFORE, name="old")
    new = release(redis.url, AFTER, name="new")
    holder = Holder(world.client(new.url), "session", ttl=6.0).granted()
    assert written(redis) == ["1"] and 0 < redis.command("PTTL", "dl:schema") <= 30 * 24 * 3_600_000
    code, line = upgrade(new, 2)
    assert code == CONFIG and "reads schemas up to 1" in line and "stays at schema 1" in line, line
    code, line = upgrade(old, 2)
    assert code == CONFIG and "reads schema 1: ask a broker of a release that reads it" in line, line
    assert old.drain() == 0
    an_hour_passes([redis])
    code, line = upgrade(new, 2)
    assert code == 0 and "in schema 2" in line, line
    assert upgrade(new, 2)[0] == 0, "it is harmless to repeat it"
    assert written(redis) == ["2"]
    code, line = refusal(world, redis.url, BEFORE)
    assert code == CONFIG and "written in schema 2" in line and "reads schema 1" in line, line
    assert "start a newer distlockd" in line, line
    assert new.serving() and holder.believes()
    holder.release()
    code, line = upgrade(new, 1)
    assert code == CONFIG and "does not go back" in line, line
    code, line = upgrade(new, 3)
    assert code == CONFIG and "reads the schemas 1 to 2" in line, line
    shown = new.log()
    assert 'what="store upgrade to schema 2"' in shown and "outcome=done" in shown and 'who="unix:uid=' in shown, shown


def test_a_store_that_lost_everything_is_written_as_before(world, release):
    redis = world.redis()
    assert upgrade(release(redis.url, AFTER, name="new"), 2)[0] == 0
    second = release(redis.url, AFTER, name="second")
    redis.restart()
    eventually(lambda: written(redis) == ["2"], "the mark being there again, as it was")
    eventually(second.serving, "the broker serving again")
    assert refusal(world, redis.url, BEFORE)[0] == CONFIG


def test_each_server_of_a_quorum_has_a_mark(world, release):
    quorum = ServerSet(world, 3)
    broker = release(quorum.url, AFTER, "--quorum-new", "--max-ttl", "8s", "--default-ttl", "6s", name="new")
    eventually(lambda: [written(s) for s in quorum.servers] == [["1"]] * 3, "a mark at each server")
    quorum.servers[2].kill()
    code, line = upgrade(broker, 2)
    assert code == UNAVAILABLE and str(quorum.servers[2].port) in line, line
    assert [written(s) for s in quorum.servers[:2]] == [["1"]] * 2, "all of them or none"
    quorum.servers[2].start()
    eventually(lambda: upgrade(broker, 2)[0] == 0, "the upgrade, once all servers are there")
    assert [written(s) for s in quorum.servers] == [["2"]] * 3
    code, line = refusal(world, quorum.url, BEFORE)
    assert code == CONFIG and "written in schema 2" in line, line
    assert broker.serving()


def test_each_primary_of_a_cluster_has_a_mark_in_its_own_slots(world, release):
    cluster = ClusterSet(world, primaries=3, replicas=0)
    broker = release(cluster.url, AFTER, name="new")
    eventually(lambda: [written(node) for node in cluster.nodes] == [["1"]] * 3, "a mark at each primary")
    code, line = upgrade(broker, 2)
    assert code == 0, line
    assert [written(node) for node in cluster.nodes] == [["2"]] * 3
    code, line = refusal(world, cluster.url, BEFORE)
    assert code == CONFIG and "written in schema 2" in line, line


def test_a_promoted_replica_that_missed_the_upgrade_learns_of_it(world, release):
    group = SentinelSet(world, replicas=1)
    assert upgrade(release(group.url, AFTER, name="new"), 2)[0] == 0
    watcher = release(group.url, AFTER, name="second")
    primary = group.primary()
    replica = next(s for s in group.servers if s is not primary)
    eventually(lambda: written(replica) == ["2"], "the replica having the mark")
    # As if the raise had been lost on its way.
    primary.command("HSET", "dl:schema", "writes", "1", "reads_from", "1")
    eventually(lambda: written(replica) == ["1"], "the replica having the older mark")
    primary.kill()
    group.await_other_primary(primary)
    eventually(lambda: written(replica) == ["2"], "the broker that has seen the raise repeating it")
    eventually(watcher.serving, "the broker serving again")
