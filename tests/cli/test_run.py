# SPDX-License-Identifier: Apache-2.0
"""run: what the command gets, and the exit code."""
import json
import os
import re
import signal
import subprocess
import time

import pytest

from broker import eventually
from ctl import ends, line
from fake_broker import FakeBroker


@pytest.mark.parametrize("script, code", [("exit 0", 0), ("exit 3", 3), ("exit 75", 75), ("kill -9 $$", 137),
                                          ("kill -TERM $$", 143)])
def test_the_exit_code_is_the_commands_own(ctl, broker, script, code):
    assert ctl("run", "k", "--", "sh", "-c", script).returncode == code
    assert broker.free("k")


def test_the_command_runs_under_the_lock(ctl, broker):
    holder = ctl.start("run", "k", "--owner", "me", "--metadata", "why=a test", "--", "sh", "-c", "echo up; read x",
                       stdin=subprocess.PIPE)
    assert line(holder) == "up"
    lock = broker.lock("k")
    assert [(h.owner, dict(h.metadata)) for h in lock.holders] == [("me", {"why": "a test"})]
    holder.stdin.close()
    assert ends(holder) == 1  # the exit code of `read` at the end of its input
    assert broker.free("k")


def test_the_environment_names_the_lock(ctl, broker):
    done = ctl("run", "a/b c", "--namespace", "ns", "--", "sh", "-c",
               'echo "$DISTLOCK_NAMESPACE|$DISTLOCK_KEY|$DISTLOCK_TOKEN|$DISTLOCK_HOLDER_ID"',
               extra_env={"DISTLOCK_TOKEN": "stale"})
    namespace, key, token, holder = done.stdout.strip().split("|")
    assert (namespace, key) == ("ns", "a/b c")
    assert int(token) == broker.lock("a/b c", "ns").fencing_token or broker.free("a/b c", "ns")
    assert token.isdigit() and holder


def test_the_default_namespace_is_named(ctl, broker):
    assert ctl("run", "k", "--", "sh", "-c", "echo $DISTLOCK_NAMESPACE").stdout == "default\n"


def test_stdin_stdout_and_stderr_are_the_commands_own(ctl, broker):
    done = ctl("run", "k", "--", "sh", "-c", "cat; echo err >&2", text="through\n")
    assert (done.stdout, done.stderr) == ("through\n", "err\n")


def test_the_command_gets_the_callers_descriptors_and_no_others(ctl, broker):
    read_end, write_end = os.pipe()
    done = ctl("run", "k", "--", "ls", "-1", "/proc/self/fd", pass_fds=[write_end])
    os.close(read_end)
    os.close(write_end)
    # One more descriptor: ls opens the folder itself.
    assert set(map(int, done.stdout.split())) - {0, 1, 2, write_end} in [{3}, {4}]


def test_a_line_for_the_shell(ctl, broker):
    assert ctl("run", "k", "-c", "echo $((1 + 1)); exit 4").stdout == "2\n"


def test_words_after_the_dashes_belong_to_the_command(ctl, broker):
    assert ctl("run", "k", "--", "echo", "-n", "--", "--verbose").stdout == "-- --verbose"


@pytest.mark.parametrize("words", [
    ["k", "printf", "%s|", "-n", "--", "--verbose"], ["k", "--", "printf", "%s|", "-n", "--", "--verbose"],
    ["-w", "5", "k", "printf", "%s|", "-n", "--", "--verbose"], ["k", "-n", "printf", "%s|", "-n", "--", "--verbose"],
    ["k", "-sw", "5", "printf", "%s|", "-n", "--", "--verbose"],
    ["k", "--wait=5", "printf", "%s|", "-n", "--", "--verbose"],
    ["k", "-k", "l", "printf", "%s|", "-n", "--", "--verbose"]])
def test_the_command_needs_no_dashes(ctl, broker, words):
    """From its first word on everything is the command's own, whatever flags are in front of it."""
    done = ctl("run", *words)
    assert (done.returncode, done.stdout, done.stderr) == (0, "-n|--|--verbose|", "")


