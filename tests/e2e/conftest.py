# SPDX-License-Identifier: Apache-2.0
"""The fixture `world`, in which every test starts its processes; the report of a failed test shows their logs. `folder`
is the one that they use."""
import os
import shutil
import tempfile

import pytest

from harness import World


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    world = getattr(item, "funcargs", {}).get("world")
    if report.failed and world is not None:
        report.sections.append(("processes", world.logs()))


def in_memory():
    """A folder whose files wait for no disk; None: the usual one. Sentinels and nodes of a Cluster write what they vote
    to disk before they vote, and a disk that is busy for seconds costs them their election. A store that writes each
    change to its file before it answers stands still as long, and leases end meanwhile."""
    shared = "/dev/shm"
    may = os.access(shared, os.W_OK | os.X_OK) and not os.statvfs(shared).f_flag & os.ST_NOEXEC
    return shared if may else None


@pytest.fixture
def folder():
    made = tempfile.mkdtemp(prefix="dle2e", dir=in_memory())  # short, because the path of a unix socket must be
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def world(folder):
    with World(folder) as made:
        yield made
