# SPDX-License-Identifier: Apache-2.0
"""A broker whose store is a primary that three sentinels watch: it finds it, follows every failover, keeps its leases
and the places of its waiters, and says what is wrong with its settings.
"""
import subprocess

import pytest

from faults import Holder, waiter
from harness import eventually
from sentinel_set import NAME, Sentinel, SentinelSet
from test_start import CONFIG, UNAVAILABLE, complaint

TTL_S = 12.0  # far longer than a failover takes here
LOGIN = ("user app on >first -@all +auth +hello +ping +subscribe +client|setname +sentinel|get-master-addr-by-name "
         "+sentinel|master +sentinel|sentinels +sentinel|replicas +sentinel|masters &+switch-master")


@pytest.fixture
def servers(world):
    return SentinelSet(world)


def start(world, url, *args, **how):
    """A broker without hold-offs, which test_hold_off.py is about: they would make each failover here a long wait."""
    return world.distlockd(url, "--failover-hold-off", "0", *args, **how)


@pytest.fixture
def listen(world):
    return "--listen", f"unix://{world.folder}/d.sock", "--http", ""


def must_be_renewed_at(server, holder, key="k"):
    def until():
        return server.command("PEXPIRETIME", server.key(key, "h"))
    before = until()
    assert before > 0, "the lease is not there"
    eventually(lambda: until() > before, "the lease being renewed there")
    assert holder.believes() and not holder.all("lost")


def must_grant_there(client, server, key):
    """A new lock is given, and by this server; a function says which one by then."""
    grant = client.acquire(client.spec(key, ttl=TTL_S, max_wait=60.0), timeout=90)
    server = server() if callable(server) else server
    assert server.command("EXISTS", server.key(key, "h")) == 1
    return grant


def kill(servers, old):
    old.kill()


def command(servers, old):
    servers.sentinels[0].command("SENTINEL", "FAILOVER", NAME)


def stop(servers, old):
    old.stop()


@pytest.mark.parametrize("fail", [kill, command, stop])
def test_leases_and_waiters_survive_a_failover(world, servers, fail):
    broker = start(world, servers.url)
    with broker.client() as client:
        holder = Holder(client, "session", ttl=TTL_S).granted()
        waiting = waiter(client, ttl=TTL_S)
        old = servers.primary()
        assert old.command("EXISTS", old.key("k", "h")) == 1
        fail(servers, old)
        new = servers.await_other_primary(old)
        eventually(lambda: new.command("PUBSUB", "CHANNELS", "dl:*"), "the broker listening at the new primary")
        must_be_renewed_at(new, holder)
        assert not waiting.all("granted")
        holder.release()
        assert waiting.granted().token > holder.token
        # On a busy machine a second sentinel may be elected at once, too.
        must_grant_there(client, servers.primary, "another")
    if fail is stop:
        old.cont()


def test_failovers_in_a_row(world, servers):
    broker = start(world, servers.url)
    last = 0
    with broker.client() as client:
        holder = Holder(client, "hold", key="held", ttl=TTL_S).granted()
        for _ in range(3):
            servers.await_whole()
            old = servers.primary()
            servers.sentinels[1].command("SENTINEL", "FAILOVER", NAME)
            new = servers.await_other_primary(old)
            eventually(lambda n=new: n.command("PUBSUB", "CHANNELS", "dl:*"), "the broker listening there")
            eventually(broker.serving, "the broker being up")
            grant = must_grant_there(client, new, "k")
            assert grant.fencing_token > last
            last = grant.fencing_token
            client.release(grant.lease_id)
            assert holder.believes() and not holder.all("lost")


# A primary that was cut off comes back as one and is demoted some seconds later: nobody may go to it meanwhile.
def test_an_old_primary_that_comes_back_is_left_alone(world, servers):
    broker = start(world, servers.url)
    with broker.client() as client:
        old = servers.primary()
        old.stop()
        new = servers.await_other_primary(old)
        must_grant_there(client, new, "k")
        old.cont()
        eventually(old.is_replica, "the old primary being demoted")
        must_grant_there(client, new, "another")
        assert old.command("PUBSUB", "CHANNELS", "dl:*") == []


def test_locks_go_on_without_sentinels(world, servers):
    broker = start(world, servers.url)
    with broker.client() as client:
        holder = Holder(client, "session", ttl=6.0).granted()
        for sentinel in servers.sentinels:
            sentinel.kill()
        eventually(lambda: broker.log().count("sentinel 127.0.0.1") >= len(servers.sentinels), "the log saying so")
        must_grant_there(client, servers.servers[0], "another")
        must_be_renewed_at(servers.servers[0], holder)
        assert broker.serving()
        for sentinel in servers.sentinels:
            sentinel.start()
        old = servers.servers[0]
        old.kill()
        must_grant_there(client, servers.await_other_primary(old), "after")


# ---- The start ----

def test_an_unknown_name_is_refused_with_the_names_that_the_sentinels_know(world, servers, listen):
    code, line = complaint(*listen, "--redis", servers.url_of("lokcs"))
    assert code == CONFIG and "lokcs" in line and f"the sentinels know: {NAME}" in line, line


def test_a_sentinel_under_the_url_of_a_server_is_told_how_to_write_it(world, servers, listen):
    code, line = complaint(*listen, "--redis", f"redis://127.0.0.1:{servers.sentinels[0].port}")
    assert code == CONFIG and "redis+sentinel://" in line, line


