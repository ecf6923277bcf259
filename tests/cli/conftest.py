# SPDX-License-Identifier: Apache-2.0
"""DISTLOCKCTL names the program under test. With DISTLOCKD, the tests with the fixture `broker` run against that
daemon, else against the fake."""
import importlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import types

import pytest

import broker as brokers
from ctl import Ctl

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"
MODULES = ("distlock.v1.lock_pb2", "distlock.v1.look_pb2", "distlock.v1.lock_service_pb2",
           "distlock.v1.admin_service_pb2", "google.rpc.status_pb2", "google.rpc.error_details_pb2")


@pytest.fixture(scope="session")
def api(tmp_path_factory):
    """All messages of the contract in one place."""
    out = tmp_path_factory.mktemp("stubs")
    files = [name.removesuffix("_pb2").replace(".", "/") + ".proto" for name in MODULES]
    subprocess.run(["protoc", f"-I{PROTO}", f"-I{PROTO}/third_party", f"--python_out={out}", *files], check=True)
    sys.path.insert(0, str(out))
    # google.rpc is generated here, but the package google is the one that protobuf installed.
    importlib.import_module("google").__path__.append(str(out / "google"))
    found = {}
    for name in MODULES:
        found.update(vars(importlib.import_module(name)))
    return types.SimpleNamespace(**found)


@pytest.fixture
def folder():
    """A folder with a short path, because the path of a unix socket must be short."""
    path = tempfile.mkdtemp(prefix="dlctl")
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def fake(api, folder):
    broker = brokers.Fake(api, folder)
    yield broker
    broker.close()


@pytest.fixture
def broker(api, folder):
    distlockd = os.environ.get("DISTLOCKD")
    made = brokers.Real(api, folder, distlockd) if distlockd else brokers.Fake(api, folder)
    yield made
    made.close()


@pytest.fixture
def ctl(request):
    """distlockctl against the broker of this test."""
    name = "fake" if "fake" in request.fixturenames else "broker"
    made = Ctl(os.environ["DISTLOCKCTL"], request.getfixturevalue(name).address)
    yield made
    made.close()
