# SPDX-License-Identifier: Apache-2.0
"""hold: the events, and what ends it."""
import json
import signal
import subprocess

import pytest

from broker import eventually
from ctl import ends, line


def event(process):
    return json.loads(line(process))


def test_events_as_json_and_release_by_signal(ctl, broker):
    process = ctl.start("hold", "k", "-o", "json")
    granted = event(process)
    assert (granted["event"], granted["namespace"], granted["key"]) == ("granted", "default", "k")
    assert granted["token"] == broker.lock("k").fencing_token
    assert granted["holder_id"] == broker.lock("k").holders[0].holder_id
    assert "lease_id" not in granted
    process.send_signal(signal.SIGTERM)
    released = event(process)
    assert (released["event"], released["outcome"]) == ("released", "released")
    assert ends(process) == 0
    assert broker.free("k")


def test_text(ctl, broker):
    process = ctl.start("hold", "k")
    assert line(process).startswith("granted: default:k, token ")
    process.send_signal(signal.SIGINT)
    assert line(process) == "released: released"
    assert ends(process) == 0


def test_until_eof(ctl, broker):
    process = ctl.start("hold", "k", "--until-eof", stdin=subprocess.PIPE)
    assert line(process).startswith("granted")
    process.stdin.write("ignored\n")
    process.stdin.flush()
    assert broker.held("k")
    process.stdin.close()
    assert ends(process) == 0
    assert broker.free("k")


def test_lost(ctl, broker):
    process = ctl.start("hold", "k", "--ttl", "1s", "-o", "json")
    assert event(process)["event"] == "granted"
    broker.lose("k")
    lost = event(process)
    assert (lost["event"], lost["reason"]) == ("lost", "TAKEN")
    assert ends(process) == 75


def test_released_by_its_lease_id(ctl, fake):
    process = ctl.start("hold", "k", "-o", "json")
    assert event(process)["event"] == "granted"
    assert ctl("release", fake.fake.lease_id("k")).stdout == "released\n"
    lost = event(process)
    assert (lost["event"], lost["reason"], lost["message"]) == ("lost", "RELEASED", "released by its lease_id")
    assert ends(process) == 75


def test_at_risk_and_safe_again(ctl, fake):
    process = ctl.start("hold", "k", "-o", "json")
    assert event(process)["event"] == "granted"
    fake.fake.at_risk("k")
    assert event(process)["event"] == "at_risk"
    fake.fake.renewed("k")
    assert event(process)["event"] == "renewed"
    process.send_signal(signal.SIGTERM)
    assert ends(process) == 0


def test_queued_then_granted_in_turn(ctl, broker):
    first = ctl.start("hold", "k", "--owner", "bob")
    assert line(first).startswith("granted")
    second = ctl.start("hold", "k", "-o", "json")
    queued = event(second)
    assert (queued["event"], queued["position"], queued["holders"]) == ("queued", 0, ["bob"])
    first.send_signal(signal.SIGTERM)
    assert event(second)["event"] == "granted"
    second.send_signal(signal.SIGTERM)
    assert ends(second) == 0


def test_a_signal_before_the_grant(ctl, broker):
    first = ctl.start("hold", "k")
    assert line(first).startswith("granted")
    second = ctl.start("hold", "k")
    assert line(second).startswith("queued")
    second.send_signal(signal.SIGINT)
    assert ends(second) == 130
    eventually(lambda: broker.queue_length("k") == 0)


def test_nobody_reads_any_more(ctl, broker):
    process = ctl.start("hold", "k", "-o", "json")
    assert event(process)["event"] == "granted"
    process.stdout.close()
    process.send_signal(signal.SIGTERM)
    assert ends(process) == 70
    assert broker.free("k")


@pytest.mark.parametrize("flags, code", [(["-n"], 1), (["-w", "500ms"], 1)])
def test_busy(ctl, broker, flags, code):
    first = ctl.start("hold", "k")
    assert line(first).startswith("granted")
    assert ctl("hold", "k", *flags).returncode == code