def test_one_sentinel_of_three_is_enough_with_a_warning_unless_the_broker_may_wait(world, servers):
    for sentinel in servers.sentinels[1:]:
        sentinel.kill()
    broker = start(world, servers.url)
    assert "only 1 of 3 sentinels answer" in broker.log()
    patient = start(world, servers.url, "--wait-for-store", name="patient", await_ready=False)
    eventually(lambda: "1 of 3 sentinels answer, 2 must agree" in patient.log(), "the reason why it waits")
    assert patient.alive() and not patient.serving()
    servers.sentinels[1].start()
    patient.await_ready(patient.serving)


def test_no_sentinel_at_all(world, servers, listen):
    for sentinel in servers.sentinels:
        sentinel.kill()
    code, line = complaint(*listen, "--redis", servers.url, "--store-timeout", "1s")
    assert code == UNAVAILABLE and "0 of 3 sentinels answer" in line and "refused" in line, line


def test_leases_that_do_not_survive_a_failover_are_warned_of(world, servers):
    for sentinel in servers.sentinels:
        sentinel.command("SENTINEL", "SET", NAME, "down-after-milliseconds", 30000)
    broker = start(world, servers.url)
    assert "leases of 15000 ms do not survive a failover here: down-after-milliseconds is 30000 ms" in broker.log()


def test_leases_that_an_old_primary_outlasts_are_warned_of(world):
    servers = SentinelSet(world, server_args=("--min-replicas-to-write", "1"))  # and the server's own max-lag
    short = world.distlockd(servers.url, name="short")
    eventually(lambda: "leases of 15000 ms may be held twice when a primary is cut off: min-replicas-max-lag is 10 s"
               in short.log(), "the warning")
    assert "run CONFIG SET min-replicas-max-lag 8 on each server, or use a --default-ttl of at least 18000 ms" in \
        short.log()
    for server in servers.servers:
        server.command("CONFIG", "SET", "min-replicas-max-lag", 8)
    long = world.distlockd(servers.url, name="long")
    eventually(lambda: [n.guard for n in world.client(long.url).status().store_nodes] == ["min-replicas-to-write"],
               "the guard")
    assert "may be held twice" not in long.log()


# ---- Users, passwords, TLS ----

def test_the_log_in_at_the_sentinels_is_apart_from_the_stores(world, listen):
    servers = SentinelSet(world, replicas=1, sentinels=1, sentinel_password="theirs-alone")
    code, line = complaint(*listen, "--redis", servers.url)
    assert code == UNAVAILABLE and "--sentinel-password-file" in line, line
    for text, right in (("guessed", False), ("theirs-alone", True)):
        secret = world.folder / "secret"
        secret.write_text(text)
        if right:
            start(world, servers.url, "--sentinel-password-file", secret)
        else:
            code, line = complaint(*listen, "--redis", servers.url, "--sentinel-password-file", secret)
            assert code == UNAVAILABLE and "--sentinel-password-file" in line and "WRONGPASS" in line, line
            assert "guessed" not in line


def test_few_rights_at_the_sentinels_suffice_and_a_new_password_is_used(world):
    servers = SentinelSet(world, sentinel_settings=(LOGIN,))
    secret = world.folder / "secret"
    secret.write_text("first")
    broker = start(world, servers.url, "--sentinel-user", "app", "--sentinel-password-file", secret)
    secret.write_text("second")
    for sentinel in servers.sentinels:
        sentinel.command("ACL", "SETUSER", "app", "resetpass", ">second")
        assert sentinel.command("CLIENT", "KILL", "USER", "app") >= 2
    old = servers.primary()
    old.kill()
    new = servers.await_other_primary(old)
    with broker.client() as client:
        must_grant_there(client, new, "k")
    assert "NOPERM" not in broker.log() and "WRONGPASS" not in broker.log()


def certificate(folder, name):
    """A certificate for localhost by an authority of its own; returns the files of the two and of the key."""
    ca, key, cert = (folder / f"{name}-{part}.pem" for part in ("ca", "key", "cert"))
    for line in (f"req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN={name} -keyout {folder}/{name}.ca -out {ca}",
                 f"req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout {key} -out {folder}/{name}.csr"):
        subprocess.run(["openssl", *line.split()], check=True, capture_output=True)
    (folder / "san").write_text("subjectAltName=DNS:localhost")
    subprocess.run(["openssl", "x509", "-req", "-in", folder / f"{name}.csr", "-CA", ca, "-CAkey",
                    folder / f"{name}.ca", "-CAcreateserial", "-days", "2", "-extfile", folder / "san", "-out", cert],
                   check=True, capture_output=True)
    return ca, key, cert


def test_sentinels_have_tls_and_an_authority_of_their_own(world, listen):
    ca, key, cert = certificate(world.folder, "sentinels")
    other_ca, _, _ = certificate(world.folder, "others")
    primary = world.redis(tcp=True)
    sentinel = Sentinel(world.folder, "sentinel", primary, 1, tls=(cert, key))
    world._add(sentinel).start()
    url = f"redis+sentinel://127.0.0.1:{sentinel.tls_port}/{NAME}?sentinel_tls=on&sentinel_sni=localhost"
    code, line = complaint(*listen, "--redis", f"{url}&sentinel_ca={other_ca}", "--store-timeout", "2s")
    assert code == UNAVAILABLE and "certificate" in line, line
    code, line = complaint(*listen, "--redis", f"{url}&sentinel_ca=/nowhere.pem")
    assert code == CONFIG and "/nowhere.pem" in line and "sentinels" in line, line
    broker = start(world, f"{url}&sentinel_ca={ca}")
    with broker.client() as client:
        must_grant_there(client, primary, "k")
