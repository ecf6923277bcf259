# SPDX-License-Identifier: Apache-2.0
"""The file system of an image, without an engine."""
import os
import pathlib
import subprocess

from charts import REPOSITORY
from harness import DISTLOCKD

DISTLOCKCTL = pathlib.Path(os.environ.get("DISTLOCKCTL", pathlib.Path(DISTLOCKD).parent / "distlockctl"))


def make(folder, name, *more):
    """The root of an image, made of stripped programs, by the commands of the Dockerfile."""
    root = folder / name
    programs = []
    for program in (DISTLOCKD, DISTLOCKCTL):
        stripped = folder / pathlib.Path(program).name
        if not stripped.exists():
            subprocess.run(["strip", "-o", stripped, program], check=True)
        programs.append(stripped)
    subprocess.run([REPOSITORY / "deploy/image/closure.sh", root, "0.1.0", *programs, *more], check=True)
    return root
