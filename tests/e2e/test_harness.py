# SPDX-License-Identifier: Apache-2.0
"""Tests of the harness: processes, client, belief."""
import os
import pathlib
import socket
import subprocess
import sys

import pytest

import harness
from client import api, failure
from harness import RedisError, Redis, World, eventually, free_port


@pytest.mark.parametrize("tcp", [False, True])
def test_redis_loses_its_data_at_a_restart_and_freezes_when_stopped(world, tcp):
    redis = world.redis(tcp=tcp)
    redis.command("SET", "k", "v")
    assert redis.command("GET", "k") == "v" and redis.command("GET", "other") is None
    with pytest.raises(RedisError, match="WRONGTYPE"):
        redis.command("LPUSH", "k", "1")
    redis.stop()
    redis.cont()
    assert redis.command("LRANGE", "none", 0, -1) == []
    redis.restart()
    assert redis.command("GET", "k") is None


def test_processes_of_one_name_are_numbered(world):
    world.redis("a")
    world.redis("b")
    with pytest.raises(AssertionError, match="another name"):
        world.redis("a")


def test_a_process_that_cannot_start_reports_the_reason(world):
    with pytest.raises(AssertionError, match="no-such-option"):
        world.redis(args=("--no-such-option", "1"))


def test_no_two_test_runs_are_told_the_same_port():
    port = free_port()
    tried = subprocess.run([sys.executable, "-B", "-c", f"import harness; print(harness._keep_port({port}))"],
                           cwd=pathlib.Path(__file__).parent, capture_output=True, text=True, check=True)
    assert tried.stdout == "False\n" and not harness._keep_port(port)
    first, _ = map(int, pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split())
    assert port < first or first <= 1024, "the kernel may give it to a connection"


def test_a_port_at_which_somebody_listens_is_not_free():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert not harness._keep_port(taken.getsockname()[1])


def test_no_process_outlives_the_world(tmp_path):
    with World(tmp_path) as world:
        redis = world.redis()
        redis.stop()
    eventually(lambda: not os.path.exists(f"/proc/{redis.pid}"), "the end of a stopped process")


def test_a_detached_lock_through_a_proxy(world):
    redis = world.redis()
    daemon = world.distlockd(world.proxy(redis.url).url)
    client = world.client(world.proxy(daemon.url).url)
    grant = client.acquire(client.spec("k", ttl=5, owner="me"))
    assert grant.fencing_token > 0
    assert client.lock("k").holders[0].owner == "me"
    assert redis.command("EXISTS", redis.key("k", "h")) == 1
    refused = failure(client.acquire, client.spec("k", 0))
    assert refused.reason == "LOCK_HELD" and 0 < refused.retry_after <= 5
    assert failure(client.acquire, client.spec("")).fields
    assert client.renew(grant.lease_id).ttl.seconds == 5
    assert client.release(grant.lease_id) == api().RELEASE_OUTCOME_RELEASED
    assert redis.command("EXISTS", redis.key("k", "h")) == 0


def test_streams_and_what_they_may_believe(world):
    daemon = world.distlockd(world.redis().url, "--validity", "1s")
    holder, other = world.client(daemon.url), world.client(daemon.url)
    session = holder.session()
    lock = session.acquire(holder.spec("k"))
    session.wait_for(lock, "granted")
    hold = other.hold(other.spec("k"))
    hold.wait_for("queued")
    assert other.lock("k").queue_length == 1
    session.wait_ack(session.beat())
    assert session.believes(lock) and not hold.believes()
    released = session.wait_for(session.release(lock), "released")
    assert released.outcome == api().RELEASE_OUTCOME_RELEASED
    grant = hold.wait_for("granted")
    hold.wait_for("renewed", 2)
    assert hold.believes() and not session.believes(lock)
    assert holder.release(grant.lease_id) == api().RELEASE_OUTCOME_RELEASED
    hold.wait_for("released")
    assert hold.wait_end().reason is None
    session.goodbye()
    session.wait_end()


def test_status_metrics_and_drain_of_a_daemon(world):
    daemon = world.distlockd(world.redis().url)
    with daemon.client() as client:
        client.acquire(client.spec("k"))
        assert client.status().broker_id
    assert daemon.metric("distlock_grants_total") == 1
    assert daemon.get("/readyz")[0] == 200 and daemon.get("/nowhere")[0] == 404
    assert daemon.drain() == 0
    daemon.start()
    assert daemon.serving()


def test_a_daemon_without_its_store_is_not_ready(world):
    nowhere = Redis(world.folder, "nowhere")
    daemon = world.distlockd(nowhere.url, await_ready=False)
    assert daemon.exit_code() != 0
    assert "nowhere.sock" in daemon.log()
