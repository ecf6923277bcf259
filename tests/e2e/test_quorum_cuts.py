# SPDX-License-Identifier: Apache-2.0
"""A quorum of servers whose connections are cut in pairs: each broker reaches other servers than the next one. Needs
root.
"""
import pytest

from client import boot_now, failure
from faults import Holder, waiter
from harness import Distlockd, eventually, free_port
from packet_filter import FIRST_USER, PacketFilter, as_user

MAX_TTL_S = 4
FLAGS = ("--max-ttl", f"{MAX_TTL_S}s", "--default-ttl", "3s", "--validity", "1s", "--store-timeout", "1s")
TTL_S = 3.0


def host_of(number):
    return f"127.7.3.{number + 1}"


@pytest.fixture
def packets():
    with PacketFilter() as one:
        yield one


class Brokers:
    """So many servers, and two brokers of users of their own."""

    def __init__(self, world, packets, count):
        self.packets = packets
        self.servers = [world.redis(name=f"server{i}", tcp=True, host=host_of(i)) for i in range(count)]
        url = "redlock://" + ",".join(f"{server.host}:{server.port}" for server in self.servers)
        self.brokers = []
        for number, name in enumerate(("one", "other")):
            new = ("--quorum-new",) if number == 0 else ()
            daemon = Distlockd(world.folder, url, *new, *FLAGS, name=name, listen=f"127.0.0.1:{free_port()}")
            self.brokers.append(world._add(as_user(daemon, FIRST_USER + number)).start())

    def cut(self, broker, servers):
        for server in servers:
            self.packets.cut_user(FIRST_USER + broker, host_of(server))


@pytest.mark.parametrize("count", [3, 5])
def test_brokers_that_reach_different_majorities_share_locks(world, packets, count):
    stage = Brokers(world, packets, count)
    minority = count // 2
    one, other = stage.brokers
    with one.client() as at_one, other.client() as at_other:
        holder = Holder(at_one, "session", ttl=TTL_S).granted()
        waiting = waiter(at_other, kind="session", ttl=TTL_S, max_wait=60.0)
        stage.cut(0, range(minority))                  # the first ones
        stage.cut(1, range(count - minority, count))   # the last ones
        for _ in range(2 * MAX_TTL_S):
            at_one.release(at_one.acquire(at_one.spec("a", ttl=TTL_S, max_wait=20.0), timeout=30).lease_id)
            at_other.release(at_other.acquire(at_other.spec("a", ttl=TTL_S, max_wait=20.0), timeout=30).lease_id)
        assert holder.believes() and not waiting.all("granted")
        holder.release()
        waiting.granted()
        assert waiting.token > holder.token
        refused = failure(at_one.acquire, at_one.spec("k", ttl=TTL_S, max_wait=0.0))
        assert refused.reason == "LOCK_HELD", refused


def test_a_broker_without_a_majority_loses_its_locks_to_one_that_has_it(world, packets):
    stage = Brokers(world, packets, 3)
    one, other = stage.brokers
    with one.client() as at_one, other.client() as at_other:
        holder = Holder(at_one, "session", ttl=TTL_S).granted()
        waiting = waiter(at_other, kind="session", ttl=TTL_S, max_wait=60.0)
        cut = boot_now()
        stage.cut(0, [0, 1])
        holder.wait_for("lost")
        assert holder.until() <= cut + MAX_TTL_S, "believed for longer than anything confirmed allows"
        assert waiting.granted().token > holder.token
        assert waiting.at("granted") >= holder.until(), "two believed"
        refused = failure(at_one.acquire, at_one.spec("free", ttl=TTL_S, max_wait=0.0))
        assert refused.reason in ("QUORUM_NOT_REACHED", "STORE_UNAVAILABLE"), refused
        packets.heal()
        waiting.release()
        eventually(lambda: at_one.acquire(at_one.spec("free", ttl=TTL_S, max_wait=5.0), timeout=20).fencing_token > 0,
                   "the broker having its majority again")