def test_the_command_may_be_named_as_a_subcommand_or_flag_value(ctl, broker):
    assert ctl("run", "run", "echo", "run").stdout == "run\n"
    assert ctl("-o", "text", "run", "k", "--owner", "echo", "echo", "-o", "json").stdout == "-o json\n"


def test_after_k_a_command_needs_the_dashes(ctl, broker):
    done = ctl("run", "-k", "a", "echo", "hi")
    assert (done.returncode, done.stdout) == (64, "")
    assert "'echo' may be the command or one more KEY: write -- before the command" in done.stderr


def test_a_wrong_flag_is_no_command(ctl, broker):
    done = ctl("run", "k", "--verbsoe", "true")
    assert done.returncode == 64 and "--verbsoe" in done.stderr and broker.free("k")


def test_signal_mask_and_ignored_signals_are_the_callers(ctl, broker):
    ignoring = ("env", "--ignore-signal=HUP")
    look = ("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status")
    bare = subprocess.run([*ignoring, *look], capture_output=True, text=True, check=True)
    under = ctl("run", "k", "--", *look, prefix=ignoring)
    assert under.stdout == bare.stdout


@pytest.mark.parametrize("command, code", [("no-such-command-here", 127), ("/", 126)])
def test_a_command_that_cannot_run(ctl, broker, command, code):
    done = ctl("run", "k", "--", command)
    assert done.returncode == code
    assert command in done.stderr
    assert broker.free("k")


class TestBusy:
    @pytest.fixture(autouse=True)
    def somebody_holds_it(self, ctl, broker):
        self.holder = ctl.start("run", "k", "--owner", "bob", "--", "sh", "-c", "echo up; read x",
                                stdin=subprocess.PIPE)
        assert line(self.holder) == "up"

    def test_one_try(self, ctl, broker):
        done = ctl("run", "k", "-n", "--", "echo", "no")
        assert (done.returncode, done.stdout) == (1, "")
        assert "bob" in done.stderr and "LOCK_HELD" in done.stderr
        assert broker.queue_length("k") == 0

    def test_the_wait_runs_out(self, ctl, broker):
        done = ctl("run", "k", "-w", "0.2", "-E", "99", "--", "echo", "no")
        assert (done.returncode, done.stdout) == (99, "")
        assert "WAIT_TIMEOUT" in done.stderr
        assert broker.queue_length("k") == 0

    def test_as_json(self, ctl, broker):
        done = ctl("run", "k", "-n", "-o", "json", "--", "echo", "no")
        error = json.loads(done.stderr)["error"]
        assert (error["reason"], error["holder"], error["exit_code"]) == ("LOCK_HELD", "bob", 1)

    def test_the_process_ends_as_the_json_says(self, ctl, broker):
        done = ctl("run", "k", "-n", "-E", "99", "-o", "json", "--", "echo", "no")
        assert done.returncode == 99 and json.loads(done.stderr)["error"]["exit_code"] == 99

    @pytest.mark.parametrize("command", [["run", "k", "true"], ["hold", "k"], ["acquire", "k"], ["elect", "k"]])
    @pytest.mark.parametrize("flags", [["-n", "-q"], ["-nq"], ["--timeout", "500ms", "--quiet"]])
    def test_quiet_and_busy(self, ctl, broker, command, flags):
        done = ctl(*command[:2], *flags, *command[2:])
        assert (done.returncode, done.stdout.replace("queued: default:k, 0 ahead, held by bob\n", ""), done.stderr) == (
            1, "", "")

    def test_timeout_is_the_wait(self, ctl, broker):
        done = ctl("run", "k", "--timeout", "500ms", "echo", "no")
        assert done.returncode == 1 and "WAIT_TIMEOUT" in done.stderr and "max_wait" not in done.stderr

    def test_the_remedy_is_a_flag(self, ctl, broker):
        if not broker.real:
            broker.fake.refusal = ("LOCK_HELD", "x is held; retry later, or set max_wait to wait in the queue", [])
        said = ctl("run", "k", "-n", "--", "true").stderr
        assert "set -w to wait in the queue" in said and "max_wait" not in said

    def test_a_job_that_waits_for_itself_is_warned(self, ctl, broker):
        inner = f'exec "{ctl.program}" run a -w 100ms "$@" true'
        for flags, warns in (([], True), (["--namespace", "other"], False)):
            done = ctl("run", "a", "--", "sh", "-c", inner, "sh", *flags)
            assert ("this waits for default:a, which the job that it runs in holds" in done.stderr) == warns, flags
        done = ctl("run", "a", "--", "sh", "-c", inner, "sh", "-o", "json")
        assert "default:a" in json.loads(done.stderr.splitlines()[0])["warning"]["message"]
        if broker.real:  # the fake does not tell who waits for several locks
            done = ctl("run", "a", "--", ctl.program, "run", "-k", "b", "-k", "a", "-w", "500ms", "--", "true")
            assert "this waits for default:a" in done.stderr
        done = ctl("run", "a", "--", ctl.program, "acquire", "a", "-w", "500ms")
        assert done.returncode == 1 and "this waits for default:a" in done.stderr

    def test_the_next_one_gets_it(self, ctl, broker):
        waiter = ctl.start("run", "k", "-w", "60s", "--verbose", "--", "echo", "mine")
        eventually(lambda: broker.queue_length("k") == 1)
        self.holder.stdin.close()
        assert ends(waiter) == 0
        assert waiter.stdout.read() == "mine\n"
        said = waiter.stderr.read()
        assert "waiting for default:k, 0 ahead, held by bob" in said and "got default:k" in said

    @pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
    def test_a_signal_ends_the_wait(self, ctl, broker, signo):
        waiter = ctl.start("run", "k", "--", "echo", "no")
        eventually(lambda: broker.queue_length("k") == 1)
        waiter.send_signal(signo)
        assert ends(waiter) == 128 + signo
        assert waiter.stdout.read() == ""
        eventually(lambda: broker.queue_length("k") == 0)


