# SPDX-License-Identifier: Apache-2.0
"""Servers of a quorum that are not as they should be: slow ones, a majority that was restarted empty, one whose clock
is set, one with replicas; and what the status says of them.
"""
import base64
import re
import shutil
import subprocess

import pytest

from client import boot_now, failure
from faults import DISTLOCKCTL, Holder, waiter
from harness import eventually
from shown_clock import REDIS_ARGS, ShownClock
from test_quorum import TTL_S, ServerSet, start

MAX_TTL_S = 8.0  # of the brokers that `start` starts


def status(broker):
    """The lines of `distlockctl status` about servers."""
    done = subprocess.run([DISTLOCKCTL, "status", "--server", broker.url], capture_output=True, text=True, timeout=60,
                          check=True)
    return [line for line in done.stdout.splitlines() if line.startswith("server ")]


@pytest.mark.parametrize("count", [3, 5])
def test_a_slow_minority_delays_nobody(world, count):
    quorum = ServerSet(world, count)
    slow = [world.proxy(server.url) for server in quorum.minority()]
    addresses = [proxy.url.rpartition("/")[2] for proxy in slow]
    addresses += [f"127.0.0.1:{server.port}" for server in quorum.servers[len(slow):]]
    quorum.url = "redlock://" + ",".join(addresses)
    with start(world, quorum).client() as client, start(world, quorum, name="other").client() as other:
        for proxy in slow:
            proxy.delay(400)  # 0.8 s there and back
        pairs, began = 20, boot_now()
        for i in range(pairs):
            client.release(client.acquire(client.spec(f"k{i % 3}", ttl=TTL_S, max_wait=0.0)).lease_id)
        took = boot_now() - began
        assert took < pairs * 0.8 / 2, f"{pairs} pairs took {took:.1f} s: somebody waited for the slow ones"
        holder = Holder(client, "session", key="handed", ttl=TTL_S).granted()
        waiting = waiter(other, key="handed", ttl=TTL_S, max_wait=60.0)
        holder.release()
        assert waiting.granted().token > holder.token


def test_a_majority_that_was_restarted_empty_grants_nothing_while_anybody_may_believe(world):
    quorum = ServerSet(world, 3)
    with start(world, quorum).client() as client, start(world, quorum, name="other").client() as other:
        holder = Holder(client, "session", ttl=TTL_S).granted()
        waiting = waiter(other, kind="session", ttl=TTL_S, max_wait=60.0)
        killed = boot_now()
        for server in quorum.majority():
            server.kill()
        for server in quorum.majority():
            server.start()
        refused = failure(other.acquire, other.spec("free", ttl=TTL_S, max_wait=0.0))
        assert refused.reason in ("STORE_HOLD_OFF", "QUORUM_NOT_REACHED", "STORE_UNAVAILABLE"), refused
        eventually(lambda: failure(other.acquire, other.spec("free", ttl=TTL_S, max_wait=0.0)).retry_after > 2,
                   "how long most of the servers do not count")
        assert waiting.granted().token > holder.token
        assert waiting.at("granted") >= max(holder.until(), killed + MAX_TTL_S), "a server counted too early"
        free = other.acquire(other.spec("free", ttl=TTL_S, max_wait=30.0), timeout=60)
        assert free.fencing_token > 0


def test_a_server_whose_clock_is_set_does_not_count_for_a_while(world):
    quorum = ServerSet(world, 3)
    odd = quorum.servers[0]
    odd.kill()
    odd.argv += REDIS_ARGS
    clock = ShownClock(world.folder / "clock").of(odd)
    odd.start()
    broker = start(world, quorum)
    with broker.client() as client:
        eventually(lambda: all(", up, counted" in line for line in status(broker)), "all servers counting")
        clock.step(5)
        seen = eventually(lambda: [line for line in status(broker) if "its clock was set" in line],
                          "the step being seen")
        assert len(seen) == 1 and str(odd.port) in seen[0] and "not counted for " in seen[0], seen
        assert re.search(r", clock (5|4\.9)\S*s ahead", seen[0]), seen
        assert sum(", up, counted" in line for line in status(broker)) == 2
        client.release(client.acquire(client.spec("k", ttl=TTL_S, max_wait=0.0)).lease_id)
        eventually(lambda: any("ms ahead of the others'" in line for line in status(broker)),
                   "the clock being too far off to count after that")
        clock.step(-5)
        eventually(lambda: all(", up, counted" in line for line in status(broker)), "all servers counting again")


