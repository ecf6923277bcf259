# SPDX-License-Identifier: Apache-2.0
"""Runs the HEALTHCHECK of the Dockerfile as the image would run it. A broker is healthy while it is alive, whatever the
state of its store, since a restart would cost its clients their locks."""
import json
import os
import pathlib
import re
import subprocess

import pytest

from harness import DISTLOCKD, REPOSITORY, Redis, eventually, free_port


def health_command():
    """The command, with the program at the place from which the Dockerfile copies it."""
    text = (REPOSITORY / "Dockerfile").read_text(encoding="utf-8")
    program, *args = json.loads(re.search(r"^HEALTHCHECK .*CMD (\[.*\])$", text, re.MULTILINE)[1])
    copied = re.findall(rf"^COPY (\S+) {re.escape(program)}$", text, re.MULTILINE)
    built = pathlib.Path(DISTLOCKD).parent / pathlib.Path(program).name
    return [str(REPOSITORY / copied[0]) if copied else str(built), *args]


def health(**env):
    path = f"{pathlib.Path(DISTLOCKD).parent}:{os.environ['PATH']}"
    return subprocess.run(health_command(), env={"PATH": path, **env}, capture_output=True, text=True, timeout=30,
                          check=False).returncode


@pytest.fixture(params=["127.0.0.1", "0.0.0.0", ""])
def http(request):
    return f"{request.param}:{free_port()}" if request.param else ""


def start(world, http, redis_url, *args):
    daemon = world.distlockd(redis_url, "--http", http, *args, await_ready=False)
    return daemon, {"DISTLOCK_HTTP": http, "DISTLOCK_SERVER": daemon.url}


def test_a_broker_whose_store_is_down_is_healthy(world, http):
    redis = world.redis()
    daemon, env = start(world, http, redis.url)
    daemon.await_ready(daemon.serving)
    assert health(**env) == 0
    redis.kill()
    eventually(lambda: not daemon.serving(), "the loss of the store")
    assert health(**env) == 0
    daemon.stop()
    assert health(**env) == 69
    daemon.kill()
    assert health(**env) == 69


def test_a_broker_that_waits_for_its_store_is_healthy(world):
    http = f"127.0.0.1:{free_port()}"
    daemon, env = start(world, http, Redis(world.folder, "late").url, "--wait-for-store")
    eventually(lambda: "waiting for the store" in daemon.log(), "a word about waiting")
    assert health(**env) == 0
