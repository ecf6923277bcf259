# SPDX-License-Identifier: Apache-2.0
"""run at a terminal: the command gets the terminal, Ctrl-C and Ctrl-Z reach it, and Ctrl-Z brings the shell back.

The test plays the shell: it leads the session, starts distlockctl as a job in the foreground, and sees it stop and
end."""
import errno
import os
import pty
import re
import signal
import subprocess
import sys

import pytest

from broker import PATIENCE_S, eventually
from ctl import state


class Job:
    """A small shell in a child process, which leads the terminal's session and starts one job."""

    def __init__(self, ctl, *args):
        self.terminal, its_end = pty.openpty()
        self.shell = subprocess.Popen([sys.executable, "-c", SHELL, ctl.program, *args], env=ctl.env, stdin=its_end,
                                      stdout=its_end, stderr=its_end, start_new_session=True)
        os.close(its_end)
        self.seen = ""
        self.job = int(self.expect(r"job (\d+)\n")[1])

    def expect(self, pattern):
        def look():
            found = re.search(pattern, self.seen)
            if found:
                self.seen = self.seen[found.end():]
                return found
            try:
                self.seen += os.read(self.terminal, 4096).decode().replace("\r\n", "\n")
            except OSError as e:
                assert e.errno == errno.EIO
                raise AssertionError(f"the terminal closed before {pattern!r}; seen: {self.seen!r}") from e
            return None

        signal.alarm(PATIENCE_S)
        try:
            return eventually(look, f"{pattern!r} on the terminal")
        finally:
            signal.alarm(0)

    def type(self, text):
        os.write(self.terminal, text.encode())

    def foreground(self):
        return os.tcgetpgrp(self.terminal)

    def close(self):
        os.close(self.terminal)
        self.shell.kill()
        self.shell.wait()


# Prints "job PID", then "stopped" or "ended CODE". After a stop, a line of input continues the job in the foreground.
SHELL = r"""
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
pid = os.fork()
if pid == 0:
    os.setpgrp()
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    while os.tcgetpgrp(0) != os.getpgrp(): pass
    os.execv(sys.argv[1], sys.argv[1:])
os.setpgid(pid, pid)
print("job", pid, flush=True)
os.tcsetpgrp(0, pid)
while True:
    _, status = os.waitpid(pid, os.WUNTRACED)
    print("foreground at return:", os.tcgetpgrp(0) == pid, flush=True)
    os.tcsetpgrp(0, os.getpgrp())
    if not os.WIFSTOPPED(status): break
    print("stopped", flush=True)
    sys.stdin.readline()
    os.tcsetpgrp(0, pid)
    os.kill(-pid, signal.SIGCONT)
print("ended", os.waitstatus_to_exitcode(status), flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def job(ctl):
    jobs = []

    def start(*args):
        jobs.append(Job(ctl, *args))
        return jobs[-1]

    yield start
    for made in jobs:
        made.close()


def shell(*lines):
    return ["--", "sh", "-c", "\n".join(lines)]


def test_the_command_reads_from_the_terminal(job, broker):
    it = job("run", "k", *shell("echo up $$", "read x", "echo read $x"))
    command = int(it.expect(r"up (\d+)\n")[1])
    assert it.foreground() == command
    it.type("hello\n")
    it.expect("read hello\n")
    it.expect("foreground at return: True\n")  # distlockctl takes the terminal back before it ends
    it.expect("ended 0\n")


def test_ctrl_c_reaches_the_command_once(job, broker):
    it = job("run", "k", *shell("n=0", "trap 'n=$((n+1)); echo hit $n' INT", "echo up", "read x || read x",
                                "echo count $n; exit 9"))
    it.expect("up\n")
    it.type("\x03")
    it.expect("hit 1\n")
    it.type("x\ny\n")
    it.expect("count 1\n")
    it.expect("ended 9\n")


def test_ctrl_z_brings_the_shell_back_and_fg_goes_on(job, broker):
    it = job("run", "k", *shell("echo up $$", "read x", "echo read $x; exit 4"))
    command = int(it.expect(r"up (\d+)\n")[1])
    it.type("\x1a")
    it.expect("stopped\n")
    assert state(command) == "T" and state(it.job) == "T"
    it.type("fg\n")
    eventually(lambda: it.foreground() == command, "the command in the foreground")
    it.type("again\n")
    it.expect("read again\n")
    it.expect("ended 4\n")


def test_a_command_behind_a_pipe_gets_the_terminal_when_it_reads(ctl, broker):
    """stdout is not a terminal: the reader of the pipe may need the terminal, so the command gets it only on demand."""
    piped = os.path.join(os.path.dirname(broker.address.removeprefix("unix://")), "out")
    inner = '"read x; echo read \\$x > /dev/tty"'
    it = Job(ctl_as_shell(ctl), "-c", f"exec {ctl.program} run k -- sh -c {inner} > {piped}")
    try:
        eventually(lambda: it.foreground() != it.job, "the command in the foreground")
        it.type("later\n")
        it.expect("read later\n")
        it.expect("ended 0\n")
    finally:
        it.close()


def ctl_as_shell(ctl):
    class Shell:
        program, env = "/bin/sh", ctl.env
    return Shell


def test_a_terminal_that_a_killed_command_left_raw_is_restored(job, broker):
    it = job("run", "k", *shell("stty -echo -icanon", "echo up", "kill -9 $$"))
    it.expect("up\n")
    it.expect("ended 137\n")
    it.type("echoed\n")
    it.expect("echoed\n")


ASKING = {
    "a pipe": ("echo data | {run} {ask}", "hello"),
    "/dev/null": ("exec {run} {ask} </dev/null", "hello"),
    "a pipe, and no echo": ("echo data | {run} sh -c 'stty -echo </dev/tty; read x </dev/tty; echo read $x'", "hello"),
    "/dev/null, and tostop": ("stty tostop; exec {run} echo read at once </dev/null", "at once"),
}


@pytest.mark.parametrize("line, answer", ASKING.values(), ids=ASKING)
def test_a_command_asks_at_the_terminal_whatever_stdin_is(ctl, broker, line, answer):
    line = line.format(run=f"{ctl.program} run k --", ask="sh -c 'read x </dev/tty; echo read $x'")
    it = Job(ctl_as_shell(ctl), "-c", line)
    try:
        if answer == "hello":
            eventually(lambda: it.foreground() not in (it.job, it.shell.pid), "the command in the foreground")
            it.type("hello\n")
        it.expect(f"read {answer}\n")
        it.expect("ended 0\n")
    finally:
        it.close()


def test_a_command_that_can_never_get_the_terminal_is_ended(ctl, broker, folder):
    """A job in the background whose shell has ended: no `fg` will come."""
    pipe, said = os.path.join(folder, "go"), os.path.join(folder, "said")
    os.mkfifo(pipe)
    ask = f"sh -c 'read go <{pipe}; read x </dev/tty; echo no'"
    it = Job(ctl_as_shell(ctl), "-c", f"{ctl.program} run k -- {ask} </dev/null 2>{said} &")
    try:
        it.expect("ended 0\n")
        with open(pipe, "w", encoding="ascii") as f:
            f.write("go\n")
        eventually(lambda: os.path.getsize(said) > 0 and broker.free("k"), "its end")
        assert "SIGHUP" in open(said, encoding="utf-8").read()
    finally:
        it.close()