@pytest.mark.parametrize("args", [
    [], ["--", "true"], ["k"], ["k", "-k", "l"], ["-k", "l", "true"],
    ["k", "--nonsense", "--", "true"], ["k", "-w", "soon", "--", "true"],
    ["k", "-w", "-5", "--", "true"], ["k", "-n", "-w", "5", "--", "true"], ["k", "-s", "-x", "--", "true"],
    ["k", "--permits", "2", "--", "true"], ["k", "-c", "true", "--", "true"], ["k", "-E", "256", "--", "true"],
    ["k", "--policy", "random", "--", "true"], ["k", "--metadata", "novalue", "--", "true"]])
def test_wrong_usage(ctl, broker, args):
    done = ctl("run", *args)
    assert done.returncode == 64
    assert done.stderr.startswith("distlockctl: ") and done.stderr.count("\n") == 1


def test_a_value_the_broker_refuses(ctl, broker):
    done = ctl("run", "k" * 600, "--", "true") if broker.real else refused(ctl, broker)
    assert done.returncode == 64
    assert done.stderr.startswith("distlockctl: KEY ") and done.stderr.count("\n") == 1
    assert "600 bytes" in done.stderr and "INVALID_ARGUMENT" not in done.stderr


def refused(ctl, broker):
    broker.fake.refusal = ("INVALID_ARGUMENT", "wrong request", [("lock.key", "600 bytes, at most 512")])
    return ctl("run", "k", "--", "true")


@pytest.mark.parametrize("reason, code", [("PERMISSION_DENIED", 77), ("UNAUTHENTICATED", 77), ("STORE_UNAVAILABLE", 69),
                                          ("STORE_FULL", 69), ("NOT_SUPPORTED", 69), ("FOREIGN_KEY", 69)])
def test_refusals(ctl, fake, reason, code):
    fake.fake.refusal = (reason, "the broker's words", [])
    done = ctl("run", "k", "--", "echo", "no")
    assert (done.returncode, done.stdout) == (code, "")
    assert "the broker's words" in done.stderr and reason in done.stderr