def test_a_server_whose_data_are_deleted_does_not_count_for_a_while(world):
    quorum = ServerSet(world, 3)
    broker = start(world, quorum)
    flushed = quorum.servers[0]
    with broker.client() as client:
        eventually(lambda: all(", up, counted" in line for line in status(broker)), "all servers counting")
        holder = Holder(client, "session", ttl=TTL_S).granted()
        flushed.command("FLUSHALL")
        eventually(lambda: "forgotten" in client.status().store_nodes[0].not_counted, "the server being told apart")
        assert "data were deleted while it was running" in broker.log()
        assert not any(node.not_counted for node in client.status().store_nodes[1:])
        assert holder.believes() and not holder.all("lost")
        eventually(lambda: all(", up, counted" in line for line in status(broker)), "all servers counting again")


def test_a_server_that_is_back_with_the_data_of_another_does_not_count_for_a_while(world):
    durable = ("--appendonly", "yes", "--appendfsync", "always", "--appenddirname")
    quorum = ServerSet(world, 3, args=lambda number: (*durable, f"data{number}"))
    broker = start(world, quorum)
    server = quorum.servers[1]

    def restart(data):
        server.kill()
        shutil.copytree(server.folder / data, server.folder / "copy")
        shutil.rmtree(server.folder / "data1")
        (server.folder / "copy").rename(server.folder / "data1")
        server.start()
        back = eventually(lambda: [node for node in client.status().store_nodes[1:2]
                                   if node.identity not in ("", identity) and "not been asked" not in node.not_counted],
                          "the server being back, and asked")
        return back[0].not_counted

    with broker.client() as client:
        eventually(lambda: all(", up, counted" in line for line in status(broker)), "all servers counting")
        eventually(lambda: all(one.command("EXISTS", "dl:beat") for one in quorum.servers), "each being marked")
        identity = client.status().store_nodes[1].identity
        assert restart("data1") == "", "with its own data it counts at once"
        eventually(lambda: all(", up, counted" in line for line in status(broker)), "all servers counting")
        identity = client.status().store_nodes[1].identity
        assert "forgotten" in restart("data0")


def test_replicas_behind_a_server_are_warned_of(world):
    quorum = ServerSet(world, 3)
    broker = start(world, quorum)
    world.redis(name="replica", tcp=True, args=("--replicaof", "127.0.0.1", quorum.servers[1].port))
    eventually(lambda: "has replicas" in broker.log(), "the warning")
    assert f"127.0.0.1:{quorum.servers[1].port} has replicas" in broker.log()


def test_a_page_token_of_another_store_ends_no_broker(world):
    quorum = ServerSet(world, 3)
    daemon = start(world, quorum)
    with daemon.client() as client:
        client.acquire(client.spec("k", ttl=TTL_S))
        binding = client.locks().next_page_token[:12]
        of_one_server = binding + base64.urlsafe_b64encode(b"all").decode().rstrip("=")
        quorum.servers[0].kill()
        eventually(lambda: any("down" in line for line in status(daemon)), "the loss of a server")
        assert [lock.key for lock in client.locks(page_token=of_one_server).locks] in ([], ["k"])
        assert [lock.key for lock in client.locks(page_token=binding + "1:0:").locks] == ["k"]
        assert client.status().leases == 0  # the broker lives, and the lease is detached
