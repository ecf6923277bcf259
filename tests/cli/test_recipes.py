# SPDX-License-Identifier: Apache-2.0
"""The recipes of client/cli/README.md, as they stand there."""
import os
import pathlib
import re
import subprocess

import pytest

from broker import PATIENCE_S, eventually
from ctl import line

README = pathlib.Path(__file__).resolve().parents[2] / "client/cli/README.md"


@pytest.fixture
def script(ctl, broker, folder):
    """Starts a script that has this recipe in it."""
    os.symlink(ctl.program, os.path.join(folder, "distlockctl"))
    started = []

    def start(language, *edits):
        [text] = re.findall(rf"^```{language}\n(.*?)^```", README.read_text(encoding="utf-8").split("## Recipes")[1],
                            re.M | re.S)
        for old, new in edits:
            assert old in text
            text = text.replace(old, new)
        path = os.path.join(folder, "script")
        with open(path, "w", encoding="utf-8") as f:
            f.write("#!/bin/bash\n" + text)
        os.chmod(path, 0o755)
        started.append(subprocess.Popen([path], env={**ctl.env, "PATH": f"{folder}:{ctl.env['PATH']}"}, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


PART = ('echo "the part under the lock"', 'echo "the part under the lock"; read x')
CODE = ('wait "$lock_pid"', 'wait "$lock_pid"; echo "code $?"; exec')


def test_a_part_of_a_script(script, broker):
    process = script("bash", PART, CODE)
    assert line(process) == "the part under the lock"
    assert broker.held("report")
    out, err = process.communicate("go\n", timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (0, "code 0\n", "")
    assert broker.free("report")


def test_a_part_of_a_script_whose_lock_is_lost(script, broker, ctl):
    process = script("bash", ("hold report", "hold report --ttl 1s"), PART, CODE)
    assert line(process) == "the part under the lock"
    broker.lose("report")
    eventually(lambda: not broker.held("report"))
    eventually(lambda: ended_child(process.pid), "the end of hold")
    out, err = process.communicate("go\n", timeout=PATIENCE_S)
    assert (out, err) == ("code 75\n", "the lock was lost or is at risk\n")


def ended_child(pid):
    """Whether a child of the process has ended and is not reaped, or is reaped."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        children = f.read().split()
    states = [pathlib.Path(f"/proc/{child}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
              for child in children]
    return all(state == "Z" for state in states)


def test_a_part_of_a_script_that_dies(script, broker):
    process = script("bash", PART)
    assert line(process) == "the part under the lock"
    process.kill()
    eventually(lambda: broker.free("report"))


def test_a_part_of_a_script_that_waits(script, broker, ctl):
    lease = ctl.json("acquire", "report")[0]
    process = script("bash", PART)
    eventually(lambda: broker.queue_length("report") == 1)
    ctl("release", lease["lease_id"])
    assert line(process) == "the part under the lock"


def test_a_script_that_runs_itself_under_a_lock(script, broker, ctl):
    edit = ('"$0" "$@"\n', '"$0" "$@"\necho "$DISTLOCK_KEY"\nread x\n')
    first = script("sh", edit)
    assert line(first) == "nightly"
    second = script_again(first)
    assert second.communicate(timeout=PATIENCE_S) == ("", "") and second.returncode == 0
    first.communicate("go\n", timeout=PATIENCE_S)
    assert broker.free("nightly")


def script_again(process):
    with open(f"/proc/{process.pid}/environ", "rb") as f:
        env = dict(row.split("=", 1) for row in f.read().decode().split("\0") if row)
    path = os.path.join(os.path.dirname(env["DISTLOCK_SERVER"].removeprefix("unix://")), "script")
    return subprocess.Popen([path], env=env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)
