# SPDX-License-Identifier: Apache-2.0
"""TLS, token and channel options as arguments of connect: two clients of one process differ."""
import asyncio
import multiprocessing
import os
import subprocess
import sys

import distlock
import pytest
import tools
from attacks import make_certificates
from conftest import REPOSITORY
from distlock import Tls
from harness import free_port


@pytest.fixture
def secure(world):
    """A broker with TLS that wants certificates, its address, and the folder of the certificates."""
    pem = make_certificates(world.folder)
    port = free_port()
    world.distlockd(world.redis().url, "--listen", f"127.0.0.1:{port}", "--allow-all", "--tls-cert", pem / "cert.pem",
                    "--tls-key", pem / "key.pem", "--tls-client-ca", pem / "ca.pem")
    return f"tls://localhost:{port}", pem


def test_each_client_has_its_own_certificates(secure, connect, monkeypatch):
    address, pem = secure
    for name in ("DISTLOCK_TLS_CA", "DISTLOCK_TLS_CERT", "DISTLOCK_TLS_KEY", "DISTLOCK_TLS_SERVER_NAME"):
        monkeypatch.delenv(name, raising=False)
    right = Tls(ca=pem / "ca.pem", cert=str(pem / "client.pem"), key=pem / "client.key")
    dl = connect(address, tls=right)
    with dl.lock("k", wait=20) as held:
        assert held.is_held and dl.inspect("k").holder_count == 1
        for wrong, why in ((Tls(ca=pem / "ca.pem"), "hangs up"), (None, "certificate"),
                           (Tls(right.ca, right.cert, right.key, server_name="other.test"), "other names")):
            with pytest.raises(distlock.Unavailable, match=why):
                connect(address, tls=wrong, unreachable_after=2).lock("other", wait=0).acquire()
        assert held.is_held

    async def in_a_loop():
        async with distlock.aio.connect(address, tls=right) as alone, alone.lock("k", wait=20) as held:
            return held.is_held

    assert asyncio.run(in_a_loop())


MISTAKES = """
import sys
import distlock
address, folder = sys.argv[1:]
mine = {"cert": f"{folder}/client.pem", "key": f"{folder}/client.key"}
for target, tls in ((address, mine), (address, {"ca": f"{folder}/ca.pem"}),
                    (address, {"ca": f"{folder}/ca.pem", **mine, "server_name": "other.test"}),
                    (address, {"ca": f"{folder}/ca.pem", **mine, "key": f"{folder}/key.pem"}),
                    (address.replace("tls://", ""), None)):
    try:
        distlock.connect(target, tls=tls and distlock.Tls(**tls)).lock("k", wait=0).acquire()
    except distlock.Unavailable as error:
        print(error)
"""


@pytest.mark.parametrize("python", [lambda: sys.executable, tools.python], ids=["system", "newest"])
def test_mistakes_are_named(secure, python):
    """By the words of both gRPCs, Debian's and PyPI's, which prints nothing of its own."""
    address, pem = secure
    done = subprocess.run([python(), "-B", "-c", MISTAKES, address, pem], capture_output=True, text=True, timeout=100,
                          env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{REPOSITORY}/client/python"})
    assert done.stderr == ""
    for said, why in zip(done.stdout.splitlines(), (
            "is not signed by an authority that this machine trusts", "it wants a client certificate",
            "is for other names than that of the address", "hold no certificate and the key of this certificate",
            "it wants TLS (the address is tls://"), strict=True):
        assert why in said


def test_a_child_of_fork_has_the_certificates_of_its_client(secure, connect):
    address, pem = secure
    dl = connect(address, tls=Tls(ca=pem / "ca.pem", cert=pem / "client.pem", key=pem / "client.key"),
                 channel_options={"grpc.primary_user_agent": "forks"})
    dl.lock("parent", wait=20).acquire().release()
    forks = multiprocessing.get_context("fork")
    child = forks.Process(target=lambda: dl.lock("child", wait=20).acquire().release())
    child.start()
    child.join(60)
    assert child.exitcode == 0


def test_a_client_too_many_is_told_which_limit(world, connect):
    broker = world.distlockd(world.redis().url, "--limits", "max-connections-per-peer=2")
    with connect(broker.url).lock("a", wait=20) as first, connect(broker.url).lock("b", wait=20) as second:
        with pytest.raises(distlock.Unavailable, match="limit max-connections-per-peer"):
            connect(broker.url, unreachable_after=2).lock("c", wait=0).acquire()
        assert first.is_held and second.is_held
