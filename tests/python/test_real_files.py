# SPDX-License-Identifier: Apache-2.0
"""distlock.compat.filelock and distlock.compat.portalocker beside the packages themselves, and when a broker, a store
or a host ends in the middle."""
import os
import pathlib
import subprocess

import pytest
import tools
from conftest import REPOSITORY


@pytest.mark.parametrize("program", ["filelocks.py"])
def test_it_is_a_drop_in(world, tmp_path, program):
    broker = world.distlockd(world.redis().url)
    done = subprocess.run([tools.python(), pathlib.Path(__file__).with_name(program), broker.url, tmp_path],
                          capture_output=True, text=True, timeout=200,
                          env={**os.environ, "DISTLOCK_SERVER": broker.url, "PYTHONPATH": f"{REPOSITORY}/client/python"})
    assert done.stdout == "the same\n", done.stderr
