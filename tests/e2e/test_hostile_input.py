# SPDX-License-Identifier: Apache-2.0
"""The broker answers any input of a caller with a clear error, or handles it; no crash, no leak, no stuck stream."""
import grpc
import pytest

from client import api, failure
from harness import eventually

# All keys but the schema's mark, and those of the broker's check of the store at its start, which expire after 2 s.
def keys(redis):
    of_brokers = ("dl:schema", "dl:m", "dl:beat")
    return [k for k in redis.command("KEYS", "*") if "start-up check" not in k and k not in of_brokers]


HOSTILE_KEYS = [
    "{", "}", "}x", "{}", "a{b}c", "}{", "%7B", "%", "\x01\x02\n\r\x7f", "\u2028 \U0001f512", "a/b/../c", "*?[x]", " ",
    "k:h", "x" * 512, "\u00e9" * 256
]


@pytest.fixture
def daemon(world):
    daemon = world.distlockd(world.redis().url)
    yield daemon
    assert daemon.alive() and daemon.serving()
    with daemon.client() as client:
        grant = client.acquire(client.spec("still-works"))
        assert client.release(grant.lease_id) == api().RELEASE_OUTCOME_RELEASED


def test_any_text_is_a_key_and_different_texts_are_different_locks(world, daemon):
    client = world.client(daemon.url)
    session = client.session()
    grants = {}
    for namespace in ("", "team/a}{"):
        for key in HOSTILE_KEYS:
            command = session.acquire(client.spec(key, 0, namespace=namespace))
            grants[namespace, key] = (command, session.wait_for(command, "granted"))
    for (namespace, key), (command, grant) in grants.items():
        lock = client.lock(key, namespace=namespace)
        assert [h.holder_id for h in lock.holders] == [grant.holder_id] and lock.key == key
        assert failure(client.acquire, client.spec(key, 0, namespace=namespace)).reason == "LOCK_HELD"
    assert {l.key for l in client.locks(namespace="team/a}{", page_size=1000).locks} == set(HOSTILE_KEYS)
    for command, _ in grants.values():
        session.wait_for(session.release(command), "released")
    redis = world.processes[0]
    assert all(k.endswith("}:t") for k in keys(redis))


def test_every_bad_field_is_named_at_once(world, daemon):
    client = world.client(daemon.url)
    spec = client.spec("", namespace="n" * 65, owner="o" * 257, metadata={"m": "v" * 1025})
    spec.ttl.seconds = -1
    spec.max_wait.seconds = -5
    spec.max_hold.nanos = -1
    spec.lock_delay.seconds = 61
    spec.mode = 77
    spec.policy = 78
    spec.on_disconnect = 79
    refused = failure(client.acquire, spec, request_id="short")
    assert refused.code == grpc.StatusCode.INVALID_ARGUMENT and refused.reason == "INVALID_ARGUMENT"
    named = {f.split(".")[-1] for f in refused.fields}
    assert named >= {"key", "namespace", "owner", "metadata", "ttl", "max_wait", "max_hold", "lock_delay", "mode",
                     "policy", "on_disconnect", "request_id"}, " ".join(refused.fields)
    assert failure(client.acquire, client.spec("k", permits=2)).fields == ["locks[0].permits"]
    session = client.session()
    answer = session.wait_for(session.acquire(spec), "refused")
    assert {p.field for p in answer.field_problems} >= {f"acquire.locks[0].{name}" for name in ("key", "ttl", "mode")}
    ended = client.hold(spec).wait_end()
    assert ended.reason == "INVALID_ARGUMENT" and {"lock.key", "lock.ttl", "lock.mode"} <= set(ended.fields)


