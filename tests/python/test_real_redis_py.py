# SPDX-License-Identifier: Apache-2.0
"""distlock.compat.redis beside redis-py's own two kinds of Lock: signatures, and what a program sees step by step."""
import os
import pathlib
import subprocess

import tools
from conftest import REPOSITORY


def test_it_is_a_drop_in(world):
    store = world.redis()
    broker = world.distlockd(store.url)
    done = subprocess.run([tools.python(), pathlib.Path(__file__).with_name("redis_py.py"), broker.url, store.url],
                          capture_output=True, text=True, timeout=100,
                          env={**os.environ, "PYTHONPATH": f"{REPOSITORY}/client/python"})
    assert done.stdout == "the same\n", done.stderr
