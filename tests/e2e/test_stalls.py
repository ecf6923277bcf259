# SPDX-License-Identifier: Apache-2.0
"""Two rounds of `stalls.py` on each topology: bytes of connections that stalled arrive late, beside new ones."""
import pathlib
import subprocess
import sys

import pytest

from stalls import TOPOLOGIES

NO_RIGHTS = 77


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_late_bytes_take_no_lock_away(topology):
    program = pathlib.Path(__file__).with_name("stalls.py")
    ran = subprocess.run([sys.executable, "-B", program, "--topology", topology, "--rounds", "2"], capture_output=True,
                         text=True, timeout=300, check=False)
    if ran.returncode == NO_RIGHTS:
        pytest.skip(ran.stderr.strip())
    assert ran.returncode == 0, ran.stdout + ran.stderr
