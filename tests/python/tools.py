# SPDX-License-Identifier: Apache-2.0
"""The virtual environment of tools.sh, and programs that run in it."""
import functools
import os
import pathlib
import subprocess

from conftest import REPOSITORY
from harness import Process


@functools.lru_cache(None)
def folder():
    made = subprocess.run([REPOSITORY / "tests/python/tools.sh"], stdout=subprocess.PIPE, text=True, check=True)
    return pathlib.Path(made.stdout.strip())


def python():
    return folder() / "venv/bin/python"


class Program(Process):
    """A Python module of that environment, with the package of the source tree, and with `files` beside it."""

    def __init__(self, world, name, *argv, files=None, variables=None):
        for file, text in (files or {}).items():
            (world.folder / file).write_text(text)
        path = os.pathsep.join([str(REPOSITORY / "client/python"), str(world.folder)])
        settings = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **(variables or {})}
        super().__init__(name, ["env", "-C", world.folder, *(f"{key}={value}" for key, value in settings.items()),
                                python(), "-m", *argv], world.folder)
        world._add(self)
        self.launch()
