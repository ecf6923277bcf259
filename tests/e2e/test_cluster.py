# SPDX-License-Identifier: Apache-2.0
"""A broker whose store is a Cluster: it finds the nodes, follows slots and failovers, and says what is wrong with its
settings.
"""
import re
import time

import pytest

from cluster_set import ClusterSet, RedisError, slot_of_lock
from faults import Holder, waiter
from harness import REPOSITORY, eventually, free_port
from sentinel_set import NAME, Sentinel
from test_sentinel import certificate
from test_start import CONFIG, UNAVAILABLE, complaint

TTL_S = 12.0  # far longer than a failover takes here
SHARD_KIB = 140  # above what it costs on one server
LONG_TTL_S = 30.0
TEND_S = 10.0  # a broker looks at its queues so often


@pytest.fixture
def cluster(world):
    return ClusterSet(world)


def start(world, url, *args, **how):
    """A broker without hold-offs: they would make each failover here a long wait."""
    return world.distlockd(url, "--failover-hold-off", "0", "--default-ttl", f"{TTL_S:.0f}s", *args, **how)


def lock_on(cluster, node, prefix="k"):
    """The name of a lock whose slot the node has."""
    return next(name for name in (f"{prefix}{i}" for i in range(10_000)) if cluster.primary_of(name) is node)


def test_it_serves_locks_of_every_node(world, cluster):
    broker = start(world, cluster.url)
    with broker.client() as client:
        for node in cluster.primaries():
            key = lock_on(cluster, node)
            holder = Holder(client, "session", key=key, ttl=TTL_S).granted()
            assert node.command("EXISTS", node.key(key, "h")) == 1
            waiting = waiter(client, key=key, ttl=TTL_S)
            holder.release()
            assert waiting.granted().token > holder.token


def test_a_lock_goes_from_broker_to_broker_by_the_channel_of_its_shard(world, cluster):
    """And no other node hears of it."""
    brokers = [start(world, cluster.url, name=f"broker{i}") for i in range(2)]
    first, second = (world.client(b.url) for b in brokers)
    node = cluster.primary_of("k")
    eventually(lambda: len(node.command("PUBSUB", "SHARDCHANNELS")) == 2, "both brokers listening at the node")
    published = {n: n.command("INFO", "commandstats").count("cmdstat_publish:") for n in cluster.nodes}
    holder = Holder(first, "session", ttl=TTL_S).granted()
    waiting = waiter(second, ttl=TTL_S)
    began = holder.stream.events[-1][0]
    holder.release()
    assert waiting.granted().token > holder.token
    assert waiting.at("granted") - began < TTL_S / 2, "found by looking, not told"
    assert {n: n.command("INFO", "commandstats").count("cmdstat_publish:") for n in cluster.nodes} == published


def test_several_locks_of_several_slots_are_taken_one_after_the_other(world, cluster):
    broker = start(world, cluster.url)
    with broker.client() as client:
        keys = [lock_on(cluster, node) for node in cluster.primaries()]
        grants = client.acquire_all([client.spec(key, ttl=TTL_S) for key in keys])
        assert len(grants) == len(keys)
        for key in keys:
            assert cluster.primary_of(key).command("EXISTS", cluster.nodes[0].key(key, "h")) == 1


def test_all_locks_are_listed_node_after_node(world, cluster):
    broker = start(world, cluster.url)
    with broker.client() as client:
        session = client.session()
        wanted = {f"item{i}" for i in range(60)}
        for key in sorted(wanted):
            session.wait_for(session.acquire(client.spec(key, ttl=TTL_S)), "granted")
        seen, token, pages = set(), "", 0
        while True:
            page = client.locks(page_size=7, page_token=token)
            seen |= {lock.key for lock in page.locks}
            token, pages = page.next_page_token, pages + 1
            if not token:
                break
        assert seen == wanted and pages >= 9
        assert client.lock("item5").holders


# ---- Hand-offs without channels of shards ----