def test_negative_numbers(world, daemon):
    client = world.client(daemon.url)
    refused = failure(client.acquire, client.spec("k", mode=api().LOCK_MODE_PERMIT, limit=2, permits=-1))
    assert refused.code == grpc.StatusCode.INVALID_ARGUMENT and refused.fields == ["locks[0].permits"]
    assert "locks[0].permits is -1" in refused.message
    refused = failure(client.acquire, client.spec("k", mode=api().LOCK_MODE_PERMIT, limit=-2**31))
    assert "locks[0].limit" in refused.fields, refused
    assert failure(client.lock, "k", max_waiters=-1).fields == ["max_waiters"]
    assert failure(client.locks, page_size=-1).fields == ["page_size"]
    sessions = api().ListSessionsRequest(page_size=-1)
    assert failure(client.unary, "ListSessions", sessions, api().ListSessionsResponse,
                   service="AdminService").fields == ["page_size"]
    for token in (0, -1, -2**63):
        assert failure(client.check_token, "k", token).fields == ["fencing_token"]


def test_negative_numbers_of_a_session(world, daemon):
    client = world.client(daemon.url)
    session = client.session()
    for kind, make in (("release", api().ReleaseLease), ("downgrade", api().DowngradeLease)):
        refused = session.wait_for(session.send(**{kind: make(acquire_id=-1)}), "refused")
        assert refused.reason == api().REFUSAL_REASON_INVALID_ARGUMENT
        assert [p.field for p in refused.field_problems] == [f"{kind}.acquire_id"]
    session.wait_ack(session.beat())
    for bad in (api().SessionCommand(id=-1, acquire=api().AcquireLocks(locks=[client.spec("k")])),
                api().SessionCommand(heartbeat=api().Heartbeat(seq=-1))):
        session = client.session(heartbeats=False)
        session.commands.put(api().SessionRequest(commands=[bad]))
        assert session.wait_end().code == grpc.StatusCode.INVALID_ARGUMENT, bad
    assert not client.lock("k").holders


def test_what_only_a_session_can_take_again(world, daemon):
    client = world.client(daemon.url)
    spec = client.spec("k", owner="me", reentrant=True)
    assert failure(client.acquire, spec).fields == ["locks[0].reentrant"]
    assert client.hold(spec).wait_end().fields == ["lock.reentrant"]


@pytest.mark.parametrize("field, seconds, nanos", [
    ("ttl", 0, 999_999_999), ("ttl", 3601, 0), ("ttl", 2**62, 0), ("ttl", -2**62, 0), ("ttl", 1, 2_000_000_000),
    ("ttl", 1, -1), ("max_wait", 86_401, 0), ("max_wait", 2**63 - 1, 999_999_999), ("max_wait", 0, -1),
    ("max_hold", -1, 0), ("max_hold", 2**63 - 1, 0), ("lock_delay", -1, 0), ("lock_delay", 60, 1)])
def test_durations_out_of_range(world, daemon, field, seconds, nanos):
    client = world.client(daemon.url)
    spec = client.spec("k")
    getattr(spec, field).CopyFrom(api().Duration(seconds=seconds, nanos=nanos))
    refused = failure(client.acquire, spec)
    assert refused.reason == "INVALID_ARGUMENT" and refused.fields == [f"locks[0].{field}"], refused
    assert refused.message.count(field) >= 1


def test_keys_that_are_too_long_or_not_utf8(world, daemon):
    client = world.client(daemon.url)
    assert failure(client.acquire, client.spec("x" * 513)).fields == ["locks[0].key"]
    assert failure(client.acquire, client.spec("\u00e9" * 257)).fields == ["locks[0].key"]
    acquire = client.channel.unary_unary("/distlock.v1.LockService/Acquire")
    not_utf8 = b"\x0a\x04\x12\x02\xff\xfe"  # AcquireRequest{locks{key: ff fe}}
    refused = failure(acquire, not_utf8, timeout=10)
    assert refused.code == grpc.StatusCode.INVALID_ARGUMENT, refused
    assert failure(acquire, b"\xff\xff\xff", timeout=10).code == grpc.StatusCode.INVALID_ARGUMENT


