# SPDX-License-Identifier: Apache-2.0
"""Bad configuration gives one clear line and a non-zero exit code; --print-config prints good configuration."""
import os
import re
import signal
import socket
import subprocess

import pytest

from harness import DISTLOCKD, Redis, eventually, free_port

USAGE, UNAVAILABLE, STORE_DIED, CONFIG = 64, 69, 70, 78


def run(*args, env=None, before=()):
    done = subprocess.run([*before, DISTLOCKD, *map(str, args)], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **(env or {})}, check=False)
    return done.returncode, done.stdout, done.stderr


def complaint(*args, env=None):
    """(exit code, the line on stderr; before it are warnings of options)"""
    code, out, err = run(*args, env=env)
    *warned, line = [l for l in err.splitlines() if l]
    assert all(" warn option " in l for l in warned) and not out, (out, err)
    return code, "\n".join([*warned, line])


@pytest.fixture
def listen(world):
    return "--listen", f"unix://{world.folder}/d.sock", "--http", ""


def test_wrong_options(world, listen):
    for args, named in [(["--no-such"], "--no-such"), (["--validity", "soon"], "soon"), (["--validity", "1h"], "1h"),
                        (["--shards", "0"], "--shards"), (["stray"], "stray"),
                        (["--listen", "0.0.0.0:7420"], "0.0.0.0"),
                        (["--redis", "http://x"], "http"), (["--redis", "redlock://a,b"], "not 2"),
                        (["--redis", "redis+cluster://a,b/1"], "database 0")]:
        code, line = complaint(*args)
        assert code in (USAGE, CONFIG) and named in line, (args, code, line)
    code, line = complaint(env={"DISTLOCK_VALIDITY": "-1s"})
    assert code == CONFIG and "DISTLOCK_VALIDITY" in line and "-1s" in line


@pytest.mark.parametrize("url", [
    "redis://:hush", "redis://user:hush", "redis://h/hush", "redis://h?hush", "hush", "redis:/:hush@h",
    "redis://h:1@hush:x", "unix://hush"
])
def test_messages_about_a_wrong_store_url_hide_what_may_be_its_password(url):
    for args, env in ((("--redis", url), {}), ((f"--redis={url}",), {}), ((), {"DISTLOCK_REDIS": url})):
        code, line = complaint(*args, env=env)
        assert code in (USAGE, CONFIG) and "--redis" in line and "hush" not in line


def test_wrong_or_unreadable_files(world, listen):
    bad = world.folder / "bad.yaml"
    bad.write_text("validitty: 3s\n")
    code, line = complaint("--config", bad)
    assert code == CONFIG and "did you mean validity" in line and f"{bad}:1:1:" in line
    code, line = complaint("--config", world.folder / "none.yaml")
    assert code == CONFIG and "none.yaml" in line
    redis = world.redis()
    code, line = complaint(*listen, "--redis", redis.url, "--redis-password-file", world.folder / "none.txt")
    assert code == CONFIG and "none.txt" in line


def test_a_user_without_a_password(world, listen):
    config = world.folder / "d.yaml"
    config.write_text("redis-user: app\n")
    url = world.redis().url
    for args, env in ((("--redis-user", "app"), {}), ((), {"DISTLOCK_REDIS_USER": "app"}), (("--config", config), {})):
        code, line = complaint(*listen, "--redis", url, *args, env=env)
        assert code == CONFIG and "--redis-user" in line and "--redis-password-file" in line, line


def test_a_user_whose_password_is_in_the_url_or_a_file(world):
    redis = world.redis(tcp=True)
    redis.command("ACL", "SETUSER", "app", "on", ">right", "~*", "&*", "+@all")
    redis.command("ACL", "SETUSER", "default", "off")
    password = world.folder / "password"
    password.write_text("right\n")
    world.distlockd(redis.url.replace("//", "//:right@"), "--redis-user", "app", name="url")
    world.distlockd(redis.url, "--redis-user", "app", "--redis-password-file", password, name="file")


def test_an_unreachable_store(world, listen):
    code, line = complaint(*listen, "--redis", f"redis://127.0.0.1:{free_port()}")
    assert code == UNAVAILABLE and "127.0.0.1" in line and "refused" in line
    code, line = complaint(*listen, "--redis", "unix:///nowhere/redis.sock")
    assert code == UNAVAILABLE and "/nowhere/redis.sock" in line


def test_a_store_with_another_password_or_with_eviction(world, listen):
    redis = world.redis()
    redis.command("CONFIG", "SET", "requirepass", "right")
    wrong = world.folder / "wrong"
    wrong.write_text("wrong-secret\n")
    code, line = complaint(*listen, "--redis", redis.url)
    assert code != 0 and "password" in line
    code, line = complaint(*listen, "--redis", redis.url, "--redis-password-file", wrong)
    assert code != 0 and "WRONGPASS" in line and "wrong-secret" not in line
    evicting = world.redis("evicting", args=("--maxmemory", "64mb", "--maxmemory-policy", "volatile-lru"))
    code, line = complaint(*listen, "--redis", evicting.url)
    assert code == CONFIG and "maxmemory-policy" in line and "volatile-lru" in line and "noeviction" in line


