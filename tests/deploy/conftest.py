# SPDX-License-Identifier: Apache-2.0
"""The processes of tests/e2e, in the fixture `world`; the report of a failed test shows their logs."""
import pathlib
import shutil
import sys
import tempfile

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "tests/e2e")]

from harness import World  # noqa: E402


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    world = getattr(item, "funcargs", {}).get("world")
    if report.failed and world is not None:
        report.sections.append(("processes", world.logs()))


@pytest.fixture
def world():
    folder = tempfile.mkdtemp(prefix="dldep")  # short, because the path of a unix socket must be
    with World(folder) as made:
        yield made
    shutil.rmtree(folder, ignore_errors=True)
