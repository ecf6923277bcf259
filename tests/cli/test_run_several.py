# SPDX-License-Identifier: Apache-2.0
"""run -k A -k B: several locks, all or nothing."""
import signal
import subprocess

import pytest

from broker import eventually
from ctl import alive, ends, line

BOTH = ["run", "-k", "a", "-k", "b"]
STAYS = ["--", "sh", "-c", "echo up $$; read x; true"]


@pytest.fixture
def other(ctl, broker):
    """Another process that holds b until its stdin ends."""
    process = ctl.start("run", "b", "--owner", "bob", *STAYS, stdin=subprocess.PIPE)
    assert line(process).startswith("up")
    return process


def test_the_command_runs_under_all_of_them(ctl, broker):
    holder = ctl.start(*BOTH, "--key", "c", "--owner", "me", *STAYS, stdin=subprocess.PIPE)
    assert line(holder).startswith("up")
    assert [h.owner for key in "abc" for h in broker.lock(key).holders] == ["me", "me", "me"]
    holder.stdin.close()
    assert ends(holder) == 0
    assert all(broker.free(key) for key in "abc")


@pytest.mark.parametrize("keys", [["b", "-k", "a"], ["-k", "b", "-k", "a"], ["-k", "a", "b"]])
def test_the_environment_has_all_keys_and_tokens(ctl, broker, keys):
    script = 'echo "$DISTLOCK_KEY|$DISTLOCK_TOKEN"; echo "$DISTLOCK_KEYS"; echo "$DISTLOCK_TOKENS"'
    done = ctl("run", *keys, "--", "sh", "-c", script)
    first, key_1, key_2, token_1, token_2 = done.stdout.splitlines()
    assert [key_1, key_2] == ["b", "a"]
    assert first == f"b|{token_1}"
    assert [int(token_1), int(token_2)] == [broker.lock(key).fencing_token for key in "ba"]


def test_one_key_sets_both_kinds_of_variables(ctl, broker):
    done = ctl("run", "-k", "a", "--", "sh", "-c", 'echo "$DISTLOCK_KEY $DISTLOCK_KEYS"; '
                                                   '[ "$DISTLOCK_TOKEN" = "$DISTLOCK_TOKENS" ]')
    assert (done.returncode, done.stdout) == (0, "a a\n")


def test_one_that_is_held_is_busy_and_the_others_stay_free(ctl, broker, other):
    done = ctl(*BOTH, "-n", "-E", "9", "--", "echo", "no")
    assert (done.returncode, done.stdout) == (9, "") and "LOCK_HELD" in done.stderr and "bob" in done.stderr
    done = ctl(*BOTH, "-w", "500ms", "--", "echo", "no")
    assert done.returncode == 1 and "WAIT_TIMEOUT" in done.stderr
    eventually(lambda: broker.free("a"))


def test_run_waits_for_all_of_them(ctl, broker, other):
    waiter = ctl.start(*BOTH, "--", "echo", "mine")
    if broker.real:
        eventually(lambda: broker.held("a"))  # held while the command waits for b
    other.stdin.close()
    assert ends(waiter) == 0 and waiter.stdout.read() == "mine\n"


def test_a_signal_withdraws_the_wait_for_all(ctl, broker, other):
    waiter = ctl.start(*BOTH, "--", "echo", "no")
    if broker.real:
        eventually(lambda: broker.held("a") and broker.queue_length("b") == 1)
    else:
        eventually(lambda: broker.fake.bundles)
    waiter.send_signal(signal.SIGTERM)
    assert ends(waiter) == 143 and waiter.stdout.read() == ""
    eventually(lambda: broker.free("a") and broker.queue_length("b") == 0)


@pytest.mark.parametrize("lost", ["a", "b"])
def test_the_loss_of_one_is_the_loss_of_all(ctl, broker, lost):
    # A short ttl: a real broker notices at the next renewal.
    holder = ctl.start(*BOTH, "--ttl", "1s", "--on-lost", "echo $DISTLOCK_LOST_REASON", *STAYS, stdin=subprocess.PIPE)
    command = int(line(holder).split()[1])
    broker.lose(lost)
    assert ends(holder) == 75
    assert not alive(command)
    assert holder.stdout.read() == "TAKEN\n"
    assert f"distlockctl: {lost} is lost (TAKEN)" in holder.stderr.read()
    eventually(lambda: broker.free("a") and broker.free("b"))


def test_all_in_one_mode(ctl, broker):
    reader = ctl.start(*BOTH, "-s", *STAYS, stdin=subprocess.PIPE)
    assert line(reader).startswith("up")
    assert ctl(*BOTH, "-s", "-n", "--", "true").returncode == 0
    assert ctl(*BOTH, "-n", "--", "true").returncode == 1
    reader.stdin.close()
    assert ends(reader) == 0
    assert ctl(*BOTH, "--limit", "2", "-n", "--", "true").returncode == 0


def test_wrong_usage(ctl, broker):
    done = ctl("run", "--", "true")
    assert done.returncode == 64 and "KEY" in done.stderr and done.stderr.count("\n") == 1
    if broker.real:
        done = ctl("run", "-k", "a", "-k", "a", "--", "true")
        assert done.returncode == 64 and '-k names lock "default:' in done.stderr and "a second time" in done.stderr
