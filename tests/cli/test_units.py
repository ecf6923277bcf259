# SPDX-License-Identifier: Apache-2.0
"""The units of deploy/jobs.md: their commands end with the exit codes that the units name. And the tables of exit codes
are those of the programs."""
import configparser
import os
import pathlib
import re
import signal

import pytest

from broker import eventually
from ctl import ends

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
NIGHTLY, SCHEDULER = "nightly.service", "scheduler.service"
LOCKS = {NIGHTLY: "backup", SCHEDULER: "scheduler"}


def read(path):
    return (REPOSITORY / path).read_text(encoding="utf-8")


def service(name):
    """Its section [Service]."""
    [text] = re.findall(rf"^```ini file={re.escape(name)}\n(.*?)^```", read("deploy/jobs.md"), re.M | re.S)
    unit = configparser.ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read_string(text)
    return unit["Service"]


def codes(name, setting):
    return set(map(int, service(name)[setting].split()))


class Unit:
    """Starts the command of a unit."""

    def __init__(self, ctl, broker, folder, name):
        self.ctl, self.broker, self.key = ctl, broker, LOCKS[name]
        self.job = pathlib.Path(folder, "job")
        self.command("exec sleep 600")
        program, *self.argv = service(name)["ExecStart"].split()
        assert program == "/usr/bin/distlockctl"
        self.argv = [re.sub(r"^/usr/local/bin/\w+$", str(self.job), word) for word in self.argv]

    def command(self, text):
        self.job.write_text(f"#!/bin/sh\n{text}\n", encoding="ascii")
        self.job.chmod(0o755)

    def start(self, *flags, wait=None, **how):
        """wait: where the page waits for minutes; in it the broker must answer, too."""
        argv = [wait or word if before == "-w" else word for before, word in zip(["", *self.argv], self.argv)]
        return self.ctl.start(*argv[:2], *flags, *argv[2:], **how)

    def runs(self):
        """Its process, while the command runs."""
        self.command("touch $0.runs; exec sleep 600")
        process = self.start()
        eventually(pathlib.Path(f"{self.job}.runs").exists, "the command")
        return process


@pytest.fixture(params=[NIGHTLY, SCHEDULER])
def name(request):
    return request.param


@pytest.fixture
def unit(ctl, broker, folder, name):
    if name == NIGHTLY and not broker.real:
        pytest.skip("a fake broker knows no min_hold")
    return Unit(ctl, broker, folder, name)


def test_the_codes_of_the_units_are_those_that_are_tested_here():
    assert codes(NIGHTLY, "SuccessExitStatus") == {99, 143}
    assert codes(NIGHTLY, "RestartForceExitStatus") == {69, 75}
    assert codes(SCHEDULER, "SuccessExitStatus") == {143}
    assert codes(SCHEDULER, "RestartPreventExitStatus") == {64, 77}


def test_systemctl_stop(unit, name):
    """KillMode=mixed: the first signal is for the main process alone."""
    process = unit.runs()
    process.send_signal(signal.SIGTERM)
    assert ends(process) == 143 and service(name)["KillMode"] == "mixed"
    eventually(lambda: not unit.broker.held(unit.key), "the lock being given back")


@pytest.mark.parametrize("name", [NIGHTLY], indirect=True)
def test_another_host_has_the_lock(unit, ctl):
    assert ctl("acquire", unit.key).returncode == 0
    process = unit.start(wait="10s")
    assert process.communicate()[1] == "" and process.returncode == 99


@pytest.mark.parametrize("name", [NIGHTLY], indirect=True)
def test_a_job_that_failed_stays_failed(unit):
    unit.command("exit 3")
    assert ends(unit.start()) == 3


def test_no_broker(unit):
    assert ends(unit.start(wait="1s", extra_env={"DISTLOCK_SERVER": "unix:///nobody/here.sock"})) == 69


def test_a_lock_that_is_lost(unit, ctl):
    process = unit.runs()
    assert ctl("force-release", unit.key).returncode == 0 if unit.broker.real else not unit.broker.lose(unit.key)
    assert ends(process) == 75


def test_a_wrong_flag(unit):
    assert ends(unit.start("--no-such-flag")) == 64


def test_a_user_who_must_not_open_the_socket(unit, folder):
    for path in (folder, unit.job):
        os.chmod(path, 0o755)
    os.chmod(unit.broker.address.removeprefix("unix://"), 0o600 if os.geteuid() == 0 else 0)
    other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    assert ends(unit.start(prefix=other)) == 77


def table(page, heading):
    """The numbers in the first cells."""
    rows = read(page).split(heading)[1].split("\n\n")[1].splitlines()[2:]
    return [int(number) for row in rows for number in re.findall(r"\d+", row.split("|")[1])]


def named(*sources):
    return {int(code) for path in sources for code in re.findall(r"\bkExit\w+ = (\d+);", read(path))}


def test_the_tables_of_exit_codes_are_those_of_the_programs():
    ctl = table("client/cli/README.md", "## Exit codes")
    assert ctl == sorted(named("client/cli/exit_code.h", "client/cli/access_commands.cc"))
    daemon = table("server/ops/README.md", "- *End.*")
    assert daemon == sorted({0, 1} | named("server/ops/options.cc", "server/main/settings.h"))