def test_an_embedded_store_that_cannot_start(world, listen):
    open_to_all = world.folder / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o755)
    for args, named in [(["--embedded-dir", open_to_all], str(open_to_all)),
                        (["--embedded-dir", "/nowhere/x"], "/nowhere/x"),
                        (["--embedded-server", "no-such-server"], "no-such-server"),
                        (["--embedded-server", "/nowhere/server"], "/nowhere/server")]:
        code, line = complaint(*listen, *args)
        assert code == CONFIG and named in line, (args, code, line)
    # The embedded server starts and ends by itself, so the message proposes no other value.
    code, line = complaint(*listen, "--embedded-server", "false", "--embedded-dir", world.folder / "new")
    assert code == UNAVAILABLE and "ended at once" in line, line


def test_an_address_in_use(world, listen):
    redis = world.redis()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = "127.0.0.1:%d" % taken.getsockname()[1]
        for args in (["--listen", address, "--http", ""], [*listen[:2], "--http", address]):
            code, _, err = run("--redis", redis.url, *args)
            assert code != 0 and address in err, err
    daemon = world.distlockd(redis.url)
    code, _, err = run("--redis", redis.url, "--listen", daemon.url, "--http", "")
    assert code != 0 and daemon.url.split("://")[1] in err
    assert daemon.serving()
    daemon.kill()
    daemon.start()  # although the killed broker left its socket


def test_with_wait_for_store_it_waits(world):
    redis = Redis(world.folder, "late")
    daemon = world.distlockd(redis.url, "--wait-for-store", "--store-timeout", "5m", await_ready=False)
    eventually(lambda: "late.sock" in daemon.log(), "a word about waiting, long before the time is over")
    assert daemon.alive()
    # Alive, because a restart would not help.
    assert daemon.get("/healthz")[0] == 200
    status, text = daemon.get("/readyz")
    assert status == 503 and "waiting for the store" in text
    assert daemon.get("/")[0] == daemon.get("/metrics")[0] == 200
    try:
        redis.start()
        daemon.await_ready(daemon.serving)
        eventually(lambda: daemon.get("/readyz")[0] == 200, "being ready")
        assert "distlock_sessions" in daemon.get("/metrics")[1]
    finally:
        redis.kill()


def test_sigterm_ends_the_wait_for_a_store(world):
    daemon = world.distlockd(f"unix://{world.folder}/never.sock", "--wait-for-store", "--store-timeout", "5m",
                             await_ready=False)
    eventually(lambda: "never.sock" in daemon.log(), "a word about waiting")
    assert daemon.drain() == 0


# Answers one PING, by which the daemon sees that its store is up, and nothing more.
SILENT_SERVER = """#!/usr/bin/env python3
import socket, sys
path = sys.argv[sys.argv.index("--unixsocket") + 1]
listener = socket.socket(socket.AF_UNIX)
listener.bind(path)
listener.listen()
first = listener.accept()[0]
first.recv(6)
first.sendall(b"+PONG\\r\\n")
silent = listener.accept()
print("silent", flush=True)
while silent[0].recv(4096):
    pass
listener.accept()
"""


@pytest.mark.parametrize("waits", [("--wait-for-store",), ()])
def test_an_embedded_store_that_dies_while_it_is_checked_ends_the_daemon(world, listen, waits):
    server = world.folder / "silent-server"
    server.write_text(SILENT_SERVER)
    server.chmod(0o755)
    folder = world.folder / "embedded"
    with subprocess.Popen([DISTLOCKD, *listen, "--embedded-server", str(server), "--embedded-dir", str(folder),
                           "--store-timeout", "5m", *waits], stderr=subprocess.PIPE, text=True) as daemon:
        log = folder / "store.log"
        eventually(lambda: log.exists() and "silent" in log.read_text(), "the check of the store")
        subprocess.run(["pkill", "-KILL", "-P", str(daemon.pid)], check=True)
        try:
            assert daemon.wait(timeout=30) == STORE_DIED
        finally:
            daemon.kill()
        assert "embedded store ended by itself" in daemon.stderr.read()


def test_print_config_shows_the_values_in_effect_without_secrets(world):
    config = world.folder / "d.yaml"
    config.write_text("validity: 2s\nshards: 3\n")
    code, out, _ = run("--config", config, "--shards", "5", "--redis", "redis://u:secret@h:1", "--print-config",
                       env={"DISTLOCK_DEFAULT_TTL": "20s"})
    assert code == 0 and "validity: 2s" in out and "shards: 5" in out and "default-ttl: 20s" in out
    assert "secret" not in out
    code, out, err = run("--print-config", env={"DISTLOCK_VALIDTY": "4s"})
    assert code == 0 and "validity: 3s" in out and "DISTLOCK_VALIDTY" not in out
    assert [line for line in err.splitlines() if "DISTLOCK_VALIDTY" in line and "DISTLOCK_VALIDITY?" in line], err
    code, out, err = run("--redis", "redlock://u:secret@a,b", "--print-config")
    assert code == 64 and out == "" and "a quorum has 3, 5, 7 or 9 servers, not 2" in err and "secret" not in err
    assert run("--version")[1].startswith("distlockd ")
    assert "--drain-timeout" in run("--help")[1]


