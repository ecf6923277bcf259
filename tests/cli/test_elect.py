# SPDX-License-Identifier: Apache-2.0
"""elect: campaigns, the command that the leader runs, and what others see of the leader."""
import json
import signal
import subprocess

import pytest

from broker import eventually
from ctl import alive, ends, line

STAYS = ["--", "sh", "-c", "echo up $$ $DISTLOCK_TOKEN; read x; exit 3"]


@pytest.fixture
def leader(ctl, broker):
    """Leads boss until a signal."""
    process = ctl.start("elect", "boss", "--value", "10.0.0.7:9000", "--owner", "ann")
    assert line(process).startswith("elected: default:boss, token ")
    return process


def test_it_leads_until_a_signal_and_resigns(ctl, broker, leader):
    [holder] = broker.lock("boss").holders
    assert (holder.owner, dict(holder.metadata)) == ("ann", {"distlock.election": "10.0.0.7:9000"})
    leader.send_signal(signal.SIGINT)
    assert ends(leader) == 0
    assert leader.stdout.read() == "resigned: released\n"
    assert broker.free("boss")


def test_as_json(ctl, broker):
    leader = ctl.start("elect", "boss", "--value", "here", "-o", "json")
    elected = json.loads(line(leader))
    assert (elected["event"], elected["name"], elected["value"]) == ("elected", "boss", "here")
    assert elected["token"] == broker.lock("boss").fencing_token
    leader.send_signal(signal.SIGTERM)
    resigned = json.loads(line(leader))
    assert resigned == {"event": "resigned", "namespace": "default", "name": "boss", "outcome": "released"}
    assert ends(leader) == 0


def test_the_next_candidate_follows(ctl, broker, leader):
    candidate = ctl.start("elect", "boss", "--value", "next")
    eventually(lambda: broker.queue_length("boss") == 1)
    leader.send_signal(signal.SIGTERM)
    assert line(candidate).startswith("elected: ")
    assert ends(leader) == 0
    assert broker.lock("boss").holders[0].metadata["distlock.election"] == "next"


def test_a_candidate_can_withdraw(ctl, broker, leader):
    candidate = ctl.start("elect", "boss")
    eventually(lambda: broker.queue_length("boss") == 1)
    candidate.send_signal(signal.SIGTERM)
    assert ends(candidate) == 143 and candidate.stdout.read() == ""
    eventually(lambda: broker.queue_length("boss") == 0)
    done = ctl("elect", "boss", "-n")
    assert done.returncode == 1 and "LOCK_HELD" in done.stderr and "ann" in done.stderr


def test_a_command_runs_while_leading(ctl, broker):
    leader = ctl.start("elect", "boss", "--value", "v", *STAYS, stdin=subprocess.PIPE)
    _, _, token = line(leader).split()
    assert int(token) == broker.lock("boss").fencing_token
    assert broker.lock("boss").holders[0].metadata["distlock.election"] == "v"
    leader.stdin.close()
    assert ends(leader) == 3
    assert leader.stderr.read() == ""
    assert broker.free("boss")


def test_a_lost_leadership_ends_the_command(ctl, broker):
    leader = ctl.start("elect", "boss", "--ttl", "1s", *STAYS, stdin=subprocess.PIPE)
    command = int(line(leader).split()[1])
    broker.lose("boss")
    assert ends(leader) == 75
    assert not alive(command)


def test_a_lost_leadership_without_command(ctl, broker):
    leader = ctl.start("elect", "boss", "--ttl", "1s", "-o", "json")
    assert json.loads(line(leader))["event"] == "elected"
    broker.lose("boss")
    lost = json.loads(line(leader))
    assert (lost["event"], lost["reason"]) == ("lost", "TAKEN")
    assert ends(leader) == 75


def test_who_leads(ctl, broker, leader):
    done = ctl("elect", "boss", "--leader")
    assert done.returncode == 0
    assert done.stdout.startswith("leader 10.0.0.7:9000  owner ann  token ")
    [seen] = ctl.json("elect", "boss", "--leader")
    assert seen["leader"]["value"] == "10.0.0.7:9000"
    assert seen["leader"]["token"] == broker.lock("boss").fencing_token
    assert seen["leader"]["holder_id"] == broker.lock("boss").holders[0].holder_id


def test_nobody_leads(ctl, broker):
    done = ctl("elect", "boss", "--leader")
    assert (done.returncode, done.stdout) == (1, "no leader\n")
    done = ctl("elect", "boss", "--leader", "-o", "json")
    assert done.returncode == 1 and json.loads(done.stdout)["leader"] is None


def test_observe_prints_each_change(ctl, broker):
    observer = ctl.start("elect", "boss", "--observe", "-o", "json")
    assert json.loads(line(observer)) == {"event": "leader", "namespace": "default", "name": "boss", "leader": None}
    for name in ("one", "two"):
        leader = ctl.start("elect", "boss", "--value", name)
        assert json.loads(line(observer))["leader"]["value"] == name
        assert line(leader).startswith("elected")  # the leader may hear of its election later than the observer
        leader.send_signal(signal.SIGTERM)
        assert json.loads(line(observer))["leader"] is None
        assert ends(leader) == 0
    if not broker.real:
        assert broker.fake.watches == 1
    observer.send_signal(signal.SIGTERM)
    assert ends(observer) == 0 and observer.stdout.read() == ""


def test_observe_as_text(ctl, broker, leader):
    observer = ctl.start("elect", "boss", "--observe")
    assert line(observer).startswith("leader 10.0.0.7:9000  owner ann  token ")
    leader.send_signal(signal.SIGTERM)
    assert line(observer) == "no leader"
    observer.send_signal(signal.SIGINT)
    assert ends(observer) == 0


@pytest.mark.parametrize("flags", [["--observe", "--leader"], ["--leader", "--", "true"], ["--observe", "--", "true"]])
def test_wrong_usage(ctl, broker, flags):
    done = ctl("elect", "boss", *flags)
    assert done.returncode == 64 and done.stderr.count("\n") == 1


def test_the_value_is_not_given_as_metadata(ctl, broker):
    done = ctl("elect", "boss", "--value", "v", "--metadata", "distlock.election=mine")
    assert done.returncode == 64 and "--value" in done.stderr and done.stderr.count("\n") == 1
    done = ctl("elect", "boss", "--metadata", "distlock.election=mine", "--", "true")
    assert done.returncode == 64
    assert broker.free("boss")


@pytest.mark.parametrize("flags", [[], ["--leader"], ["--observe"]])
def test_no_broker(ctl, broker, flags):
    done = ctl("elect", "boss", *flags, "--server", "unix:///nowhere/there.sock", "--connect-timeout", "0.3")
    assert done.returncode == 69 and "unix:///nowhere/there.sock" in done.stderr
