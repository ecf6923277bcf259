# SPDX-License-Identifier: Apache-2.0
"""A hold-off that counts from the start of a server's process: of a server without a trace of any broker that has kept
all data that it ever had."""

import socket
import time

import pytest

import lock
from conftest import Server
from resp import Connection
from test_census import beat, count, server_us


def second_ago(redis, seconds):
    return (server_us(redis) // 1_000_000 - seconds) * 1_000_000


def is_counted_from_its_start(redis, **how):
    started = second_ago(redis, 40)
    found = count(redis, started=started, lives=1, **how)
    return found.since == started + 2_000_000


class Own(Server):
    """A server of this test alone."""

    def __init__(self, binary):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        super().__init__(binary, "--port", self.port, "--enable-debug-command", "yes")
        self.redis = Connection(self.path)
        lock.load(self.redis)


@pytest.fixture
def new_redis(server):
    started = []

    def start():
        started.append(Own(server.binary))
        return started[-1]

    yield start
    for one in started:
        one.redis.close()
        one.stop()


@pytest.fixture
def fresh(new_redis):
    own = new_redis()
    if "total_net_repl_input_bytes" not in str(own.redis("INFO", "stats")):
        pytest.skip("this server does not count what is needed")
    return own.redis


def test_a_long_life_without_a_trace_has_nothing_to_forget(fresh):
    assert is_counted_from_its_start(fresh)


def test_a_short_life_is_counted_from_its_start_and_not_from_the_future(fresh):
    found = count(fresh, started=second_ago(fresh, 1), lives=1)
    assert found.since == found.now


def test_what_the_caller_does_not_know_counts_from_now(fresh):
    found = count(fresh, started=second_ago(fresh, 40))
    assert found.since == found.now
    fresh("DEL", "dl:m", "dl:beat")
    found = count(fresh, lives=1)
    assert found.since == found.now, "when it started is not known"


@pytest.mark.parametrize("deed", [
    ("FLUSHALL",), ("FLUSHDB",), ("SWAPDB", "0", "1"), ("DEBUG", "RELOAD"), ("CONFIG", "RESETSTAT"),
    ("REPLICAOF", "NO", "ONE"), ("SLAVEOF", "NO", "ONE")], ids=lambda deed: "_".join(deed).lower())
def test_what_may_have_emptied_it_ends_its_long_life(fresh, deed):
    fresh(*deed)
    assert not is_counted_from_its_start(fresh)


def test_an_older_copy_of_a_key_ends_its_long_life(fresh):
    fresh("SET", "x", "1")
    fresh("RESTORE", "y", "0", fresh("DUMP", "x"))
    assert not is_counted_from_its_start(fresh)


def test_a_trace_of_a_broker_ends_its_long_life(fresh):
    beat(fresh, 60_000)
    assert not is_counted_from_its_start(fresh)
    fresh("DEL", "dl:beat")
    fresh("SET", "dl:m", "before:replid;1;5000;3000")
    assert not is_counted_from_its_start(fresh, identity="after:replid")


def test_who_has_known_its_data_is_not_told_of_a_long_life(fresh):
    assert not is_counted_from_its_start(fresh, known=12345, marked=1)


def test_a_replica_that_was_promoted_has_no_long_life(new_redis):
    primary, replica = new_redis(), new_redis().redis
    replica("REPLICAOF", "127.0.0.1", primary.port)
    while "master_link_status:up" not in str(replica("INFO", "replication")):
        time.sleep(0.01)
    replica("REPLICAOF", "NO", "ONE")
    assert not is_counted_from_its_start(replica)
