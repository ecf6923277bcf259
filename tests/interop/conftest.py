# SPDX-License-Identifier: Apache-2.0
"""A real broker, and the contract for stock Python gRPC."""
import importlib
import os
import pathlib
import re
import subprocess
import sys

import grpc
import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DISTLOCKD = os.environ.get("DISTLOCKD", str(REPOSITORY / "build/release/bin/distlockd"))


@pytest.fixture(scope="session")
def pb(tmp_path_factory):
    """The messages of lock_service.proto, look.proto and lock.proto."""
    out = tmp_path_factory.mktemp("stubs")
    proto = REPOSITORY / "proto"
    subprocess.run(["protoc", f"-I{proto}", f"--python_out={out}",
                    *[str(p.relative_to(proto)) for p in proto.glob("distlock/v1/*.proto")]], check=True)
    sys.path.insert(0, str(out))
    service = importlib.import_module("distlock.v1.lock_service_pb2")
    service.LockSpec = importlib.import_module("distlock.v1.lock_pb2").LockSpec
    for name in ("look", "admin_service"):
        vars(service).update(vars(importlib.import_module(f"distlock.v1.{name}_pb2")))
    return service


@pytest.fixture(scope="module")
def broker():
    """A daemon on an embedded store; `address` is where it listens."""
    with subprocess.Popen([DISTLOCKD, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
                           "--http", ""], stderr=subprocess.PIPE,
                          text=True) as daemon:
        for line in daemon.stderr:
            if "distlockd ready" in line:
                daemon.address = re.search(r"listen=(\S+)", line).group(1)
                break
        yield daemon
        daemon.terminate()
        assert daemon.wait(timeout=60) == 0


@pytest.fixture(scope="module")
def address(broker):
    return broker.address


class LockService:
    """What a generated stub would be."""

    def __init__(self, channel, pb):
        def method(kind, name, request, response):
            make = getattr(channel, kind)
            return make(f"/distlock.v1.LockService/{name}", request_serializer=request.SerializeToString,
                        response_deserializer=response.FromString)
        self.Hold = method("unary_stream", "Hold", pb.HoldRequest, pb.HoldResponse)
        self.Session = method("stream_stream", "Session", pb.SessionRequest, pb.SessionResponse)
        self.Acquire = method("unary_unary", "Acquire", pb.AcquireRequest, pb.AcquireResponse)
        self.Renew = method("unary_unary", "Renew", pb.RenewRequest, pb.RenewResponse)
        self.Release = method("unary_unary", "Release", pb.ReleaseRequest, pb.ReleaseResponse)
        self.GetLock = method("unary_unary", "GetLock", pb.GetLockRequest, pb.GetLockResponse)
        self.ForceRelease = channel.unary_unary("/distlock.v1.AdminService/ForceRelease",
                                                request_serializer=pb.ForceReleaseRequest.SerializeToString,
                                                response_deserializer=pb.ForceReleaseResponse.FromString)


@pytest.fixture
def locks(address, pb):
    with grpc.insecure_channel(address) as channel:
        yield LockService(channel, pb)
