# SPDX-License-Identifier: Apache-2.0
"""run: the lock is lost while the command runs."""
import json
import os
import signal
import subprocess
import time

import pytest

from broker import eventually
from ctl import alive, ends, line

RUN = ["run", "k", "--ttl", "1s"]  # a real broker notices a vanished key within a third of it
FOR_EVER = "while :; do sleep 0.01; done"


def shell(*lines):
    return ["--", "sh", "-c", "\n".join(lines)]


def test_the_command_gets_sigterm(ctl, broker):
    process = ctl.start(*RUN, *shell("trap 'echo told; exit 0' TERM", "echo up", FOR_EVER))
    assert line(process) == "up"
    broker.lose("k")
    assert line(process) == "told"
    assert ends(process) == 75  # although the command ended with 0
    assert "lost" in process.stderr.read()


def test_as_json(ctl, broker):
    process = ctl.start(*RUN, "-q", "-o", "json", "--on-lost", "exit 1", *shell("echo up", FOR_EVER))
    assert line(process) == "up"
    broker.lose("k")
    assert ends(process) == 75
    error = json.loads(process.stderr.read())["error"]
    assert (error["reason"], error["lost_reason"], error["exit_code"]) == ("LEASE_LOST", "TAKEN", 75)
    assert "is lost (TAKEN)" in error["message"]


def test_a_loss_is_reported_with_quiet(ctl, broker):
    process = ctl.start(*RUN, "--quiet", *shell("echo up", FOR_EVER))
    assert line(process) == "up"
    broker.lose("k")
    assert ends(process) == 75
    assert process.stderr.read().startswith("distlockctl: the lock is lost (TAKEN)")


def test_a_command_that_ignores_sigterm_is_killed_with_its_group(ctl, broker):
    process = ctl.start(*RUN, "--kill-after", "200ms",
                        *shell("trap '' TERM", f"sh -c 'trap \"\" TERM; echo $$; {FOR_EVER}' &", "echo $$", "wait",
                               "wait"))
    pids = [int(line(process)), int(line(process))]
    broker.lose("k")
    assert ends(process) == 75
    eventually(lambda: not any(map(alive, pids)))


def test_kill_after_gives_the_group_time(ctl, broker):
    process = ctl.start(*RUN, "--kill-after", "1h", *shell("trap '' TERM", "echo up", "read x; read x; exit 0"),
                        stdin=subprocess.PIPE)
    assert line(process) == "up"
    broker.lose("k")
    assert "lost" in process.stderr.readline()
    process.stdin.write("a\nb\n")
    process.stdin.flush()
    assert ends(process) == 75


def test_after_a_loss_run_waits_for_the_whole_group(ctl, broker):
    process = ctl.start(*RUN, "--kill-after", "300ms",
                        *shell(f"sh -c 'trap \"\" TERM; echo $$; {FOR_EVER}' &", "wait"))
    inner = int(line(process))
    broker.lose("k")
    assert ends(process) == 75
    eventually(lambda: not alive(inner))


def test_on_lost_runs_and_gets_the_reason(ctl, broker, folder):
    note = os.path.join(folder, "note")
    process = ctl.start(*RUN, "--on-lost", f'echo "$DISTLOCK_LOST_REASON $DISTLOCK_KEY $DISTLOCK_TOKEN" > {note}',
                        *shell("echo $DISTLOCK_TOKEN", "exec cat /dev/zero > /dev/null"))
    token = line(process)
    broker.lose("k")
    assert ends(process) == 75
    with open(note, encoding="ascii") as f:
        assert f.read() == f"TAKEN k {token}\n"


def test_released_by_its_lease_id(ctl, fake):
    process = ctl.start("run", "k", *shell("trap 'echo told; exit 0' TERM", "echo up", FOR_EVER))
    assert line(process) == "up"
    assert ctl("release", fake.fake.lease_id("k")).stdout == "released\n"
    assert line(process) == "told"
    assert ends(process) == 75
    assert "RELEASED" in process.stderr.read()


def test_on_lost_does_not_run_without_a_loss(ctl, broker, folder):
    note = os.path.join(folder, "note")
    assert ctl(*RUN, "--on-lost", f"touch {note}", *shell("exit 0")).returncode == 0
    assert not os.path.exists(note)


def test_a_stopped_command_is_ended_too(ctl, broker):
    process = ctl.start(*RUN, *shell("echo $$", "read x"), stdin=subprocess.PIPE)
    command = int(line(process))
    os.kill(command, signal.SIGSTOP)
    broker.lose("k")
    assert ends(process) == 75
    assert not alive(command)


def test_a_broker_that_falls_silent(ctl, broker):
    process = ctl.start(*RUN, *shell("echo up", "exec cat /dev/zero > /dev/null"))
    assert line(process) == "up"
    broker.fall_silent()
    assert ends(process) == 75
    assert "LAPSED" in process.stderr.read()


def test_a_broker_that_goes_away(ctl, broker):
    process = ctl.start(*RUN, *shell("echo up", "exec cat /dev/zero > /dev/null"))
    assert line(process) == "up"
    broker.close()
    assert ends(process) == 75


def test_max_hold(ctl, broker):
    if not broker.real:
        pytest.skip("the fake has no clock")
    process = ctl.start("run", "k", "--max-hold", "500ms", *shell("echo up", "exec cat /dev/zero > /dev/null"))
    assert line(process) == "up"
    assert ends(process) == 75
    said = process.stderr.read()
    assert "MAX_HOLD" in said


def test_a_stop_of_distlockctl_for_longer_than_the_validity(ctl, broker):
    """The command ends with 0 while distlockctl is stopped; when that goes on, the lock's deadline has passed."""
    process = ctl.start(*RUN, *shell("echo $$", "read x", "exit 0"), stdin=subprocess.PIPE)
    command = int(line(process))
    process.send_signal(signal.SIGSTOP)
    process.stdin.write("\n")
    process.stdin.flush()
    eventually(lambda: not alive(command))
    validity_s = 3
    stopped_until = time.clock_gettime(time.CLOCK_BOOTTIME) + validity_s
    eventually(lambda: time.clock_gettime(time.CLOCK_BOOTTIME) > stopped_until)
    process.send_signal(signal.SIGCONT)
    assert ends(process) == 75


def test_the_release_finds_that_the_lock_is_gone(ctl, fake):
    process = ctl.start("run", "k", *shell("echo up", "read x", "exit 0"), stdin=subprocess.PIPE)
    assert line(process) == "up"
    fake.fake.forget("k")
    process.stdin.write("\n")
    process.stdin.flush()
    assert ends(process) == 75
    assert "gone" in process.stderr.read()
