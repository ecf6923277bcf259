# SPDX-License-Identifier: Apache-2.0
"""A holder's process ends, and the kernel says so: its lock is free at once. Where that is not certain, it is free when
the holder's belief has ended."""
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import time

import pytest

from claimant import claimant, own_claim
from client import boot_now
from faults import ctl, handed_over, waiter
from harness import eventually, free_port
from promises import row

# So long that what is free earlier was freed by proof.
LONG = ("--validity", "30s", "--default-ttl", "60s")
SHORT = ("--validity", "1s")
V = 1.0
AT_ONCE_S = 10


def kernel():
    return tuple(int(part) for part in platform.release().split("-")[0].split(".")[:2])


needs_proof = pytest.mark.skipif(kernel() < (6, 9), reason="needs Linux 6.9")


@pytest.fixture
def redis(world):
    return world.redis()


def killed(world, daemon, holder):
    """Who waits for its lock, and when it was killed."""
    waiting = waiter(world.client(daemon.url))
    ended = boot_now()
    holder.kill()
    return waiting, ended


def freed_at_once(waiting, token, since):
    """Long before the holder's belief would have ended, and under a greater token."""
    grant = waiting.granted().grant
    took = waiting.at("granted") - since
    print(f"granted {took * 1000:.1f} ms after the end")
    assert took < AT_ONCE_S and grant.fencing_token > token


def proofs(daemon):
    return daemon.metric("distlock_proofs_of_death_total")


def leave(holder):
    holder.popen.send_signal(signal.SIGUSR1)
    return holder.wait_for("left")


@row("the holder's process is killed")
@needs_proof
@pytest.mark.parametrize("kind", ["session", "hold"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGABRT])
def test_a_process_that_ends_frees_its_lock_at_once(world, redis, kind, how):
    daemon = world.distlockd(redis.url, *LONG)
    holder = claimant(world, daemon.url, "k", "--kind", kind)
    token = holder.wait_for("granted")["token"]
    waiting = waiter(world.client(daemon.url))
    ended = boot_now()
    holder.popen.send_signal(how)
    freed_at_once(waiting, token, ended)
    eventually(lambda: proofs(daemon) == 1, "the count")
    eventually(lambda: "holder died" in daemon.log(), "the log line")
    assert f"pid={holder.pid}" in daemon.log().split("holder died", 1)[1].splitlines()[0]


@pytest.fixture
def little_memory():
    """A control group whose processes may have 64 MB, as the folder of its files; version 2 or 1, as this machine
    has."""
    made = pathlib.Path("/sys/fs/cgroup"), "memory.max"
    if not (made[0] / "cgroup.controllers").exists():
        made = made[0] / "memory", "memory.limit_in_bytes"
    group = made[0] / f"distlock-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"this user may not make control groups: {error}")
    try:
        if not (group / made[1]).exists():
            pytest.skip(f"{made[0]} does not control memory")
        (group / made[1]).write_text(str(64 << 20))
        yield group
    finally:
        eventually(lambda: not (group / "cgroup.procs").read_text(), "the end of its processes")
        group.rmdir()


@needs_proof
def test_a_process_that_the_kernel_ends_for_its_memory_frees_its_lock_at_once(world, redis, little_memory):
    daemon = world.distlockd(redis.url, *LONG)
    holder = claimant(world, daemon.url, "k", "--leave", "memory")
    token = holder.wait_for("granted")["token"]
    waiting = waiter(world.client(daemon.url))
    (little_memory / "cgroup.procs").write_text(str(holder.pid))
    begun = boot_now()
    leave(holder)
    freed_at_once(waiting, token, begun)
    assert holder.popen.wait() == -signal.SIGKILL
    assert proofs(daemon) == 1


@needs_proof
def test_all_locks_of_all_sessions_on_a_connection_and_on_all_shards(world, redis):
    daemon = world.distlockd(redis.url, *LONG, "--shards", "4")
    keys = [f"k{i}" for i in range(12)]
    holder = claimant(world, daemon.url, *keys, "--sessions", "2")
    assert holder.wait_for("opened")["bound"] == [True, True]
    waiting = [waiter(world.client(daemon.url), key) for key in keys]
    ended = boot_now()
    holder.kill()
    for one in waiting:
        freed_at_once(one, 0, ended)
    eventually(lambda: proofs(daemon) == 1, "one process has ended")


@needs_proof
def test_a_child_that_has_the_connection_is_not_waited_for(world, redis):
    daemon = world.distlockd(redis.url, *LONG)
    holder = claimant(world, daemon.url, "k", "--leave", "fork", prefix=("env", "GRPC_ENABLE_FORK_SUPPORT=0"))
    waiting = waiter(world.client(daemon.url))
    child = leave(holder)["child"]
    try:
        ended = boot_now()
        holder.kill()
        freed_at_once(waiting, 0, ended)
        os.kill(child, 0)
    finally:
        os.kill(child, signal.SIGKILL)


@needs_proof
@pytest.mark.parametrize("namespaces", ["-pf", "-Upf"])
def test_a_process_in_other_namespaces(world, redis, namespaces):
    command = ("unshare", namespaces, "--kill-child", "--")
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], capture_output=True).returncode != 0:
        pytest.skip("this user may not make namespaces")
    daemon = world.distlockd(redis.url, *LONG)
    holder = claimant(world, daemon.url, "k", prefix=command)
    assert holder.wait_for("opened")["bound"] == [True]
    waiting, ended = killed(world, daemon, holder)  # unshare, and the kernel its child
    freed_at_once(waiting, 0, ended)


