# SPDX-License-Identifier: Apache-2.0
"""--failover-hold-off with a store without persistence: who held a lock before it was killed may believe in it for a
while, so nobody else is granted it meanwhile."""
import shutil
import subprocess

import pytest

from client import api, boot_now, failure, seconds
from faults import DISTLOCKCTL, Holder, waiter
from harness import eventually

MAX_TTL_S = 4
HOLD_OFF = ("--failover-hold-off", "auto", "--max-ttl", f"{MAX_TTL_S}s", "--default-ttl", "3s", "--validity", "1s")
FIXED = ("--failover-hold-off", f"{MAX_TTL_S}s", "--default-ttl", "3s", "--validity", "1s")


@pytest.mark.parametrize("flags", [HOLD_OFF, FIXED], ids=["auto", "fixed"])
def test_a_restarted_store_grants_nobody_what_it_may_have_forgotten(world, flags):
    redis = world.redis()
    daemon = world.distlockd(redis.url, *flags)
    client = world.client(daemon.url)
    started = boot_now()
    holder = Holder(client, "session", ttl=3).granted()  # the first hold-off: the store is new
    waiting = waiter(client, ttl=3)
    redis.kill()
    killed = boot_now()
    redis.start()
    assert holder.wait_for("lost").reason == api().LOST_REASON_TAKEN
    granted = waiting.granted()
    assert boot_now() - killed >= MAX_TTL_S, "the old holder's ttl could have lasted until then"
    assert granted.token > holder.token and killed >= started
    assert "append-only" not in daemon.log(), "warned of what the hold-off takes care of"


def test_a_store_that_lost_only_its_connections_holds_nobody_off(world):
    redis = world.redis()
    daemon = world.distlockd(redis.url, *HOLD_OFF)
    client = world.client(daemon.url)
    holder = Holder(client, "session", ttl=3).granted()
    redis.command("CLIENT", "KILL", "TYPE", "normal")
    assert client.release(holder.grant.lease_id) == api().RELEASE_OUTCOME_RELEASED
    before = boot_now()
    assert Holder(client, "session", ttl=3).granted()
    assert boot_now() - before < MAX_TTL_S
    assert redis.command("EXISTS", "dl:m") == 1


def test_a_store_whose_data_were_deleted_grants_nobody_what_it_has_forgotten(world):
    redis = world.redis()
    daemon = world.distlockd(redis.url, *HOLD_OFF)
    client = world.client(daemon.url)
    assert Holder(client, "session", ttl=3).granted()  # the first hold-off is over
    redis.command("FLUSHALL")
    flushed = boot_now()
    eventually(lambda: "data were deleted while it was running" in daemon.log(), "the warning")
    assert Holder(client, "session", ttl=3, key="another").granted()
    assert boot_now() - flushed >= MAX_TTL_S


def test_a_store_without_a_hold_off_whose_data_were_deleted_is_warned_of(world):
    redis = world.redis()
    daemon = world.distlockd(redis.url)
    client = world.client(daemon.url)
    assert Holder(client, "session", ttl=3).granted()
    redis.command("FLUSHALL")
    eventually(lambda: "data were deleted while it was running" in daemon.log(), "the warning")
    before = boot_now()
    assert Holder(client, "session", ttl=3, key="another").granted()
    assert boot_now() - before < 3


def test_who_is_off_is_warned_and_has_no_marker(world):
    redis = world.redis()
    daemon = world.distlockd(redis.url, "--failover-hold-off", "0")
    client = world.client(daemon.url)
    assert Holder(client, "session", ttl=3).granted()
    assert redis.command("EXISTS", "dl:m") == 0
    assert "--failover-hold-off" in daemon.log()


def test_a_broker_with_a_shorter_max_ttl_than_another_is_told_of_it(world):
    redis = world.redis()
    world.distlockd(redis.url, *HOLD_OFF, name="first")
    shorter = ("--failover-hold-off", "auto", "--max-ttl", "3s", "--default-ttl", "3s", "--validity", "1s")
    second = world.distlockd(redis.url, *shorter, name="second")
    eventually(lambda: "leases of up to 4000 ms, this one of up to 3000 ms: give all brokers the same --max-ttl"
               in second.log(), "the warning")


