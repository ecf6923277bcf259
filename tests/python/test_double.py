# SPDX-License-Identifier: Apache-2.0
"""distlock.testing: how a program that takes locks is tested without a daemon."""
import asyncio
import pathlib
import re
import threading

import distlock
import pytest
from distlock.testing import Broker
from fake_broker import eventually


@pytest.fixture
def here():
    return Broker()


def in_a_thread(work):
    """Its result, or its error, when it is joined."""
    found = []

    def run():
        try:
            found.append(work())
        except distlock.DistlockError as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def result():
        thread.join(20)
        return found[0]

    return result


def test_locks_exclude_each_other(here):
    mine, theirs = here.client(), here.client()
    with mine.lock("k", owner="me") as held:
        assert held.is_held and held.token == 1
        with pytest.raises(distlock.Busy) as busy:
            theirs.lock("k", wait=0).acquire()
        assert busy.value.reason == "LOCK_HELD" and [one.owner for one in busy.value.holders] == ["me"]
        assert mine.inspect("k").holders[0].owner == "me" and mine.stats().held == 1
        assert [one.key for one in theirs.list()] == ["k"] and theirs.check_token("k", 1)
    here.settle()
    with theirs.lock("k", wait=0) as again:
        assert again.token == 2 and not mine.check_token("k", 1) and not held.is_held
    assert theirs.drained() and mine.inspect("k").is_free


def test_readers_share_and_permits_are_counted(here):
    mine, theirs = here.client(), here.client()
    with mine.shared("rw"), theirs.shared("rw", wait=0):
        with pytest.raises(distlock.Busy):
            mine.lock("rw", wait=0).acquire()
    with mine.permits("s", limit=3, n=2), theirs.permits("s", limit=3, wait=0):
        with pytest.raises(distlock.Busy):
            mine.permits("s", limit=3, wait=0).acquire()
    with mine.all(["a", "b"]) as both, pytest.raises(distlock.Busy):
        theirs.all(["b", "c"], wait=0).acquire()
    here.settle()
    assert not both.is_held and theirs.all(["b", "c"], wait=0).acquire().is_held
    one = mine.lock("r", owner="me", reentrant=True).acquire()
    two = mine.lock("r", owner="me", reentrant=True, wait=0).acquire()
    assert (two.token, two.hold_count) == (one.token, 2)
    assert [two.release(), one.release()] == [distlock.Outcome.STILL_HELD, distlock.Outcome.RELEASED]
    held = mine.lock("d").acquire()
    held.downgrade()
    assert theirs.shared("d", wait=0).acquire().is_held


def test_waits_end_by_time_and_by_releases(here):
    mine, theirs = here.client(), here.client()
    held = mine.lock("k").acquire()
    waits = in_a_thread(lambda: theirs.lock("k", wait=30).acquire())
    here.await_waiting("k")
    here.advance(29.9)
    assert held.is_held and theirs.stats().waiting == 1
    here.advance(0.1)
    refused = waits()
    assert isinstance(refused, distlock.Busy) and refused.reason == "WAIT_TIMEOUT"
    waits = in_a_thread(lambda: theirs.lock("k", wait=30).acquire())
    here.await_waiting("k")
    held.release()
    assert waits().is_held


def test_time_ends_what_it_must(here):
    dl = here.client()
    lost = []
    held = dl.lock("k", max_hold=10, on_loss=lost.append).acquire()
    here.advance(9.9)
    assert held.is_held and 0 < held.valid_for <= 0.2 and not lost
    here.advance(0.1)
    assert not held.is_held and held.cause == "MAX_HOLD" and lost == [held]
    with pytest.raises(distlock.LockLost):
        held.check()
    dl.lock("job", min_hold=60).acquire().release()
    here.advance(59)
    with pytest.raises(distlock.Busy):
        dl.lock("job", wait=0).acquire()
    here.advance(1)
    dl.lock("job", wait=0).acquire().release()


