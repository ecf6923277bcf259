# SPDX-License-Identifier: Apache-2.0
"""Signals at random moments, whose handlers call the package, or raise."""
import contextlib
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
