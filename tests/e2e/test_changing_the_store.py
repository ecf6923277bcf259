# SPDX-License-Identifier: Apache-2.0
"""deploy/topologies.md, "Changing the store", step by step: one server to Sentinel and back while a holder goes on,
and with a pause to a quorum or a Cluster and back."""
import re
import subprocess

import pytest

from client import boot_now
from cluster_set import ClusterSet
from faults import DISTLOCKCTL
from harness import eventually
from sentinel_set import NAME, Sentinel
from test_quorum import ServerSet

MAX_TTL_S = 4
SHORT = ("--max-ttl", f"{MAX_TTL_S}s", "--default-ttl", f"{MAX_TTL_S}s", "--validity", "1s")


def ask(url, *args):
    return subprocess.run([DISTLOCKCTL, "--server", url, *args], capture_output=True, text=True, timeout=100,
                          check=False, stdin=subprocess.DEVNULL)


def start(urls, *args):
    return subprocess.Popen([DISTLOCKCTL, "--server", ",".join(urls), *args], text=True, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def token_of(url, *wait):
    """That of a short job under the lock."""
    done = ask(url, "run", "job", *wait, "sh", "-c", "echo $DISTLOCK_TOKEN")
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_to_sentinel_and_back_while_a_holder_goes_on(world):
    servers = ("--protected-mode", "no", "--repl-diskless-sync-delay", "0")
    primary = world.redis(name="primary", tcp=True, args=servers)
    single = world.distlockd(primary.url, *SHORT, name="single")
    urls = [f"unix://{world.folder}/{name}.sock" for name in ("single", "watched", "back")]
    assert ask(urls[0], "run", "other", "-n", "true").returncode == 0
    job = start(urls, "run", "job", "sh", "-c", "echo $DISTLOCK_TOKEN; read x")
    token = job.stdout.readline().strip()
    waiter = start(urls, "run", "job", "echo", "next")
    eventually(lambda: "1 waiting" in ask(urls[0], "show", "job").stdout, "the waiter")

    replicas = [world.redis(name=f"replica{i}", tcp=True, args=servers) for i in range(2)]
    for replica in replicas:
        replica.command("REPLICAOF", primary.host, primary.port)
    eventually(lambda: len(primary.command("ROLE")[2]) == 2, "the replicas")
    eventually(lambda: "has, or had, replicas" in single.log(), "the broker seeing them")
    newcomer = ask(urls[0], "run", "other", "-n", "true")  # held off or not, as the replicas came before a census
    assert newcomer.returncode == 0 or "STORE_HOLD_OFF" in newcomer.stderr, newcomer.stderr
    sentinels = [world._add(Sentinel(world.folder, f"sentinel{i}", primary, 2)).start() for i in range(3)]
    eventually(lambda: all((s.fields()["num-slaves"], s.fields()["num-other-sentinels"]) == ("2", "2")
                           for s in sentinels), "the sentinels")
    addresses = ",".join(f"{s.host}:{s.port}" for s in sentinels)
    watched = world.distlockd(f"redis+sentinel://{addresses}/{NAME}", "--wait-replicas", "1", "--store-nodes", "3",
                              *SHORT, name="watched")
    assert watched.get("/readyz")[0] == 200 and ask(urls[0], "drain", "--wait").returncode == 0
    assert single.exit_code() == 0
    shown = ask(urls[1], "show", "job").stdout
    assert token in shown and "1 waiting" in shown
    status = ask(urls[1], "status").stdout
    assert re.search(rf"^primary +{primary.host}:{primary.port}, .*confirmed by replicas$", status, re.M), status
    assert all(re.search(rf"^replica +{replica.host}:{replica.port}, online", status, re.M) for replica in replicas)

    back = world.distlockd(primary.url, *SHORT, name="back")
    assert ask(urls[1], "drain", "--wait").returncode == 0 and watched.exit_code() == 0
    for process in (*sentinels, *replicas):
        process.kill()
    assert token in ask(urls[2], "show", "job").stdout
    assert job.communicate("go\n", timeout=100)[1] == "" and job.returncode == 0
    assert waiter.communicate(timeout=100)[0] == "next\n" and waiter.returncode == 0
    assert ask(urls[2], "run", "other", "-w", "1m", "true").returncode == 0, back.log()
    assert back.drain() == 0 and primary.command("DEL", "dl:beat") == 1
    ordinary = world.distlockd(primary.url, *SHORT, name="ordinary")
    assert ask(ordinary.url, "run", "other", "-n", "true").returncode == 0
    assert "has, or had, replicas" not in ordinary.log()


def two_brokers(world, url, name, *args):
    return [world.distlockd(url, *SHORT, *args, name=f"{name}{i}") for i in range(2)]


def pause(brokers, servers):
    """Ends the brokers, then waits until nobody can hold a lock: also not one by a detached lease."""
    for broker in brokers:
        assert ask(broker.url, "drain", "--wait").returncode == 0 and broker.exit_code() == 0
    ended = boot_now()
    assert ask(brokers[0].url, "run", "job", "-n", "true").returncode == 69
    eventually(lambda: boot_now() > ended + MAX_TTL_S, "the end of the longest ttl")
    assert not [key for server in servers for key in server.command("KEYS", "dl:*:h")]


@pytest.mark.parametrize("kind", ["quorum", "quorum-new", "cluster"])
def test_with_a_pause_to_a_store_that_knows_nothing_and_back(world, kind):
    old = world.redis(name="old", tcp=True)
    brokers = two_brokers(world, old.url, "old")
    job = start([b.url for b in brokers], "run", "job", "sh", "-c", "echo $DISTLOCK_TOKEN; read x")
    first = int(job.stdout.readline())
    assert ask(brokers[0].url, "acquire", "freeze", "-w", "1m").returncode == 0
    job.communicate("go\n", timeout=100)
    assert job.returncode == 0
    pause(brokers, [old])

    new = ClusterSet(world) if kind == "cluster" else ServerSet(world, 3)
    servers = new.nodes if kind == "cluster" else new.servers
    began = boot_now()
    brokers = two_brokers(world, new.url, "new", *(["--quorum-new"] if kind == "quorum-new" else []))
    wait = ["-n"] if kind == "quorum-new" else ["-w", "1m"]
    second = token_of(brokers[0].url, *wait)
    assert second > first
    if kind == "quorum":
        assert boot_now() - began > MAX_TTL_S
    if kind == "cluster":
        uptimes = [re.search(r"uptime_in_seconds:(\d+)", server.command("INFO", "server"))[1] for server in servers]
        assert min(map(int, uptimes)) + 1 > MAX_TTL_S
    permit = ask(brokers[1].url, "run", "pool", "--limit", "2", "-n", "true")
    assert permit.returncode == (0 if kind == "cluster" else 69), permit.stderr
    assert ask(brokers[1].url, "acquire", "freeze", "-w", "1m").returncode == 0
    pause(brokers, servers)

    [broker, _] = two_brokers(world, old.url, "again")
    assert token_of(broker.url, "-n") > second
    assert ask(broker.url, "run", "pool", "--limit", "2", "-n", "true").returncode == 0


def test_a_store_that_takes_no_writes_at_the_start_is_waited_for_or_refused(world):
    """deploy/operations.md, "A broker that starts meanwhile"."""
    redis = world.redis(args=("--min-replicas-to-write", "1"))
    refuses = world.distlockd(redis.url, name="refuses", await_ready=False)
    waits = world.distlockd(redis.url, "--wait-for-store", name="waits", await_ready=False)
    assert refuses.exit_code() == 69 and "a script fails: NOREPLICAS" in refuses.log()
    assert waits.get("/readyz")[0] == 503 and waits.get("/healthz")[0] == 200
    redis.command("CONFIG", "SET", "min-replicas-to-write", 0)
    waits.await_ready(waits.serving)
    redis.command("CONFIG", "SET", "min-replicas-to-write", 1)
    eventually(lambda: waits.get("/readyz?grants=1")[0] == 503, "the refused writes")
    assert waits.get("/readyz")[0] == 200, "a broker that serves stays ready"


def test_auto_at_one_plain_server_holds_off_at_the_first_start_whatever_max_ttl_is_given_later(world):
    """deploy/operations.md, "When the store is lost"."""
    redis = world.redis()
    first = world.distlockd(redis.url, "--failover-hold-off", "auto", name="first")
    refused = ask(first.url, "run", "k", "-n", "true")
    assert refused.returncode == 69 and "STORE_HOLD_OFF; retry after 59m" in refused.stderr
    assert first.drain() == 0
    later = world.distlockd(redis.url, "--failover-hold-off", "auto", "--max-ttl", "30s", name="later")
    assert "retry after 59m" in ask(later.url, "run", "k", "-n", "true").stderr
    assert later.drain() == 0
    other = world.distlockd(redis.url, "--failover-hold-off", "0", name="other")
    assert ask(other.url, "run", "k", "-n", "true").returncode == 0
