# SPDX-License-Identifier: Apache-2.0
"""The programs of client/python/jobs.md: Celery, RQ and APScheduler on three hosts, and what a death in the middle of a
job does."""
import contextlib
import os
import pathlib
import re
import signal
import sys
import time

import pages
import pytest
import tools
from harness import DISTLOCKD, Process, eventually
from tools import Program

CTL = pathlib.Path(DISTLOCKD).with_name("distlockctl")
HOSTS = ("one", "two", "three")
MIN_HOLD_S = 54
WORK = """
import logging, os, sys, time
logging.basicConfig(level=logging.INFO)
def build_report():
    with open("runs", "a") as runs:
        runs.write(f"{os.environ['HOST']}\\n")
    time.sleep(0.01)
    if os.path.exists("fails"):
        raise ValueError("the job's own")
    while os.path.exists("slow") and sys.modules["__main__"].dl.stats().held:
        time.sleep(0.01)
"""


@pytest.fixture
def store(world):
    return world.redis()


@pytest.fixture
def broker(world, store):
    return world.distlockd(store.url, "--default-ttl", "5s")


@pytest.fixture
def start(world, store, broker):
    """Starts a module of Python on a host of this name."""
    def run(host, name, *argv, **changes):
        files = {"work.py": WORK, **pages.files("jobs.md", **changes)}
        if (world.folder / "work.py").exists():
            files = {}  # another host may read them at this moment
        return Program(world, f"{name}-{host}", *argv, files=files, variables={
            "HOST": host, "DISTLOCK_SERVER": broker.url, "C_FORCE_ROOT": "1", "RQ_REDIS_URL": f"unix://{store.path}",
            "CELERY_BROKER_URL": f"redis+socket://{store.path}"})
    return run


def runs(world):
    path = world.folder / "runs"
    return path.read_text().split() if path.exists() else []


def count(programs, words):
    return sum(len(re.findall(words, one.log())) for one in programs)


def ran_once(world, since):
    """As often as min_hold allows for the time that has passed: once, when the machine is not stalled."""
    assert 1 <= len(runs(world)) <= 1 + (time.monotonic() - since) // MIN_HOLD_S


def test_celery(world, broker, start):
    since = time.monotonic()
    hosts = [start(host, "celery", "celery", "-A", "tasks", "worker", "--beat", "-s", host, "-n", host, "-c", "1",
                   "--loglevel", "INFO", tasks=('"schedule": 60', '"schedule": 1')) for host in HOSTS]
    eventually(lambda: all(count([one], "Sending due task report") > 1 for one in hosts), "three beats")
    eventually(lambda: count(hosts, r"succeeded in \S+ distlock.SKIP") > 3)
    ran_once(world, since)
    assert count(hosts, r"succeeded in \S+ None") == len(runs(world)), "a skipped task looks like one that ran"
    broker.kill()
    eventually(lambda: count(hosts, "Retry in 5s: Unavailable") > 0)


def test_rq(world, start):
    since = time.monotonic()
    often = {"crontab": ("interval=60", "interval=1")}
    workers = [start(host, "worker", "rq.cli", "worker", **often) for host in HOSTS]
    crons = [start(host, "cron", "rq.cli", "cron", "crontab.py", **often) for host in HOSTS]
    eventually(lambda: all(count([one], "Enqueued") > 1 for one in crons), "three crons")
    eventually(lambda: count(workers, "Job OK") > 5)
    ran_once(world, since)
    assert not count(workers, "raised an exception|Job failed")


def every_second(start, host, **more):
    return start(host, "apscheduler", "scheduler", scheduler=('minute="*"', 'second="*"'), **more)


def test_apscheduler(world, start):
    since = time.monotonic()
    hosts = [every_second(start, host) for host in HOSTS]
    eventually(lambda: all(count([one], "executed successfully") > 2 for one in hosts))
    ran_once(world, since)


def beats(world):
    """{host: pid} of the beats that run here."""
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words, here = (process / "cmdline").read_bytes().split(b"\0"), os.readlink(process / "cwd")
        except OSError:
            continue  # it has ended
        if here == str(world.folder) and b"-m" in words and b"-s" in words:
            found[words[-2].decode()] = int(process.name)
    return found


def test_beat_under_elect(world, store, broker):
    """One beat at a time; when its host dies, another's starts."""
    for name, text in {"work.py": WORK, **pages.files("jobs.md")}.items():
        (world.folder / name).write_text(text)
    (world.folder / "celery").write_text(f"#!/bin/sh\nexec {tools.python()} -m celery \"$@\" -s $HOST\n")
    (world.folder / "celery").chmod(0o755)
    command, = re.findall(r"`distlockctl (elect beat [^`]+)`", pages.text("jobs.md"))
    path = os.pathsep.join(sys.path)
    hosts = {host: world._add(Process(f"elect-{host}", [
        "env", "-C", world.folder, f"PATH={world.folder}:{os.environ['PATH']}", f"PYTHONPATH={path}", f"HOST={host}",
        f"DISTLOCK_SERVER={broker.url}", f"CELERY_BROKER_URL=redis+socket://{store.path}", CTL, *command.split()],
        world.folder)) for host in HOSTS}
    for host in hosts.values():
        host.launch()
    while hosts:
        (leader, pid), = eventually(lambda: beats(world).items(), "a beat")
        eventually(lambda host=leader: "is starting" in hosts[host].log())
        assert beats(world) == {leader: pid}
        hosts.pop(leader).kill()
        with contextlib.suppress(ProcessLookupError):  # the guard of `elect` may have ended it
            os.kill(pid, signal.SIGKILL)
        eventually(lambda ended=pid: ended not in beats(world).values())


def test_a_job_that_fails(world, start):
    """The others skip the run all the same."""
    (world.folder / "fails").write_text("")
    since = time.monotonic()
    hosts = [every_second(start, host) for host in HOSTS]
    eventually(lambda: count(hosts, "executed successfully") > 5)
    ran_once(world, since)
    assert count(hosts, "ValueError: the job's own") == len(runs(world))


@pytest.fixture
def job(world, start):
    """A host in the middle of a job, and another one which has skipped that."""
    (world.folder / "slow").write_text("")
    first = every_second(start, "one")
    eventually(lambda: runs(world) == ["one"])
    other = every_second(start, "two")
    eventually(lambda: count([other], "executed successfully") > 0)
    assert runs(world) == ["one"]
    return first, other


def test_a_host_that_dies(world, job):
    first, other = job
    first.kill()
    eventually(lambda: runs(world) == ["one", "two"])
    assert not count([other], "LockLost|Unavailable")


def test_a_broker_that_dies(world, broker, job):
    first, other = job
    broker.kill()
    eventually(lambda: count([other], "Unavailable: UNREACHABLE") > 0)
    eventually(lambda: count([first], "LockLost") > 0)
    assert runs(world) == ["one"]
    broker.start()
    eventually(lambda: len(runs(world)) == 2)


def test_a_store_that_dies(world, store, job):
    first, other = job
    store.kill()
    eventually(lambda: count([other], "Unavailable: STORE_UNAVAILABLE") > 0)
    assert runs(world) == ["one"] and not count([first], "LockLost")
    eventually(lambda: count([first], "LockLost") > 0)
    store.start()
    eventually(lambda: len(runs(world)) == 2)
