# SPDX-License-Identifier: Apache-2.0
"""Many leases on one session, many sessions, and no leftovers."""
import asyncio
import os
import threading

import grpc

from client import CHANNEL_OPTIONS, api, boot_now
from flood import heartbeat, packed
from harness import eventually
from proxy import PATIENCE_S

TTL_S = 9


def test_ten_thousand_leases_on_one_session_are_kept(world):
    redis = world.redis()
    daemon = world.distlockd(redis.url, "--validity", "5s")  # long, for a busy machine
    client = world.client(daemon.url)
    session = client.session()
    commands = []
    for start in range(0, 10_000, 1000):
        commands += session.acquire_each([client.spec(f"k{i}", ttl=TTL_S) for i in range(start, start + 1000)])
    session.wait(lambda: len(session.all("granted")) == 10_000, "10 000 grants")
    one_more = session.wait_for(session.acquire(client.spec("one more")), "refused")
    assert one_more.reason == api().REFUSAL_REASON_QUOTA_EXCEEDED
    held_since = boot_now()
    eventually(lambda: boot_now() - held_since > 2 * TTL_S or session.all("lost"), "two ttls")
    assert not session.all("lost") and not session.all("at_risk"), (session.all("lost") + session.all("at_risk"))[0]
    assert all(session.believes(c) for c in commands)
    assert client.status().leases == 10_000
    assert len(redis.command("KEYS", "*:h")) == 10_000
    session.goodbye()
    assert session.wait_end().code == grpc.StatusCode.OK
    eventually(lambda: not redis.command("KEYS", "*:h"), "all given back")
    eventually(lambda: client.status().leases == 0, "no lease left")


BURST = 10_000


def large(number):
    """An acquire with as much metadata as a lock may have."""
    lock = api().LockSpec(key=f"burst/{number}", metadata={"m": "v" * 1000})
    return api().SessionCommand(id=number, acquire=api().AcquireLocks(locks=[lock]))


def test_a_burst_of_packed_acquires_by_tcp_cuts_nobody(world):
    """As fast as gRPC takes it, without a look at max_unanswered."""
    daemon = world.distlockd(world.redis().url, "--listen", "127.0.0.1:0", "--validity", "10s")
    with daemon.client() as client:
        tcp = next(one for one in client.status().listen_addresses if not one.startswith("unix:"))
    messages = list(packed(large, BURST))
    assert sum(map(len, messages)) > BURST * 1000
    done = threading.Event()

    def requests():
        opening = api().SessionCommand(id=1, open=api().OpenSession(client="burst"))
        yield api().SessionRequest(commands=[opening]).SerializeToString()
        yield from messages
        seq = 0
        while not done.wait(1):
            seq += 1
            yield api().SessionRequest(commands=[heartbeat(seq)]).SerializeToString()
    with grpc.insecure_channel(tcp, options=CHANNEL_OPTIONS) as channel:
        call = channel.stream_stream("/distlock.v1.LockService/Session", None, api().SessionResponse.FromString)(
            requests(), timeout=2 * PATIENCE_S)
        granted = 0
        for response in call:
            kinds = [event.WhichOneof("event") for event in response.events]
            assert not {"lost", "refused"} & set(kinds), response.events[0]
            granted += kinds.count("granted")
            if granted == BURST:
                break
        assert granted == BURST
        cut = sum(daemon.metric("distlock_connections_cut_total", cause=cause)
                  for cause in ("early_cancels", "open_calls", "unused_bytes", "frames", "no_pause"))
        assert cut == 0
        with daemon.client(tcp) as another:
            another.release(another.acquire(another.spec("afterwards", 0), timeout=2).lease_id)
        done.set()


