# SPDX-License-Identifier: Apache-2.0
"""Addresses at which no broker can be reached: one sentence that says why, at once where waiting would not help."""
import os

import pytest

COMMANDS = [["run", "k", "true"], ["hold", "k"], ["elect", "k"], ["acquire", "k"], ["show", "k"], ["status"],
            ["elect", "k", "--leader"]]


@pytest.mark.parametrize("command", COMMANDS)
def test_an_address_with_a_scheme_of_another_world(ctl, broker, command):
    done = ctl(*command[:1], "--server", "http://10.0.0.5:7420", *command[1:])
    assert done.returncode == 64 and done.stderr.count("\n") == 1
    assert "http://10.0.0.5:7420" in done.stderr and "host:port with no scheme" in done.stderr


def test_xds_is_a_scheme_of_another_world(ctl, broker):
    """gRPC may know it, but not as it is shipped with distlock."""
    done = ctl("show", "--server", "xds:///locks", "k")
    assert done.returncode == 64 and "begins with xds://" in done.stderr


@pytest.fixture
def as_nobody(broker):
    """A prefix for a user who must not open the broker's socket."""
    path = broker.address.removeprefix("unix://")
    os.chmod(os.path.dirname(path), 0o755)
    os.chmod(path, 0o600 if os.geteuid() == 0 else 0)
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    return user if os.geteuid() == 0 else []


@pytest.mark.parametrize("command", COMMANDS)
def test_a_socket_that_this_user_must_not_open(ctl, broker, as_nobody, command):
    done = ctl(*command, prefix=as_nobody)
    assert done.returncode == 77, done.stderr
    assert done.stderr.startswith("distlockctl: permission denied") and done.stderr.count("\n") == 1
    assert broker.address in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_the_default_address(ctl, broker, command):
    if os.path.exists("/run/distlock/distlock.sock"):
        pytest.skip("there is a broker at the default socket")
    done = ctl(*command[:1], "--connect-timeout", "200ms", *command[1:], extra_env={"DISTLOCK_SERVER": ""})
    assert done.returncode == 69 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("distlockctl: cannot reach the broker at 127.0.0.1:7420 within ")
    assert "no socket /run/distlock/distlock.sock" in done.stderr
