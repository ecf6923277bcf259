# SPDX-License-Identifier: Apache-2.0
"""deploy/compose/compose.yaml by the reader of the Compose Specification."""
import shutil
import subprocess

from charts import tool
from conftest import REPOSITORY

COMPOSE = REPOSITORY / "deploy/compose/compose.yaml"


def read(path):
    return subprocess.run([tool("compose"), path], capture_output=True, text=True, timeout=60, check=False)


def test_it_follows_the_specification():
    done = read(COMPOSE)
    assert done.returncode == 0, done.stderr
    assert "broker-2:" in done.stdout


def test_the_reader_sees_a_wrong_field(tmp_path):
    wrong = tmp_path / "compose.yaml"
    shutil.copy(COMPOSE, wrong)
    wrong.write_text(wrong.read_text(encoding="utf-8").replace("restart:", "restarts:"), encoding="utf-8")
    assert read(wrong).returncode != 0
