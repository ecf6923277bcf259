# SPDX-License-Identifier: Apache-2.0
"""client/java-example: Hold from Java with the stubs that protoc generates. Maven builds it, without a network once it
has all that it needs."""
import os
import pathlib
import signal
import subprocess
import time

import pytest
from conftest import REPOSITORY

EXAMPLE = REPOSITORY / "client/java-example"
PATIENCE_S = 60


@pytest.fixture(scope="session")
def jar(tmp_path_factory):
    folder = pathlib.Path(os.environ.get("JAVA_EXAMPLE_BUILD") or tmp_path_factory.mktemp("java"))
    made = folder / "example.jar"
    sources = [EXAMPLE / "pom.xml", *EXAMPLE.rglob("*.java"), *(REPOSITORY / "proto/distlock").rglob("*.proto")]
    if made.exists() and made.stat().st_mtime > max(source.stat().st_mtime for source in sources):
        return made
    command = ["mvn", "--quiet", "--batch-mode", f"-Dbuild.folder={folder}", "package"]
    options = {"cwd": EXAMPLE, "capture_output": True, "text": True,
               "env": {**os.environ, "MAVEN_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}}
    built = subprocess.run([*command, "--offline"], **options)
    if built.returncode != 0:
        built = subprocess.run(command, **options)
    assert built.returncode == 0, built.stdout + built.stderr
    return made


@pytest.fixture
def example(jar, address):
    """Starts the program, whose input stays open."""
    running = []

    def start(*args):
        running.append(subprocess.Popen(["java", "-XX:TieredStopAtLevel=1", "-jar", jar, address, *args],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        return running[-1]

    yield start
    for program in running:
        program.kill()
        program.communicate()


def end(program):
    """Ends its input; what it says then, and its exit code."""
    said, _ = program.communicate(timeout=PATIENCE_S)
    return said, program.returncode


def held(program):
    word, token = program.stdout.readline().split()
    assert word == "held"
    return int(token)


def test_held_busy_and_given_back(example, locks, pb):
    first = example("java")
    token = held(first)
    holder, = locks.GetLock(pb.GetLockRequest(key="java")).lock.holders
    assert (holder.owner, holder.fencing_token) == ("java-example", token)
    said, code = end(example("java", "0"))
    assert said.startswith("refused LOCK_HELD: ") and holder.holder_id in said and code == 1

    waiting = example("java", str(PATIENCE_S))
    deadline = time.monotonic() + PATIENCE_S
    while not locks.GetLock(pb.GetLockRequest(key="java")).lock.queue_length:
        assert time.monotonic() < deadline
    assert end(first) == ("given back\n", 0)
    freed = time.monotonic()
    assert held(waiting) > token
    assert time.monotonic() - freed < 2, "a cancel without Release would keep the lock for 3 s"
    assert end(waiting) == ("given back\n", 0)


def test_lost(example, locks, pb):
    program = example("forced")
    held(program)
    locks.ForceRelease(pb.ForceReleaseRequest(key="forced", reason="the test"))
    assert program.stdout.readline() == "lost LOST_REASON_FORCED\n"
    assert program.wait(PATIENCE_S) == 75


def test_a_frozen_broker_sends_no_error_so_the_clock_decides(example, broker, locks, pb):
    program = example("frozen")
    token = held(program)
    broker.send_signal(signal.SIGSTOP)
    try:
        assert program.stdout.readline() == "lost LAPSED\n"
    finally:
        broker.send_signal(signal.SIGCONT)
    assert program.wait(PATIENCE_S) == 75
    after = locks.Hold(pb.HoldRequest(lock=pb.LockSpec(key="frozen")))
    assert next(event.granted.fencing_token for event in after if event.HasField("granted")) > token
    after.cancel()


def test_the_clock_notices_a_suspend(jar, tmp_path):
    source = tmp_path / "Check.java"
    source.write_text("""
        import dev.distlock.example.Clock;
        public class Check {
          static long steady = 100, wall = 5000;
          public static void main(String[] args) {
            Clock clock = new Clock(() -> steady, () -> wall);
            long second = 1_000_000_000L, before = clock.read();
            steady += second; wall += second + second / 2;
            System.out.println(clock.read() - before == second);
            wall += 2 * second;  // suspended: only the wall clock went on
            System.out.println(clock.read() - before > 3600 * second);
            long now = clock.read();
            steady += 7;
            System.out.println(clock.read() - now == 7);
          }
        }""")
    ran = subprocess.run(["java", "-cp", jar, source], capture_output=True, text=True)
    assert ran.stdout.split() == ["true"] * 3, ran.stdout + ran.stderr
