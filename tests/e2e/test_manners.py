# SPDX-License-Identifier: Apache-2.0
"""What an operator may rely on: readiness of an idle broker, who may drain and force-release, what the status page
shows, messages at the start that name the cause, and how long the store remembers names."""
import os
import socket
import time

import grpc
import pytest

from client import failure
from harness import eventually, free_port
from proxy import PATIENCE_S
from test_start import CONFIG, UNAVAILABLE, complaint, run


def test_an_idle_broker_notices_a_store_that_hangs(world):
    redis = world.redis()
    daemon = world.distlockd(redis.url)
    assert daemon.get("/readyz")[0] == 200
    redis.stop()
    stopped = time.monotonic()
    eventually(lambda: daemon.get("/readyz")[0] == 503, "readyz 503")
    took = time.monotonic() - stopped
    assert took < 3, took
    assert daemon.metric("distlock_store_up") == 0
    redis.cont()
    eventually(lambda: daemon.get("/readyz")[0] == 200, "readyz 200")


# The words of the server, and the commands that make it say them and stop it.
SET = ("CONFIG", "SET")
REFUSALS = {"NOREPLICAS": ((*SET, "min-replicas-to-write", "1"), (*SET, "min-replicas-to-write", "0")),
            "OOM": ((*SET, "maxmemory", "1"), (*SET, "maxmemory", "0")),
            "NOPERM": (("ACL", "SETUSER", "default", "-evalsha"), ("ACL", "SETUSER", "default", "+evalsha"))}


@pytest.mark.parametrize("word", REFUSALS)
def test_a_quiet_broker_tells_of_a_store_that_refuses_writes(world, word):
    begin, end = REFUSALS[word]
    redis = world.redis()
    daemon = world.distlockd(redis.url)
    assert daemon.metric("distlock_store_writable") == 1 and daemon.get("/readyz?grants=1")[0] == 200
    redis.command(*begin)
    eventually(lambda: daemon.metric("distlock_store_writable") == 0, "the metric")
    assert daemon.get("/readyz?grants=true")[0] == 503 and daemon.get("/readyz?grant=1")[0] == 400
    code, why = daemon.get("/readyz?grants=1")
    assert code == 503 and word in why and "script:" not in why, why
    assert daemon.get("/readyz")[0] == 200 and daemon.metric("distlock_store_up") == 1
    status = world.client(daemon.url).status()
    assert word in status.store_refusal and word in status.store_nodes[0].refusal, status
    redis.command(*end)
    eventually(lambda: daemon.get("/readyz?grants=1")[0] == 200, "grants")
    assert not world.client(daemon.url).status().store_refusal


def test_a_broker_without_a_census_tells_of_it_at_its_start(world):
    redis = world.redis()
    redis.command("CONFIG", "SET", "maxmemory", "1")
    daemon = world.distlockd(redis.url, "--failover-hold-off", "0")
    eventually(lambda: daemon.metric("distlock_store_writable") == 0, "the metric")


# ---- Rights to drain and force-release ----

def refused(client):
    why = failure(client.force_release, "k")
    return why.reason == "PERMISSION_DENIED" and "--admin-listen" in why.message


def test_admin_calls_are_for_unix_sockets(world):
    redis = world.redis()
    address = f"127.0.0.1:{free_port()}"
    daemon = world.distlockd(redis.url, "--listen", address)
    by_socket, by_tcp = world.client(daemon.url), world.client(address)
    assert refused(by_tcp) and by_tcp.status().listen_addresses, "GetStatus is for everybody"
    assert by_socket.force_release("k") == 0
    assert by_socket.can_i("force-release", "k").allowed
    told = by_tcp.can_i("force-release", "k")
    assert not told.allowed and "force-release is not served at this address" in told.obstacle, told
    assert by_tcp.can_i("exclusive", "k").allowed
    daemon.terminate()


def test_admin_listen_names_where_they_are_served(world):
    redis = world.redis()
    address, own = (f"127.0.0.1:{free_port()}" for _ in range(2))
    daemon = world.distlockd(redis.url, "--listen", address, "--admin-listen", own)
    assert refused(world.client(daemon.url)) and refused(world.client(address))
    assert world.client(own).force_release("k") == 0
    client = world.client(own)
    assert failure(client.acquire, client.spec("k")).code == grpc.StatusCode.UNIMPLEMENTED
    eventually(lambda: f"admin={own}" in daemon.log(), "the line that says where it serves")


