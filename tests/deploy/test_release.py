# SPDX-License-Identifier: Apache-2.0
"""The release list, with two of its stages in small: one that fails and one that passes."""
import subprocess

import pytest

from conftest import REPOSITORY

LIST = REPOSITORY / "tests/release.sh"


def run(*args):
    return subprocess.run([LIST, *args], capture_output=True, text=True, timeout=250, check=False)


def rows(record):
    """Of the track record: (stage, how it ended)."""
    lines = [line for line in record.read_text(encoding="utf-8").splitlines() if line.startswith("| 2")]
    return [(cells[4], cells[6]) for cells in ([cell.strip() for cell in line.split("|")] for line in lines)]


def test_a_stage_that_fails_fails_the_list_and_those_behind_it_still_run(tmp_path):
    # A program that ends at once is no broker.
    done = run("--quick", "--only", "mixed", "--old", "/bin/false", "--only", "security-museum",
               "--record", tmp_path / "record.md", "--logs", tmp_path / "logs")
    assert done.returncode == 1, done.stdout + done.stderr
    assert rows(tmp_path / "record.md") == [("mixed", "failed (1)"), ("security-museum", "passed")]
    assert "distlockd" in (tmp_path / "logs/mixed.log").read_text(encoding="utf-8")
    assert run("--quick", "--only", "security-museum", "--record", tmp_path / "record.md",
               "--logs", tmp_path / "logs").returncode == 0
    assert rows(tmp_path / "record.md")[2:] == [("security-museum", "passed")]


@pytest.mark.parametrize("args,sentence", [
    (["--only", "nothing"], "there is no stage 'nothing'"),
    (["--worlds", "none"], "--worlds needs a number of at least 1, not 'none'"),
    (["--soak", "0"], "--soak needs a number of at least 1, not '0'"),
    (["--old", "/no/such/program"], "there is no /no/such/program"),
])
def test_what_makes_no_sense_is_refused(args, sentence):
    done = run(*args)
    assert done.returncode == 64 and sentence in done.stderr
