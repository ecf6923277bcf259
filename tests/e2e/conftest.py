# SPDX-License-Identifier: Apache-2.0
"""The fixture `world`, in which every test starts its processes; the report of a failed test shows their logs."""
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


@pytest.fixture
def world():
    folder = tempfile.mkdtemp(prefix="dle2e")  # short, because the path of a unix socket must be
    with World(folder) as made:
        yield made
    shutil.rmtree(folder, ignore_errors=True)
