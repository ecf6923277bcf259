# SPDX-License-Identifier: Apache-2.0
"""The package belongs to this repository: its version, its stubs, and that both clients read alike."""
import inspect
import re
import subprocess

import distlock
import pytest
from conftest import REPOSITORY
from distlock.v1 import lock_pb2, lock_service_pb2, look_pb2
from google.protobuf import descriptor_pb2

PACKAGE = REPOSITORY / "client/python"


def test_the_version_is_that_of_the_broker():
    cmake = (REPOSITORY / "CMakeLists.txt").read_text(encoding="utf-8")
    assert re.search(r"project\(distlock VERSION (\S+)", cmake).group(1) == distlock.__version__


def without_json_names(message):
    for field in message.field:
        field.ClearField("json_name")
    for nested in message.nested_type:
        without_json_names(nested)


@pytest.mark.parametrize("name, module", [("lock", lock_pb2), ("lock_service", lock_service_pb2), ("look", look_pb2)])
def test_the_stubs_are_those_of_the_contract(tmp_path, name, module):
    """client/python/stubs.sh makes them anew."""
    out = tmp_path / "set"
    subprocess.run(["protoc", "-I", REPOSITORY / "proto", f"--descriptor_set_out={out}",
                    f"distlock/v1/{name}.proto"], check=True)
    wanted = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file[0]
    for message in wanted.message_type:
        without_json_names(message)
    found = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    assert found == wanted, "run client/python/stubs.sh"


def test_everything_public_is_documented():
    for name in distlock.__all__:
        thing = getattr(distlock, name)
        if isinstance(thing, type):
            assert thing.__doc__, name
            for part, value in vars(thing).items():
                if not part.startswith("_") and callable(value) and part not in ("count", "index"):
                    assert value.__doc__ or part in ("tokens",), f"{name}.{part}"


def public(thing):
    return {name: value for name, value in inspect.getmembers(thing) if not name.startswith("_")}


@pytest.mark.parametrize("name", ["Client", "Held", "HeldAll", "Detached", "Acquire"])
def test_the_client_for_asyncio_has_what_the_one_for_threads_has(name):
    threads, loop = public(getattr(distlock, name)), public(getattr(distlock.aio, name))
    assert set(threads) == set(loop)
    for part, value in threads.items():
        if inspect.isfunction(value):
            here = set(inspect.signature(value).parameters)
            if part == "release":
                here.discard("timeout")  # asyncio.wait_for does it
            assert here == set(inspect.signature(loop[part]).parameters), f"{name}.{part}"
    assert inspect.signature(distlock.connect).parameters.keys() == inspect.signature(
        distlock.aio.connect).parameters.keys()
