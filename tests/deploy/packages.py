# SPDX-License-Identifier: Apache-2.0
"""The Debian packages of the build, made by CPack."""
import os
import pathlib
import subprocess

BUILD = pathlib.Path(os.environ.get("DISTLOCK_BUILD", pathlib.Path(__file__).resolve().parents[2] / "build/release"))


def run(*args, **kwargs):
    """The output of a command that must succeed."""
    done = subprocess.run([str(arg) for arg in args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, **kwargs)
    assert done.returncode == 0, done.stdout
    return done.stdout


def make(folder, release=1):
    """{package: path} of the packages, made in a folder."""
    run("cmake", "--build", BUILD, "--target", "distlock_package_files", "distlock_package_changelog",
        "distlockctl_man", "distlock_client", timeout=600)
    run("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", folder, "-D", f"CPACK_DEBIAN_PACKAGE_RELEASE={release}",
        cwd=folder, timeout=300)
    made = {path.name.split("_")[0]: path for path in pathlib.Path(folder).glob("*.deb")}
    assert set(made) == {"distlock-server", "distlock", "libdistlock-dev"}
    return made


def field(package, name):
    return run("dpkg-deb", "--field", package, name).strip()


def files(package):
    """The paths of the files in a package."""
    rows = [line.split(None, 5) for line in run("dpkg-deb", "--contents", package).splitlines()]
    return {row[5].removeprefix(".").split(" -> ")[0] for row in rows if not row[0].startswith("d")}
