# SPDX-License-Identifier: Apache-2.0
"""run: signals, the process group, and SIGKILL of distlockctl itself."""
import os
import signal
import subprocess

import pytest

from broker import eventually
from ctl import alive, ends, line, state

FORWARDED = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2,
             signal.SIGALRM, signal.SIGWINCH]

# A shell runs its traps between commands only, so the command must be a short one.
FOR_EVER = "while :; do sleep 0.01; done"


def shell(*lines):
    return ["--", "sh", "-c", "\n".join(lines)]


@pytest.mark.parametrize("signo", FORWARDED)
def test_signals_reach_the_command(ctl, broker, signo):
    name = signo.name.removeprefix("SIG")
    process = ctl.start("run", "k", *shell(f"trap 'echo got; exit 7' {name}", "echo up", FOR_EVER))
    assert line(process) == "up"
    process.send_signal(signo)
    assert line(process) == "got"
    assert ends(process) == 7
    assert broker.free("k")


def test_an_untrapped_signal_ends_the_command_and_not_distlockctl(ctl, broker):
    process = ctl.start("run", "k", *shell("echo up", "exec cat /dev/zero > /dev/null"))
    assert line(process) == "up"
    process.send_signal(signal.SIGTERM)
    assert ends(process) == 128 + signal.SIGTERM
    assert broker.free("k")


def test_a_command_that_ends_slowly_keeps_the_lock_meanwhile(ctl, broker):
    process = ctl.start("run", "k", *shell("trap 'echo ending; read x; exit 0' TERM", "echo up", FOR_EVER),
                        stdin=subprocess.PIPE)
    assert line(process) == "up"
    process.send_signal(signal.SIGTERM)
    assert line(process) == "ending"
    assert broker.held("k")
    process.stdin.close()
    assert ends(process) == 0


def test_the_command_leads_a_process_group_that_gets_the_signals(ctl, broker):
    process = ctl.start("run", "k", *shell(
        "trap : USR1", f"sh -c 'trap \"echo inner; exit 0\" USR1; echo $$; {FOR_EVER}' &", "wait", "wait", "exit 0"))
    inner = int(line(process))
    group = os.getpgid(inner)
    assert group not in (os.getpgid(process.pid), os.getpgrp())
    assert os.getpgid(group) == group  # the command is its leader
    process.send_signal(signal.SIGUSR1)
    assert line(process) == "inner"
    assert ends(process) == 0


def test_run_waits_only_for_the_command_itself(ctl, broker):
    process = ctl.start("run", "k", *shell("cat /dev/zero > /dev/null 2>&1 < /dev/null & echo $!", "exit 5"))
    left = int(line(process))
    assert ends(process) == 5
    assert broker.free("k")
    assert alive(left)
    os.kill(left, signal.SIGKILL)


def test_a_hang_up_that_was_ignored_stays_ignored(ctl, broker):
    process = ctl.start("run", "k", *shell("echo up", "read x", "echo still here"), stdin=subprocess.PIPE,
                        prefix=("env", "--ignore-signal=HUP"))
    assert line(process) == "up"
    process.send_signal(signal.SIGHUP)
    process.stdin.write("\n")
    process.stdin.flush()
    assert line(process) == "still here"
    assert ends(process) == 0


def test_sigkill_of_distlockctl_ends_the_whole_group(ctl, broker):
    process = ctl.start("run", "k", *shell("cat /dev/zero > /dev/null & echo $!", "echo $$", "wait"))
    inner, command = int(line(process)), int(line(process))
    process.kill()
    eventually(lambda: not alive(command) and not alive(inner), "the group's end")
    eventually(lambda: broker.free("k"), "the lock's release")


def test_sigkill_of_distlockctl_kills_a_group_that_ignores_sigterm(ctl, broker):
    process = ctl.start("run", "k", "--kill-after", "100ms",
                        *shell("trap '' TERM", f"sh -c 'trap \"\" TERM; echo $$; {FOR_EVER}' &", "echo $$", "wait"))
    pids = [int(line(process)), int(line(process))]
    process.kill()
    eventually(lambda: not any(map(alive, pids)), "the group's end")


def test_no_child_process_is_left(ctl, broker):
    process = ctl.start("run", "k", *shell("echo up", "read x"), stdin=subprocess.PIPE)
    assert line(process) == "up"
    children = children_of(process.pid)
    assert len(children) == 2  # the command and the watchdog
    process.stdin.close()
    ends(process)
    assert not any(map(alive, children))


def children_of(pid):
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{entry}/stat", encoding="ascii") as f:
                if int(f.read().rsplit(")", 1)[1].split()[1]) == pid:
                    found.append(int(entry))
        except (FileNotFoundError, ProcessLookupError):
            pass
    return found


def test_a_stop_of_the_command_alone_keeps_the_lock(ctl, broker):
    process = ctl.start("run", "k", *shell("echo $$", "read x", "exit 6"), stdin=subprocess.PIPE)
    command = int(line(process))
    os.kill(command, signal.SIGSTOP)
    eventually(lambda: state(command) == "T")
    assert state(process.pid) != "T"
    assert broker.held("k")
    process.send_signal(signal.SIGCONT)
    process.stdin.write("\n")
    process.stdin.flush()
    assert ends(process) == 6


def test_stopping_distlockctl_stops_the_command_too(ctl, broker):
    """In a process group of its own, like a job of a shell: the kernel does not stop an orphaned group."""
    process = ctl.start("run", "k", *shell("echo $$", "read x", "exit 6"), stdin=subprocess.PIPE, process_group=0)
    command = int(line(process))
    process.send_signal(signal.SIGTSTP)
    eventually(lambda: state(command) == "T" and state(process.pid) == "T", "the stop of both")
    process.send_signal(signal.SIGCONT)
    process.stdin.write("\n")
    process.stdin.flush()
    assert ends(process) == 6


COUNTS = ["n=0", "trap 'n=$((n+1)); echo got $n' TERM", "trap 'echo end; exit 0' USR1", "trap 'echo mark' USR2",
          "echo $$", FOR_EVER]


def watchdog_of(process):
    def comm(pid):
        with open(f"/proc/{pid}/comm", encoding="ascii") as f:
            return f.read().strip()
    return next(pid for pid in children_of(process.pid) if comm(pid) == "distlock-guard")


def test_a_signal_to_every_process_is_not_passed_on(ctl, broker):
    """systemd signals each process of a unit, unless its KillMode says otherwise."""
    process = ctl.start("run", "k", *shell(*COUNTS))
    command, watchdog = int(line(process)), watchdog_of(process)
    os.kill(command, signal.SIGTERM)
    assert line(process) == "got 1"
    os.kill(watchdog, signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGUSR1)
    assert line(process) == "end"
    assert ends(process) == 0


def test_who_signals_every_process_again_means_it(ctl, broker):
    """pkill may hit distlockctl and its watchdog alone."""
    process = ctl.start("run", "k", *shell(*COUNTS))
    command, watchdog = int(line(process)), watchdog_of(process)
    for told in ("mark", "got 1"):
        os.kill(watchdog, signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        if told == "mark":
            process.send_signal(signal.SIGUSR2)
        assert line(process) == told
    os.kill(command, signal.SIGUSR1)
    assert line(process) == "end" and ends(process) == 0


def test_a_command_that_cannot_have_got_the_signal_gets_it(ctl, broker):
    process = ctl.start("run", "k", *shell("echo up", "exec cat /dev/zero > /dev/null"))
    assert line(process) == "up"
    os.kill(watchdog_of(process), signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    assert ends(process) == 128 + signal.SIGTERM
