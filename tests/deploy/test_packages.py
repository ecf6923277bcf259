# SPDX-License-Identifier: Apache-2.0
"""What is in the Debian packages, and what lintian says of them."""
import re
import subprocess

import pytest

from conftest import REPOSITORY
from packages import field, files, make, run

# lintian's tags that do not fit packages made outside Debian, with the reason.
NOT_FOR_US = {
    "initial-upload-closes-no-bugs": "there is no bug report in Debian to close",
}


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    return make(tmp_path_factory.mktemp("packages"))


@pytest.fixture(scope="module")
def unpacked(packages, tmp_path_factory):
    folder = tmp_path_factory.mktemp("root")
    for path in packages.values():
        run("dpkg-deb", "--extract", path, folder)
    return folder


def test_the_server_brings_daemon_unit_user_and_configuration(packages):
    assert files(packages["distlock-server"]) >= {
        "/usr/bin/distlockd", "/etc/distlock/distlockd.yaml", "/usr/lib/systemd/system/distlockd.service",
        "/usr/lib/systemd/system/distlockd.socket",
        "/usr/lib/sysusers.d/distlock.conf", "/usr/lib/tmpfiles.d/distlock.conf",
        "/usr/share/man/man8/distlockd.8.gz", "/usr/share/doc/distlock-server/copyright"}
    assert "libprotobuf" in field(packages["distlock-server"], "Depends")
    assert run("dpkg-deb", "--info", packages["distlock-server"], "conffiles").split() == [
        "/etc/distlock/distlockd.yaml"]


def test_the_client_brings_program_pages_and_completion(packages, unpacked):
    assert files(packages["distlock"]) >= {
        "/usr/bin/distlockctl", "/usr/share/man/man1/distlockctl.1.gz", "/usr/share/man/man1/distlockctl-run.1.gz",
        "/usr/share/bash-completion/completions/distlockctl", "/usr/share/zsh/vendor-completions/_distlockctl",
        "/usr/share/fish/vendor_completions.d/distlockctl.fish"}
    listed = run(unpacked / "usr/bin/distlockctl", "--help").split("\nSubcommands:\n")[1].split("\n\n")[0]
    commands = re.findall(r"^  ([a-z-]+) ", listed, re.MULTILINE)
    assert len(commands) > 15
    for command in commands:
        assert (unpacked / f"usr/share/man/man1/distlockctl-{command}.1.gz").exists(), command


def test_the_library_brings_headers_archives_and_protos(packages):
    assert files(packages["libdistlock-dev"]) >= {
        "/usr/include/distlock/client.h", "/usr/share/distlock/proto/distlock/v1/lock_service.proto"}
    assert any(path.endswith("/distlockConfig.cmake") for path in files(packages["libdistlock-dev"]))
    assert any(path.endswith("/libdistlock_client.a") for path in files(packages["libdistlock-dev"]))


def test_nothing_needs_usr_local(packages, unpacked):
    for path in packages.values():
        assert not [name for name in files(path) if name.startswith("/usr/local")]
    linked = run("ldd", unpacked / "usr/bin/distlockd")
    assert "not found" not in linked and "/usr/local" not in linked
    assert run(unpacked / "usr/bin/distlockd", "--version").startswith("distlockd ")


def test_the_page_of_the_daemon_has_every_option_and_is_proper(unpacked):
    page = unpacked / "usr/share/man/man8/distlockd.8.gz"
    done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", page], capture_output=True, text=True,
                          check=True, env={"PATH": "/usr/bin:/bin", "MANWIDTH": "200", "LC_ALL": "C.UTF-8"})
    shown = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", done.stdout)
    options = set(re.findall(r"^  (--[a-z-]+)", run(unpacked / "usr/bin/distlockd", "--help-all"), re.MULTILINE))
    assert done.stderr == "" and len(options) > 40
    assert [option for option in options if option not in shown] == []


def test_lintian_finds_no_error(packages):
    done = subprocess.run(["lintian", "--fail-on", "none", "--tag-display-limit", "0", "--allow-root",
                           "--suppress-tags", ",".join(NOT_FOR_US), *packages.values()], capture_output=True, text=True,
                          timeout=300, check=True)
    assert not [line for line in done.stdout.splitlines() if line.startswith("E:")], done.stdout


def test_the_scripts_are_proper_shell():
    for name in ("postinst", "prerm", "postrm"):
        subprocess.run(["sh", "-n", REPOSITORY / "deploy/deb" / name], check=True)
