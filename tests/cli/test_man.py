# SPDX-License-Identifier: Apache-2.0
"""man: each page is proper roff, and has every flag of the help."""
import re
import subprocess

import pytest

from test_commands import COMMANDS


def read_by_man(folder, text, *flags):
    path = f"{folder}/page.1"
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    return subprocess.run(["man", *flags, "-E", "UTF-8", "-l", "-Tutf8", path], check=True, capture_output=True,
                          text=True, env={"PATH": "/usr/bin:/bin", "MANWIDTH": "100", "LC_ALL": "C.UTF-8"})


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_a_page(ctl, broker, folder, command):
    words = [] if command is None else [command]
    page = ctl("man", *words).stdout
    assert read_by_man(folder, page, "--warnings", "-Z").stderr == ""
    shown = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", read_by_man(folder, page).stdout)
    flags = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", ctl(*words, "--help").stdout.split("Examples:")[0]))
    assert flags and [flag for flag in flags if flag not in shown] == []
    if command is not None:
        assert "EXAMPLES" in shown and f"distlockctl {command}" in shown
