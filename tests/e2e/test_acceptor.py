# SPDX-License-Identifier: Apache-2.0
"""Who gets in: limits of connections and of open files, rapid churn, and what the broker knows of a caller."""
import contextlib
import os
import resource
import socket
import stat
import subprocess
import time

import pytest

from client import api
from harness import DISTLOCKD, Distlockd, eventually

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"


def path_of(daemon):
    return daemon.url.removeprefix("unix://").partition("?")[0]


def connect(path):
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(5)
    sock.connect(path)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # one that is refused may be closed
        sock.send(PREFACE)
    return sock


def is_closed(sock):
    sock.settimeout(0)
    try:
        while True:
            if not sock.recv(1 << 16):
                return True
    except BlockingIOError:
        return False
    except OSError:
        return True


def descriptors(daemon):
    return len(os.listdir(f"/proc/{daemon.pid}/fd"))


def sessions(client):
    return client.unary("ListSessions", api().ListSessionsRequest(), api().ListSessionsResponse,
                        service="AdminService").sessions


def test_the_broker_knows_the_process_behind_a_unix_socket(world):
    daemon = world.distlockd(world.redis().url)
    client = world.client(daemon.url)
    client.session()
    [shown] = sessions(client)
    assert shown.peer == f"unix:uid={os.getuid()},pid={os.getpid()}"


def test_mode_and_group_of_the_socket(world):
    daemon = world.distlockd(world.redis().url, listen=f"unix://{world.folder}/m.sock?mode=0600&group={os.getgid()}")
    found = os.stat(path_of(daemon))
    assert stat.S_IMODE(found.st_mode) == 0o600 and found.st_gid == os.getgid()
    with world.client(f"unix://{path_of(daemon)}") as client:
        client.acquire(client.spec("k"))
    assert daemon.drain() == 0 and not os.path.exists(path_of(daemon))


@pytest.mark.parametrize("query, said", [("mode=999", "mode=999"), ("owner=me", "something else than mode= and group="),
                                         ("group=no-such-group", "there is no group 'no-such-group'")])
def test_wrong_options_of_the_socket(world, query, said):
    daemon = world.distlockd(world.redis().url, listen=f"unix://{world.folder}/m.sock?{query}", await_ready=False)
    assert daemon.exit_code() in (64, 78)
    assert said in daemon.log()


def test_a_connection_too_many_is_closed_at_once_and_others_live(world):
    daemon = world.distlockd(world.redis().url, "--limits", "max-connections-per-peer=20")
    client = world.client(daemon.url)
    session = client.session()
    session.wait_for(session.acquire(client.spec("k")), "granted")
    socks = [connect(path_of(daemon)) for _ in range(40)]
    eventually(lambda: sum(map(is_closed, socks)) >= 21, "the refusals")
    assert daemon.metric("distlock_connections_refused_total", cause="peer_connections") >= 21
    assert "limit=max-connections-per-peer" in daemon.log()
    for sock in socks:
        sock.close()
    eventually(lambda: daemon.metric("distlock_connections") <= 2, "the end of the others")
    with world.client(daemon.url) as other:
        other.acquire(other.spec("k2"))
    assert session.end is None and daemon.get("/healthz")[0] == 200


def test_without_files_it_goes_on_accepting(world):
    """One EMFILE makes gRPC 1.51 deaf for ever; the acceptor must not become so."""
    daemon = world.distlockd(world.redis().url)
    client = world.client(daemon.url)
    session = client.session()
    session.wait_for(session.acquire(client.spec("k")), "granted")
    before = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (descriptors(daemon) + 4, before[1]))
    socks = [connect(path_of(daemon)) for _ in range(60)]
    eventually(lambda: daemon.log().count("connection refused"), "the warning")
    eventually(lambda: sum(map(is_closed, socks)) >= 50, "the refusals")
    for sock in socks:
        sock.close()
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, before)
    with world.client(daemon.url) as other:
        other.acquire(other.spec("k2"))
    assert daemon.metric("distlock_connections_refused_total", cause="descriptors") > 0
    assert session.end is None and not session.all("lost")


def answers(client):
    try:
        return client.status()
    except Exception:  # noqa: B902 - whatever gRPC says while it cannot connect
        return None


def test_a_low_limit_of_files_lowers_the_connections(world):
    daemon = Distlockd(world.folder, world.redis().url)
    daemon.argv = ["prlimit", "--nofile=200:200", "--", *daemon.argv]
    world._add(daemon).start()
    assert "fewer connections than limit max-connections" in daemon.log()
    socks = [connect(path_of(daemon)) for _ in range(300)]
    eventually(lambda: sum(map(is_closed, socks)) >= 200, "the refusals")
    assert daemon.metric("distlock_connections_refused_total", cause="descriptors") == 0
    for sock in socks:
        sock.close()
    with world.client(daemon.url) as client:
        eventually(lambda: answers(client), "a new caller")


def test_where_strangers_get_in_and_frames_are_not_bounded_it_says_what_to_do(world):
    redis = world.redis()
    at_home = world.distlockd(redis.url, "--listen", "127.0.0.1:0", name="at-home")
    outside = world.distlockd(redis.url, "--listen", "0.0.0.0:0", "--insecure-listen", name="outside")
    is_hardened = 'hardened="true"' in outside.get("/metrics")[1]
    said = [line for line in outside.log().splitlines() if "CVE-2023-33953" in line]
    assert len(said) == (0 if is_hardened else 1), outside.log()
    assert is_hardened or ("DISTLOCK_GRPC=hardened" in said[0] and "listen=0.0.0.0:0" in said[0]), said
    assert "CVE-2023-33953" not in at_home.log()


def test_rapid_churn_leaves_nothing(world):
    daemon = world.distlockd(world.redis().url, "--limits", "new-connections-per-peer=100000")
    client = world.client(daemon.url)
    client.acquire(client.spec("k"))
    before = descriptors(daemon)
    for i in range(1500):
        sock = connect(path_of(daemon))
        if i % 2:
            is_closed(sock)
        sock.close()
    eventually(lambda: descriptors(daemon) <= before + 2, "the descriptors' end")
    eventually(lambda: daemon.metric("distlock_connections") == 1, "the connections' end")
    client.acquire(client.spec("k2"))


def test_a_socket_of_systemd(world):
    path = f"{world.folder}/systemd.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        argv = [DISTLOCKD, "--listen", f"unix://{path}", "--redis", world.redis().url, "--http", ""]
        script = 'exec 3<&"$0"; LISTEN_PID=$$ LISTEN_FDS=1 exec "$@"'
        with subprocess.Popen(["bash", "-c", script, str(listener.fileno()), *argv], pass_fds=[listener.fileno()],
                              stderr=subprocess.PIPE) as process:
            try:
                with world.client(f"unix://{path}") as client:
                    eventually(lambda: answers(client), "the broker")
                    client.acquire(client.spec("k", ttl=2))
            finally:
                process.terminate()
                process.communicate()
        assert process.returncode == 0 and os.path.exists(path), "the socket is systemd's"


def test_a_dead_listener_fails_the_health_check(world):
    daemon = world.distlockd(world.redis().url)
    os.unlink(path_of(daemon))  # nobody can connect any more
    begin = time.monotonic()
    eventually(lambda: daemon.get("/healthz")[0] == 503, "/healthz 503")
    assert time.monotonic() - begin < 25 and path_of(daemon) in daemon.get("/healthz")[1]