def test_a_private_embedded_store_ends_with_the_daemon_in_every_case(world):
    """Without --embedded-dir; test_embedded.py has those that outlive it."""
    for signal_number, code in ((signal.SIGTERM, 0), (signal.SIGKILL, -signal.SIGKILL)):
        folder = world.folder / f"embedded{int(signal_number)}"
        folder.mkdir(mode=0o700)
        argv = [DISTLOCKD, "--listen", f"unix://{folder}/d.sock", "--http", ""]
        with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "TMPDIR": str(folder)}) as daemon:
            line = ""
            while "ready" not in line:
                line = daemon.stderr.readline()
                assert line, "the daemon ended before it was ready"
            servers = subprocess.run(["pgrep", "-P", str(daemon.pid)], capture_output=True, text=True, check=True)
            daemon.send_signal(signal_number)
            assert daemon.wait(timeout=60) == code
        for pid in servers.stdout.split():
            eventually(lambda p=pid: not os.path.exists(f"/proc/{p}") or
                       open(f"/proc/{p}/stat", encoding="utf-8").read().split()[2] == "Z", "the end of the store")


def test_a_first_start_that_asks_for_nothing_warns_of_nothing(world):
    argv = ["prlimit", "--nofile=4096:4096", "--", DISTLOCKD, "--listen", f"unix://{world.folder}/d.sock", "--http", ""]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as daemon:
        lines = [daemon.stderr.readline()]
        while lines[-1] and "distlockd ready" not in lines[-1]:
            lines.append(daemon.stderr.readline())
        daemon.terminate()
    assert "distlockd ready" in lines[-1] and not [line for line in lines if " info " not in line], lines


def test_releases_and_reads_are_counted_by_outcome(world):
    daemon = world.distlockd(world.redis().url)
    client = world.client(daemon.url)
    grant = client.acquire(client.spec("k"))
    client.lock("k")
    client.locks()
    client.release(grant.lease_id)
    client.release(grant.lease_id)
    session = client.session()
    session.wait_for(session.acquire(client.spec("k")), "granted")
    session.wait_for(session.release(99), "released")
    session.cancel()
    eventually(lambda: daemon.metric("distlock_releases_total", outcome="disconnected") == 1, "the end of the session")
    assert daemon.metric("distlock_releases_total", outcome="released") == 1
    assert daemon.metric("distlock_releases_total", outcome="already_gone") == 2
    for verb in ("inspect", "list"):
        assert daemon.metric("distlock_store_commands_total", verb=verb) == 1
        assert daemon.metric("distlock_store_latency_seconds_count", verb=verb) == 1


def test_the_log_soon_counts_suppressed_losses(world):
    redis = world.redis()
    daemon = world.distlockd(redis.url, "--drain-timeout", "0s")
    client = world.client(daemon.url)
    session = client.session()

    def lose_eight(losing):
        ids = session.acquire_each([client.spec(f"k{i}", ttl=3) for i in range(8)])
        for acquire_id in ids:
            session.wait_for(acquire_id, "granted")
        losing()
        for acquire_id in ids:
            session.wait_for(acquire_id, "lost")

    def told():
        return daemon.log().count(" lease lost ") + sum(map(int, re.findall(r"held_back=(\d+)", daemon.log())))

    lose_eight(lambda: redis.command("FLUSHALL"))
    eventually(lambda: told() == 8, "a word about each, though no other is lost")
    lose_eight(daemon.terminate)
    assert daemon.exit_code() == 0 and told() == 16


def test_status_pages_and_metrics(world):
    redis = world.redis()
    daemon = world.distlockd(redis.url)
    assert daemon.get("/healthz")[0] == 200 and daemon.get("/readyz")[0] == 200
    with daemon.client() as client:
        hold = client.hold(client.spec("secret-name"))
        lease = hold.wait_for("granted").lease_id
        metrics = daemon.get("/metrics")[1]
        assert "secret-name" not in metrics
        eventually(lambda: daemon.metric("distlock_leases") == 1)  # the shard reports it after its turn
        redis.kill()
        eventually(lambda: daemon.get("/readyz")[0] == 503, "not being ready without a store")
        assert daemon.get("/healthz")[0] == 200 and not daemon.serving()
        redis.start()
        eventually(lambda: daemon.get("/readyz")[0] == 200 and daemon.serving(), "being ready again")
        hold.wait_for("lost")
    assert lease not in daemon.log()
