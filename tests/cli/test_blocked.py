# SPDX-License-Identifier: Apache-2.0
"""A running lock_delay: show, ls, watch and top name the block beside the holders, and nobody as the holder of it."""
import json
import re

import pytest

from broker import eventually
from ctl import line


@pytest.fixture
def blocked(ctl, broker):
    """k is blocked, for half a minute at most."""
    if broker.real:
        holder = ctl.start("hold", "k", "--owner", "ann", "--max-hold", "50ms", "--lock-delay", "30s")
        assert line(holder).startswith("granted")
        assert line(holder).startswith("lost")
    else:
        broker.fake.block("k", "ann", 29_000)
    return eventually(lambda: (lock := broker.lock("k")).HasField("block") and lock)


def test_as_text(ctl, broker, blocked):
    assert re.fullmatch(r"default:k  blocked, 0 waiting\n  blocked for another 2\S+s \(lock delay of ann\)\n",
                        ctl("show", "k").stdout)
    assert re.fullmatch(r"default:k +blocked +0 waiting  left 2\S+s +ann\n", ctl("ls").stdout)
    assert re.fullmatch(r"\S+  default:k  blocked, 0 waiting; lock delay of ann", line(ctl.start("watch", "k")))
    row = ctl("top", "--once").stdout.splitlines()[4].split()
    assert row[:4] == ["default:k", "0", "0", "blocked"] and row[-1] == "ann"


def test_as_json(ctl, broker, blocked):
    for command in (["show", "k"], ["ls"]):
        [lock] = ctl.json(*command)
        assert (lock["holder_count"], lock["holders"]) == (0, [])
        assert list(lock["block"]) == ["owner", "since", "time_left_ms"]
        assert lock["block"]["owner"] == "ann" and 20_000 < lock["block"]["time_left_ms"] <= 30_000
        assert lock["block"]["since"].startswith("20")
    assert json.loads(line(ctl.start("watch", "k", "-o", "json")))["block"]["owner"] == "ann"


def test_a_wait_that_runs_out_says_how_to_end_the_block(ctl, broker, blocked):
    if not broker.real:
        pytest.skip("the fake broker's refusals name no block")
    done = ctl("run", "k", "-w", "1s", "true")
    assert done.returncode == 1 and "wait longer, or end the block: distlockctl force-release (" in done.stderr
    assert ctl("force-release", "k").returncode == 0 and ctl("run", "k", "-n", "true").returncode == 0


def test_beside_a_holder(ctl, fake):
    ctl("acquire", "k", "--owner", "bob", "-s")
    fake.fake.block("k", "ann", 29_000)
    first, holder, block = ctl("show", "k").stdout.splitlines()
    assert first == "default:k  held, 0 waiting" and holder.startswith("  holder bob  shared  ")
    assert block == "  blocked for another 29s (lock delay of ann)"
    row = ctl("ls").stdout
    assert re.fullmatch(r"default:k +held +shared +0 waiting  for \S+ +bob\n", row)
    assert line(ctl.start("watch", "k")).endswith("; lock delay of ann")
