# SPDX-License-Identifier: Apache-2.0
"""The mark of one of several servers: what its script tells of the brokers that were there."""

import pytest

from lock import source
from test_census import beat, count, server_us
from test_schema import age, announce

MEMBER = 24
KEYS = ("dl:set", "dl:m", "dl:set-new", "dl:beat", "dl:schema")


def member(redis, servers="", how="first"):
    reply = redis("EVAL", source("redlock_member"), len(KEYS), *KEYS, servers, how, "a:1", 60_000, 10_000)
    assert reply[0] == MEMBER and len(reply) == 7
    return reply[2].decode(), *map(int, reply[4:])


def test_a_new_server_has_seen_nobody(redis):
    assert member(redis) == ("", 0, 0, 0)
    assert member(redis, "3;a,b,c") == ("3;a,b,c", 0, 0, 0)


def test_each_census_is_a_sign_of_a_broker_and_tells_how_long_its_leases_last(redis):
    before = server_us(redis)
    count(redis, said=((3_000, 0), (8_000, 0)))
    _, seen, announced, longest = member(redis)
    assert before <= seen <= server_us(redis) and announced == 0 and longest == 8_000
    beat(redis, ago_ms=5_000, identity="1:2", ttls="4000:17")
    _, seen, _, longest = member(redis)
    assert 5_000_000 <= server_us(redis) - seen < 15_000_000 and longest == 4_000


def test_the_last_broker_that_told_what_it_reads_counts_whatever_it_reads(redis):
    announce(redis, newest=1)
    age(redis, "reads:1", 60_000)
    before = server_us(redis)
    announce(redis, newest=2, who=7)
    assert before <= member(redis)[2] <= server_us(redis)
    age(redis, "reads:2", 90_000)
    assert 60_000_000 <= server_us(redis) - member(redis)[2] < 75_000_000


def test_who_only_asks_is_not_seen(redis):
    announce(redis, newest=2, ask=1)
    assert member(redis) == ("", 0, 0, 0)


@pytest.mark.parametrize("command", [("SET", "x"), ("RPUSH", "x"), ("HSET", "reads:1", "x"), ("HSET", "x", "1;2")])
def test_what_is_not_of_brokers_is_no_sign_of_one(redis, command):
    verb, *values = command
    for key in ("dl:schema", "dl:beat"):
        redis(verb, key, *values)
    assert member(redis) == ("", 0, 0, 0)


def test_a_mark_is_replaced_only_where_that_is_asked_for(redis):
    assert member(redis, "3;a,b,c")[0] == "3;a,b,c"
    assert member(redis, "3;a,b,d")[0] == "3;a,b,c"
    assert member(redis, "3;a,b,d", "replace")[0] == "3;a,b,d"