def test_run_keeps_to_json(ctl, broker):
    """Whatever happens is an object on stderr; stdout is the command's."""
    missing = ctl("run", "k", "-o", "json", "--verbose", "no-such-command-here")
    events = [json.loads(row) for row in missing.stderr.splitlines()]
    assert [e.get("event") for e in events] == ["granted", None, "released"]
    assert (events[0]["key"], events[0]["namespace"], events[2]["outcome"]) == ("k", "default", "released")
    error = events[1]["error"]
    assert (error["reason"], error["exit_code"], missing.returncode) == ("CANNOT_RUN", 127, 127)
    assert "no-such-command-here" in error["message"]
    done = ctl("run", "-k", "k", "-k", "l", "-o", "json", "--verbose", "--", "echo", "hi")
    assert done.stdout == "hi\n" and json.loads(done.stderr.splitlines()[0])["keys"] == ["k", "l"]


@pytest.mark.parametrize("field, flag", [
    ("acquire.limit", "--limit"), ("acquire.locks[1].key", "-k"), ("locks[0].max_wait", "-w"), ("lock.key", "KEY"),
    ("locks[0].metadata", "--metadata"), ("something.new", "something.new")])
def test_a_wrong_field_is_called_by_its_flag(ctl, fake, field, flag):
    fake.fake.refusal = ("INVALID_ARGUMENT", f"{field} is wrong", [(field, "is wrong")])
    assert ctl("run", "k", "--", "true").stderr == f"distlockctl: {flag} is wrong\n"


def test_no_broker(ctl, broker):
    done = ctl("run", "k", "--server", "unix:///nowhere/there.sock", "--connect-timeout", "0.3", "--", "true")
    assert done.returncode == 69
    assert "unix:///nowhere/there.sock" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [["run", "k", "--", "true"], ["hold", "k"], ["elect", "k"]])
def test_a_missing_broker_is_reported_in_one_sentence(ctl, broker, command):
    done = ctl(*command[:2], "-w", "200ms", "--server", "unix:///nowhere/there.sock", *command[2:])
    assert done.returncode == 69
    assert re.match(r"distlockctl: cannot reach the broker at unix:///nowhere/there.sock within \d+ms: ", done.stderr)
    assert done.stderr.count("within") == done.stderr.count("DISTLOCK_SERVER") == 1 and "5s" not in done.stderr


@pytest.mark.parametrize("command", [["run", "k", "--", "true"], ["hold", "k"], ["elect", "k"], ["acquire", "k"]])
def test_one_try_looks_for_a_broker_for_a_second(ctl, broker, command):
    done = ctl(*command[:2], "-n", "--server", "unix:///nowhere/there.sock", *command[2:])
    assert done.returncode == 69
    assert re.search(r" within 1(\.\d+)?s: ", done.stderr), done.stderr


def test_a_bounded_wait_goes_on_while_there_is_no_broker(ctl, api, folder):
    address = f"unix://{folder}/later.sock"
    waiter = ctl.start("run", "k", "-w", "10m", "--server", address, "--", "echo", "ran")
    begin = time.monotonic()
    eventually(lambda: time.monotonic() - begin > 6 or waiter.poll() is not None, "more than --connect-timeout")
    late = FakeBroker(api)
    late.start(address)
    try:
        assert ends(waiter) == 0 and waiter.stdout.read() == "ran\n"
    finally:
        late.stop()


@pytest.mark.parametrize("reason", ["STORE_UNAVAILABLE", "QUORUM_NOT_REACHED", "STORE_HOLD_OFF"])
def test_a_bounded_wait_goes_on_while_the_store_cannot_serve(ctl, fake, reason):
    fake.fake.refusal = (reason, "no store", [])
    assert ctl("run", "k", "-w", "100ms", "--", "echo", "no").returncode == 69
    waiter = ctl.start("run", "k", "-w", "10m", "--", "echo", "ran")
    assert "still waiting for default:k" in waiter.stderr.readline()
    fake.fake.refusal = None
    assert ends(waiter) == 0 and waiter.stdout.read() == "ran\n"


def test_a_signal_ends_a_wait_without_a_store(ctl, fake):
    fake.fake.refusal = ("STORE_UNAVAILABLE", "no store", [])
    waiter = ctl.start("run", "k", "-w", "10m", "--", "echo", "no")
    assert "still waiting" in waiter.stderr.readline()
    waiter.send_signal(signal.SIGTERM)
    assert ends(waiter) == 128 + signal.SIGTERM
