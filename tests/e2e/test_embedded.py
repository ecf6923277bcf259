# SPDX-License-Identifier: Apache-2.0
"""--embedded-dir: the embedded store outlives its broker, so that a package's upgrade ends no job."""
import os
import pathlib
import signal
import subprocess

import pytest

from harness import DISTLOCKD, PATIENCE_S, eventually

DISTLOCKCTL = str(pathlib.Path(DISTLOCKD).with_name("distlockctl"))


@pytest.fixture
def store(world):
    folder = world.folder / "store"
    yield folder
    noted = folder / "store.pid"
    if noted.exists():
        os.kill(int(noted.read_text(encoding="ascii")), signal.SIGKILL)


class Job:
    """A command under a lock, until its stdin ends."""

    def __init__(self, daemon, *command):
        self.url = daemon.url
        self.popen = subprocess.Popen([DISTLOCKCTL, *command, "sh", "-c", "echo $DISTLOCK_TOKEN; read x; echo done"],
                                      env={**os.environ, "DISTLOCK_SERVER": self.url}, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.token = int(self.popen.stdout.readline())

    def end(self):
        """(exit code, the rest of stdout, stderr)"""
        out, err = self.popen.communicate("\n", timeout=PATIENCE_S)
        return self.popen.returncode, out, err


def restart(daemon, how):
    if how == signal.SIGTERM:
        assert daemon.drain() == 0
    else:
        daemon.kill()
    daemon.start()


def test_its_folder_may_be_told_from_here(world, store):
    daemon = world.distlockd("", "--embedded-dir", os.path.relpath(store))
    with daemon.client() as client:
        client.acquire(client.spec("job"))
    assert (store / "store.pid").exists()


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("command", [("run", "job"), ("elect", "job")], ids=["run", "elect"])
def test_a_job_goes_on_when_its_only_broker_is_restarted(world, store, how, command):
    daemon = world.distlockd("", "--embedded-dir", store, "--drain-timeout", "100ms")
    job = Job(daemon, *command)
    restart(daemon, how)
    assert "embedded store found again" in daemon.log()
    with daemon.client() as client:
        eventually(lambda: client.status().leases == 1, "the new broker having the lease")
        assert [holder.fencing_token for holder in client.lock("job").holders] == [job.token]
    assert job.end() == (0, "done\n", "")


def test_a_waiting_run_gets_the_lock_of_a_restarted_broker(world, store):
    daemon = world.distlockd("", "--embedded-dir", store, "--drain-timeout", "100ms")
    job = Job(daemon, "run", "job")
    waiter = subprocess.Popen([DISTLOCKCTL, "run", "job", "--", "echo", "mine"], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "DISTLOCK_SERVER": daemon.url})
    with daemon.client() as client:
        eventually(lambda: client.lock("job").queue_length == 1, "the waiter")
    restart(daemon, signal.SIGTERM)
    assert job.end()[0] == 0
    assert waiter.communicate(timeout=PATIENCE_S)[0] == "mine\n" and waiter.returncode == 0


def test_a_run_that_comes_during_the_drain_waits_for_the_next_broker(world, store):
    daemon = world.distlockd("", "--embedded-dir", store, "--drain-timeout", "8s")  # longer than a broker is looked for
    job = Job(daemon, "run", "job")
    daemon.terminate()
    eventually(lambda: "draining" in daemon.log(), "the drain")
    other = subprocess.Popen([DISTLOCKCTL, "run", "other", "--", "echo", "mine"], stdout=subprocess.PIPE, text=True,
                             stderr=subprocess.PIPE, env={**os.environ, "DISTLOCK_SERVER": daemon.url})
    assert daemon.exit_code() == 0
    daemon.start()
    out, err = other.communicate(timeout=PATIENCE_S)
    assert (out, other.returncode) == ("mine\n", 0) and "still waiting for default:other" in err
    assert job.end()[0] == 0


def test_who_wants_no_resume_loses_the_lock_with_the_broker(world, store):
    daemon = world.distlockd("", "--embedded-dir", store, "--drain-timeout", "100ms")
    job = Job(daemon, "run", "job", "--no-resume")
    restart(daemon, signal.SIGTERM)
    code, _, err = job.end()
    assert code == 75 and "DRAINED" in err
