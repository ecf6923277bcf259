# SPDX-License-Identifier: Apache-2.0
"""A network that splits: the primary and one broker on one side, everything else on the other. Each server and each
sentinel has an address of its own in 127.0.0.0/8, and iptables drops what goes from side to side; the brokers, which
all come from 127.0.0.1, are told apart by their users. Needs root.
"""
import grpc
import pytest

from client import api, boot_now, failure
from faults import Holder, waiter
from harness import Distlockd, eventually, free_port
from packet_filter import FIRST_USER, PacketFilter, as_user
from sentinel_set import SentinelSet

MAX_TTL_S = 4
FLAGS = ("--wait-replicas", "1", "--store-nodes", "3", "--max-ttl", f"{MAX_TTL_S}s", "--default-ttl", "3s",
         "--validity", "1s")
USERS = {"near": FIRST_USER, "far": FIRST_USER + 1}


def host_of(name):
    return f"127.7.{1 if name.startswith('server') else 2}.{int(name[-1]) + 1}"


class Split(PacketFilter):
    """Drops all packets between two sides. A side: addresses of servers and sentinels, and users of brokers."""

    def cut(self, one, other):
        for a, b in ((one, other), (other, one)):
            for host in b["hosts"]:
                for source in a["hosts"]:
                    self.drop("-s", source, "-d", host)
                for user in a["users"]:
                    self.cut_user(user, host)


@pytest.fixture
def split():
    with Split() as one:
        yield one


def broker(world, url, name):
    """A broker that runs as a user of its own."""
    daemon = Distlockd(world.folder, url, *FLAGS, name=name, listen=f"127.0.0.1:{free_port()}")
    return world._add(as_user(daemon, USERS[name])).start()


def test_nobody_is_granted_what_the_cut_off_primary_has_granted(world, split):
    servers = SentinelSet(world, server_args=("--repl-diskless-sync-delay", "0"), host_of=host_of)
    near, far = (broker(world, servers.url, name) for name in USERS)
    old = servers.primary()
    with near.client() as at_near, far.client() as at_far:
        stranded = Holder(at_near, "session", key="stranded", ttl=float(MAX_TTL_S)).granted()
        lucky = Holder(at_far, "session", key="lucky", ttl=float(MAX_TTL_S)).granted()
        waiting = waiter(at_far, key="stranded", ttl=float(MAX_TTL_S))
        others = [s.host for s in servers.servers + servers.sentinels if s is not old]
        cut = boot_now()
        split.cut({"hosts": [old.host], "users": [USERS["near"]]}, {"hosts": others, "users": [USERS["far"]]})
        # The old primary goes on, and its broker can reach it; but nobody confirms what it grants.
        refused = failure(at_near.acquire, at_near.spec("new", ttl=float(MAX_TTL_S)))
        assert refused.code == grpc.StatusCode.UNAVAILABLE, refused
        assert stranded.wait_for("lost").reason == api().LOST_REASON_EXPIRED
        assert stranded.until() <= cut + MAX_TTL_S, "believed for longer than anything confirmed allows"
        assert old.command("ROLE")[0] == "master", "nobody can have told it"
        new = servers.await_other_primary(old)
        assert waiting.granted().token > stranded.token
        assert waiting.at("granted") >= stranded.until(), "two believed"
        assert new.command("EXISTS", new.key("stranded", "h")) == 1
        assert lucky.believes() and not lucky.all("lost")
        split.heal()
        eventually(old.is_replica, "the old primary being demoted")
        lucky.release()
        grant = at_near.acquire(at_near.spec("lucky", ttl=float(MAX_TTL_S), max_wait=30.0), timeout=60)
        assert grant.fencing_token > lucky.token
        assert new.command("EXISTS", new.key("lucky", "h")) == 1