def test_an_address_of_listen_may_serve_them(world):
    redis = world.redis()
    address = f"127.0.0.1:{free_port()}"
    daemon = world.distlockd(redis.url, "--listen", address, "--admin-listen", address)
    assert world.client(address).force_release("k") == 0
    assert refused(world.client(daemon.url))
    code, line = complaint("--redis", redis.url, "--listen", "127.0.0.1:0", "--http", "",
                           "--admin-listen", "10.0.0.1:1")
    assert code == CONFIG and "--admin-listen" in line and "--insecure-listen" in line


# ---- The status page ----

@pytest.mark.parametrize("args, shown", [((), True), (("--http-page", "off"), False)])
def test_the_page_shows_locks_on_loopback(world, args, shown):
    daemon = world.distlockd(world.redis().url, *args)
    client = world.client(daemon.url)
    client.acquire(client.spec("secret-key"))
    assert ("secret-key" in daemon.get("/page.json")[1]) == shown


@pytest.mark.parametrize("args, shown", [((), False), (("--http-page", "on"), True)])
def test_the_page_shows_no_locks_elsewhere(world, args, shown):
    port = free_port()
    daemon = world.distlockd(world.redis().url, "--http", f"0.0.0.0:{port}", *args)
    client = world.client(daemon.url)
    client.acquire(client.spec("secret-key"))
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as page:
        page.sendall(f"GET /page.json HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        with page.makefile("rb") as stream:
            text = stream.read().decode()
    assert " 200 " in text.splitlines()[0] and ("secret-key" in text) == shown


# ---- Messages at the start ----

def test_a_folder_that_cannot_be_written_is_named(world):
    redis, folder = world.redis(), world.folder / "closed"
    folder.mkdir()
    folder.chmod(0o555)
    # Root writes everywhere, unless it has no capabilities.
    powerless = ["setpriv", "--inh-caps=-all", "--bounding-set=-all", "--"] if os.geteuid() == 0 else []
    code, out, err = run("--redis", redis.url, "--listen", f"unix://{folder}/d.sock", "--http", "", before=powerless)
    assert code == CONFIG and not out
    # A warning of the store may come before or after it.
    why = next((line for line in err.splitlines() if str(folder) in line), "")
    assert "Permission denied" in why and "try again" not in why, err
    assert "chttp2" not in err, "gRPC tells it in words of its own"


def test_a_store_that_does_not_speak_tls_is_named(world):
    redis = world.redis(tcp=True)
    code, line = complaint("--redis", f"rediss://127.0.0.1:{redis.port}", "--listen", f"unix://{world.folder}/d.sock",
                           "--http", "")
    assert code == UNAVAILABLE and "TLS handshake" in line


# ---- Names that are never used again ----

def test_a_namespace_may_be_remembered_for_less(world):
    redis = world.redis()
    daemon = world.distlockd(redis.url, "--namespace-token-keep", "builds=2m")
    client = world.client(daemon.url)
    for namespace in ("builds", "other"):
        locks = [client.spec(f"k{i}", namespace=namespace) for i in range(3)]
        for lock in locks:
            client.release(client.acquire(lock).lease_id)
        for i in range(3):
            left = redis.command("PTTL", redis.key(f"k{i}", "t", namespace=namespace))
            assert (left <= 120_000) == (namespace == "builds"), (namespace, left)
    code, line = complaint("--namespace-token-keep", "builds=1s")
    assert code != 0 and "builds=1s" in line and "1m..24h" in line


def test_keys_of_the_store_are_counted(world):
    redis = world.redis()
    daemon = world.distlockd(redis.url)
    client = world.client(daemon.url)
    for i in range(5):
        client.release(client.acquire(client.spec(f"k{i}")).lease_id)
    # Five tokens, the schema's mark, the marker and the heartbeat.
    eventually(lambda: daemon.metric("distlock_store_keys") == 8, "the keys of the store in the metric")


def test_the_oldest_holder_and_the_longest_queue_are_told_of(world):
    daemon = world.distlockd(world.redis().url, "--metrics-namespace", "shop")

    def shown(what, **labels):
        return daemon.metric(f"distlock_{what}", **labels)
    with daemon.client() as client:
        held = [client.session() for _ in range(3)]
        for session in held:
            session.acquire(client.spec("k", namespace="shop", ttl=6.0))
        held[0].acquire(client.spec("other", ttl=6.0))
        eventually(lambda: shown("namespace_longest_queue", namespace="shop") == 2, "the queue of the namespace")
        assert shown("longest_queue") == 2
        eventually(lambda: 0 < shown("namespace_oldest_hold_seconds", namespace="shop")
                   <= shown("oldest_hold_seconds") < 20, "the age of the oldest lease")
        assert shown("connections_limit") > 100
    eventually(lambda: shown("oldest_hold_seconds") == shown("longest_queue") == 0, "nothing being left")
