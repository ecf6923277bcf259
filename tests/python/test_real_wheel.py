# SPDX-License-Identifier: Apache-2.0
"""The standard tools build the package; what they build works in an environment that has nothing else, with the newest
gRPC, and with type checkers."""
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
        licence = opened.read(f"distlock-{distlock.__version__}.dist-info/licenses/LICENSE").decode()
    assert sources <= set(names)
    assert not [name for name in names if not name.startswith("distlock")]
    for line in (f"Version: {distlock.__version__}", "License-Expression: Apache-2.0", "License-File: LICENSE",
                 "Requires-Python: >=3.10", "Requires-Dist: grpcio<2,>=1.51", "Requires-Dist: protobuf<8,>=4.21",
                 "Project-URL: Homepage, https://distlock.dev", "Description-Content-Type: text/markdown"):
        assert line in about.split("\n"), about
    assert licence == (REPOSITORY / "LICENSE").read_text()
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
        whole = all(member.isreg() or member.isdir() for member in opened.getmembers())
    assert sources | {"README.md", "pyproject.toml", "LICENSE"} <= names and whole


@pytest.fixture(scope="module", params=["*.whl", "*.tar.gz"])
def installed(request, built, tmp_path_factory):
    """A Python that has nothing but what one of the two, and pip, have installed, from a folder, as the README does."""
    folder = tmp_path_factory.mktemp("fresh")
    subprocess.run([tools.python(), "-m", "venv", "v"], cwd=folder, check=True)
    made, = built.glob(request.param)
    pip = subprocess.run(["v/bin/pip", "install", "--quiet", "--disable-pip-version-check", "--no-index",
                          "--find-links", tools.folder() / "wheels", made], cwd=folder, capture_output=True, text=True)
    assert pip.returncode == 0, pip.stderr
    return folder / "v/bin/python"


def test_what_is_installed_takes_locks(installed, world, tmp_path):
    broker = world.distlockd(world.redis().url)
    done = subprocess.run([installed, "-c", PROGRAM, broker.url], capture_output=True, text=True, timeout=100,
                          cwd=tmp_path, env={})
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", distlock.__version__, "True"]


def test_type_checkers_know_what_is_installed(installed):
    """The README's first program, as a user's."""
    done = subprocess.run([PACKAGE / "lint.sh", installed], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("distlock.client.Held") >= 1 and done.stdout.count('"wiat"') == 2


def test_the_stubs_are_what_the_pinned_protoc_makes(tmp_path):
    subprocess.run([PACKAGE / "stubs.sh", tmp_path], check=True, timeout=300)
    made = sorted((tmp_path / "distlock/v1").iterdir())
    assert len(made) == 6
    for path in made:
        kept = PACKAGE / "distlock/v1" / path.name
        assert kept.read_text() == path.read_text(), f"run client/python/stubs.sh: {path.name}"
