# SPDX-License-Identifier: Apache-2.0
"""token new --out: the token in a file that its owner alone reads, and only the hash printed; and what is said of a
file without a token."""
import hashlib
import json
import os
import re

import pytest


def test_the_token_is_written_and_its_line_printed(ctl, tmp_path):
    path = tmp_path / "ops.token"
    done = ctl("token", "new", "ops", "--out", str(path))
    token = path.read_text()
    assert re.fullmatch(r"dlt_[A-Za-z0-9_-]{43}\n", token) and os.stat(path).st_mode & 0o777 == 0o600
    line = f"ops:{hashlib.sha256(token.strip().encode()).hexdigest()}"
    assert (done.returncode, done.stdout, done.stderr) == (0, line + "\n", "")
    again = ctl("token", "new", "ops", "--out", str(path))
    assert again.returncode == 78 and str(path) in again.stderr and "may be in use" in again.stderr
    assert path.read_text() == token
    nowhere = ctl("token", "new", "ops", "--out", str(tmp_path / "no" / "ops.token"))
    assert nowhere.returncode == 78 and "No such file" in nowhere.stderr and nowhere.stdout == ""


def test_as_json(ctl, tmp_path):
    path = str(tmp_path / "t")
    done = ctl("token", "new", "ops", "--out", path, "-o", "json")
    assert list(json.loads(done.stdout)) == ["file", "line"]
    assert list(json.loads(ctl("token", "new", "ops", "-o", "json").stdout)) == ["token", "line"]


@pytest.mark.parametrize("text, problem", [
    (None, "cannot be read: No such file or directory"),
    ("", "is empty"),
    ("dlt_a\nops:0123\n", "has 2 lines; it must hold the token alone"),
    ("ops:" + "0a" * 32, "holds a hash, which is for the broker's --token-file; it must hold the token"),
    ("two words", "holds no token: it has a space, or a character that is not ASCII"),
])
@pytest.mark.parametrize("command", [["status"], ["run", "k", "true"], ["acquire", "k"]])
def test_a_file_without_a_token(ctl, broker, tmp_path, text, problem, command):
    path = tmp_path / "token"
    if text is not None:
        path.write_text(text)
    done = ctl(*command, extra_env={"DISTLOCK_TOKEN_FILE": str(path)})
    assert (done.returncode, done.stderr) == (64, f"distlockctl: DISTLOCK_TOKEN_FILE: '{path}' {problem}\n")


def test_what_token_new_writes_is_shown(ctl, broker, tmp_path):
    path = tmp_path / "token"
    ctl("token", "new", "ops", "--out", str(path))
    assert ctl("status", extra_env={"DISTLOCK_TOKEN_FILE": str(path)}).returncode == 0
