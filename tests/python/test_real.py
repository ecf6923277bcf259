# SPDX-License-Identifier: Apache-2.0
"""The package against real brokers and a real store: kinds of locks, kills, stops, drains."""
import asyncio
import threading

import distlock
import pytest
from harness import eventually


@pytest.fixture
def one(world):
    redis = world.redis()
    return world.distlockd(redis.url)


@pytest.fixture
def two(world):
    redis = world.redis()
    brokers = [world.distlockd(redis.url, "--drain-timeout", "20s", name=name) for name in ("a", "b")]
    return brokers


def broker_of(held, dl, brokers):
    """Which broker a lock is held through."""
    known = dl.inspect(held.key).holders[0].broker_id
    return next(broker for broker in brokers if known in broker.log())


def test_all_kinds(one, connect):
    dl, other = connect(one.url), connect(one.url)
    with dl.lock("k", owner="me") as held:
        with pytest.raises(distlock.Busy) as busy:
            other.lock("k", wait=0).acquire()
        assert [(h.owner, h.token) for h in busy.value.holders] == [("me", held.token)]
        with pytest.raises(distlock.Busy) as busy:
            other.lock("k", wait=0.05).acquire()
        assert busy.value.reason == "WAIT_TIMEOUT"
        assert dl.check_token("k", held.token)
    with other.lock("k") as later:
        assert later.token > held.token and not dl.check_token("k", held.token)
    with dl.shared("t"), other.shared("t", wait=0):
        with pytest.raises(distlock.Busy):
            dl.lock("t", wait=0).acquire()
    with dl.permits("p", limit=3, n=2), other.permits("p", limit=3, wait=0):
        with pytest.raises(distlock.Busy):
            dl.permits("p", limit=3, wait=0).acquire()
    with dl.all(["b", "a", distlock.Lock("r", distlock.Mode.SHARED)], wait=5) as three:
        assert len(three.tokens) == 3 and three.is_held
        eventually(lambda: sorted(lock.key for lock in dl.list()) == ["a", "b", "r"])
        with pytest.raises(distlock.Busy):
            other.all(["c", "a"], wait=0).acquire()
        other.lock("c", wait=20).acquire().release()
    assert three.parts[0].cause == "GIVEN_BACK"
    with pytest.raises(distlock.InvalidRequest, match="ttl"):
        dl.lock("k", ttl=0.001).acquire()


def test_reentry_downgrade_and_max_hold(one, connect):
    dl, other = connect(one.url), connect(one.url)
    first = dl.lock("k", owner="me", reentrant=True).acquire()
    second = dl.lock("k", owner="me", reentrant=True, wait=0).acquire()
    assert second.token == first.token and second.hold_count == 2
    assert first.release() is distlock.Outcome.STILL_HELD
    second.downgrade()
    with other.shared("k", wait=0):
        pass
    assert second.release() is distlock.Outcome.RELEASED
    held = dl.lock("short", ttl=1, max_hold=1).acquire()
    assert held.lost.wait(20) and held.cause in ("MAX_HOLD", "LAPSED")


def test_elections(one, connect):
    dl, other = connect(one.url), connect(one.url)
    seen = []

    def watch():
        for leader in other.observe("boss"):
            seen.append(leader.value if leader else None)
            if leader and leader.value == "two":
                return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    eventually(lambda: seen)
    with dl.campaign("boss", "one") as term:
        eventually(lambda: "one" in seen)
        token = term.token
        term.proclaim("uno")
        eventually(lambda: "uno" in seen)
        assert term.is_held and term.token == token
        term.proclaim("one")
        assert other.leader("boss").value == "one"
        with pytest.raises(distlock.Busy):
            other.campaign("boss", "two", wait=0).acquire()
    with other.campaign("boss", "two", wait=10):
        watcher.join(20)
    assert seen[0] is None and seen[-1] == "two"
    eventually(lambda: dl.leader("boss") is None)  # leaving does not wait


def test_watching_all_locks_under_a_prefix(world, one, connect):
    dl, other = connect(one.url), connect(one.url)
    early = dl.lock("job/early").acquire()
    kept = dl.lock("elsewhere").acquire()
    seen, listed = [], threading.Event()

    def watch():
        for lock in other.watch_locks("job/", on_listed=listed.set):
            seen.append((lock.key, lock.is_free))

    threading.Thread(target=watch, daemon=True).start()
    assert listed.wait(60) and seen == [("job/early", False)]
    with dl.lock("job/late"):
        eventually(lambda: ("job/late", False) in seen)
    eventually(lambda: seen[-1] == ("job/late", True))
    listed.clear()
    one.kill()
    assert early.lost.wait(20)
    next(process for process in world.processes if process.name == "redis").command("FLUSHALL")
    one.start()  # the watch goes on, and tells what has become free while no broker was there
    eventually(listed.is_set)
    eventually(lambda: ("job/early", True) in seen)
    assert "elsewhere" not in {key for key, _ in seen}
    assert kept.cause == "DISCONNECTED"


def test_detached(one, connect):
    dl = connect(one.url)
    lease = dl.acquire_detached("d", ttl=5, wait=1)
    assert lease.is_held and 4 < lease.renew() <= 5
    with pytest.raises(distlock.Busy):
        dl.acquire_detached("d", wait=0)
    elsewhere = connect(one.url).detached(lease.lease_id, "d")
    with pytest.raises(distlock.LockLost, match="renew it"):
        elsewhere.check()
    elsewhere.renew()
    elsewhere.check()
    assert elsewhere.release() is distlock.Outcome.RELEASED
    with pytest.raises(distlock.LockLost, match="TAKEN"):
        lease.renew()
    assert not lease.is_held


