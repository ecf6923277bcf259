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


@row("a lock is released before its `min_hold` is over")
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


def init(broker, *flags):
    """distlockctl quorum-init at the broker: its exit code and its last line."""
    done = subprocess.run([DISTLOCKCTL, "quorum-init", "--server", broker.url, *flags], capture_output=True, text=True,
                          timeout=60, check=False)
    return done.returncode, (done.stdout + done.stderr).strip().splitlines()[-1]


def time_passes(servers, seconds):
    """For what the servers show of brokers: those were there so much earlier."""
    for server in servers:
        identity, written, rest = server.command("GET", "dl:beat").split(";", 2)
        server.command("SET", "dl:beat", f"{identity};{int(written) - seconds * 1_000_000};{rest}", "KEEPTTL")
        for field in server.command("HKEYS", "dl:schema"):
            at, _, who = server.command("HGET", "dl:schema", field).partition(";")
            if field.startswith("reads:"):
                server.command("HSET", "dl:schema", field, f"{int(at) - seconds * 1_000_000};{who}")


def marks(servers):
    return [server.command("GET", "dl:set") for server in servers]


class OtherSet:
    """A quorum whose brokers have ended, and a broker that is started with another list: one server is not the same."""

    def __init__(self, world, stops=True):
        self.old, self.rest = ServerSet(world, 3), world.redis(name="rest", tcp=True)
        self.first = start(world, self.old)
        if stops:
            self.first.terminate()
            assert self.first.exit_code() == 0
        self.kept, self.left = self.old.servers[:2], self.old.servers[2]
        self.url = self.old.url.rpartition(",")[0] + f",127.0.0.1:{self.rest.port}"
        self.servers = [*self.kept, self.rest]
        self.broker = self.start(world)

    def start(self, world, name="other"):
        broker = world.distlockd(self.url, *TIMES, name=name, await_ready=False)
        eventually(lambda: "distlockd ready" in broker.log(), "the broker answering calls")
        return broker

    @property
    def mark(self):
        names = sorted(f"127.0.0.1:{server.port}" for server in self.servers)
        return f"3;{','.join(names)}"


def test_servers_belong_together_until_an_operator_says_otherwise(world):
    sets = OtherSet(world)
    for server in sets.old.servers:
        server.command("DEL", "dl:set-new")  # as after ten minutes
    code, line = complaint("--redis", sets.old.url, "--quorum-new", *listen(world))
    assert code == CONFIG and "start without --quorum-new" in line, line

    with sets.broker.client() as client:
        shown = client.status()
        assert shown.store_state == api().STORE_STATE_DOWN and "another quorum" in shown.store_problem, shown
        refused = failure(client.acquire, client.spec("k", ttl=TTL_S, max_wait=0.0))
        assert "distlockctl quorum-init" in refused.message, refused
        assert not sets.broker.serving()
        assert sets.rest.command("KEYS", "*") == [], "nothing is written before the servers are its own"

        code, line = init(sets.broker)
        assert code == CONFIG and "saw another broker" in line and "--all-brokers-stopped" in line, line
        time_passes(sets.kept, 60)
        code, line = init(sets.broker)
        assert code == CONFIG and "s: stop all other brokers" in line, "one that does not beat may have been there"
        time_passes(sets.kept, 30)
        sets.kept[0].command("SET", "dl:{default/k}:h", "1;" + "0" * 31 + "1;7;7;1000;0;i", "PX", "60000")
        code, line = init(sets.broker)
        assert code == CONFIG and "still has the lock" in line, line
        assert marks(sets.servers) == [sets.old.mark, sets.old.mark, None], "all or none"

        sets.kept[0].command("DEL", "dl:{default/k}:h")
        code, line = init(sets.broker)
        assert code == 0 and "are one quorum" in line, line
        assert marks(sets.servers) == [sets.mark] * 3
        eventually(sets.broker.serving, "the broker using its store")
        assert client.acquire(client.spec("k", ttl=TTL_S, max_wait=30.0), timeout=60).fencing_token > 0
        assert init(sets.broker)[0] == 0, "it is harmless to repeat it"
    assert "outcome=done" in sets.broker.log() and 'who="unix:uid=' in sets.broker.log()


def test_a_broker_that_waits_goes_on_when_another_has_made_the_quorum(world):
    sets = OtherSet(world)
    second = sets.start(world, name="second")
    assert init(sets.broker, "--all-brokers-stopped")[0] == 0
    eventually(second.serving, "the second broker using the store")
    old = start(world, sets.old, name="again", await_ready=False)
    eventually(lambda: "distlockd ready" in old.log(), "the broker answering calls")
    with old.client() as client:
        assert "another quorum" in client.status().store_problem, "the old list is another's now"


def test_a_quorum_whose_broker_runs_is_left_alone(world):
    sets = OtherSet(world, stops=False)
    time_passes(sets.kept, 90)
    aged = [server.command("GET", "dl:beat") for server in sets.kept]
    eventually(lambda: all(server.command("GET", "dl:beat") != beat for server, beat in zip(sets.kept, aged)), "a beat")
    code, line = init(sets.broker)
    assert code == CONFIG and "saw another broker" in line, line
    assert marks(sets.kept) == [sets.old.mark] * 2 and sets.first.serving()


def test_no_server_is_changed_unless_all_can_be_reached(world):
    sets = OtherSet(world)
    sets.rest.kill()
    code, line = init(sets.broker, "--all-brokers-stopped")
    assert code == UNAVAILABLE and str(sets.rest.port) in line, line
    assert marks(sets.kept) == [sets.old.mark] * 2
    sets.rest.start()
    assert init(sets.broker, "--all-brokers-stopped")[0] == 0


def test_only_a_quorum_is_made_one(world):
    broker = world.distlockd(world.redis(name="server").url, name="single")
    code, line = init(broker)
    assert code == CONFIG and "quorum-init is for a quorum" in line and "redlock://" in line, line


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
