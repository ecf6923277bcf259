# SPDX-License-Identifier: Apache-2.0
"""run --wait-group: the lock is held until what the command left in the background has ended, too."""
import os
import signal
import subprocess

from broker import eventually
from ctl import alive, ends, line

LEAVES_A_CHILD = ["--", "sh", "-c", "sh -c 'echo $$; read x < \"$0\"' \"$0\" & exit 3"]


def start(ctl, folder, *flags):
    """The process, the pid of the child that its command leaves, and the pipe at whose end that child ends."""
    pipe = os.path.join(folder, "pipe")
    os.mkfifo(pipe)
    process = ctl.start("run", "k", "--ttl", "1s", *flags, *LEAVES_A_CHILD, pipe)
    return process, int(line(process)), pipe


def end_child(pipe):
    with open(pipe, "w", encoding="ascii") as f:
        f.write("go\n")


def test_without_it_the_lock_is_free_when_the_command_has_ended(ctl, broker, folder):
    process, child, pipe = start(ctl, folder)
    assert ends(process) == 3
    assert broker.free("k") and alive(child)
    end_child(pipe)


def test_the_lock_is_held_for_the_child(ctl, broker, folder):
    process, child, pipe = start(ctl, folder, "--wait-group")
    eventually(lambda: os.stat(f"/proc/{child}") and parent(child) == process.pid, "the command's end")
    assert process.poll() is None and broker.held("k")
    end_child(pipe)
    assert ends(process) == 3  # the command's own code
    assert broker.free("k") and not alive(child)


def parent(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


def test_a_signal_reaches_the_child(ctl, broker, folder):
    process, child, _ = start(ctl, folder, "--wait-group")
    eventually(lambda: parent(child) == process.pid, "the command's end")
    process.send_signal(signal.SIGTERM)
    assert ends(process) == 3
    assert not alive(child) and broker.free("k")


def test_a_loss_ends_the_child(ctl, broker, folder):
    process, child, _ = start(ctl, folder, "--wait-group")
    eventually(lambda: parent(child) == process.pid, "the command's end")
    broker.lose("k")
    assert ends(process) == 75
    assert not alive(child)


def test_a_child_in_another_session_is_not_waited_for(ctl, broker, folder):
    done = ctl.start("run", "k", "--wait-group", "--", "sh", "-c", "setsid sleep 60 & echo $!", stdout=subprocess.PIPE)
    child = int(line(done))
    assert ends(done) == 0 and broker.free("k")
    os.kill(child, signal.SIGKILL)


def test_orphans_are_reaped_while_the_command_runs(ctl, broker):
    """--wait-group makes distlockctl their parent, as being PID 1 of a container does."""
    process = ctl.start("run", "k", "--wait-group", "--", "sh", "-c",
                        "for i in 1 2 3; do sh -c 'true & echo $!'; done; echo up; read x", stdin=subprocess.PIPE)
    orphans = [int(line(process)) for _ in range(3)]
    assert line(process) == "up"
    eventually(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in orphans), "the end of their zombies")
    assert process.poll() is None
    process.stdin.close()
    assert ends(process) == 1  # of `read`
