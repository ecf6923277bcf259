# SPDX-License-Identifier: Apache-2.0
"""Both targets of the Dockerfile, built by buildah: what an engine reads in them, and what runs. The base image is made
by debootstrap, because nothing here is fetched from a registry of images. Needs root."""
import json
import os
import pathlib
import pwd
import shutil
import subprocess
import tempfile

import pytest

from chroot import Chroot, output
from conftest import REPOSITORY
from harness import eventually

BASE = "docker.io/library/debian:12-slim"
SIZE_MAX_MB = {"broker": 45, "standalone": 50}
CACHE = pathlib.Path(os.environ.get("CCACHE_DIR", pathlib.Path.home() / ".cache/ccache"))
HOME_OF_ROOT = pwd.getpwnam("root").pw_dir
ARGUMENTS = {"VERSION": "7.8.9", "REVISION": "abcdef0", "SOURCE": "https://example.org/source"}


class Buildah:
    """buildah with a storage of its own."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.flags = ["--root", self.folder / "storage", "--runroot", self.folder / "run",
                      "--storage-driver", "overlay"]

    def argv(self, *args):
        return [str(arg) for arg in ("buildah", *self.flags, *args)]

    def __call__(self, *args, timeout=120):
        return output(*self.argv(*args), timeout=timeout).strip()

    def make_base(self):
        container = self("from", "scratch")
        Chroot(self("mount", container))
        self("umount", container)
        self("commit", "--rm", container, BASE, timeout=600)

    def build(self, target):
        """The compiler's cache is that of this machine: an image is built anew in minutes instead of a quarter hour."""
        CACHE.mkdir(parents=True, exist_ok=True)
        arguments = [word for name, value in ARGUMENTS.items() for word in ("--build-arg", f"{name}={value}")]
        self("build", "--isolation", "chroot", "--network", "host", "--pull-never", "--layers", "--format", "docker",
             "--volume", f"{CACHE}:{HOME_OF_ROOT}/.cache/ccache", *arguments, "--target", target,
             "--tag", f"distlock:{target}", REPOSITORY, timeout=3600)

    def close(self):
        for args in (self.argv("umount", "--all"), self.argv("rm", "--all"),
                     ["umount", "--recursive", "--lazy", self.folder / "storage/overlay"]):
            subprocess.run(args, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)

    def config(self, image):
        return json.loads(self("inspect", "--type", "image", image))["Docker"]["config"]


@pytest.fixture(scope="module")
def buildah():
    folder = tempfile.mkdtemp(prefix="dlimg", dir=os.environ.get("DISTLOCK_BUILD"))
    made = Buildah(folder)
    try:
        made.make_base()
        for target in ("broker", "standalone"):
            made.build(target)
        yield made
    finally:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["broker", "standalone"])
def target(request):
    return request.param


def test_what_an_engine_reads(buildah, target):
    config = buildah.config(f"distlock:{target}")
    assert config["User"] == "10001:10001" and config["StopSignal"] == "SIGTERM"
    assert config["Entrypoint"] == ["/usr/local/bin/distlockd"]
    assert config["Healthcheck"]["Test"] == ["CMD", "/usr/local/bin/distlockctl", "status", "--alive"]
    assert set(config["ExposedPorts"]) == {"7420/tcp", "9420/tcp"}
    label = {name.removeprefix("org.opencontainers.image."): value for name, value in config["Labels"].items()}
    assert {name: label[name.lower()] for name in ARGUMENTS} == ARGUMENTS
    assert (label["licenses"], label["base.name"]) == ("Apache-2.0", "debian:12-slim")


def test_nothing_is_in_it_but_what_runs(buildah, target):
    container = buildah("from", f"distlock:{target}")
    root = pathlib.Path(buildah("mount", container))
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    size = sum(path.stat().st_size for path in files) / 1e6
    print(f"{target}: {size:.1f} MB")
    assert size <= SIZE_MAX_MB[target]
    programs = {path.name for path in files if path.stat().st_mode & 0o111 and ".so" not in path.name}
    assert programs == {"distlockd", "distlockctl"} | ({"redis-server"} if target == "standalone" else set())
    assert (root / "run/distlock").stat().st_uid == 10001


def test_a_lock_is_taken_in_it(buildah):
    container = buildah("from", "distlock:standalone")
    config = buildah.config("distlock:standalone")

    def inside(*command):
        return buildah.argv("run", "--isolation", "chroot", "--user", config["User"], container, "--", *command)
    with subprocess.Popen(inside(*config["Entrypoint"], "--http", "127.0.0.1:0"), stderr=subprocess.PIPE,
                          text=True) as broker:
        try:
            for line in broker.stderr:
                if "distlockd ready" in line:
                    break
            done = subprocess.run(inside("distlockctl", "run", "first", "--", "distlockctl", "ls"),
                                  capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0 and "default:first" in done.stdout, done.stderr
        finally:
            broker.terminate()
            eventually(lambda: broker.poll() is not None, "its end")
