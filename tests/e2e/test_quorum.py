# SPDX-License-Identifier: Apache-2.0
"""A broker whose store is a quorum of independent servers: it works while most of them do, says so when they do not,
counts no server that may have forgotten, and refuses what it cannot do.
"""
import pytest

from client import api, failure
from faults import Holder, waiter
from harness import eventually
from test_start import CONFIG, complaint

TTL_S = 6.0


class ServerSet:
    """So many servers, all new, and the URL that names them."""

    def __init__(self, world, count):
        self.servers = [world.redis(name=f"server{i}", tcp=True) for i in range(count)]
        self.url = "redlock://" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers)

    def minority(self):
        return self.servers[: len(self.servers) // 2]

    def majority(self):
        return self.servers[: len(self.servers) // 2 + 1]


@pytest.fixture(params=[3, 5])
def quorum(world, request):
    return ServerSet(world, request.param)


def start(world, quorum, *args, name="d", **how):
    times = ("--max-ttl", "8s", "--default-ttl", "6s")
    return world.distlockd(quorum.url, "--quorum-new", *times, *args, name=name, **how)


def held_at(quorum, key):
    """Servers that have a holder for the lock."""
    return [s for s in quorum.servers if s.alive() and s.command("EXISTS", s.key(key, "h")) == 1]


def test_a_lock_is_held_at_every_server_and_leaves_nothing(world, quorum):
    with start(world, quorum).client() as client:
        grant = client.acquire(client.spec("k", ttl=TTL_S))
        eventually(lambda: len(held_at(quorum, "k")) == len(quorum.servers), "every server having it")
        refused = failure(client.acquire, client.spec("k", ttl=TTL_S, max_wait=0.0))
        assert refused.reason == "LOCK_HELD"
        client.release(grant.lease_id)
        eventually(lambda: not held_at(quorum, "k"), "every server having released it")
        assert client.acquire(client.spec("k", ttl=TTL_S)).fencing_token > grant.fencing_token


@pytest.mark.parametrize("fault", ["kill", "stop"])
def test_a_minority_that_is_gone_changes_nothing(world, quorum, fault):
    with start(world, quorum).client() as client, start(world, quorum, name="other").client() as other:
        holder = Holder(client, "session", ttl=TTL_S).granted()
        waiting = waiter(other, ttl=TTL_S, max_wait=60.0)
        for server in quorum.minority():
            getattr(server, fault)()
        assert holder.believes()
        assert client.acquire(client.spec("free", ttl=TTL_S)).fencing_token > 0
        holder.release()
        waiting.granted()
        assert waiting.token > holder.token
        for server in quorum.minority():
            server.cont() if fault == "stop" else None


def test_without_a_majority_nothing_is_granted_and_with_it_again(world, quorum):
    with start(world, quorum, "--store-timeout", "1s").client() as client:
        first = client.acquire(client.spec("k", ttl=TTL_S))
        client.release(first.lease_id)
        for server in quorum.majority():
            server.stop()
        refused = failure(client.acquire, client.spec("k", ttl=TTL_S, max_wait=0.0))
        assert refused.reason == "QUORUM_NOT_REACHED", refused
        for server in quorum.majority():
            server.cont()
        again = client.acquire(client.spec("k", ttl=TTL_S, max_wait=30.0), timeout=60)
        assert again.fencing_token > first.fencing_token


def test_a_server_that_was_restarted_empty_gets_the_lock_again(world, quorum):
    daemon = start(world, quorum)
    with daemon.client() as client:
        holder = Holder(client, "session", ttl=TTL_S).granted()
        eventually(lambda: len(held_at(quorum, "k")) == len(quorum.servers), "every server having it")
        old = quorum.servers[0]
        old.kill()
        old.start()
        eventually(lambda: old.command("EXISTS", old.key("k", "h")) == 1, "the server joining the grant")
        nodes = client.status().store_nodes
        assert len(nodes) == len(quorum.servers)
        assert "do not count" in nodes[0].problem, nodes[0]
        assert holder.believes() and not holder.all("lost")


def test_permits_are_refused(world, quorum):
    with start(world, quorum).client() as client:
        refused = failure(client.acquire, client.spec("k", ttl=TTL_S, permits=1, limit=3, mode=api().LOCK_MODE_PERMIT))
        assert refused.reason == "NOT_SUPPORTED", refused


def test_the_same_server_twice_is_refused(world):
    server = world.redis(name="server", tcp=True)
    third = world.redis(name="third", tcp=True)
    url = f"redlock://127.0.0.1:{server.port},localhost:{server.port},127.0.0.1:{third.port}"
    code, line = complaint("--redis", url, "--listen", f"unix://{world.folder}/d.sock", "--http", "")
    assert code == CONFIG and "same server" in line, line
