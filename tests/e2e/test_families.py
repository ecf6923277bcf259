# SPDX-License-Identifier: Apache-2.0
"""[::] stands for both families of IP, and for IPv4 alone where the kernel has no IPv6: so charts can name it."""
import platform
import socket
import subprocess
import sys

import pytest

from client import Client
from harness import DISTLOCKD, Process, eventually, free_port

# Runs the rest of its arguments in a process tree whose kernel has no IPv6, as after the boot parameter ipv6.disable=1:
# a seccomp filter answers socket(AF_INET6, ..) with EAFNOSUPPORT.
WITHOUT_IPV6 = """
import ctypes, errno, os, socket, struct, sys
number, libc = int(sys.argv[1]), ctypes.CDLL(None, use_errno=True)
program = b"".join(struct.pack("HBBI", *step) for step in (
    (0x20, 0, 0, 0), (0x15, 0, 3, number),                     # the call's number: socket?
    (0x20, 0, 0, 16), (0x15, 0, 1, socket.AF_INET6),           # its first argument
    (0x06, 0, 0, 0x00050000 | errno.EAFNOSUPPORT), (0x06, 0, 0, 0x7fff0000)))
steps = ctypes.create_string_buffer(program)
filtered = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(steps))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, filtered, 0, 0) == 0, ctypes.get_errno()
os.execv(sys.argv[2], sys.argv[2:])
"""
SOCKET_CALL = {"x86_64": 41, "aarch64": 198}.get(platform.machine())
needs_filter = pytest.mark.skipif(SOCKET_CALL is None, reason="knows the system calls of two machines")


def get(host, port):
    done = subprocess.run(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"http://{host}:{port}/readyz"],
                          capture_output=True, text=True, check=False)
    return done.stdout


@pytest.mark.parametrize("before", [(), pytest.param(
    (sys.executable, "-c", WITHOUT_IPV6, str(SOCKET_CALL)), marks=needs_filter)], ids=["both", "no-ipv6"])
def test_an_address_for_all(world, before):
    port, http = free_port(), free_port()
    broker = Process("distlockd", [*before, DISTLOCKD, "--listen", f"[::]:{port}", "--insecure-listen", "--http",
                                   f"[::]:{http}", "--redis", world.redis().url], world.folder)
    world._add(broker).launch()
    eventually(lambda: get("127.0.0.1", http) == "200", "the broker being ready")
    with Client(f"127.0.0.1:{port}") as client:
        client.acquire(client.spec("k"))
    if not before and has_ipv6():
        assert get("[::1]", http) == "200"
        with Client(f"[::1]:{port}") as client:
            assert client.lock("k").holders


def has_ipv6():
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False
