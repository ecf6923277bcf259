# SPDX-License-Identifier: Apache-2.0
"""top: one frame as text, and the live screen, which leaves the terminal as it found it."""
import os
import pty
import re
import select
import signal
import subprocess
import termios

import pytest

from broker import eventually
from ctl import ends


class OnTerminal:
    """distlockctl on a terminal of its own."""

    def __init__(self, ctl, *args):
        self.terminal, self.inner = pty.openpty()
        termios.tcsetwinsize(self.inner, (24, 100))
        self.before = termios.tcgetattr(self.inner)
        self.process = subprocess.Popen([ctl.program, *args], stdin=self.inner, stdout=self.inner, stderr=self.inner,
                                        env={**ctl.env, "TERM": "xterm"})
        ctl.running.append(self.process)
        self.seen = ""

    def expect(self, pattern):
        def look():
            if select.select([self.terminal], [], [], 0.05)[0]:
                self.seen += os.read(self.terminal, 65536).decode(errors="replace")
            found = re.search(pattern, self.seen, re.S)
            if found:
                self.seen = self.seen[found.end():]
            return found
        return eventually(look, f"{pattern!r} on the terminal")

    def type(self, text):
        os.write(self.terminal, text.encode())

    def is_restored(self):
        return termios.tcgetattr(self.inner) == self.before

    def close(self):
        os.close(self.terminal)
        os.close(self.inner)


@pytest.fixture
def top(ctl, broker):
    made = []

    def start(*args):
        made.append(OnTerminal(ctl, "top", "--interval", "100ms", *args))
        return made[-1]

    yield start
    for one in made:
        one.close()


def test_one_frame_sorted_by_queue(ctl, broker):
    for key in ("quiet", "busy"):
        assert ctl("acquire", key, "--owner", "ann").returncode == 0
    ctl.start("run", "busy", "--", "true")
    eventually(lambda: broker.queue_length("busy") == 1)
    done = ctl("top", "--once")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0].startswith("distlock ") and "store up" in lines[0]
    assert "2 locks, 1 waiting" in lines[1]
    assert lines[2] == "sorted by queue", "no keys: nobody can press one"
    assert lines[3].split() == ["LOCK", "QUEUE", "HOLDERS", "MODE", "HELD", "FOR", "HOLDER"]
    assert lines[4].split()[:4] == ["default:busy", "1", "1", "exclusive"] and lines[4].endswith(" ann")
    assert lines[5].split()[:3] == ["default:quiet", "0", "1"]


def test_another_namespace(ctl, broker):
    ctl("acquire", "k", "--namespace", "ns")
    assert "namespace ns: 1 locks" in ctl("top", "--once", "--namespace", "ns").stdout
    assert "namespace default: 0 locks" in ctl("top", "--once").stdout


def test_control_characters_do_not_reach_the_terminal(ctl, broker):
    ctl("acquire", "a\x1b[2Jb", "--owner", "\x07")
    assert "a?[2Jb" in ctl("top", "--once").stdout and "\x1b" not in ctl("top", "--once").stdout


def test_the_screen_is_updated_and_q_restores_the_terminal(ctl, broker, top):
    screen = top()
    screen.expect("sorted by queue")
    assert not screen.is_restored()
    ctl("acquire", "appears", "--owner", "ann")
    screen.expect("appears")
    screen.type("s")
    screen.expect("holders")
    screen.type("q")
    assert ends(screen.process) == 0
    screen.expect(r"\x1b\[\?1049l")  # back to the normal screen
    assert screen.is_restored()


@pytest.mark.parametrize("signo, code", [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_restores_the_terminal(ctl, broker, top, signo, code):
    screen = top()
    screen.expect("sorted by queue")
    screen.process.send_signal(signo)
    assert ends(screen.process) == code
    assert screen.is_restored()


def test_another_namespace_is_typed(ctl, broker, top):
    ctl("acquire", "elsewhere", "--namespace", "ns")
    screen = top()
    screen.expect("sorted by queue")
    screen.type("nns\r")
    screen.expect("elsewhere")
    screen.type("q")
    assert ends(screen.process) == 0


def test_no_terminal(ctl, broker):
    done = ctl("top")
    assert done.returncode == 64 and "--once" in done.stderr
