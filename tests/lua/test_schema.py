# SPDX-License-Identifier: Apache-2.0
"""The mark of the schema: who may use a store, and when what is written there may be raised."""

from lock import FOREIGN, SHA, broker

SCHEMA = 25
MARK = "dl:schema"
HOUR_MS = 3_600_000
MONTH_MS = 30 * 24 * HOUR_MS


def announce(redis, newest, oldest=1, want=0, ask=0, who=1, recent=HOUR_MS, old=26 * HOUR_MS,
             least_id="", new_id=""):
    """What the script says, as numbers where they are numbers."""
    reply = redis("EVALSHA", SHA["schema"], 1, MARK, broker(who), oldest, newest, want, ask, MONTH_MS, recent, old,
                  least_id, new_id)
    code, _, writes, reads_from, since, reads, at, blocker, refusal, store_id = reply
    assert code == SCHEMA
    return {"writes": int(writes), "reads_from": int(reads_from), "since": int(since), "reads": int(reads),
            "at": int(at), "blocker": blocker.decode(), "refusal": refusal.decode(), "id": store_id.decode()}


def fields(redis):
    flat = [item.decode() for item in redis("HGETALL", MARK)]
    return dict(zip(flat[::2], flat[1::2]))


def age(redis, field, ms):
    """Makes what the field says older."""
    at, rest = (fields(redis)[field] + ";").split(";", 1)
    redis("HSET", MARK, field, ";".join(filter(None, (str(int(at) - ms * 1000), rest.rstrip(";")))))


def test_a_store_without_a_mark_gets_the_oldest_that_its_first_broker_reads(redis):
    assert announce(redis, newest=2)["writes"] == 1
    assert fields(redis)["reads_from"] == "1" and fields(redis)["reads:2"].endswith(f";{broker(1)}")
    assert 0 < redis("PTTL", MARK) <= MONTH_MS


def test_a_store_keeps_the_id_of_its_first_broker(redis):
    assert announce(redis, newest=1)["id"] == "" and "id" not in fields(redis), "a quorum's server has none"
    first, second = "0" * 15 + "5", "0" * 15 + "3"
    assert announce(redis, newest=1, new_id=first)["id"] == first == fields(redis)["id"]
    assert announce(redis, newest=1, new_id=second)["id"] == first
    assert announce(redis, newest=1)["id"] == first
    redis("DEL", MARK)
    assert announce(redis, newest=1, ask=1, new_id=second)["id"] == "" and redis("EXISTS", MARK) == 0


def test_several_servers_come_to_show_the_least_id(redis):
    low, middle, high = ("0" * 15 + digit for digit in "358")
    assert announce(redis, newest=1, new_id=middle, least_id=high)["id"] == middle
    assert announce(redis, newest=1, new_id=high, least_id=low)["id"] == low == fields(redis)["id"]
    assert announce(redis, newest=1, new_id=middle, least_id=middle)["id"] == low


def test_who_cannot_read_the_store_is_told_and_not_entered(redis):
    announce(redis, newest=3, oldest=2, want=3)
    before = fields(redis)
    assert announce(redis, newest=2)["writes"] == 3
    assert announce(redis, newest=4, oldest=3)["reads_from"] == 2
    assert fields(redis) == before


def test_the_latest_of_those_who_read_less_is_named(redis):
    announce(redis, newest=1, who=1)
    announce(redis, newest=2, who=2)
    assert announce(redis, newest=3, want=3, who=3)["blocker"] == broker(2)


def test_asking_changes_nothing(redis):
    assert announce(redis, newest=2, want=2, ask=1)["writes"] == 2 and redis("EXISTS", MARK) == 0
    announce(redis, newest=1)
    before = fields(redis)
    assert announce(redis, newest=2, want=2, ask=1)["reads"] == 1
    age(redis, "reads:1", HOUR_MS)
    before = fields(redis)
    said = announce(redis, newest=2, want=2, ask=1)
    assert (said["writes"], said["reads"]) == (1, 0) and fields(redis) == before


def test_a_full_server_keeps_its_mark(redis):
    announce(redis, newest=1)
    age(redis, "reads:1", HOUR_MS)
    redis("CONFIG", "SET", "maxmemory", "1")
    try:
        said = announce(redis, newest=2, want=2)
        assert said["writes"] == 1 and "OOM" in said["refusal"]
        redis("DEL", MARK)
        said = announce(redis, newest=2)
        assert said["writes"] == 1 and "OOM" in said["refusal"]
    finally:
        redis("CONFIG", "SET", "maxmemory", "0")


def test_a_hash_of_others_is_left_alone(redis):
    redis("HSET", MARK, "a", "b")
    reply = redis("EVALSHA", SHA["schema"], 1, MARK, broker(1), 1, 1, 0, 0, MONTH_MS, HOUR_MS, HOUR_MS, "", "")
    assert reply[0] == FOREIGN and reply[3] == b"shape" and fields(redis) == {"a": "b"}
