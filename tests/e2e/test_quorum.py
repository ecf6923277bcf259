# SPDX-License-Identifier: Apache-2.0
"""A broker whose store is a quorum of independent servers: it works while most of them do, says so when they do not,
counts no server that may have forgotten, and refuses what it cannot do.
"""
import subprocess

import pytest

from client import api, boot_now, failure
from faults import DISTLOCKCTL, SLACK_S, Holder, waiter
from harness import eventually
from promises import row
from test_start import CONFIG, UNAVAILABLE, complaint

TTL_S = 6.0


class ServerSet:
    """So many servers, all new, and the URL that names them."""

    def __init__(self, world, count, args=lambda number: ()):
        self.servers = [world.redis(name=f"server{i}", tcp=True, args=args(i)) for i in range(count)]
        self.url = "redlock://" + ",".join(f"127.0.0.1:{server.port}" for server in self.servers)

    @property
    def mark(self):
        names = sorted(f"127.0.0.1:{server.port}" for server in self.servers)
        return f"{len(names)};{','.join(names)}"

    def minority(self):
        return self.servers[: len(self.servers) // 2]

    def majority(self):
        return self.servers[: len(self.servers) // 2 + 1]


@pytest.fixture(params=[3, 5])
def quorum(world, request):
    return ServerSet(world, request.param)


TIMES = ("--max-ttl", "8s", "--default-ttl", "6s")


def start(world, quorum, *args, name="d", **how):
    """The first broker of these servers, or, under another name, a later one."""
    new = ("--quorum-new",) if name == "d" else ()
    return world.distlockd(quorum.url, *new, *TIMES, *args, name=name, **how)


def held_at(quorum, key):
    """Servers that have a holder for the lock."""
    return [s for s in quorum.servers if s.alive() and s.command("EXISTS", s.key(key, "h")) == 1]


def test_a_lock_is_held_at_every_server_and_leaves_nothing(world, quorum):
    with start(world, quorum).client() as client:
        grant = client.acquire(client.spec("k", ttl=TTL_S, owner="billing@host7"))
        eventually(lambda: len(held_at(quorum, "k")) == len(quorum.servers), "every server having it")
        refused = failure(client.acquire, client.spec("k", ttl=TTL_S, max_wait=0.0))
        assert refused.reason == "LOCK_HELD" and "billing@host7" in refused.message, refused
        assert not any(server.command("EXISTS", server.key("k", "q")) for server in quorum.servers), "a try queued"
        client.release(grant.lease_id)
        eventually(lambda: not held_at(quorum, "k"), "every server having released it")
        assert client.acquire(client.spec("k", ttl=TTL_S)).fencing_token > grant.fencing_token


@row("it is released before its `min_hold` is over")
def test_the_block_that_a_min_hold_leaves_counts_while_a_majority_has_it(world, quorum):
    min_hold = 5.0
    with start(world, quorum).client() as client, start(world, quorum, name="other").client() as other:
        holder = Holder(client, "session", ttl=TTL_S, min_hold=min_hold).granted()
        granted = boot_now()
        assert holder.release() == api().RELEASE_OUTCOME_RELEASED
        eventually(lambda: len(held_at(quorum, "k")) == len(quorum.servers), "every server being told")
        for server in quorum.minority():
            server.kill()
        waiting = waiter(other, ttl=TTL_S, max_wait=60.0)
        assert waiting.granted().token > holder.token
        assert min_hold - 0.5 < waiting.at("granted") - granted < min_hold + SLACK_S


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
    broker = start(world, quorum, "--store-timeout", "3s")
    with broker.client() as client:
        first = client.acquire(client.spec("k", ttl=TTL_S))
        client.release(first.lease_id)
        assert broker.metric("distlock_quorum_rounds_total", kind="vote") >= 1
        assert broker.metric("distlock_quorum_nodes_counted") == len(quorum.servers)
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
        eventually(lambda: "forgotten" in client.status().store_nodes[0].not_counted, "the server being told apart")
        nodes = client.status().store_nodes
        assert len(nodes) == len(quorum.servers) and all(node.independent for node in nodes)
        assert 0 < nodes[0].hold_off_left.ToSeconds() <= 8, nodes[0]
        assert not any(node.not_counted for node in nodes[1:])
        assert abs(nodes[1].clock_skew.ToMilliseconds()) < 100
        command = quorum.servers[0].command
        assert command("GET", "dl:set") == quorum.mark, "the server has been taken into the quorum again"
        assert holder.believes() and not holder.all("lost")


def test_permits_are_refused(world, quorum):
    with start(world, quorum).client() as client:
        refused = failure(client.acquire, client.spec("k", ttl=TTL_S, permits=1, limit=3, mode=api().LOCK_MODE_PERMIT))
        assert refused.reason == "NOT_SUPPORTED" and "more would fit than the limit" in refused.message, refused


def test_the_same_server_twice_is_refused(world):
    server = world.redis(name="server", tcp=True)
    third = world.redis(name="third", tcp=True)
    url = f"redlock://127.0.0.1:{server.port},localhost:{server.port},127.0.0.1:{third.port}"
    code, line = complaint("--redis", url, "--listen", f"unix://{world.folder}/d.sock", "--http", "")
    assert code == CONFIG and "same server" in line, line


def listen(world):
    return ("--listen", f"unix://{world.folder}/x.sock", "--http", "")


def init(world, url):
    """distlockctl quorum-init: its exit code and its last line."""
    done = subprocess.run([DISTLOCKCTL, "quorum-init", "--redis", url], capture_output=True, text=True,
                          timeout=60, check=False)
    return done.returncode, done.stderr.strip().splitlines()[-1]


def test_servers_belong_together_for_good(world):
    quorum, rest = ServerSet(world, 3), world.redis(name="rest", tcp=True)
    first = start(world, quorum)
    first.terminate()
    assert first.exit_code() == 0
    assert [server.command("GET", "dl:set") for server in quorum.servers] == [quorum.mark] * 3

    for server in quorum.servers:
        server.command("DEL", "dl:set-new")  # as after ten minutes
    code, line = complaint("--redis", quorum.url, "--quorum-new", *listen(world))
    assert code == CONFIG and "start without --quorum-new" in line, line
    another = quorum.url.rpartition(",")[0] + f",127.0.0.1:{rest.port}"
    code, line = complaint("--redis", another, *listen(world))
    assert code == CONFIG and "another quorum" in line, line
    assert rest.command("EXISTS", "dl:set") == 0

    quorum.servers[0].command("SET", "dl:{default/k}:h", "1;" + "0" * 31 + "1;7;7;1000;0;i", "PX", "60000")
    code, line = init(world, another)
    assert code == CONFIG and "still has the lock" in line, line
    quorum.servers[0].command("DEL", "dl:{default/k}:h")
    code, line = init(world, another)
    assert code == 0 and "one quorum now" in line, line
    code, line = complaint("--redis", quorum.url, *listen(world))
    assert code == CONFIG and "another quorum" in line, line


def test_brokers_that_are_started_together_may_all_say_that_the_quorum_is_new(world):
    quorum = ServerSet(world, 3)
    first, second = (start(world, quorum, "--quorum-new", name=name) for name in ("first", "second"))
    for daemon in (first, second):
        client = world.client(daemon.url)
        assert Holder(client, "session", f"of {daemon.url}", ttl=5).granted()


def test_the_first_start_needs_all_servers(world):
    quorum = ServerSet(world, 3)
    quorum.servers[2].kill()
    code, line = complaint("--redis", quorum.url, "--store-timeout", "3s", *listen(world))
    assert code == UNAVAILABLE and ("first start needs all 3" in line or "refused" in line), line


def test_quorum_options_are_refused_for_other_stores(world):
    server = world.redis(name="server", tcp=True)
    code, line = complaint("--redis", f"redis://127.0.0.1:{server.port}", "--quorum-new", *listen(world))
    assert code == CONFIG and "--quorum-new" in line, line
