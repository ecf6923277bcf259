# SPDX-License-Identifier: Apache-2.0
"""The marker, the heartbeat, and what they say of a server that was not judged yet."""

import time

import pytest

from lock import SHA

CENSUSED = 18
HOUR = 3_600_000


class Reply:
    def __init__(self, fields):
        self.now, self.since, self.hold, self.longest = (int(field) for field in fields[:4])
        self.replicated = fields[4] == b"1" or fields[4] == "1"
        text = fields[5].decode() if isinstance(fields[5], bytes) else fields[5]
        self.ttls = [tuple(int(number) for number in one.split(":")) for one in text.split(",") if one]


def count(redis, identity="run:replid", known=0, confirm=1, hold=5_000, ttl=3_000, known_hold=0, complete_if="never",
          started=0, copied="", said=(), place="", marked=0, lives=0, kept=0):
    ttls = ",".join(f"{ttl}:{age}" for ttl, age in said)
    reply = redis("EVALSHA", SHA["census"], 2, "dl:m", "dl:beat", identity, known, confirm, 60_000, hold, ttl,
                  known_hold, complete_if, started, copied, ttls, place, marked, lives, kept)
    assert reply[0] == CENSUSED and 0 < redis("PTTL", "dl:m") <= 60_000 and 0 < redis("PTTL", "dl:beat") <= 60_000
    return Reply(reply[1:])


def server_us(redis):
    seconds, micros = redis("TIME")
    return int(seconds) * 1_000_000 + int(micros)


def beat(redis, ago_ms, identity="before:replid", replicas=0, ttls="", place="", kept="1;"):
    written = server_us(redis) - ago_ms * 1000
    redis("SET", "dl:beat", f"{identity};{written};{replicas};{ttls};{kept}{place}", "PX", 60_000)


def test_the_marker_keeps_since_when(redis):
    first = count(redis)
    assert (first.since, first.hold, first.longest) == (first.now, 5_000, 3_000)
    time.sleep(0.001)
    again = count(redis, hold=4_000, ttl=9_000)
    assert (again.since, again.hold, again.longest) == (first.since, 5_000, 9_000), "the longest that any broker named"


def test_it_stays_open_until_it_is_confirmed(redis):
    assert count(redis, confirm=0).since == 0 and count(redis, confirm=0).since == 0
    confirmed = count(redis)
    assert confirmed.since == confirmed.now
    time.sleep(0.001)
    assert count(redis, confirm=0).since == confirmed.since


def test_a_marker_that_is_not_there_comes_back_as_it_is_known(redis):
    assert count(redis, known=12345).since == 12345 and count(redis).since == 12345


def test_a_marker_that_was_deleted_alone_comes_back_as_it_is_known(redis):
    first = count(redis)
    redis("DEL", "dl:m")
    again = count(redis, known=first.since, complete_if="beating", marked=1)
    assert (again.since, again.hold) == (first.since, 0)


@pytest.mark.parametrize("complete_if", ["never", "beating", "original", "beating original"])
def test_data_that_were_deleted_while_the_server_ran_are_judged_anew(redis, complete_if):
    known = count(redis, known=12345, complete_if=complete_if, started=server_us(redis)).since
    redis("FLUSHALL")
    found = count(redis, known=known, complete_if=complete_if, started=server_us(redis), marked=1)
    assert found.since == found.now and found.hold == 5_000
    time.sleep(0.001)
    again = count(redis, known=found.since, known_hold=5_000, complete_if=complete_if, marked=1)
    assert (again.since, again.hold) == (found.since, 5_000), "judged once"


@pytest.mark.parametrize("confirm", [0, 1])
def test_a_newcomer_does_not_hide_that_data_were_deleted(redis, confirm):
    known = count(redis, known=12345, complete_if="original").since
    redis("FLUSHALL")
    newcomer = count(redis, confirm=confirm, complete_if="original")
    assert newcomer.hold == 0, "it has known nothing"
    found = count(redis, known=known, complete_if="original", started=1, marked=1)
    assert found.since == (newcomer.since or found.now) and found.hold == 5_000 and not found.replicated
    assert count(redis, known=newcomer.since, complete_if="original", marked=1).hold == 5_000, "and so the newcomer"