@pytest.mark.parametrize("lacking", ["SSUBSCRIBE", "SPUBLISH"])
def test_without_channels_of_shards_hand_offs_go_through_all_nodes(world, lacking):
    """And cost each of them a message. What PUBLISH counts is not trusted, so the waiter of a broker that has died
    holds up those behind it for its ttl."""
    ttl = 3.0
    cluster = ClusterSet(world, replicas=0, server_args=("--rename-command", lacking, ""))
    brokers = [start(world, cluster.url, name=f"broker{i}") for i in range(2)]
    eventually(lambda: all("hand-offs go through PUBLISH to all nodes" in b.log() for b in brokers), "the warning")
    first, second = (world.client(b.url) for b in brokers)
    node = cluster.primary_of("k")
    eventually(lambda: len(node.command("PUBSUB", "CHANNELS")) == 2, "both brokers listening at the node")

    def heard(one):
        found = re.search(r"cluster_stats_messages_publish_received:(\d+)", one.command("CLUSTER", "INFO"))
        return int(found.group(1)) if found else 0
    others = [n for n in cluster.nodes if n is not node]
    before = [heard(n) for n in others]
    holder = Holder(first, "session", ttl=LONG_TTL_S).granted()
    waiting = waiter(second, kind="session", ttl=LONG_TTL_S)
    began = time.monotonic()
    holder.release()
    assert waiting.granted().token > holder.token
    assert time.monotonic() - began < TEND_S / 2, "found by looking, not told"
    eventually(lambda: all(heard(n) > b for n, b in zip(others, before)), "the message at every node")

    holder = waiter(first, kind="session", ttl=LONG_TTL_S)
    waiting.release()
    holder.granted()
    waiter(second, ttl=ttl)
    behind = waiter(first, ttl=ttl)
    brokers[1].kill()
    began = time.monotonic()
    holder.release()
    behind.granted()
    assert ttl / 2 < time.monotonic() - began < ttl + TEND_S


# ---- Failovers ----

def kill(cluster, old):
    old.kill()


def stop(cluster, old):
    old.stop()


def command(cluster, old):
    cluster.fail_over(cluster.replica_of(old))


def force(cluster, old):
    cluster.fail_over(cluster.replica_of(old), "FORCE")


def takeover(cluster, old):
    cluster.replica_of(old).command("CLUSTER", "FAILOVER", "TAKEOVER")


@pytest.mark.parametrize("fail", [kill, stop, command, force, takeover])
def test_leases_and_waiters_survive_a_failover_of_each_primary(world, cluster, fail):
    broker = start(world, cluster.url)
    with broker.client() as client:
        for number, old in enumerate(cluster.primaries()):
            asked = next(n for n in cluster.living() if n is not old)
            key = lock_on(cluster, old, f"k{number}-")
            holder = Holder(client, "session", key=key, ttl=TTL_S).granted()
            waiting = waiter(client, key=key, ttl=TTL_S)
            cluster.replica_of(old)
            fail(cluster, old)
            new = (stopped_primary(cluster, key, old, asked) if fail is stop
                   else cluster.await_other_primary(key, old))
            before = new.command("PEXPIRETIME", new.key(key, "h"))
            assert before > 0, "the lease is not there"
            eventually(lambda n=new, k=key, b=before: n.command("PEXPIRETIME", n.key(k, "h")) > b,
                       "the lease being renewed there")
            assert holder.believes() and not holder.all("lost") and not waiting.all("granted")
            holder.release()
            assert waiting.granted().token > holder.token
            if fail is stop:
                old.cont()
            if fail is kill:
                old.start()
            eventually(old.is_replica, "the old primary following")
            cluster.await_whole()


def stopped_primary(cluster, key, old, asked):
    def other():
        node = cluster.primary_of(key, asked)
        return node if node not in (None, old) and node.command("ROLE")[0] == "master" else None
    return eventually(other, "another primary")


def test_the_status_shows_each_primary_and_not_the_one_that_was_replaced(world, cluster):
    broker = start(world, cluster.url)
    with broker.client() as client:
        def shown():
            nodes = client.status().store_nodes
            known = [node for node in nodes if node.role == "master" and node.version and len(node.identity) == 8]
            return {node.address for node in known} if len(known) == len(nodes) else set()

        def primaries():
            return {f"127.0.0.1:{node.port}" for node in cluster.primaries()}
        before = primaries()
        assert shown() == before
        cluster.fail_over(cluster.replica_of(cluster.primaries()[0]), "FORCE")
        eventually(lambda: primaries() != before and shown() == primaries(), "the new primary alone in the status")


def test_while_one_primary_is_away_the_locks_of_the_others_go_on(world, cluster):
    broker = start(world, cluster.url)
    with broker.client() as client:
        old, other, _ = cluster.primaries()
        cluster.replica_of(old).kill()  # nobody takes over
        key = lock_on(cluster, old)
        old.stop()
        for i in range(50):
            client.release(client.acquire(client.spec(lock_on(cluster_without(cluster, old), other, f"o{i}-"),
                                                      ttl=TTL_S)).lease_id)
        waiting = Holder(client, "session", key=key, ttl=TTL_S, max_wait=60.0)
        old.cont()
        waiting.granted()


