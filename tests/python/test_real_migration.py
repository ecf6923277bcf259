# SPDX-License-Identifier: Apache-2.0
"""The snippets of client/migration.md in Python and shell do run."""
import os
import pathlib
import subprocess

import tools
from conftest import REPOSITORY
from harness import DISTLOCKD


def test_the_snippets_run(world, tmp_path):
    store = world.redis()
    broker = world.distlockd(store.url)
    ctl = pathlib.Path(DISTLOCKD).with_name("distlockctl")
    assert ctl.exists(), f"{ctl} is not built"
    done = subprocess.run([tools.python(), pathlib.Path(__file__).with_name("migration.py"), broker.url, store.url, ctl,
                           tmp_path], capture_output=True, text=True, timeout=100,
                          env={**os.environ, "PYTHONPATH": f"{REPOSITORY}/client/python"})
    assert done.returncode == 0 and done.stdout.endswith("all ran\n"), done.stdout + done.stderr