def test_a_kill_of_the_broker_loses_locks_and_keeps_waits(one, connect):
    dl = connect(one.url)
    held = dl.lock("k", ttl=1).acquire()
    waiting, answers = connect(one.url, unreachable_after=30), []
    waiter = threading.Thread(target=lambda: answers.append(waiting.lock("k", wait=60).acquire()), daemon=True)
    waiter.start()
    eventually(lambda: dl.inspect("k").queue_length == 1)
    one.kill()
    assert held.lost.wait(20) and held.cause in ("DISCONNECTED", "LAPSED")
    one.start()
    waiter.join(30)
    assert answers and answers[0].is_held


def test_a_stopped_broker_ends_belief(one, connect):
    held = connect(one.url).lock("k").acquire()
    one.stop()
    assert held.lost.wait(20) and held.cause == "LAPSED"
    one.cont()
    with connect(one.url).lock("k", wait=30) as again:
        assert again.token > held.token


def test_a_drain_moves_what_is_held(two, connect):
    dl = connect(",".join(broker.url for broker in two))
    held = [dl.lock(str(i)).acquire() for i in range(20)]
    both = dl.all(["x", "y"]).acquire()
    tokens = [one.token for one in held]
    first = broker_of(held[0], dl, two)
    assert first.drain() == 0
    assert all(one.is_held for one in held) and both.is_held
    assert [one.token for one in held] == tokens
    assert [one.release() for one in held] == [distlock.Outcome.RELEASED] * 20
    dl.lock("new", wait=5).acquire()


def test_resume_after_a_kill(two, connect):
    dl = connect(",".join(broker.url for broker in two))
    held, plain = dl.lock("k", resume=True).acquire(), dl.lock("plain").acquire()
    first = broker_of(held, dl, two)
    first.kill()
    assert plain.lost.wait(20)
    eventually(lambda: held.is_held and not held.at_risk)
    other = connect(next(broker.url for broker in two if broker is not first))
    assert other.inspect("k").token == held.token
    assert held.release() is distlock.Outcome.RELEASED


def test_a_kill_of_the_process_frees_its_locks(world, connect):
    import os
    import platform
    import subprocess
    import sys
    proven = tuple(map(int, platform.release().split("-")[0].split(".")[:2])) >= (6, 9) and hasattr(os, "pidfd_open")
    # At once, long before the last promise ends.
    one = world.distlockd(world.redis().url, *(("--validity", "30s", "--default-ttl", "60s") if proven else ()))
    program = ("import sys, distlock\n"
               "held = distlock.connect(sys.argv[1]).lock('k').acquire()\n"
               "print(held.token, flush=True)\nsys.stdin.read()\n")
    child = subprocess.Popen([sys.executable, "-c", program, one.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    try:
        token = int(child.stdout.readline())
        child.kill()
        with connect(one.url).lock("k", wait=15 if proven else 30) as held:
            assert held.token > token
    finally:
        child.kill()
        child.communicate()


def test_asyncio(one):
    async def whole():
        async with distlock.aio.connect(one.url) as dl:
            counter = []

            async def work():
                async with dl.lock("counter", wait=30) as held:
                    before = len(counter)
                    await asyncio.sleep(0)
                    assert len(counter) == before
                    counter.append(held.token)

            await asyncio.gather(*(work() for _ in range(100)))
            assert counter == sorted(set(counter)) and len(counter) == 100
            while [lock async for lock in dl.list()]:  # leaving does not wait
                await asyncio.sleep(0.01)
            async with dl.campaign("boss", "me"):
                async for leader in dl.observe("boss"):
                    assert leader.value == "me"
                    break
            async with dl.shared("t"), dl.permits("p", limit=2, n=2), dl.all(["x", "y"]) as both:
                assert both.is_held and (await dl.leader("t")).token
                seen = set()
                async for lock in dl.watch_locks():
                    seen.add(lock.key)
                    if {"t", "p", "x", "y"} <= seen:
                        break
                async for lock in dl.watch("p"):
                    assert lock.holders[0].permits == 2
                    break
                assert await dl.check_token("x", both.tokens[0])
            lease = await dl.acquire_detached("d", ttl=5)
            assert await lease.renew() > 4
            assert await lease.release() is distlock.Outcome.RELEASED
            assert (await dl.inspect("d")).holder_count == 0
            with pytest.raises(distlock.LockLost):
                async with dl.lock("lost") as held:
                    released = dl.detached(held.lease_id)
                    await released.release()
                    await asyncio.sleep(60)

    asyncio.run(asyncio.wait_for(whole(), 100))


def test_mutual_exclusion_under_load(one, connect):
    clients, inside, most, tokens = [connect(one.url) for _ in range(4)], [0], [0], []

    def work(dl):
        for _ in range(25):
            with dl.lock("shared", wait=60) as held:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                tokens.append(held.token)
                inside[0] -= 1

    threads = [threading.Thread(target=work, args=(clients[i % 4],)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert most == [1] and len(tokens) == 300 and tokens == sorted(set(tokens))