class cluster_without:
    """The same Cluster, asked at another node than one that does not answer."""

    def __init__(self, cluster, node):
        self.asked, self.cluster = next(n for n in cluster.nodes if n is not node and n.alive()), cluster

    def primary_of(self, lock):
        return self.cluster.primary_of(lock, self.asked)


# ---- The start ----

@pytest.fixture
def listen(world):
    return "--listen", f"unix://{world.folder}/d.sock", "--http", ""


def test_each_kind_of_server_is_told_which_url_to_use(world, cluster, listen):
    code, line = complaint(*listen, "--redis", f"redis://127.0.0.1:{cluster.nodes[0].port}")
    assert code == CONFIG and "redis+cluster://" in line, line
    single = world.redis(tcp=True)
    code, line = complaint(*listen, "--redis", f"redis+cluster://127.0.0.1:{single.port}")
    assert code == CONFIG and "redis://host:port" in line, line
    code, line = complaint(*listen, "--redis", cluster.url + "/3")
    assert code == CONFIG and "database 0: write redis+cluster://host:port,host:port without" in line, line
    sentinel = world._add(Sentinel(world.folder, "sentinel", single, 1)).start()
    code, line = complaint(*listen, "--redis", f"redis+cluster://127.0.0.1:{sentinel.port}")
    assert code == CONFIG and "redis+sentinel://host:port,host:port/name" in line, line
    code, line = complaint(*listen, "--redis", f"redis+sentinel://127.0.0.1:{cluster.nodes[0].port}/{NAME}",
                           "--store-timeout", "2s")
    assert code != 0 and "redis+cluster://" in line, line
    ports = ",".join(f"127.0.0.1:{node.port}" for node in cluster.primaries())
    code, line = complaint(*listen, "--redis", f"redlock://{ports}", "--store-timeout", "2s")
    assert code == CONFIG and "redis+cluster://" in line, line
    empty = cluster.add_node("empty")
    code, line = complaint(*listen, "--redis", cluster.url_of([empty]), "--store-timeout", "2s")
    assert code == UNAVAILABLE and "slots" in line, line


def test_any_node_shows_the_way_and_one_is_enough(world, cluster):
    replica = cluster.replica_of(cluster.primaries()[0])
    start(world, f"redis+cluster://127.0.0.1:1,127.0.0.1:{replica.port}")


def test_what_a_failover_would_cost_is_warned_of(world, cluster):
    for node in cluster.nodes:
        node.command("CONFIG", "SET", "cluster-node-timeout", 15000)
        node.command("CONFIG", "SET", "cluster-require-full-coverage", "yes")
    log = start(world, cluster.url).log()
    assert f"leases of {TTL_S * 1000:.0f} ms do not survive a failover here: cluster-node-timeout is 15000 ms" in log
    assert "cluster-require-full-coverage is yes" in log
    assert "PUBLISH to all nodes" not in log


def test_a_user_with_the_rights_of_the_readme_suffices(world, listen):
    rule = re.search(r"ACL SETUSER distlock (.*)", (REPOSITORY / "lua/README.md").read_text()).group(1)
    cluster = ClusterSet(world, replicas=0)
    for node in cluster.nodes:
        node.command("ACL", "SETUSER", "distlock", *rule.replace("PASSWORD", "pw").split())
    start(world, cluster.url.replace("://", "://distlock:pw@"))
    for node in cluster.nodes:
        node.command("ACL", "SETUSER", "distlock", "-spublish")
    code, line = complaint(*listen, "--redis", cluster.url.replace("://", "://distlock:pw@"))
    assert code != 0 and "spublish" in line.lower() and "lua/README.md" in line, line


# ---- Other people's scripts ----