def test_brokers_of_the_release_before_read_and_write_the_marker_alone(redis):
    count(redis, identity="a:1")
    assert redis("GET", "dl:m").decode().count(";") == 3
    redis("SET", "dl:m", "a:2;77;0;9000", "PX", 60_000)  # it trusts appendfsync always
    found = count(redis, identity="a:2", complete_if="beating", started=server_us(redis))
    assert found.since == 77 and found.longest == 9_000


@pytest.mark.parametrize("complete_if", ["never", "beating", "original", "beating original"])
def test_another_identity_keeps_the_end_of_a_hold_off(redis, complete_if):
    count(redis, identity="a:1", hold=20_000)
    found = count(redis, identity="a:2", hold=1_000, complete_if=complete_if, started=server_us(redis))
    assert found.since == found.now and 19_000 < found.hold <= 20_000
    assert count(redis, identity="a:2", hold=1_000, complete_if=complete_if).hold == found.hold


def test_an_open_hold_off_of_another_identity_counts_as_a_whole(redis):
    count(redis, identity="a:1", hold=20_000, confirm=0)
    assert count(redis, identity="a:2", hold=1_000).hold == 20_000


def test_a_hold_off_that_is_over_leaves_nothing(redis):
    redis("SET", "dl:m", f"a:1;{server_us(redis) - 20_000_001};20000;9000")
    assert count(redis, identity="a:2", hold=1_000).hold == 1_000


def test_a_clock_that_was_set_back_makes_no_hold_off_longer_than_it_was(redis):
    redis("SET", "dl:m", f"a:1;{server_us(redis) + 10**12};20000;9000")
    assert count(redis, identity="a:2", hold=1_000).hold == 20_000


@pytest.mark.parametrize("ago_ms, hold", [(0, 0), (2_900, 0), (3_100, 5_000), (60_000, 5_000), (-3_000, 5_000)])
def test_what_beats_until_the_start_is_complete(redis, ago_ms, hold):
    started = server_us(redis)
    redis("SET", "dl:beat", f"before:1;{started - ago_ms * 1000};0;;1;", "PX", 60_000)
    first = count(redis, complete_if="beating", started=started)
    assert first.hold == hold
    assert count(redis, complete_if="beating", started=started).hold == hold, "judged once"


@pytest.mark.parametrize("place, hold", [("b:6379", 0), ("a:6379", 5_000), ("", 5_000)])
def test_a_heartbeat_of_another_server_shows_nothing(redis, place, hold):
    beat(redis, 0, place="b:6379")
    assert count(redis, complete_if="beating", started=server_us(redis), place=place).hold == hold


@pytest.mark.parametrize("place", ["", "b:6379"])
@pytest.mark.parametrize("kept, hold", [("1;", 0), ("0;", 5_000), ("", 5_000)])
def test_what_a_process_may_have_lost_by_its_own_settings_is_not_complete(redis, place, kept, hold):
    beat(redis, 0, place=place, kept=kept)
    for now_kept in (0, server_us(redis)):
        found = count(redis, complete_if="beating", started=server_us(redis), place=place, kept=now_kept)
        assert found.hold == hold, "judged once"


@pytest.mark.parametrize("ago_ms, kept", [(0, "1"), (1_800, "1"), (2_100, "0"), (-60_000, "0"), (None, "0")])
def test_the_heartbeat_says_whether_the_settings_of_its_time_keep_all(redis, ago_ms, kept):
    """A copy of the call that comes late says nothing of the settings of its time."""
    count(redis, place="b:1", kept=0 if ago_ms is None else server_us(redis) - ago_ms * 1000)
    assert redis("GET", "dl:beat").decode().split(";", 5)[4:] == [kept, "b:1"]


@pytest.mark.parametrize("keeps, hold", [(True, 0), (False, 5_000)])
def test_the_last_heartbeat_counts(redis, keeps, hold):
    count(redis, identity="a:1", complete_if="beating", hold=0, kept=server_us(redis))
    count(redis, identity="a:1", complete_if="beating", hold=0, kept=keeps and server_us(redis) or 0)
    assert count(redis, identity="a:2", complete_if="beating", started=server_us(redis)).hold == hold


def test_a_census_writes_where_it_was_taken(redis):
    count(redis, place="unix:/run/a;b", said=[(60_000, 0)])
    assert redis("GET", "dl:beat").decode().split(";", 5)[5] == "unix:/run/a;b"
    assert [ttl for ttl, _ in count(redis, identity="a:2", place="b:1").ttls] == [60_000]


