# SPDX-License-Identifier: Apache-2.0
"""Runs one piece of a stage, on a leash, and says how it ended."""
import dataclasses
import os
import pathlib
import subprocess
import sys
import time

LEASH = pathlib.Path(__file__).with_name("leash.py")
LOOK_S = 0.1
SAID_MAX = 300
PROVES_NOTHING = (2, 64, 77)  # void, wrong usage, no rights
SIGNS_OF_FAILURE = ("VIOLATION", "NOT:", "FAILED", ": Failure")


@dataclasses.dataclass
class Ending:
    """how: passed, failed, void (it proves nothing), or stopped. lines: its output."""
    how: str
    said: str
    lines: list


class Stop:
    """Whether a run has to end: because it was asked to, or because its time is up."""

    def __init__(self, minutes):
        self._end = time.monotonic() + minutes * 60 if minutes else float("inf")
        self.asked = 0  # how often

    def ask(self, *_):
        self.asked += 1

    def left(self):
        return 0.0 if self.asked else self._end - time.monotonic()

    def is_due(self):
        return self.left() <= 0


class Tail:
    """The whole lines that a growing file has got since the last look."""

    def __init__(self, path):
        self._file = open(path, encoding="utf-8", errors="replace")  # pylint: disable=consider-using-with
        self._rest = ""

    def lines(self, whole=True):
        """whole=False: also a last line without an end."""
        self._rest += self._file.read()
        *found, self._rest = self._rest.split("\n")
        if not whole and self._rest:
            found, self._rest = [*found, self._rest], ""
        return found

    def close(self):
        self._file.close()


def run(command, *, folder, log, grace, stop, env=(), on_line=lambda line: None):
    """Runs the command with its output in the file `log`, until it ends or has to."""
    lines, asked_at = [], None
    with open(log, "wb") as output:
        leash = subprocess.Popen([sys.executable, "-B", LEASH, str(grace), *map(str, command)], cwd=folder,
                                 stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                 env={**os.environ, **dict(env)}, start_new_session=True)
        tail = Tail(log)

        def look(whole=True):
            for line in tail.lines(whole):
                lines.append(line)
                on_line(line)
        while True:
            code = leash.poll()
            look(whole=code is None)
            if code is not None:
                break
            if asked_at is None and stop.is_due():
                asked_at = time.monotonic()
                leash.terminate()
            if stop.asked > 1:
                leash.send_signal(1)  # SIGHUP: at once
            time.sleep(LOOK_S)
        tail.close()
    return _ending(code, lines, asked_at is not None)


def _ending(code, lines, was_stopped):
    said = [line.strip() for line in lines if line.strip()]
    last = said[-1] if said else ""
    if code == 0:
        return Ending("passed", last[:SAID_MAX], lines)
    if was_stopped and (code < 0 or code > 128):  # what fails by itself meanwhile has failed
        return Ending("stopped", last[:SAID_MAX], lines)
    if code in PROVES_NOTHING:
        return Ending("void", f"exit code {code}: {_telling(said, 'VOID')}"[:SAID_MAX], lines)
    return Ending("failed", f"exit code {code}: {_telling(said, *SIGNS_OF_FAILURE)}"[:SAID_MAX], lines)


def _telling(lines, *signs):
    """The first line with a sign, or the last one."""
    return next((line for line in lines if any(sign in line for sign in signs)), lines[-1] if lines else "")
