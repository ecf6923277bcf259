# SPDX-License-Identifier: Apache-2.0
"""The examples do what they show."""
import os
import subprocess
import sys
import urllib.error
import urllib.request

import distlock
import pytest
from conftest import REPOSITORY

EXAMPLES = REPOSITORY / "client/python/examples"


@pytest.fixture
def environment(world):
    broker = world.distlockd(world.redis().url)
    return {**os.environ, "DISTLOCK_SERVER": broker.url, "PYTHONPATH": os.pathsep.join(sys.path)}


def test_the_tour_prints_what_it_shows(environment):
    done = subprocess.run([sys.executable, EXAMPLES / "tour.py"], env=environment, capture_output=True, text=True,
                          timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (EXAMPLES / "tour.txt").read_text(encoding="utf-8")


def test_the_service(environment):
    service = subprocess.Popen([sys.executable, EXAMPLES / "service.py", "0"], env=environment, stdout=subprocess.PIPE,
                               text=True)
    try:
        port = int(service.stdout.readline().split()[-1])
        url = f"http://127.0.0.1:{port}/transfer?from=7&to=9&amount=5"
        with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=60) as answer:
            assert answer.read().decode().startswith("moved 5 under the tokens [")
        with distlock.connect(environment["DISTLOCK_SERVER"]) as dl, dl.lock("account/9"):
            with pytest.raises(urllib.error.HTTPError) as busy:
                urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=60)
            assert busy.value.code == 409
            busy.value.close()
    finally:
        service.kill()
        service.communicate()