DURABLE = ("--appendonly", "yes", "--appendfsync", "always", "--appenddirname", "durable")


def test_a_durable_server_that_is_back_at_once_holds_nobody_off_and_one_that_is_back_empty_does(world):
    redis = world.redis(args=DURABLE)
    daemon = world.distlockd(redis.url, *HOLD_OFF)
    client = world.client(daemon.url)
    assert Holder(client, "session", ttl=3).granted()  # the first hold-off: no broker was there before
    redis.kill()
    redis.start()
    before = boot_now()
    assert Holder(client, "session", ttl=3, key="durable").granted()
    assert boot_now() - before < MAX_TTL_S - 1
    redis.kill()
    shutil.rmtree(redis.folder / "durable")
    killed = boot_now()
    redis.start()
    assert Holder(client, "session", ttl=3, key="empty").granted()
    assert boot_now() - killed >= MAX_TTL_S, "its setting says nothing of the data"


def test_a_server_whose_settings_were_lowered_at_run_time_holds_off_when_its_file_brings_them_back(world):
    redis = world.redis(args=DURABLE)
    daemon = world.distlockd(redis.url, *HOLD_OFF)
    client = world.client(daemon.url)
    assert Holder(client, "session", ttl=3).granted()
    redis.command("CONFIG", "SET", "appendfsync", "everysec")
    eventually(lambda: redis.command("GET", "dl:beat").split(";")[4] == "0", "the heartbeat after the change")
    redis.kill()
    killed = boot_now()
    redis.start()
    assert redis.command("CONFIG", "GET", "appendfsync")[1] == "always"
    assert Holder(client, "session", ttl=3, key="lowered").granted()
    assert boot_now() - killed >= MAX_TTL_S


def test_a_longer_ttl_of_before_counts(world):
    redis = world.redis()
    first = world.distlockd(redis.url, "--failover-hold-off", "auto", "--max-ttl", "20s", name="first")
    eventually(lambda: redis.command("EXISTS", "dl:beat") == 1, "the first census")
    first.terminate()
    second = world.distlockd(redis.url, *HOLD_OFF, name="second")
    client = world.client(second.url)
    eventually(lambda: "leases of up to 20000 ms" in second.log(), "its first census")
    redis.kill()
    redis.start()
    eventually(lambda: any(seconds(node.hold_off_left) > MAX_TTL_S + 2 for node in client.status().store_nodes),
               "a hold-off for the leases of 20 s")


def test_an_append_only_file_that_lags_behind_is_warned_of(world):
    lagging = world.redis("lagging", args=("--appendonly", "yes"))
    lags = world.distlockd(lagging.url, name="lags")
    eventually(lambda: "appendfsync everysec" in lags.log(), "the warning")
    durable = world.redis("durable", args=DURABLE)
    assert "appendfsync" not in world.distlockd(durable.url, name="durably").log()


def test_leases_that_an_old_primary_behind_one_address_outlasts_are_warned_of(world):
    primary = world.redis("primary", tcp=True, args=("--min-replicas-to-write", "1"))
    world.redis("replica", tcp=True, args=("--replicaof", "127.0.0.1", primary.port))
    eventually(lambda: "connected_slaves:1" in primary.command("INFO", "replication"), "the replica")
    daemon = world.distlockd(primary.url, "--store-nodes", "2", "--default-ttl", "17s", "--wait-for-store")
    eventually(lambda: "leases of 17000 ms may be held twice" in daemon.log(), "the warning")
    assert "run CONFIG SET min-replicas-max-lag 9 on each server, or use a --default-ttl of at least 18000 ms" in \
        daemon.log()


def test_an_address_with_a_replica_behind_it_is_one_that_fails_over(world):
    """A managed Redis: one address, and a failover behind it that nobody announces."""
    primary = world.redis("primary", tcp=True)
    replica = world.redis("replica", tcp=True, args=("--replicaof", "127.0.0.1", primary.port))
    eventually(lambda: "connected_slaves:1" in primary.command("INFO", "replication"), "the replica")
    daemon = world.distlockd(primary.url)
    eventually(lambda: "has, or had, replicas" in daemon.log(), "the warning")
    client = world.client(daemon.url)
    assert Holder(client, "session", ttl=20).granted()  # a first start is not held off
    assert failure(client.acquire, client.spec("longer", 0, ttl=31)).code.name == "INVALID_ARGUMENT"
    eventually(lambda: replica.command("EXISTS", "dl:beat") == 1, "what is known of the primary")
    primary.kill()
    replica.command("REPLICAOF", "NO", "ONE")
    after = world.client(world.distlockd(replica.url, name="after").url)
    assert failure(after.acquire, after.spec("free", 0, ttl=5)).reason == "STORE_HOLD_OFF"
    assert any(seconds(node.hold_off_left) > 30 for node in after.status().store_nodes)


