# SPDX-License-Identifier: Apache-2.0
"""deploy/topologies.md, "Changing the store": from one server to Sentinel and back while a holder goes on."""
import subprocess

from faults import DISTLOCKCTL
from harness import eventually
from sentinel_set import NAME, Sentinel

SHORT = ("--max-ttl", "4s", "--default-ttl", "4s", "--validity", "1s")


def ask(url, *args):
    return subprocess.run([DISTLOCKCTL, "--server", url, *args], capture_output=True, text=True, timeout=100,
                          check=False, stdin=subprocess.DEVNULL)


def start(urls, *args):
    return subprocess.Popen([DISTLOCKCTL, "--server", ",".join(urls), *args], text=True, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_to_sentinel_and_back_while_a_holder_goes_on(world):
    primary = world.redis(name="primary", tcp=True, args=("--protected-mode", "no", "--repl-diskless-sync-delay", "0"))
    single = world.distlockd(primary.url, *SHORT, name="single")
    urls = [f"unix://{world.folder}/{name}.sock" for name in ("single", "watched", "back")]
    assert ask(urls[0], "run", "other", "-n", "true").returncode == 0
    job = start(urls, "run", "job", "sh", "-c", "echo $DISTLOCK_TOKEN; read x")
    token = job.stdout.readline().strip()
    waiter = start(urls, "run", "job", "echo", "next")
    eventually(lambda: "1 waiting" in ask(urls[0], "show", "job").stdout, "the waiter")

    replicas = [world.redis(name=f"replica{i}", tcp=True, args=(
        "--protected-mode", "no", "--replicaof", primary.host, primary.port)) for i in range(2)]
    eventually(lambda: len(primary.command("ROLE")[2]) == 2, "the replicas")
    eventually(lambda: "has, or had, replicas" in single.log(), "the broker seeing them")
    sentinels = [world._add(Sentinel(world.folder, f"sentinel{i}", primary, 2)).start() for i in range(3)]
    eventually(lambda: all(s.fields()["num-other-sentinels"] == "2" for s in sentinels), "the sentinels")
    addresses = ",".join(f"{s.host}:{s.port}" for s in sentinels)
    watched = world.distlockd(f"redis+sentinel://{addresses}/{NAME}", *SHORT, name="watched")
    assert single.drain() == 0
    shown = ask(urls[1], "show", "job").stdout
    assert token in shown and "1 waiting" in shown

    back = world.distlockd(primary.url, *SHORT, name="back")
    assert watched.drain() == 0
    for process in (*sentinels, *replicas):
        process.kill()
    assert token in ask(urls[2], "show", "job").stdout
    assert job.communicate("go\n", timeout=100)[1] == "" and job.returncode == 0
    assert waiter.communicate(timeout=100)[0] == "next\n" and waiter.returncode == 0
    assert ask(urls[2], "run", "other", "-w", "1m", "true").returncode == 0, back.log()


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
