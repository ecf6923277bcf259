# SPDX-License-Identifier: Apache-2.0
"""Signals at random moments, whose handlers call the package, or raise; threads and tasks that are cancelled at random
moments."""
import asyncio
import contextlib
import ctypes
import os
import random
import signal
import threading
import time

import distlock

LONGEST_STOP_S = 20


def storm(handle, work, times):
    """Runs `work` again and again on this thread while signals come, until `handle` has run so often in their handler.
    A thread looks that it goes on."""
    seen, inside, over = [0, time.monotonic()], [False], threading.Event()

    def on_signal(number, frame):
        if inside[0]:
            return
        inside[0] = True
        try:
            seen[:] = [seen[0] + 1, time.monotonic()]
            handle()
        finally:
            inside[0] = False

    def send():
        while not over.is_set():
            if time.monotonic() - seen[1] > LONGEST_STOP_S:
                os.write(2, f"stuck after {seen[0]} signals\n".encode())
                os.abort()
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(random.uniform(0, 0.0004))

    before = signal.signal(signal.SIGUSR1, on_signal)
    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    try:
        while seen[0] < times:
            work()
    finally:
        over.set()
        sender.join()
        signal.signal(signal.SIGUSR1, before)


def call_everything(dl, signals):
    """A program whose handler calls what may be called."""
    held = [dl.lock("term").acquire()]

    def handle():
        kind = random.randrange(100)
        if kind < 30:
            assert dl.connected and held[0].is_held and not held[0].at_risk and not held[0].lost
            held[0].on_loss(print)
        elif kind < 60:
            dl.lock("dropped", wait=0)
            assert not held[0].lost.wait(0)
        elif kind < 80:
            held[0].release_soon()
            held[0] = dl.lock("term", wait=5).acquire()
        elif kind < 85:
            assert held[0].release() is distlock.Outcome.RELEASED
            held[0] = dl.lock("term").acquire()
        elif kind < 90:
            dl.lock("dropped").acquire()
        elif kind < 95:
            assert dl.inspect("free", max_waiters=0).is_free
        else:
            with dl.all(["a", "b"], wait=5) as both:
                both.check()

    def work():
        with dl.lock("work", wait=5) as one:
            one.on_loss(print)
            one.lost.wait(0)
            assert one.is_held

    storm(handle, work, signals)
    assert held[0].is_held
    held[0].release()


class Ringing:
    """Raises an exception at a random moment of a body's, as soft time limits do."""

    class Now(Exception):
        pass

    def __init__(self):
        self.armed, self.interrupted = False, 0

    def __enter__(self):
        def ring(number, frame):
            if self.armed:
                self.armed = False
                raise self.Now

        self.before = signal.signal(signal.SIGALRM, ring)
        return self

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.before)

    def run(self, body, most):
        try:
            try:
                self.armed = True
                signal.setitimer(signal.ITIMER_REAL, random.uniform(0.00001, most))
                body()
            finally:
                self.armed = False
        except self.Now:
            self.interrupted += 1


def kinds_of_use(dl):
    shared, number = dl.lock("again", wait=20), iter(range(1 << 60))

    def fresh():
        with dl.lock(f"k{next(number)}", wait=20):
            pass

    def again():
        with shared:
            pass

    def several():
        with dl.all([f"a{next(number)}", "b"], wait=20):
            pass

    def by_hand():
        held = dl.lock(f"h{next(number)}", wait=20).acquire()
        try:
            held.check()
        finally:
            held.release()

    def stack():
        with contextlib.ExitStack() as all_of_them:
            all_of_them.enter_context(dl.lock(f"s{next(number)}", wait=20))

    @dl.locked(lambda: f"d{next(number)}", wait=20)
    def decorated():
        pass

    return {"fresh": fresh, "again": again, "several": several, "by hand": by_hand, "stack": stack,
            "decorated": decorated}


def interrupt(use, times):
    """Uses locks until exceptions have come so often."""
    use()
    began = time.monotonic()
    for _ in range(20):
        use()
    usual = (time.monotonic() - began) / 20
    with Ringing() as ringing:
        while ringing.interrupted < times:
            ringing.run(use, 1.3 * usual)


class Cancelled(Exception):
    """What another thread raises in one that uses locks."""


def contend(dl, shared):
    """One use of one of a few locks: they are waited for, and some waits are over soon."""
    wait = random.choice((None, 0, random.uniform(0, 0.003)))
    kind = random.randrange(4)
    try:
        if kind == 0:
            with shared:
                pass
        elif kind == 1:
            with dl.all(random.sample("abcd", 2), wait=wait):
                pass
        elif kind == 2:
            dl.lock(random.choice("abcd"), wait=wait).acquire().release_soon()
        else:
            with dl.lock(random.choice("abcd"), wait=wait) as held:
                held.check()
    except distlock.Busy:
        pass


def cancel_threads(dl, times, count=6):
    """Raises exceptions in threads that use locks, until so many have arrived."""
    over, arrived, wrong, shared = threading.Event(), [], [], dl.lock("a", wait=20)

    def work():
        while not over.is_set():
            try:
                while not over.is_set():
                    contend(dl, shared)
            except Cancelled:
                arrived.append(1)

    def ends_with(args):  # one that arrives behind the handler ends its thread
        (arrived if issubclass(args.exc_type, Cancelled) else wrong).append(args.exc_value)

    before, threading.excepthook = threading.excepthook, ends_with
    threads = []
    with shared:  # connects
        pass
    last = [0, time.monotonic()]
    try:
        while len(arrived) < times and not wrong:
            if len(arrived) != last[0]:
                last[:] = [len(arrived), time.monotonic()]
            assert time.monotonic() - last[1] < LONGEST_STOP_S, f"stuck after {len(arrived)}"
            threads = [one for one in threads if one.is_alive()]
            while len(threads) < count:
                threads.append(threading.Thread(target=work, daemon=True))
                threads[-1].start()
            victim = random.choice(threads).ident
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(victim), ctypes.py_object(Cancelled))
            time.sleep(random.uniform(0, 0.0006))
    finally:
        over.set()
        for one in threads:
            one.join(60)
        threading.excepthook = before
    assert not wrong and not any(one.is_alive() for one in threads)


async def cancel_tasks(dl, times, at_once=20):
    """Cancels tasks that use locks, or ends their time, until so many have been cut off."""
    cut_off, shared = [], dl.lock("a", wait=20)

    async def use(number):
        wait = random.choice((None, 0, random.uniform(0, 0.003)))
        kind = random.randrange(4)
        with contextlib.suppress(distlock.Busy):
            if kind == 0:
                async with shared:
                    await asyncio.sleep(0)
            elif kind == 1:
                async with dl.all(random.sample("abcd", 2), wait=wait):
                    await asyncio.sleep(random.uniform(0, 0.001))
            elif kind == 2:
                await (await dl.lock(random.choice("abcd"), wait=wait).acquire()).release()
            else:
                async with dl.lock(f"k{number}", wait=wait), dl.lock("b", wait=wait):
                    await asyncio.sleep(0)

    async def one(number):
        if random.random() < 0.5:
            try:
                await asyncio.wait_for(use(number), random.uniform(0, 0.01))
            except asyncio.TimeoutError:
                cut_off.append(1)
            return
        task = asyncio.ensure_future(use(number))
        if random.random() < 0.5:
            await asyncio.sleep(random.uniform(0, 0.01))
        else:
            for _ in range(random.randrange(8)):
                await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            cut_off.append(1)

    async with shared:  # connects
        pass
    while len(cut_off) < times:
        await asyncio.wait_for(asyncio.gather(*map(one, range(at_once))), 60)
