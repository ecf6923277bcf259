# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio against a broker that misbehaves on command."""
import asyncio

import distlock
import grpc
import pytest
from fake_broker import eventually


def in_loop(test):
    """The test gets the broker and a client, in an event loop."""

    def run(broker):
        async def whole():
            async with distlock.aio.connect(broker.url) as dl:
                await asyncio.wait_for(test(broker, dl), 60)
        asyncio.run(whole())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


async def elsewhere(condition):
    return await asyncio.get_running_loop().run_in_executor(None, condition)


@in_loop
async def test_a_lock(broker, dl):
    async with dl.lock("k", wait=10) as held:
        assert held.is_held and held.token == 1
    assert held.cause == "GIVEN_BACK"
    again = await dl.lock("k").acquire()
    assert await again.release() is distlock.Outcome.RELEASED


@in_loop
async def test_the_body_is_cancelled_on_loss(broker, dl):
    with pytest.raises(distlock.LockLost, match="FORCED"):
        async with dl.lock("k"):
            session = broker.session()
            session.lose(session.await_command("acquire").id, "FORCED")
            await asyncio.sleep(60)
    await asyncio.sleep(0)
    task = asyncio.current_task()
    assert getattr(task, "cancelling", lambda: 0)() == 0


@in_loop
async def test_a_body_that_ends_before_the_cancellation_arrives(broker, dl):
    with pytest.raises(distlock.LockLost):
        async with dl.lock("k") as held:
            session = broker.session()
            session.lose(session.await_command("acquire").id, "FORCED")
            eventually(lambda: not held.is_held)  # blocks the loop on purpose
    await asyncio.sleep(0.01)  # nothing is left that would cancel this


@in_loop
async def test_a_cancellation_from_outside_stays_one(broker, dl):
    entered = asyncio.Event()

    async def work():
        async with dl.lock("k"):
            entered.set()
            await asyncio.sleep(60)

    task = asyncio.ensure_future(work())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await elsewhere(lambda: broker.session().await_command("release"))


@in_loop
async def test_cancelling_a_wait_withdraws_it(broker, dl):
    broker.on_acquire = lambda session, command: None
    task = asyncio.ensure_future(dl.lock("k").acquire())
    acquired = await elsewhere(lambda: broker.session().await_command("acquire"))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    cancel = await elsewhere(lambda: broker.session().await_command("cancel"))
    assert cancel.cancel.acquire_id == acquired.id


def test_an_observer_hears_of_a_cancelled_wait(broker):
    heard = []

    class Seen(distlock.Observer):
        def acquiring(self, keys, mode):
            return "cookie"

        def answered(self, cookie, outcome, waited):
            heard.append((cookie, outcome))

    async def whole():
        broker.on_acquire = lambda session, command: None
        async with distlock.aio.connect(broker.url, observer=Seen()) as dl:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(dl.lock("k").acquire(), 0.2)

    asyncio.run(whole())
    assert heard == [("cookie", "CANCELLED")]


@in_loop
async def test_what_else_a_body_may_hold_is_cancelled_on_loss(broker, dl):
    """shared, permits, several at once, an election, and the decorator."""
    @dl.locked(lambda number: f"job/{number}")
    async def job(number):
        await asyncio.sleep(60)

    def lose():
        session = broker.session()
        session.lose(session.got("acquire")[-1].id, "FORCED")

    requests = dl.shared("t"), dl.permits("p", limit=2), dl.all(["a", "b"]), dl.campaign("e")
    for count, request in enumerate(requests, 1):
        with pytest.raises(distlock.LockLost, match="FORCED"):
            async with request:
                await elsewhere(lambda: broker.session().await_command("acquire", count))
                lose()
                await asyncio.sleep(60)
    task = asyncio.ensure_future(job(7))
    acquired = await elsewhere(lambda: broker.session().await_command("acquire", 5))
    assert acquired.acquire.locks[0].key == "job/7"
    lose()
    with pytest.raises(distlock.LockLost):
        await task


@in_loop
async def test_the_error_of_the_body_is_kept(broker, dl):
    with pytest.raises(KeyError):
        async with dl.lock("k") as held:
            session = broker.session()
            session.lose(session.await_command("acquire").id, "TAKEN")
            try:
                await held.lost.wait()
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                raise KeyError from None


@in_loop
async def test_busy_decorator_and_all(broker, dl):
    async with dl.all(["a", "b"]) as both:
        assert both.tokens == [1, 2] and both.is_held

    @dl.locked("job", wait=0, busy=distlock.SKIP)
    async def job():
        return 5

    assert await job() == 5
    broker.on_acquire = lambda session, command: session.refuse(command.id, "LOCK_HELD")
    assert await job() is distlock.SKIP
    with pytest.raises(distlock.Busy):
        async with dl.lock("k", wait=0):
            pass


@in_loop
async def test_many_callers_share_messages(broker, dl):
    async def work(key):
        async with dl.lock(str(key)) as held:
            assert held.is_held

    async with dl.lock("first"):
        pass
    before = len(broker.session().sizes)
    await asyncio.gather(*(work(key) for key in range(500)))
    await elsewhere(lambda: broker.session().await_command("release", 501))
    assert len(broker.session().sizes) - before < 500
    assert len(broker.sessions) == 1


@in_loop
async def test_a_break_cancels_every_body(broker, dl):
    async def work(key):
        async with dl.lock(str(key)):
            await asyncio.sleep(60)

    tasks = [asyncio.ensure_future(work(key)) for key in range(20)]
    await elsewhere(lambda: broker.session().await_command("acquire", 20))
    broker.session().end(grpc.StatusCode.UNAVAILABLE, "gone")
    ended = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(one) for one in ended} <= {distlock.LockLost}
