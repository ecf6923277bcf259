# SPDX-License-Identifier: Apache-2.0
"""What interrupts the package on a thread that is inside it may call it: handlers of signals, finalizers, profilers."""
import gc
import sys
import threading

import distlock
import interrupts
import pytest
from distlock.v1 import look_pb2
from fake_broker import eventually

def test_a_signals_handler_may_call_anything(broker, connect):
    broker.unary["GetLock"] = lambda request, context: look_pb2.GetLockResponse()
    interrupts.call_everything(connect(broker.url), 1000)


def test_a_signals_handler_may_be_the_first_to_call(broker):
    clients = []

    def handle():
        with clients[-1].lock("handler", wait=5) as held:
            assert held.is_held

    def work():
        clients.append(distlock.connect(broker.url))
        with clients[-1].lock("work", wait=5):
            pass
        while len(clients) > 1:
            clients.pop(0).close()

    clients.append(distlock.connect(broker.url))
    interrupts.storm(handle, work, 300)
    clients[0].close()


def test_a_finalizer_may_call(broker, connect):
    dl = connect(broker.url)

    class Owner:
        def __init__(self, number, cycle=None):
            self.held, self.cycle = dl.lock(f"k{number}").acquire(), cycle

        def __del__(self):
            self.held.release_soon()  # the collector has dropped the handle already
            if self.cycle is None:  # on the thread that drops it
                assert self.held.cause == "GIVEN_BACK"
                dl.lock("from a finalizer").acquire()

    before = gc.get_threshold()
    gc.set_threshold(50, 5, 5)
    try:
        for number in range(200):
            Owner(f"a{number}")
            owner = Owner(f"b{number}")
            owner.cycle = [owner]  # for the collector, which runs on any thread
            with dl.lock("work", wait=5) as held:
                assert held.is_held
    finally:
        gc.set_threshold(*before)
    del owner
    gc.collect()
    eventually(lambda: len(broker.session().got("release")) == 800)


@pytest.mark.parametrize("kind", ["profile", "trace"])
def test_a_profiler_may_call(broker, connect, kind):
    """On each thread, this package's, too: there it may do what needs no answer, and is told so otherwise."""
    dl = connect(broker.url)
    kept, spare = dl.lock("kept").acquire(), [dl.lock(f"spare{number}").acquire() for number in range(200)]
    calls, told, inside = [0], set(), threading.local()
    set_here, set_in_threads = getattr(sys, f"set{kind}"), getattr(threading, f"set{kind}")

    def hook(frame, event, argument):
        if getattr(inside, "now", False) or "distlock" not in frame.f_code.co_filename:
            return
        inside.now = True
        calls[0] += 1
        assert kept.is_held and not kept.at_risk
        if calls[0] % 50 == 0 and spare:
            spare.pop().release_soon()
            try:
                told.add(dl.lock("asked", wait=5).acquire().release().name)
            except RuntimeError as error:
                told.add(str(error))
        inside.now = False

    set_in_threads(hook)
    try:
        other = connect(broker.url)  # whose threads begin now
        other.lock("first").acquire().release()
        set_here(hook)
        for number in range(300):
            for client in (dl, other):
                with client.lock(f"k{number}", wait=5) as one:
                    assert one.is_held
    finally:
        set_here(None)
        set_in_threads(None)
    assert calls[0] > 1000 and kept.is_held and not spare
    assert "RELEASED" in told and all(one == "RELEASED" or "its own thread" in one for one in told)


def test_waiting_on_the_packages_own_thread_is_refused(broker, connect):
    """A callback of the table's, which a program reaches by an observer."""
    told = []

    class Waits(distlock.Observer):
        def ended(self, cookie, cause, held_for):
            if cause == "FORCED":
                try:
                    dl.lock("other").acquire()
                except RuntimeError as error:
                    told.append(str(error))

    dl = connect(broker.url, observer=Waits())
    held = dl.lock("k").acquire()
    session = broker.session()
    session.lose(session.await_command("acquire").id, "FORCED")
    assert held.lost.wait(20)
    eventually(lambda: told)
    assert "release_soon" in told[0]
    with dl.lock("again", wait=5) as again:
        assert again.is_held