async def one_session(channel, name, n, told, let_go):
    """A client: opens a session, takes a lock of its own, queues for a shared one, and ends in one of three ways.

    `told[n]`: its events so far; "holds" is the last one.
    """
    call = channel.stream_stream("/distlock.v1.LockService/Session", api().SessionRequest.SerializeToString,
                                 api().SessionResponse.FromString)()
    m = api()
    own, shared = (m.AcquireLocks(locks=[m.LockSpec(key=key)]) for key in (f"own-{name}-{n}", f"shared{n % 20}"))
    await call.write(m.SessionRequest(commands=[
        m.SessionCommand(id=1, open=m.OpenSession()), m.SessionCommand(id=2, acquire=own),
        m.SessionCommand(id=3, acquire=shared)]))
    seen = told[n] = []
    while not (2, "granted") in seen or not {(3, "granted"), (3, "queued")} & set(seen):
        answer = await call.read()
        assert answer is not grpc.aio.EOF, (name, n, seen, await call.code(), await call.details())
        for event in answer.events:
            what, wanted = event.WhichOneof("event"), event.id % 10
            seen.append((wanted, what))
            assert what != "lost", (name, n, seen, event)
            if what == "refused":  # a machine that stood still for long: asked for again, under another id
                assert event.refused.reason == m.REFUSAL_REASON_STORE_UNAVAILABLE, (name, n, seen, event)
                again = m.SessionCommand(id=event.id + 10, acquire={2: own, 3: shared}[wanted])
                await call.write(m.SessionRequest(commands=[again]))
    seen.append("holds")
    await let_go.wait()
    if n % 3 == 0:
        await call.write(m.SessionRequest(commands=[m.SessionCommand(id=1_000_000, goodbye=m.Goodbye())]))
        while await call.read() is not grpc.aio.EOF:
            pass
    elif n % 3 == 1:
        await call.done_writing()
        while await call.read() is not grpc.aio.EOF:
            pass
    else:
        call.cancel()


async def many_sessions(url, name, count):
    # On a busy machine connecting may take long.
    channels = [grpc.aio.insecure_channel(url, options=(("grpc.use_local_subchannel_pool", 1),)) for _ in range(10)]
    told, let_go, patience = {}, asyncio.Event(), boot_now() + 2 * PATIENCE_S
    tasks = [asyncio.create_task(one_session(channels[n % 10], name, n, told, let_go)) for n in range(count)]
    try:
        while waits := {n: told.get(n) for n in range(count) if "holds" not in told.get(n, ())}:
            done = [t for t in tasks if t.done() and t.exception()]
            assert not done, done[0].exception()
            assert boot_now() < patience, f"{len(waits)} sessions of {name} wait still, and were told {waits}"
            await asyncio.sleep(0.05)
    finally:
        let_go.set()
        for task in (await asyncio.wait(tasks, timeout=30))[1]:
            task.cancel()
        for channel in channels:
            await channel.close()


def test_a_thousand_sessions_ten_times_leave_nothing(world):
    redis = world.redis()
    daemon = world.distlockd(redis.url, "--validity", "10s", "--default-ttl", "30s")
    client = world.client(daemon.url)
    client.status()

    def open_files():
        return len(os.listdir(f"/proc/{daemon.pid}/fd"))

    def left():
        status = client.status()
        return status.sessions + status.leases + status.waiters
    files, connections = open_files(), len(redis.command("CLIENT", "LIST").splitlines())
    channels = redis.command("PUBSUB", "CHANNELS")
    # grpc.aio stops its thread when the last channel is gone. With a call still ending that join never returns, so
    # this test keeps grpc.aio running.
    grpc.aio.init_grpc_aio()

    async def rounds():
        for name in range(10):
            await many_sessions(daemon.url, name, 1000)
    asyncio.run(rounds())
    eventually(lambda: left() == 0, "every session, lease and waiter being gone")
    stays = (":t", ":m", ":beat", ":schema")
    eventually(lambda: all(k.endswith(stays) or "start-up" in k for k in redis.command("KEYS", "*")),
               "nothing but tokens and the brokers' marks in the store")
    eventually(lambda: open_files() <= files, "its descriptors being closed")
    assert len(redis.command("CLIENT", "LIST").splitlines()) == connections
    assert redis.command("PUBSUB", "CHANNELS") == channels
    for gauge in ("distlock_sessions", "distlock_leases", "distlock_waiters"):
        assert daemon.metric(gauge) == 0, gauge
    assert daemon.drain() == 0
