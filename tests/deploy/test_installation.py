# SPDX-License-Identifier: Apache-2.0
"""The packages in a bare Debian: first lock, the service under its systemd, upgrade, remove, purge. In this order: each
test goes on where the one before has ended."""
import shutil
import tempfile
import time

import pytest

from chroot import Chroot
from harness import eventually
from packages import make

FIRST_LOCK_S = 60
SERVE = "setpriv --reuid=distlock --regid=distlock --clear-groups -- distlockd --config /etc/distlock/distlockd.yaml"
FIRST_LOCK = f"""
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y ./distlock-server_* ./distlock_*
{SERVE} & until [ -S /run/distlock/distlock.sock ]; do sleep 0.05; done
distlockctl run first -- sh -c 'echo "token $DISTLOCK_TOKEN"'
"""
OURS = "find / -xdev -path /proc -prune -o -name '*distlock*' -print | grep -v '^/var/\\(log\\|cache\\)' || true"


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
    for old in debian.folder.glob("*.deb"):
        old.unlink()
    for path in packages.values():
        shutil.copy(path, debian.folder)


def test_from_a_bare_debian_to_the_first_lock(debian, packages, record_property):
    bring(debian, packages[0])
    begin = time.monotonic()
    assert "token " in debian.sh(FIRST_LOCK)
    took = time.monotonic() - begin
    print(f"from a bare Debian to the first lock: {took:.1f} s")
    record_property("first_lock_s", took)
    assert took <= FIRST_LOCK_S
    assert debian.sh("id -nG distlock").strip() == "distlock"


@pytest.fixture(scope="module")
def booted(debian):
    with debian.boot() as machine:
        eventually(lambda: machine.state("ActiveState") == "active", "the service being active")
        yield machine


def test_the_service_runs_in_its_cage(booted):
    assert booted.state("StatusText") == "serving"
    status = booted.sh("cat /proc/$(systemctl show -P MainPID distlockd)/status")
    for line in ("Seccomp:\t2", "NoNewPrivs:\t1", "CapBnd:\t0000000000000000"):
        assert line in status
    assert "token " in booted.sh("distlockctl run first -- sh -c 'echo token $DISTLOCK_TOKEN'")


def test_a_restart_waits_for_the_holder(booted):
    script = """
rm -f /tmp/held; distlockctl run job -- sh -c 'touch /tmp/held; sleep 3; echo the work is done' & holder=$!
until [ -e /tmp/held ]; do sleep 0.05; done
systemctl restart distlockd
wait $holder
systemctl show -P NRestarts -P Result distlockd
"""
    assert booted.sh(script).split("\n")[:3] == ["the work is done", "success", "0"]


def test_a_broker_that_is_stuck_is_started_anew(booted):
    before = booted.state("MainPID")
    booted.sh(f"kill -STOP {before}")
    eventually(lambda: booted.state("NRestarts") == "1" and booted.state("ActiveState") == "active", "a new start")
    assert booted.state("MainPID") != before


def test_a_wrong_configuration_is_not_tried_again(booted):
    booted.sh("cp /etc/distlock/distlockd.yaml /tmp/; echo 'no-such: 1' >>/etc/distlock/distlockd.yaml; "
              "! systemctl restart distlockd 2>/dev/null")
    assert (booted.state("ActiveState"), booted.state("ExecMainStatus")) == ("failed", "78")
    booted.sh("cp /tmp/distlockd.yaml /etc/distlock/; systemctl reset-failed distlockd; systemctl start distlockd")


def test_an_upgrade_keeps_the_configuration_restarts_the_service_and_ends_no_job(booted, debian, packages):
    booted.sh("printf 'log-format: json\\ndrain-timeout: 1s\\n' >>/etc/distlock/distlockd.yaml; "
              "systemctl restart distlockd")
    before = booted.state("MainPID")
    bring(debian, packages[1])
    script = """
rm -f /tmp/held /tmp/upgraded
distlockctl run job -- sh -c 'touch /tmp/held; until [ -e /tmp/upgraded ]; do sleep 0.05; done' & holder=$!
until [ -e /tmp/held ]; do sleep 0.05; done
dpkg -i --force-confold /distlock-server_* /distlock_*
touch /tmp/upgraded
wait $holder
echo "job ended with $?"
"""
    assert "job ended with 0" in booted.sh(script).split("\n")
    assert booted.sh("dpkg-query -W -f '${Version}' distlock-server").endswith("-2")
    assert booted.state("ActiveState") == "active" and booted.state("MainPID") != before
    assert "log-format: json" in booted.sh("cat /etc/distlock/distlockd.yaml")


def test_remove_stops_the_service_and_keeps_the_configuration(booted):
    booted.sh("dpkg --remove distlock-server distlock")
    assert booted.state("ActiveState") in ("inactive", "failed")
    booted.sh("while [ -e /run/distlock/store/store.pid ]; do sleep 0.05; done")  # its store has ended, too
    assert "log-format: json" in booted.sh("cat /etc/distlock/distlockd.yaml")


def test_purge_leaves_nothing(booted, debian):
    booted.sh("dpkg --purge distlock-server distlock; rm -f /*.deb")
    assert booted.sh(OURS).split() == []


def test_a_program_is_built_with_the_library(debian, packages):
    bring(debian, packages[0])
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
