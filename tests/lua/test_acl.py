# SPDX-License-Identifier: Apache-2.0
"""The ACL line of lua/README.md is enough for the scripts and no wider than the page says."""

import re

import pytest

from lock import (GRANTED, INSPECTED, LUA, QUEUED, RELEASED, RENEWED, SOURCES, TENDED, TTL_MS, WITHDRAWN, Lock, load,
                  owner)
from resp import Connection, ReplyError

LINE = re.search(r"^ACL SETUSER distlock .*$", (LUA / "README.md").read_text(), re.M).group(0)
ALLOWED = {word[1:] for word in LINE.split() if word.startswith("+")}
# Connections and start-up need these beside the scripts.
OUTSIDE = {"evalsha", "script|load", "subscribe", "ssubscribe", "psubscribe", "unsubscribe", "punsubscribe", "ping",
           "scan", "config|get", "info", "role", "wait", "cluster", "asking", "client|setname"}


@pytest.fixture
def limited(redis, server):
    """A connection as the user of the README."""
    redis("SCRIPT", "FLUSH")
    redis(*LINE.replace("PASSWORD", "s3cret").split())
    redis("ACL", "SETUSER", "distlock", "on")
    connection = Connection(server.path)
    connection("AUTH", "distlock", "s3cret")
    yield connection
    connection.close()
    redis("ACL", "DELUSER", "distlock")


def test_line_names_just_the_commands_of_the_scripts():
    used = set()
    for text in SOURCES.values():
        used |= {name.lower() for name in re.findall(r"""(?:redis\.p?call|\bcall|try)\(\s*'([A-Z]+)'""", text)}
    assert ALLOWED == used | OUTSIDE


def test_every_script_runs_with_these_rights(limited, listen):
    listen(4)
    load(limited)
    lock = Lock(limited, check_ttl=False)
    assert lock.acquire(1)[0] == GRANTED and lock.acquire(1)[0] == GRANTED
    for n, at in ((2, 1), (3, 4), (4, 5), (5, 1), (6, 1)):
        assert lock.enqueue(n, at=at)[0] == QUEUED
    token = lock.acquire(1)[2]
    reply = lock.renew((lock, 1, TTL_MS), (Lock(limited, "default/x"), 1, TTL_MS), (lock, 1, TTL_MS, token))
    assert reply[:1] + reply[2:] == [RENEWED, 1, 0, 1]
    assert lock.tend()[0] == TENDED and lock.inspect()[0] == INSPECTED
    assert lock.release(1)[2] == owner(2)
    assert lock.release(2)[0] == RELEASED
    assert lock.release(3)[2] == owner(5), "unreachable waiters are passed over"
    assert lock.withdraw(6)[0] == WITHDRAWN
    assert lock.release(5, block=5_000)[0] == RELEASED
    limited("DEL", lock.h, lock.t)
    with pytest.raises(ReplyError, match="NOPERM|WRONGTYPE"):
        limited("HSET", "foreign", "f", "x")


def test_foreign_keys_can_be_named(limited, redis):
    load(limited)
    lock = Lock(limited, check_ttl=False)
    redis("RPUSH", lock.h, "x")
    assert lock.acquire(1)[3] == "list"


def test_what_else_the_daemon_asks(limited):
    limited("CONFIG", "GET", "maxmemory-policy")
    limited("INFO", "server")
    limited("SCAN", "0", "MATCH", "dl:*", "COUNT", "100")
    limited("CLIENT", "SETNAME", "distlock")
    limited("ROLE")
    assert limited("PING") == "PONG"


@pytest.mark.parametrize("command", [
    ("EVAL", "return 1", "0"), ("FLUSHALL",), ("KEYS", "*"), ("CONFIG", "SET", "maxmemory", "1"), ("SCRIPT", "FLUSH"),
    ("SCRIPT", "KILL"), ("GET", "other"), ("SET", "other", "1"), ("PUBLISH", "other", "x"), ("CLIENT", "LIST"),
    ("SHUTDOWN",), ("DUMP", "dl:x"), ("REPLICAOF", "NO", "ONE")])
def test_nothing_more(limited, command):
    with pytest.raises(ReplyError, match="NOPERM"):
        limited(*command)


def test_another_prefix_is_out_of_reach(limited):
    load(limited)
    with pytest.raises(ReplyError, match="NOPERM|permission"):
        Lock(limited, prefix="other", check_ttl=False).acquire(1)
