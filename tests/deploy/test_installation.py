# SPDX-License-Identifier: Apache-2.0
"""The packages in a bare Debian: install, first lock, upgrade, remove, purge."""
import shutil
import tempfile
import time

import pytest

from chroot import Chroot
from packages import make

FIRST_LOCK_S = 60
SERVE = "setpriv --reuid=distlock --regid=distlock --clear-groups -- distlockd --config /etc/distlock/distlockd.yaml"
FIRST_LOCK = f"""
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y ./distlock-server_* ./distlock_*
{SERVE} & distlockctl run first -- sh -c 'echo "token $DISTLOCK_TOKEN"'
"""


@pytest.fixture(scope="module")
def debian():
    folder = tempfile.mkdtemp(prefix="dldeb")
    yield Chroot(folder)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """Those of this version, and those of the next."""
    folder = tmp_path_factory.mktemp("packages")
    made = []
    for release in (1, 2):
        (folder / str(release)).mkdir()
        made.append(make(folder / str(release), release))
    return made


def bring(debian, packages):
    for path in packages.values():
        shutil.copy(path, debian.folder)


def test_from_a_bare_debian_to_the_first_lock_and_away_again(debian, packages, record_property):
    old, new = packages
    before = set(debian.sh("find /etc /usr/bin /usr/share/man /usr/lib/systemd /var/lib -path '*distlock*'").split())
    bring(debian, old)
    begin = time.monotonic()
    assert "token " in debian.sh(FIRST_LOCK)
    took = time.monotonic() - begin
    print(f"from a bare Debian to the first lock: {took:.1f} s")
    record_property("first_lock_s", took)
    assert took <= FIRST_LOCK_S
    assert debian.sh("id -nG distlock").strip() == "distlock"
    assert debian.sh("ldd /usr/bin/distlockd").count("not found") == 0

    debian.sh("echo 'log-format: json' >>/etc/distlock/distlockd.yaml; rm /distlock*.deb /libdistlock*.deb")
    bring(debian, new)
    debian.sh("apt-get install -qq -y ./distlock-server_* ./distlock_* </dev/null")
    assert debian.sh("dpkg-query -W -f '${Version}' distlock-server").endswith("-2")
    assert "log-format: json" in debian.sh("cat /etc/distlock/distlockd.yaml")
    assert '"msg"' in debian.sh(f"{SERVE} 2>&1 & sleep 0.1; distlockctl run second -- true; wait & sleep 0.1; exit 0")

    debian.sh("apt-get remove -qq -y distlock-server distlock")
    assert "log-format: json" in debian.sh("cat /etc/distlock/distlockd.yaml")
    debian.sh("apt-get purge -qq -y distlock-server distlock; rm -f /distlock*.deb /libdistlock*.deb")
    left = debian.sh("find / -xdev -path /proc -prune -o -name '*distlock*' -print | grep -v '^/var/\\(log\\|cache\\)' "
                     "|| true").split()
    assert set(left) - before == set()


def test_a_program_is_built_with_the_library(debian, packages):
    shutil.copy(packages[0]["libdistlock-dev"], debian.folder)
    debian.sh("DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends ./libdistlock-dev_* g++ "
              "cmake ninja-build pkg-config protobuf-compiler-grpc")
    project = debian.folder / "project"
    project.mkdir()
    (project / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\nproject(try CXX)\n"
                                            "find_package(distlock REQUIRED)\nadd_executable(try try.cc)\n"
                                            "target_link_libraries(try distlock::client)\n", encoding="utf-8")
    (project / "try.cc").write_text("#include <distlock/client.h>\nint main() { distlock::Client client; }\n",
                                    encoding="utf-8")
    debian.sh("cmake -S /project -B /project/build -G Ninja && cmake --build /project/build")