@needs_proof
def test_a_session_with_a_broker_that_was_started_anew_is_bound_anew(world, redis):
    daemon = world.distlockd(redis.url, *LONG)
    holder = ctl(world, daemon.url, "hold", "first", "--no-resume")
    holder.wait_for("granted")
    daemon.restart()
    holder.exit_code()  # lost with the broker
    again = ctl(world, daemon.url, "hold", "k", name="again")
    token = again.wait_for("granted")["token"]
    waiting, ended = killed(world, daemon, again)
    freed_at_once(waiting, token, ended)


@needs_proof
def test_a_killed_distlockctl_hold_frees_its_lock_at_once(world, redis):
    daemon = world.distlockd(redis.url, *LONG)
    holder = ctl(world, daemon.url, "hold", "k")
    token = holder.wait_for("granted")["token"]
    waiting, ended = killed(world, daemon, holder)
    freed_at_once(waiting, token, ended)


@needs_proof
def test_a_lock_delay_is_kept(world, redis):
    daemon = world.distlockd(redis.url, *LONG)
    holder = ctl(world, daemon.url, "hold", "k", "--lock-delay", "1s")
    token = holder.wait_for("granted")["token"]
    waiting, ended = killed(world, daemon, holder)
    freed_at_once(waiting, token, ended)
    assert waiting.at("granted") - ended >= 1


def test_who_has_said_goodbye_proves_nothing(world, redis):
    daemon = world.distlockd(redis.url, *LONG)
    holder = claimant(world, daemon.url, "k", "--leave", "goodbye")
    leave(holder)
    holder.kill()
    eventually(lambda: daemon.metric("distlock_connections") == 0, "the end of the connection")
    time.sleep(0.2)  # the proof, if there were one, would be here
    assert proofs(daemon) == 0


# ---- No proof: the lock is free when the belief has ended, and not before.

def takes_the_validity(daemon, holder, waiting, since):
    handed_over(waiting, holder.believed_until(), holder.wait_for("granted")["token"], since, within=V + 0.25)
    assert proofs(daemon) == 0


@pytest.mark.parametrize("forge", ["inode", "boot"])
def test_a_forged_claim_binds_nothing(world, redis, forge):
    daemon = world.distlockd(redis.url, *SHORT)
    holder = claimant(world, daemon.url, "k", "--forge", forge)
    assert holder.wait_for("opened")["bound"] == [False]
    waiting, ended = killed(world, daemon, holder)
    takes_the_validity(daemon, holder, waiting, ended)


def test_through_a_relay_the_claim_is_not_of_whoever_connected(world, redis):
    daemon = world.distlockd(redis.url, *SHORT)
    relay = world.proxy(daemon.url)
    holder = claimant(world, relay.url, "k")
    assert holder.wait_for("opened")["bound"] == [False]
    waiting, ended = killed(world, daemon, holder)
    takes_the_validity(daemon, holder, waiting, ended)


def test_by_tcp_nobody_is_bound(world, redis):
    daemon = world.distlockd(redis.url, *SHORT, listen=f"127.0.0.1:{free_port()}")
    assert not world.client(daemon.url).session(process=own_claim()).opened.process_bound


def test_an_operator_may_turn_it_off(world, redis):
    daemon = world.distlockd(redis.url, *SHORT, "--death-proof=false")
    holder = claimant(world, daemon.url, "k")
    assert holder.wait_for("opened")["bound"] == [False]
    waiting, ended = killed(world, daemon, holder)
    takes_the_validity(daemon, holder, waiting, ended)


def test_a_process_that_becomes_another_program_lives(world, redis):
    daemon = world.distlockd(redis.url, *SHORT)
    holder = claimant(world, daemon.url, "k", "--leave", "exec")
    waiting = waiter(world.client(daemon.url))
    ended = leave(holder)["at"]
    takes_the_validity(daemon, holder, waiting, ended)
    assert holder.alive()


def test_a_stopped_process_lives(world, redis):
    daemon = world.distlockd(redis.url, *SHORT)
    holder = claimant(world, daemon.url, "k")
    waiting = waiter(world.client(daemon.url))
    holder.stop()
    takes_the_validity(daemon, holder, waiting, boot_now())


# ---- distlockctl run does not claim: its command acts.

def test_a_command_that_ignores_sigterm_ends_before_the_next_holder_starts(world, redis):
    daemon = world.distlockd(redis.url)  # validity 3 s, and --kill-after 5 s
    work = ("import time, json, os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True:\n"
            " print(json.dumps({'event': 'works', 'at': time.clock_gettime(time.CLOCK_BOOTTIME)}), flush=True)\n"
            " time.sleep(0.005)\n")
    holder = ctl(world, daemon.url, "run", "k", "--", "python3", "-c", work)
    holder.wait_for("works")
    waiting = waiter(world.client(daemon.url))
    killed = boot_now()
    holder.kill()
    handed_over(waiting, killed, 0, killed, within=3.25)
    last = holder.all("works")[-1]["at"]
    assert last < waiting.at("granted"), "the command still ran when the next holder had the lock"
    assert last > killed + 0.2, "it had time to end by itself"
    assert proofs(daemon) == 0


def test_elect_does_not_claim(world, redis):
    daemon = world.distlockd(redis.url, *SHORT)
    leader = ctl(world, daemon.url, "elect", "k", "--value", "me")
    leader.wait_for("elected")
    waiting = waiter(world.client(daemon.url))
    leader.kill()
    waiting.granted()
    assert proofs(daemon) == 0
