# SPDX-License-Identifier: Apache-2.0
"""watch: a line for each change, and what ends it."""
import json
import re
import signal

import pytest

from broker import eventually
from ctl import ends, line
from fake_broker import FakeBroker


def next_with(process, holders, waiting):
    """The next line with these counts. Fast changes may be printed as one, so lines before it are skipped."""
    while True:
        lock = json.loads(line(process))
        if (len(lock["holders"]), lock["queue_length"]) == (holders, waiting):
            return lock


def test_as_json(ctl, broker):
    process = ctl.start("watch", "k", "-o", "json")
    first = json.loads(line(process))
    assert list(first) == ["time", "namespace", "key", "token", "queue_length", "holder_count", "limit", "free",
                           "block", "holders", "waiters"]
    assert (first["namespace"], first["key"], first["holders"]) == ("default", "k", [])
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", first["time"])
    holder = ctl.start("hold", "k", "--owner", "bob")
    assert next_with(process, 1, 0)["holders"][0]["owner"] == "bob"
    ctl.start("hold", "k", "--owner", "eve")
    assert next_with(process, 1, 1)["waiters"][0]["owner"] == "eve"
    holder.send_signal(signal.SIGTERM)
    assert next_with(process, 1, 0)["holders"][0]["owner"] == "eve"
    process.send_signal(signal.SIGINT)
    assert ends(process) == 0


def test_as_text(ctl, broker):
    ctl("acquire", "k", "--owner", "bob", "--namespace", "ns")
    process = ctl.start("watch", "k", "--namespace", "ns")
    assert re.fullmatch(r"20\S+  ns:k  held, 0 waiting; holder bob  exclusive  token \d+  id \w+", line(process))
    process.send_signal(signal.SIGTERM)
    assert ends(process) == 0


def test_its_time_has_milliseconds_and_is_not_before_what_it_tells_of(ctl, broker):
    process = ctl.start("watch", "k", "-o", "json")
    times = [json.loads(line(process))["time"]]
    for i in range(3):
        ctl("acquire", "k", "-s", "--owner", str(i))
        lock = next_with(process, i + 1, 0)
        assert lock["time"] >= max(holder["since"] for holder in lock["holders"])
        times.append(lock["time"])
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", time) for time in times)
    assert len(set(times)) > 1 and not all(time.endswith(".000Z") for time in times)


def test_a_store_whose_clock_is_ahead(ctl, fake):
    fake.fake.clock_ahead_s = 3600
    ctl("acquire", "k")
    lock = json.loads(line(ctl.start("watch", "k", "-o", "json")))
    assert lock["time"] == lock["holders"][0]["since"]


def test_readers_on_one_line(ctl, broker):
    for owner in ("ann", "bob"):
        ctl("acquire", "k", "--shared", "--owner", owner)
    process = ctl.start("watch", "k")
    assert re.search(r"; holder ann  shared .*; holder bob  shared ", line(process))


def test_it_goes_on_at_a_broker_that_is_back(ctl, fake):
    process = ctl.start("watch", "k")
    assert "free" in line(process)
    fake.fake.stop()
    fake.fake = FakeBroker(fake.api)
    fake.fake.start(fake.address)
    ctl("acquire", "k", "--owner", "bob")
    assert "holder bob" in line(process)  # what was printed already is not printed again
    process.send_signal(signal.SIGTERM)
    assert ends(process) == 0


def test_it_goes_on_when_the_broker_drains(ctl, fake):
    process = ctl.start("watch", "k")
    assert line(process)
    fake.fake.refusal = ("DRAINING", "the broker is going down", [])
    eventually(lambda: fake.fake.watches > 1, "another try")
    fake.fake.refusal = None
    ctl("acquire", "k", "--owner", "bob")
    assert "holder bob" in line(process)


@pytest.mark.parametrize("args", [["k"], ["--prefix", "k"]])
def test_it_goes_on_when_something_between_cuts_the_stream(ctl, fake, args):
    ctl("acquire", "k", "--shared", "--owner", "ann")
    process = ctl.start("watch", *args)
    assert "holder ann" in line(process)
    fake.fake.cuts = True
    eventually(lambda: fake.fake.watches > 2, "other tries")
    told = fake.fake.states_told
    fake.fake.cuts = False
    eventually(lambda: fake.fake.states_told > told, "a watch that is told the present state again")
    ctl("acquire", "k", "--shared", "--owner", "bob")
    assert "holder bob" in line(process)  # what was printed already is not printed again


@pytest.mark.parametrize("args", [["k"], ["--prefix", "k"], ["-A"]])
def test_no_broker_at_the_start(ctl, fake, args):
    fake.fake.stop()
    done = ctl("watch", *args, "--connect-timeout", "200ms")
    assert done.returncode == 69 and done.stdout == ""
    assert done.stderr.startswith("distlockctl: cannot reach the broker at ")


def test_a_prefix(ctl, broker):
    for key in ("deploy/a", "deploy/b", "backup"):
        ctl("acquire", key, "--owner", "bob")
    process = ctl.start("watch", "--prefix", "deploy/", "-o", "json")
    taken = {json.loads(line(process))["key"] for _ in range(2)}
    assert taken == {"deploy/a", "deploy/b"}
    ctl("acquire", "deploy/c", "--owner", "eve")
    later = json.loads(line(process))
    assert (later["key"], later["holders"][0]["owner"]) == ("deploy/c", "eve")
    process.send_signal(signal.SIGINT)
    assert ends(process) == 0


def test_all_namespaces(ctl, broker):
    ctl("acquire", "k", "--namespace", "there")
    process = ctl.start("watch", "-A")
    assert re.match(r"20\S+  there:k  held, 0 waiting; holder ", line(process))


@pytest.mark.parametrize("args", [[], ["k", "l"], ["k", "--nonsense"], ["k", "--prefix", "p"], ["k", "-A"],
                                  ["-A", "--prefix", "p"]])
def test_wrong_usage(ctl, broker, args):
    assert ctl("watch", *args).returncode == 64