def test_a_loss_that_the_test_makes(here):
    dl = here.client()
    with pytest.raises(distlock.LockLost) as lost:
        with dl.lock("k", lock_delay=20) as held:
            here.lose("k", "TAKEN")
            assert not held.is_held and held.lost
    assert lost.value.cause == "TAKEN"
    assert dl.inspect("k").block.time_left == 20
    with pytest.raises(distlock.Busy):
        dl.lock("k", wait=0).acquire()
    here.advance(20)
    assert dl.lock("k", wait=0).acquire().is_held


def test_a_broker_that_stands_still(here):
    dl = here.client()
    held = dl.lock("k").acquire()
    here.advance(100)
    assert held.is_held and not held.at_risk
    here.freeze()
    here.advance(2)
    assert held.is_held and held.at_risk and dl.stats().at_risk == 1
    here.advance(1)
    assert not held.is_held and held.cause == "LAPSED"
    here.thaw()
    here.advance(5)
    assert dl.lock("k", wait=0).acquire().is_held


def test_a_broker_that_is_gone_and_comes_back(here):
    dl = here.client()
    plain, kept = dl.lock("plain").acquire(), dl.lock("kept", resume=True).acquire()
    here.stop()
    assert plain.cause == "DISCONNECTED" and kept.is_held and kept.at_risk
    tries = in_a_thread(lambda: dl.lock("k", wait=0).acquire())
    eventually(lambda: dl.stats().waiting)
    here.advance(1)
    assert isinstance(tries(), distlock.Unavailable)
    here.start()
    here.advance(1)
    eventually(lambda: not kept.at_risk)
    assert kept.is_held and dl.inspect("kept").holder_count == 1
    here.advance(3)
    assert kept.is_held and dl.lock("plain", wait=0).acquire().is_held


def test_refusals(here):
    dl = here.client()
    here.refusing = "QUOTA_EXCEEDED"
    with pytest.raises(distlock.Refused, match="QUOTA_EXCEEDED"):
        dl.lock("k").acquire()
    here.refusing = "STORE_UNAVAILABLE"
    with pytest.raises(distlock.Unavailable):
        dl.lock("k").acquire()
    here.refusing = None
    assert dl.lock("k").acquire().is_held
    with pytest.raises(distlock.Refused, match="NOT_SUPPORTED"):
        dl.acquire_detached("k")


def test_elections(here):
    mine, theirs = here.client(), here.client()
    terms = theirs.observe("cron")
    assert next(terms) is None
    held = mine.campaign("cron", "a:1").acquire()
    assert next(terms).value == "a:1"
    held.proclaim("a:2")
    assert theirs.leader("cron").value == "a:2" and held.is_held
    held.release()
    assert next(terms) is None


def test_an_event_loop(here):
    async def work():
        dl = here.aio_client()
        async with dl.lock("k") as held:
            assert held.is_held
            waits = asyncio.ensure_future(dl.lock("k", wait=5).acquire())
            await asyncio.to_thread(here.await_waiting, "k")
            await asyncio.to_thread(here.advance, 5)
            with pytest.raises(distlock.Busy):
                await waits
        with pytest.raises(distlock.LockLost):
            async with dl.lock("k"):
                await asyncio.to_thread(here.lose, "k")
                await asyncio.sleep(60)
        await dl.close()

    asyncio.run(work())


def test_a_decorated_function(here):
    dl = here.client()

    @dl.locked(lambda name: name, wait=0, busy=distlock.SKIP)
    def work(name):
        return dl.inspect(name).holder_count

    assert work("nightly") == 1
    with here.client().lock("weekly"):
        assert work("weekly") is distlock.SKIP


def test_what_the_readme_shows():
    page = pathlib.Path(distlock.__file__).parents[1] / "README.md"
    section = page.read_text("utf-8").split("## Tests of your program\n")[1].split("\n## ")[0]
    sample, of_a_loop = re.findall(r"^```python\n(.*?)^```", section, re.M | re.S)
    names = {"distlock": distlock, "pytest": pytest, "asyncio": asyncio}
    exec(sample, names)  # noqa: S102
    exec(of_a_loop, names)  # noqa: S102
    asyncio.run(names["work"]())