def test_where_there_are_replicas_no_heartbeat_shows_that_nothing_is_missing(redis):
    beat(redis, 0, replicas=1)
    found = count(redis, complete_if="beating", started=server_us(redis))
    assert found.hold == 5_000, "it may be one of them, promoted and restarted before anybody saw it"
    assert count(redis, complete_if="beating", started=server_us(redis)).hold == 5_000, "judged once"


@pytest.mark.parametrize("started", [0, 1])
def test_without_a_heartbeat_or_a_start_nothing_is_complete(redis, started):
    if not started:
        beat(redis, 0)
    assert count(redis, complete_if="beating", started=started and server_us(redis)).hold == 5_000


def test_who_knows_the_data_does_not_judge_them_anew(redis):
    found = count(redis, known=12345, complete_if="beating", started=server_us(redis))
    assert (found.since, found.hold) == (12345, 0)
    redis("DEL", "dl:m", "dl:beat")
    assert count(redis, known=12345, known_hold=4_000, complete_if="beating").hold == 5_000


def test_an_incomplete_server_is_held_off_for_as_long_as_the_most_careful_broker_says(redis):
    count(redis, complete_if="beating", hold=5_000)
    assert count(redis, complete_if="beating", hold=8_000).hold == 8_000


def test_an_original_is_complete_and_remembers_its_replicas(redis):
    plain = count(redis, complete_if="original")
    assert plain.hold == 0 and not plain.replicated
    assert not count(redis, identity="a:2", complete_if="original", started=server_us(redis)).replicated
    seen = count(redis, identity="a:2", complete_if="original", copied="copied")
    assert seen.hold == 0 and seen.replicated
    assert count(redis, identity="a:2", complete_if="original").replicated, "also when they are away"
    failed_over = count(redis, identity="a:3", complete_if="original")
    assert failed_over.hold == 5_000 and failed_over.replicated


def test_a_promoted_server_is_no_original(redis):
    found = count(redis, complete_if="beating original", copied="promoted")
    assert found.hold == 5_000 and found.replicated


@pytest.mark.parametrize("ago_ms, hold", [(5_000, 5_000), (40_000, 0), (-1_000, 0)])
def test_data_that_were_written_elsewhere_while_the_process_ran_are_a_copy(redis, ago_ms, hold):
    beat(redis, ago_ms)
    found = count(redis, complete_if="original", started=server_us(redis) - 30_000_000)
    assert found.hold == hold and found.replicated == (hold > 0)


def test_a_longer_ttl_matters_for_its_own_length(redis):
    assert count(redis, said=[(HOUR, 0)]).ttls == [(HOUR, 0)]
    found = count(redis, said=[(15_000, 0)]).ttls
    assert [ttl for ttl, _ in found] == [HOUR, 15_000]
    now = server_us(redis)
    redis("SET", "dl:beat", f"run:replid;{now};0;{HOUR}:{now - (HOUR + 9_000) * 1000},15000:{now};0;", "PX", 60_000)
    assert [ttl for ttl, _ in count(redis, said=[(15_000, 0)]).ttls] == [HOUR, 15_000]
    redis("SET", "dl:beat", f"run:replid;{now};0;{HOUR}:{now - (HOUR + 11_000) * 1000},15000:{now};0;", "PX", 60_000)
    assert [ttl for ttl, _ in count(redis, said=[(15_000, 0)]).ttls] == [15_000]


def test_ttls_outlive_the_identity_and_the_longer_and_later_one_stands_for_the_others(redis):
    count(redis, said=[(60_000, 1_000), (120_000, 2_000)])
    found = count(redis, identity="a:2", said=[(30_000, 5_000), (60_000, 30_000)]).ttls
    assert [ttl for ttl, _ in found] == [120_000, 60_000]
    assert [round(age, -3) for _, age in found] == [2_000, 1_000]


def test_at_most_eight_ttls_are_kept(redis):
    said = [(60_000 * (20 - i), 1_000 * (20 - i)) for i in range(12)]
    ttls = count(redis, said=said).ttls
    assert [ttl for ttl, _ in ttls] == [ttl for ttl, _ in said[:8]]
    assert [round(age, -3) for _, age in ttls] == [age for _, age in said[:7]] + [said[11][1]], "the last says the rest"
    again = count(redis, said=said).ttls
    assert [ttl for ttl, _ in again] == [ttl for ttl, _ in ttls] and round(again[-1][1], -3) == said[11][1]
