# SPDX-License-Identifier: Apache-2.0
"""A body is left where nobody expects it: by another task or thread, by a function that has not run yet, by a hook that
ends its thread."""
import asyncio
import contextlib
import gc
import sys
import threading

import distlock
import pytest
from fake_broker import eventually


async def elsewhere(condition):
    await asyncio.get_running_loop().run_in_executor(None, eventually, condition)


def run(broker, test):
    async def whole():
        async with distlock.aio.connect(broker.url) as dl:
            await asyncio.wait_for(test(dl), 60)
            await elsewhere(lambda: len(broker.session().got("release")) == len(broker.session().got("acquire")))

    asyncio.run(whole())


def test_a_generator_that_another_task_ends(broker, caplog):
    """As pytest-asyncio ends a fixture."""
    async def fixture(dl):
        async with dl.lock("k") as held:
            yield held

    async def test(dl):
        made = fixture(dl)
        held = await asyncio.ensure_future(made.__anext__())
        with pytest.raises(StopAsyncIteration):
            await asyncio.ensure_future(made.__anext__())
        assert held.cause == "GIVEN_BACK"

    run(broker, test)
    assert not caplog.records


def test_a_generator_that_is_dropped(broker, caplog):
    async def numbers(dl):
        async with dl.lock("k"):
            yield 1
            yield 2

    async def test(dl):
        async for _ in numbers(dl):
            break
        gc.collect()
        await elsewhere(lambda: broker.session().got("release"))

    run(broker, test)
    assert not caplog.records


def test_a_stack_that_another_task_closes(broker, caplog):
    async def test(dl):
        stack, request = contextlib.AsyncExitStack(), dl.lock("k")
        await asyncio.ensure_future(stack.enter_async_context(request))
        async with request as own:  # what this task has entered itself comes first
            pass
        assert own.cause == "GIVEN_BACK" and len(broker.session().got("acquire")) == 2
        await asyncio.ensure_future(stack.aclose())

    run(broker, test)
    assert not caplog.records


def test_a_loss_after_the_task_that_entered_has_ended(broker):
    async def test(dl):
        request = dl.lock("k")
        held = await asyncio.ensure_future(request.__aenter__())
        broker.session().lose(broker.session().await_command("acquire").id, "FORCED")
        await held.lost.wait()
        with pytest.raises(distlock.LockLost, match="FORCED"):
            await request.__aexit__(None, None, None)

    async def whole():
        async with distlock.aio.connect(broker.url) as dl:
            await asyncio.wait_for(test(dl), 60)

    asyncio.run(whole())


def in_thread(call, *values):
    made = []
    thread = threading.Thread(target=lambda: made.append(call(*values)))
    thread.start()
    thread.join()
    return made[0]


def test_a_stack_that_another_thread_closes(broker, connect, caplog):
    dl = connect(broker.url)
    stack, request = contextlib.ExitStack(), dl.lock("k")
    held = in_thread(stack.enter_context, request)
    own = request.__enter__()
    request.__exit__(None, None, None)
    assert own.cause == "GIVEN_BACK" and held.is_held
    stack.close()
    assert held.cause == "GIVEN_BACK"
    in_thread(request.__enter__)
    request.__exit__(None, None, None)
    assert len(broker.session().got("acquire")) == 3
    eventually(lambda: len(broker.session().got("release")) == 3)
    assert not caplog.records


def test_a_function_that_returns_what_runs_later(broker, connect):
    """Which no look at the function itself tells."""
    dl, alone, ran = connect(broker.url), distlock.aio.connect(broker.url), []

    async def coroutine():
        ran.append("coroutine")

    async def yields():
        ran.append("async generator")
        yield

    @contextlib.contextmanager
    def manager():
        ran.append("manager")
        yield

    def rows():
        ran.append("generator")
        yield

    hidden = {"coroutine": lambda: coroutine(), "generator": lambda: rows(), "async_generator": lambda: yields(),
              "_GeneratorContextManager": manager,
              "_AsyncGeneratorContextManager": contextlib.asynccontextmanager(yields)}
    for name, function in hidden.items():
        with pytest.raises(TypeError, match=f"returned an? {name}, which runs after the call"):
            dl.locked("k")(function)()
        if name != "coroutine":
            with pytest.raises(TypeError, match=name):
                asyncio.run(alone.locked("k")(function)())
    assert not ran
    asyncio.run(alone.locked("k")(hidden["coroutine"])())
    assert ran == ["coroutine"]
    eventually(lambda: all(len(session.got("acquire")) == len(session.got("release")) for session in broker.sessions))


class Exits(distlock.Observer):
    def __init__(self):
        self.heard = []

    def session(self, what, address):
        self.heard.append(what)
        sys.exit("by a hook")

    def ended(self, cookie, cause, held_for):
        self.heard.append(cause)
        sys.exit("by a hook")


def test_a_hook_that_exits_costs_no_lock(broker, connect, caplog):
    observer, told = Exits(), []
    dl = connect(broker.url, observer=observer)
    kept = dl.lock("kept").acquire()
    lost = dl.lock("k", on_loss=lambda held: sys.exit("by a callback")).acquire()
    lost.on_loss(lambda held: told.append(held.cause))
    session = broker.session()
    session.lose(session.got("acquire")[1].id, "FORCED")
    eventually(lambda: told == ["FORCED"] and observer.heard == ["opened", "FORCED"])
    acked = len(session.got("heartbeat"))
    eventually(lambda: len(session.got("heartbeat")) > acked + 1)
    assert kept.is_held and "by a callback" in caplog.text and "by a hook" in caplog.text
    with pytest.raises(SystemExit):  # on the thread that calls
        kept.release_soon()
    eventually(lambda: session.got("release"))
