# SPDX-License-Identifier: Apache-2.0
"""A child of fork has no lock of its parent and connects anew: multiprocessing, gunicorn, celery."""
import faulthandler
import multiprocessing
import os
import subprocess
import sys
import threading

import distlock
import pytest
from harness import eventually

FORK = multiprocessing.get_context("fork")


@pytest.fixture
def one(world):
    redis = world.redis()
    return world.distlockd(redis.url)


def in_child(function, *values):
    """What `function` returns or raises in a child of fork."""
    answers = FORK.SimpleQueue()

    def run():
        faulthandler.dump_traceback_later(40)  # shows where one that hangs is
        try:
            answers.put(function(*values))
        except BaseException as error:
            answers.put(repr(error))

    child = FORK.Process(target=run)
    child.start()
    child.join(60)
    if child.exitcode is None:
        child.kill()
    assert child.exitcode == 0
    return answers.get()


def use(dl, held):
    states = [held.is_held, held.cause, held.valid_for]
    try:
        held.check()
    except distlock.LockLost as lost:
        states.append(lost.cause)
    with dl.lock("child", wait=20) as own:
        states.append(own.is_held)
    try:
        dl.lock("parent", wait=0).acquire()
    except distlock.Busy:
        states.append("busy")
    states.append(dl.inspect("parent").holder_count)
    held.release()
    return states


def test_a_child_connects_anew_and_leaves_the_parent_alone(one, connect):
    dl = connect(one.url)
    with dl.lock("parent") as held:
        for _ in range(3):
            assert in_child(use, dl, held) == [False, "FORKED", 0.0, "FORKED", True, "busy", 1]
            assert held.is_held
    assert held.cause == "GIVEN_BACK"


def test_a_child_that_leaves_the_body_of_its_parent(one, connect):
    dl = connect(one.url)
    with dl.lock("parent") as held:
        assert in_child(held.release_soon) is None
        assert held.is_held and dl.inspect("parent").holder_count == 1


def test_a_child_of_the_body_of_a_watch(one, connect):
    dl = connect(one.url)
    watch = dl.watch("k")
    next(watch)
    assert in_child(lambda: list(watch)) == []
    with dl.lock("k"):
        assert next(watch).holder_count == 1


def test_a_callback_that_is_set_in_a_child(one, connect):
    """The lock is lost there, so it is called at once, on a thread of the child."""
    dl = connect(one.url)
    held = dl.lock("parent").acquire()

    def child():
        heard = threading.Event()
        held.on_loss(lambda lost: heard.set())
        return heard.wait(30)

    assert in_child(child) is True
    assert held.is_held


def test_a_grandchild(one, connect):
    dl = connect(one.url)
    kept = dl.lock("parent").acquire()

    def child():
        with dl.lock("child", wait=20):
            return in_child(lambda: dl.lock("grandchild", wait=20).acquire().token > 0)

    answers = FORK.SimpleQueue()
    process = FORK.Process(target=lambda: answers.put(child()), daemon=False)
    process.start()
    process.join(80)
    if process.exitcode is None:
        process.kill()
    assert process.exitcode == 0 and answers.get() is True and kept.is_held


def test_locks_of_a_child_that_is_killed_are_freed(one, connect):
    dl = connect(one.url)
    kept = dl.lock("parent").acquire()
    taken = FORK.Event()

    def hold():
        inner = dl.lock("child", wait=20).acquire()
        taken.set()
        taken.clear()
        taken.wait()
        inner.release()

    child = FORK.Process(target=hold)
    child.start()
    eventually(lambda: dl.inspect("child").holder_count)
    child.kill()
    child.join()
    assert dl.lock("child", wait=30).acquire().is_held and kept.is_held


def test_a_child_of_a_parent_that_has_not_connected_uses_grpc_itself(one):
    program = """
import multiprocessing, sys, distlock
from distlock import _channel, _relay
dl = distlock.connect(sys.argv[1])
def work():
    with dl.lock("k", wait=20):
        sys.exit(3 if isinstance(_channel.open_channel("unix:x"), _relay.RelayChannel) else 0)
child = multiprocessing.get_context("fork").Process(target=work)
child.start(); child.join(60); sys.exit(child.exitcode)
"""
    ended = subprocess.run([sys.executable, "-c", program, one.url], timeout=100,
                           env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert ended.returncode == 0


def test_a_child_that_ends_in_the_usual_way(one):
    """By sys.exit, as a worker of gunicorn does: its ends of the parent's connections must not hold it up."""
    program = """
import os, sys, distlock
dl = distlock.connect(sys.argv[1])
held = dl.lock("parent").acquire()
pid = os.fork()
if pid == 0:
    with dl.lock("child", wait=20):
        pass
    sys.exit(7)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
sys.exit(code if held.is_held else 1)
"""
    ended = subprocess.run([sys.executable, "-c", program, one.url], timeout=100,
                           env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert ended.returncode == 7