def test_a_broken_message_ends_its_own_session_only(world, daemon):
    client = world.client(daemon.url)
    session = client.session()
    lock = session.acquire(client.spec("k"))
    session.wait_for(lock, "granted")
    raw = client.channel.stream_stream("/distlock.v1.LockService/Session")
    for broken in (b"\xff\xff\xff", b"\x0a\x02\x08\x01", b"", b"\x0a\x08\x08\x01\x1a\x04\x0a\x02\x12\x00"):
        with pytest.raises(grpc.RpcError) as error:
            list(raw(iter([broken, b"\x0a\x02\x08\x01"]), timeout=10))
        assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    session.wait_ack(session.beat())
    assert session.believes(lock)


@pytest.mark.parametrize("size", [70_000, 5 << 20])
def test_a_message_that_is_too_big_is_refused_and_the_connection_lives(world, daemon, size):
    client = world.client(daemon.url)
    session = client.session()
    refused = failure(client.acquire, client.spec("k", owner="x" * size))
    assert refused.code == grpc.StatusCode.RESOURCE_EXHAUSTED
    big = client.session()
    big.acquire(client.spec("k", owner="x" * size))
    assert big.wait_end().code == grpc.StatusCode.RESOURCE_EXHAUSTED
    session.wait_ack(session.beat())


def test_a_session_must_use_its_ids_correctly(world, daemon):
    client = world.client(daemon.url)
    session = client.session()
    session.send(open=api().OpenSession())  # the second Open
    assert session.wait_end().code == grpc.StatusCode.INVALID_ARGUMENT
    session = client.session()
    acquire = api().AcquireLocks(locks=[client.spec("k")])
    session.commands.put(api().SessionRequest(commands=[api().SessionCommand(id=0, acquire=acquire)]))
    assert session.wait_end().code == grpc.StatusCode.INVALID_ARGUMENT
    session = client.session()
    session.send(release=api().ReleaseLease(acquire_id=4711))
    session.wait(lambda: session.all("released"), "released")
    session.send(cancel=api().CancelAcquire(acquire_id=4711))
    session.send(release=api().ReleaseLease(lease_id="no lease"))
    session.wait(lambda: session.all("refused"), "refused")
    session.wait_ack(session.beat())


@pytest.mark.parametrize("lease_id", ["", "x", "%%%", "A" * 4096, "Af-NwyRH8HJk"])
def test_invalid_lease_ids(world, daemon, lease_id):
    client = world.client(daemon.url)
    assert failure(client.renew, lease_id).reason == "INVALID_ARGUMENT"
    assert failure(client.release, lease_id).fields == ["lease_id"]


@pytest.mark.parametrize("part, make", [("h", ("LPUSH", "x")), ("h", ("SET", "x")), ("h", ("HSET", "f", "v")),
                                        ("t", ("SET", "not a number")), ("t", ("LPUSH", "x")), ("q", ("SET", "x"))])
def test_a_foreign_key_under_a_locks_name_is_reported_and_not_touched(world, daemon, part, make):
    redis = world.processes[0]
    client = world.client(daemon.url)
    key = redis.key("k", part)
    redis.command(make[0], key, *make[1:])
    before = redis.command("DUMP", key)
    refused = failure(client.acquire, client.spec("k", 0))
    assert refused.code == grpc.StatusCode.FAILED_PRECONDITION and refused.reason == "FOREIGN_KEY", refused
    assert key in refused.message
    assert redis.command("DUMP", key) == before
    assert keys(redis) == [key]


def test_a_client_that_does_not_read_is_cut_off_and_frees_its_locks(world):
    daemon = world.distlockd(world.redis().url, "--validity", "1s")
    reader = world.client(daemon.url)
    net = world.proxy(daemon.url)
    deaf = world.client(net.url).session(heartbeats=False)
    lock = deaf.acquire(reader.spec("mine"))
    deaf.wait_for(lock, "granted")
    net.pause()
    # The client neither reads nor sends: the validity ends its session, and the next waiter gets its lock.
    assert reader.acquire(reader.spec("mine", 30)).fencing_token
    eventually(lambda: reader.status().sessions == 0, "the end of the deaf session")