def ctl(daemon, *args):
    return subprocess.run([DISTLOCKCTL, *args], env={"DISTLOCK_SERVER": daemon.url, "PATH": "/usr/bin:/bin"},
                          capture_output=True, text=True, timeout=60, check=False)


def test_a_hold_off_is_an_outcome_of_its_own(world):
    """A cron job that is skipped for it must be told from one that another machine runs."""
    redis = world.redis()
    daemon = world.distlockd(redis.url, "--failover-hold-off", "30s")
    client = world.client(daemon.url)
    one_try = failure(client.acquire, client.spec("k", 0))
    assert (one_try.code.name, one_try.reason) == ("UNAVAILABLE", "STORE_HOLD_OFF"), one_try
    assert 10 < one_try.retry_after <= 30 and "hold-off" in one_try.message, one_try
    assert failure(client.acquire, client.spec("k", 0.2)).reason == "STORE_HOLD_OFF"
    quiet = ctl(daemon, "run", "k", "-n", "-q", "-E", "0", "true")
    assert quiet.returncode == 69 and "STORE_HOLD_OFF" in quiet.stderr and "retry after" in quiet.stderr, quiet
    assert quiet.stderr.endswith("distlockctl status --explain says more\n"), quiet
    shown = ctl(daemon, "show", "k").stdout
    assert "held off, 0 waiting" in shown and "nobody is newly granted a lock for another" in shown, shown
    assert "nobody is newly granted a lock" in ctl(daemon, "ls").stderr
    assert "! nobody is newly granted a lock" in ctl(daemon, "top", "--once").stdout
    assert daemon.log().count("hold-off begins") == 1 and "--failover-hold-off 0" in daemon.log()
    code, why = daemon.get("/readyz?grants=1")
    assert code == 503 and "hold-off" in why and daemon.get("/readyz")[0] == 200, why


def test_a_lock_that_is_held_is_told_as_held_during_a_hold_off(world):
    redis = world.redis()
    before = world.distlockd(redis.url, "--failover-hold-off", "0", name="before")
    assert Holder(world.client(before.url), "session", ttl=20).granted()
    daemon = world.distlockd(redis.url, "--failover-hold-off", "30s")
    client = world.client(daemon.url)
    assert failure(client.acquire, client.spec("k", 0)).reason == "LOCK_HELD"
    assert failure(client.acquire, client.spec("free", 0)).reason == "STORE_HOLD_OFF"


def test_the_end_of_a_hold_off_is_logged(world):
    daemon = world.distlockd(world.redis().url, *FIXED)
    eventually(lambda: "hold-off ends" in daemon.log(), "the line")
    assert daemon.log().count("hold-off begins") == daemon.log().count("hold-off ends") == 1


def test_a_first_start_on_a_server_that_has_run_for_long_costs_nothing(world):
    redis = world.redis()
    if "total_net_repl_input_bytes" not in redis.command("INFO", "stats"):
        pytest.skip("this server does not count what is needed")
    eventually(lambda: int(redis.command("INFO", "server").split("uptime_in_seconds:")[1].split()[0]) > MAX_TTL_S + 3,
               "a long life")
    daemon = world.distlockd(redis.url, *HOLD_OFF)
    client = world.client(daemon.url)
    assert client.acquire(client.spec("k", 0, ttl=3)).fencing_token > 0
    assert "hold-off begins" not in daemon.log()
    daemon.terminate()
    redis.command("FLUSHALL")
    after = world.client(world.distlockd(redis.url, *HOLD_OFF, name="after").url)
    assert failure(after.acquire, after.spec("k", 0, ttl=3)).reason == "STORE_HOLD_OFF", "it may have been forgotten"
