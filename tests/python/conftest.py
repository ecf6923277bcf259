# SPDX-License-Identifier: Apache-2.0
"""The package under test is that of the source tree; the processes of tests/e2e serve the tests with real brokers."""
import pathlib
import shutil
import sys
import tempfile

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY / "client/python"), str(REPOSITORY / "tests/e2e")]

import distlock  # noqa: E402
from fake_broker import FakeBroker  # noqa: E402
from harness import World  # noqa: E402


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    report = (yield).get_result()
    world = getattr(item, "funcargs", {}).get("world")
    if report.failed and world is not None:
        report.sections.append(("processes", world.logs()))


@pytest.fixture
def folder():
    made = tempfile.mkdtemp(prefix="dlpy")  # short, because the path of a unix socket must be
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.fixture
def world(folder):
    with World(folder) as made:
        yield made


@pytest.fixture
def broker(folder):
    with FakeBroker(f"unix://{folder}/broker.sock") as made:
        yield made


@pytest.fixture
def connect():
    """distlock.connect, closed at the end."""
    made = []

    def start(address, **options):
        made.append(distlock.connect(address, **options))
        return made[-1]

    yield start
    for client in made:
        client.close()
