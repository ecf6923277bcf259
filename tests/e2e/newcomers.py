# SPDX-License-Identifier: Apache-2.0
"""New connections to the broker, its HTTP face and the operators' port, and how long their answers take."""
import select
import socket
import time

import grpc

from client import CHANNEL_OPTIONS

# By the name of an attack: the pages that another peer asks for meanwhile.
ASKED = {"http-slow": ("/v1/status",), "http-waits": ("/v1/status",), "ops-hold": ("/healthz", "/readyz")}
ASKED_MS = 1_000
# Attacks by frames and calls, beside which another peer opens connections to the broker.
NEWCOMERS = ("hpack-string", "priority", "rapid-reset")


def ask(at, path):
    """The milliseconds until a new connection to HOST:PORT or a socket's path is answered with 200; else infinite."""
    begin = time.monotonic()
    host, _, port = at.rpartition(":")
    try:
        with socket.socket(socket.AF_UNIX if at.startswith("/") else socket.AF_INET) as sock:
            sock.settimeout(1)
            sock.connect(at if at.startswith("/") else (host, int(port)))
            sock.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            answered = sock.recv(100).startswith(b"HTTP/1.1 200 ")
    except OSError:
        answered = False
    return (time.monotonic() - begin) * 1000 if answered else float("inf")


def ask_status(url):
    """The milliseconds until a new connection by gRPC has the broker's status; infinite when it has none in time."""
    begin = time.monotonic()
    with grpc.insecure_channel(url, options=CHANNEL_OPTIONS) as channel:
        try:
            channel.unary_unary("/distlock.v1.AdminService/GetStatus")(b"", timeout=ASKED_MS / 1000)
        except grpc.RpcError:
            return float("inf")
    return (time.monotonic() - begin) * 1000


def ask_while(running, *asks):
    took = []
    while running():
        took += [one() for one in asks]
        time.sleep(0.1)
    return sorted(took)


def slow_connections(port, count, seconds):
    """Connections to the ops port that send a byte now and then. The times that /healthz took meanwhile, in ms."""
    socks = []
    for _ in range(count):
        sock = socket.socket()
        sock.settimeout(1)
        try:
            sock.connect(("127.0.0.1", port))
            socks.append(sock)
        except OSError:
            sock.close()
    took = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for sock in socks:
            try:
                sock.send(b"G")
            except OSError:
                pass
        took.append(ask(f"127.0.0.1:{port}", "/healthz"))
        select.select([], [], [], 0.1)
    for sock in socks:
        sock.close()
    return sorted(took)
