# SPDX-License-Identifier: Apache-2.0
"""The standard tools build the package; what they build works in an environment that has nothing else, with the newest
gRPC."""
import shutil
import subprocess
import tarfile
import zipfile

import distlock
import pytest
import tools
from conftest import REPOSITORY

PACKAGE = REPOSITORY / "client/python"
PROGRAM = """
import asyncio, sys, distlock
with distlock.connect(sys.argv[1]) as dl, dl.lock("k", wait=20) as held:
    print(held.is_held, distlock.__version__)
async def main():
    async with distlock.aio.connect(sys.argv[1]) as dl:
        async with dl.permits("p", limit=2, wait=20) as held:
            print(held.is_held)
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A folder with the wheel and the source archive."""
    folder = tmp_path_factory.mktemp("built")
    source = folder / "source"  # building writes into it
    shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    done = subprocess.run([tools.python(), "-m", "build", "--no-isolation", "--outdir", folder, source],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_they_hold_all(built):
    sources = {str(path.relative_to(PACKAGE)) for path in (PACKAGE / "distlock").rglob("*.py*")
               if path.suffix in (".py", ".pyi")} | {"distlock/py.typed"}
    wheel, = built.glob("*.whl")
    archive, = built.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()
        about = opened.read(f"distlock-{distlock.__version__}.dist-info/METADATA").decode()
    assert sources <= set(names) and "Requires-Dist: grpcio" in about and "License" in about
    assert not [name for name in names if not name.startswith("distlock")]
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert sources | {"README.md", "pyproject.toml"} <= names


def test_the_wheel_in_a_fresh_environment_takes_locks(built, world, tmp_path):
    broker = world.distlockd(world.redis().url)
    subprocess.run([tools.python(), "-m", "venv", tmp_path / "fresh"], check=True)
    python = tmp_path / "fresh/bin/python"
    wheel, = built.glob("*.whl")
    installed = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index",
                                "--find-links", tools.folder() / "wheels", wheel], capture_output=True, text=True)
    assert installed.returncode == 0, installed.stderr
    done = subprocess.run([python, "-c", PROGRAM, broker.url], capture_output=True, text=True, timeout=100,
                          cwd=tmp_path, env={})
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", distlock.__version__, "True"]