def test_a_node_whose_scripts_somebody_breaks_is_named_and_the_others_go_on(world, cluster):
    """In Valkey 9.1 one script that reads keys of two slots of its node makes the node refuse all scripts. Other
    servers refuse that one script, or run it."""
    broker = start(world, cluster.url)
    node, other, _ = cluster.primaries()
    keys = [node.key(lock_on(cluster, node, prefix), "h") for prefix in ("p", "q")]
    try:
        node.command("EVAL", f"return redis.call('MGET', '{keys[0]}', '{keys[1]}')", 0)
    except RedisError as refused:
        print(refused)
    try:
        node.command("EVAL", "return redis.call('TIME')", 0)
        broken = False
    except RedisError:
        broken = True
    with broker.client() as client:
        client.release(client.acquire(client.spec(lock_on(cluster, other), ttl=TTL_S)).lease_id)
        if not broken:
            client.release(client.acquire(client.spec(lock_on(cluster, node), ttl=TTL_S)).lease_id)
            return
        waiting = Holder(client, "session", key=lock_on(cluster, node), ttl=TTL_S, max_wait=60.0)
        eventually(lambda: f"redis://127.0.0.1:{node.port}" in broker.log() and "refuses every script" in broker.log(),
                   "the log naming the node")
        client.release(client.acquire(client.spec(lock_on(cluster, other, "l"), ttl=TTL_S)).lease_id)
        node.kill()
        node.start()
        waiting.granted()


# ---- Memory ----

def test_a_shard_on_a_cluster_takes_little_more_memory_than_one_on_a_single_server(world, cluster):
    """A shard has connections of its own to each primary, and a map of its own."""
    stores = {"one": world.redis(tcp=True).url, "cluster": cluster.url}
    few, many = 1, 9
    brokers = {(store, shards): start(world, url, "--shards", shards, name=f"{store}{shards}")
               for store, url in stores.items() for shards in (few, many)}

    def a_shard_more(store):
        anonymous = {}
        for shards in (few, many):
            with open(f"/proc/{brokers[store, shards].popen.pid}/smaps_rollup", encoding="ascii") as rollup:
                anonymous[shards] = int(re.search(r"Anonymous: +(\d+) kB", rollup.read()).group(1))
        return (anonymous[many] - anonymous[few]) / (many - few)
    # The memory of starting is given back within a second.
    eventually(lambda: a_shard_more("cluster") - a_shard_more("one") <= SHARD_KIB, "a shard of little memory")
    print(f"a shard: {a_shard_more('one'):.0f} KiB on one server, {a_shard_more('cluster'):.0f} on a Cluster")


# ---- Names of nodes ----

def test_nodes_that_are_known_by_host_names(world):
    names = ("--cluster-announce-hostname", "localhost", "--cluster-preferred-endpoint-type", "hostname")
    cluster = ClusterSet(world, replicas=0, server_args=names)
    assert cluster.nodes[0].command("CLUSTER", "SLOTS")[0][2][0] == "localhost"
    broker = start(world, cluster.url)
    source, target, _ = cluster.primaries()
    key = lock_on(cluster, source)
    with broker.client() as client:
        holder = Holder(client, "session", key=key, ttl=TTL_S).granted()
        cluster.move_slot(slot_of_lock(key), source, target)
        holder.release()
        Holder(client, "session", key=key, ttl=TTL_S).granted()


def test_nodes_that_do_not_tell_their_hosts(world):
    cluster = ClusterSet(world, replicas=0, server_args=("--cluster-preferred-endpoint-type", "unknown-endpoint"))
    assert cluster.nodes[0].command("CLUSTER", "SLOTS")[0][2][0] is None
    broker = start(world, cluster.url_of(cluster.nodes[:1]))
    source, target, _ = cluster.primaries()
    key = lock_on(cluster, source)
    with broker.client() as client:
        holder = Holder(client, "session", key=key, ttl=TTL_S).granted()
        cluster.move_slot(slot_of_lock(key), source, target)
        holder.release()
        Holder(client, "session", key=key, ttl=TTL_S).granted()


def test_tls(world, listen):
    ca, key, cert = certificate(world.folder, "nodes")
    tls = [free_port() for _ in range(3)]
    cluster = ClusterSet(world, replicas=0, server_args=(
        "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca, "--tls-auth-clients", "no",
        "--tls-cluster", "yes"),
        node_args=lambda i: ("--tls-port", tls[i]))
    url = "rediss+cluster://" + ",".join(f"127.0.0.1:{port}" for port in tls) + "?sni=localhost&ca="
    code, line = complaint(*listen, "--redis", url + "/nowhere.pem")
    assert code == CONFIG and "/nowhere.pem" in line, line
    broker = start(world, url + str(ca))
    with broker.client() as client:
        for node in cluster.primaries():
            Holder(client, "session", key=lock_on(cluster, node), ttl=TTL_S).granted()
