# SPDX-License-Identifier: Apache-2.0
"""`world` is what every test starts its processes in; when the test fails, their logs are in the report."""
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
    folder = tempfile.mkdtemp(prefix="dle2e")  # short, because a unix socket's path is
    with World(folder) as made:
        yield made
    shutil.rmtree(folder, ignore_errors=True)
