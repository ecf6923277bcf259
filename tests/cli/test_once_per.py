# SPDX-License-Identifier: Apache-2.0
"""run --once-per: of several hosts that start the same job one runs it, and the others say who ran."""
import re

import pytest

from ctl import line


@pytest.fixture
def real(broker):
    if not broker.real:
        pytest.skip("a fake broker knows no min_hold")


def run(ctl, *args, owner="root@a"):
    return ctl("run", "nightly", "-n", "--owner", owner, "--once-per", "10m", *args, "echo", "ran")


def test_one_run_in_a_period(ctl, real):
    first = run(ctl)
    assert (first.returncode, first.stdout) == (0, "ran\n")
    other = run(ctl, "-q", "-E", "0", owner="root@b")
    assert (other.returncode, other.stdout, other.stderr) == (0, "", "")
    told = run(ctl, owner="root@b")
    assert told.returncode == 1
    assert re.search(r"ran \d s ago by root@a, next in 9 min", told.stderr), told.stderr


def test_the_block_is_shown_and_force_release_ends_it(ctl, real):
    run(ctl)
    shown = ctl("show", "nightly").stdout
    assert re.search(r"\n  blocked for another 8m5\S+s \(min hold of root@a, granted 20\S+\)\n", shown)
    [lock] = ctl.json("show", "nightly")
    assert (lock["holders"], lock["block"]["min_hold_ms"]) == ([], 540_000)
    assert lock["block"]["granted"].startswith("20")
    assert re.search(r"for another 8m5\S+s, by the min hold of root@a\n", ctl("top", "--once").stdout)
    assert line(ctl.start("watch", "nightly")).split("; ")[1].startswith("min hold of root@a")
    assert ctl("force-release", "nightly").stdout == "the block of default:nightly, which root@a had left, was ended\n"
    assert run(ctl).stdout == "ran\n"


@pytest.mark.parametrize("store, warns", [("embedded", True), ("redis://10.0.0.1", False)])
def test_a_store_of_the_broker_s_own_is_told_to_who_watches(ctl, fake, store, warns):
    fake.fake.store_url = store
    assert ("its own (embedded)" in run(ctl, "--verbose").stderr) == warns
    assert run(ctl).stderr == "", "cron would mail it"


def test_a_job_that_failed_has_run(ctl, real):
    assert ctl("run", "nightly", "--once-per", "10m", "false").returncode == 1
    assert ctl("run", "nightly", "-n", "-E", "9", "--once-per", "10m", "true").returncode == 9


@pytest.mark.parametrize("flags, problem", [
    (["--once-per", "0s"], "--once-per: is 0;"), (["--once-per", "26h"], "--once-per: is 26h"),
    (["--once-per", "1h", "-s"], "--once-per is for mode EXCLUSIVE only"),
    (["--once-per", "1h", "-k", "two"], "--once-per is for one lock only")])
def test_what_is_wrong_is_named(ctl, real, flags, problem):
    done = ctl("run", "nightly", *flags, "--", "true")
    assert done.returncode == 64 and problem in done.stderr, done.stderr
