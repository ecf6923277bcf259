# SPDX-License-Identifier: Apache-2.0
"""The recipes of client/cli/README.md, all commands of deploy/choosing.md and the crontab of deploy/jobs.md, as they
stand there."""
import os
import pathlib
import re
import shlex
import signal
import subprocess

import pytest

from broker import PATIENCE_S, eventually
from ctl import line

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
README = REPOSITORY / "client/cli/README.md"
CHOOSING = (REPOSITORY / "deploy/choosing.md").read_text(encoding="utf-8")
COMMANDS = [code.replace("\\|", "|") for code in re.findall(r"(?<!`)`([^`\n]+)`", CHOOSING)]
SCRIPTS = re.findall(r"^```sh\n(.*?)^```", CHOOSING, re.M | re.S)
CRONTAB = re.search(r"^```crontab\n(.*?)^```", (REPOSITORY / "deploy/jobs.md").read_text(encoding="utf-8"),
                    re.M | re.S)[1]
UNAVAILABLE = 69
LOOKS = {  # what holds the lock meanwhile, and what is shown of it
    "distlockctl show report": ("distlockctl run report --owner alice", "holder alice "),
    "distlockctl show export/81": ("distlockctl run export/81 --owner worker", "holder worker "),
    "distlockctl elect scheduler --leader -o json": ("distlockctl elect scheduler --value here", '"value":"here"')}


@pytest.fixture
def script(ctl, broker, folder):
    """Starts a script that has this recipe in it."""
    os.symlink(ctl.program, os.path.join(folder, "distlockctl"))
    started = []

    def start(language, *edits):
        [text] = re.findall(rf"^```{language}\n(.*?)^```", README.read_text(encoding="utf-8").split("## Recipes")[1],
                            re.M | re.S)
        for old, new in edits:
            assert old in text
            text = text.replace(old, new)
        path = os.path.join(folder, "script")
        with open(path, "w", encoding="utf-8") as f:
            f.write("#!/bin/bash\n" + text)
        os.chmod(path, 0o755)
        started.append(subprocess.Popen([path], env={**ctl.env, "PATH": f"{folder}:{ctl.env['PATH']}"}, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


PART = ('echo "the part under the lock"', 'echo "the part under the lock"; read x')
CODE = ('wait "$lock_pid"', 'wait "$lock_pid"; echo "code $?"; exec')


def test_a_part_of_a_script(script, broker):
    process = script("bash", PART, CODE)
    assert line(process) == "the part under the lock"
    assert broker.held("report")
    out, err = process.communicate("go\n", timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (0, "code 0\n", "")
    assert broker.free("report")


def test_a_part_of_a_script_whose_lock_is_lost(script, broker, ctl):
    process = script("bash", ("hold report", "hold report --ttl 1s"), PART, CODE)
    assert line(process) == "the part under the lock"
    broker.lose("report")
    eventually(lambda: not broker.held("report"))
    eventually(lambda: ended_child(process.pid), "the end of hold")
    out, err = process.communicate("go\n", timeout=PATIENCE_S)
    assert (out, err) == ("code 75\n", "the lock was lost or is at risk\n")


def ended_child(pid):
    """Whether a child of the process has ended and is not reaped, or is reaped."""
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        children = f.read().split()
    states = [pathlib.Path(f"/proc/{child}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
              for child in children]
    return all(state == "Z" for state in states)


def test_a_part_of_a_script_that_dies(script, broker):
    process = script("bash", PART)
    assert line(process) == "the part under the lock"
    process.kill()
    eventually(lambda: broker.free("report"))


def test_a_part_of_a_script_that_waits(script, broker, ctl):
    lease = ctl.json("acquire", "report")[0]
    process = script("bash", PART)
    eventually(lambda: broker.queue_length("report") == 1)
    ctl("release", lease["lease_id"])
    assert line(process) == "the part under the lock"


def test_a_script_that_runs_itself_under_a_lock(script, broker, ctl):
    edit = ('"$0" "$@"\n', '"$0" "$@"\necho "$DISTLOCK_KEY"\nread x\n')
    first = script("sh", edit)
    assert line(first) == "nightly"
    second = script_again(first)
    assert second.communicate(timeout=PATIENCE_S) == ("", "") and second.returncode == 0
    first.communicate("go\n", timeout=PATIENCE_S)
    assert broker.free("nightly")


def script_again(process):
    with open(f"/proc/{process.pid}/environ", "rb") as f:
        env = dict(row.split("=", 1) for row in f.read().decode().split("\0") if row)
    path = os.path.join(os.path.dirname(env["DISTLOCK_SERVER"].removeprefix("unix://")), "script")
    return subprocess.Popen([path], env=env, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


@pytest.fixture
def shell(ctl, broker, folder):
    """Runs a line of bash where ./job, ./scheduler and distlockctl are programs, and the broker is a real one."""
    if not broker.real:
        pytest.skip("a fake broker knows no min_hold")
    os.symlink(ctl.program, os.path.join(folder, "distlockctl"))
    for name in ("job", "scheduler", "sync", "backup", "reindex", "upload", "dump", "build", "push", "sleep",
                 "curl"):
        path = pathlib.Path(folder, name)
        path.write_text(f"#!/bin/sh\necho {name} \"$@\"\n", encoding="ascii")
        path.chmod(0o755)
    env = {**ctl.env, "PATH": f"{folder}:{ctl.env['PATH']}"}
    return lambda line: subprocess.run(["bash", "-c", line], cwd=folder, env=env, capture_output=True, text=True,
                                       timeout=PATIENCE_S, check=False, stdin=subprocess.DEVNULL)


def test_each_command_that_the_choice_names_runs(shell, ctl):
    lines = [line for line in COMMANDS if re.search(r"\bdistlockctl ", line) and line not in LOOKS]
    assert len(lines) > 25
    for text in lines:
        done = shell(text)
        assert done.returncode == 0 and ("--verbose" in text or not done.stderr), (text, done)
        if "acquire" in text:
            assert "DISTLOCK_LEASE_ID=" in done.stdout
        else:
            assert re.fullmatch(r"(job( \d{16})?|scheduler|sleep 2h)\n", done.stdout), (text, done)
        for taken in ctl.json("ls"):  # leases, and blocks of --once-per
            assert ctl("force-release", taken["key"]).returncode == 0


@pytest.mark.parametrize("look", LOOKS)
def test_each_command_that_looks_names_the_holder(shell, look):
    assert look in COMMANDS
    holder, shown = LOOKS[look]
    done = shell(f"{holder} {look}")
    assert done.returncode == 0 and re.search(shown, done.stdout), done


def test_deploys_wait_for_a_freeze_that_takes_their_key(shell, broker, ctl):
    freeze, = [line for line in COMMANDS if "'freeze: alice'" in line]
    deploy, = [line for line in COMMANDS if line.startswith("distlockctl run deploy/web -w 3h --max-hold")]
    assert shell(freeze.replace("sleep 2h", f"{deploy.replace('-w 3h', '-n -E 9')}")).returncode == 9
    several, = [line for line in COMMANDS if "run freeze -s" in line]
    assert shell("distlockctl run freeze -n " + several.replace("-s -w 3h", "-s -n -E 9", 1)).returncode == 9
    assert shell("distlockctl run freeze -s -n " + several).stdout == "job\n", "deploys of two programs go together"


def test_each_script_of_the_choice_runs(shell, broker):
    assert SCRIPTS
    for text in SCRIPTS:
        done = shell("set -eu\n" + text)
        assert (done.returncode, done.stderr) == (0, ""), (text, done)
        assert broker.free("deploy/web")


def test_each_line_of_the_crontab_runs(shell):
    lines = [row.split(None, 5)[5] for row in CRONTAB.splitlines() if re.match(r"[\d*]", row)]
    assert len(lines) == CRONTAB.count("distlockctl ") > 3
    for text in lines:
        done = shell(text.replace("/usr/local/bin/", "./").replace("\\%", "%"))
        assert (done.returncode, done.stderr) == (0, ""), (text, done)
        shown = r"(sync|backup|reindex|upload --day \d{4}-\d\d-\d\d|dump\ncurl -fsS https://ping\.example/7)\n"
        assert re.fullmatch(shown, done.stdout), (text, done)
    again = shell(lines[0].replace("/usr/local/bin/", "./"))
    assert (again.returncode, again.stdout, again.stderr) == (1, "", "")


def test_a_host_that_still_waits_runs_the_job_of_one_that_died(shell, broker, ctl):
    text, = [row for row in CRONTAB.splitlines() if " run dump " in row]
    flags = shlex.split(text.split(None, 5)[5])[1:-1]
    assert flags[:4] == ["run", "dump", "-w", "9h"] and flags[-1] == "-c"
    first = ctl.start(*flags, "exec sleep 600")
    eventually(lambda: broker.held("dump"))
    second = ctl.start(*flags, "echo second")
    eventually(lambda: broker.queue_length("dump") == 1)
    first.kill()
    assert second.communicate(timeout=PATIENCE_S)[0] == "second\n"
    assert ctl("run", "dump", "-n", "-E", "9", "true").returncode == 9, "the block of --once-per"


def test_a_job_that_is_stopped_in_order_counts_as_run(shell, broker, ctl):
    stopped = ctl.start("run", "dump", "--once-per", "12h", "sleep", "600")
    eventually(lambda: broker.held("dump"))
    stopped.send_signal(signal.SIGTERM)
    assert stopped.wait(timeout=PATIENCE_S) == 128 + signal.SIGTERM
    assert ctl("run", "dump", "-n", "-E", "9", "true").returncode == 9


def test_each_store_that_the_choice_names_is_looked_for(broker, folder):
    """No store is there, which a broker says whose options are good: 69. Wrong options are 64 or 78."""
    if not broker.real:
        pytest.skip("a fake broker has no options")
    lines = [line for line in COMMANDS if line.startswith("distlockd ")]
    assert len(lines) >= 6
    started = []
    for number, text in enumerate(lines):
        text = re.sub(r"\b(store|[hs]\d)(?=[,/ ]|$)", lambda found: "127.0.0.1" if "://" in text else found[0], text)
        text = text.replace("/run/distlock", folder)
        for twice in range(1, 4):  # the same address more than once is refused
            text = text.replace("127.0.0.1,", f"127.0.0.1:{twice},", 1)
        text = re.sub(r"127\.0\.0\.1(?=[/ ]|$)", "127.0.0.1:4", text)  # at 6379 there may be a server
        argv = [os.environ["DISTLOCKD"], *text.split()[1:], "--listen", f"unix://{folder}/{number}.sock", "--http", ""]
        started.append((text, subprocess.Popen(argv, text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)))
    for text, process in started:
        if "--embedded-dir" in text:
            while " distlockd ready " not in (said := process.stderr.readline()):
                assert said, (text, process.wait())
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE_S)
            os.kill(int(pathlib.Path(folder, "store/store.pid").read_text(encoding="ascii")), signal.SIGTERM)
        else:
            said = process.communicate(timeout=PATIENCE_S)[1]
        assert process.returncode == (0 if "--embedded-dir" in text else UNAVAILABLE), (text, said)


def test_the_server_that_does_not_forget_is_one(folder):
    [settings] = re.findall(r"^```conf\n(.*?)^```", CHOOSING, re.M | re.S)
    for number, line_ in enumerate(settings.splitlines()):
        path = pathlib.Path(folder, f"{number}.conf")
        path.write_text(f"port 0\nunixsocket {folder}/{number}.sock\ndir {folder}\n{line_}\n", encoding="ascii")
        server = subprocess.Popen(["redis-server", path], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        eventually(lambda: os.path.exists(f"{folder}/{number}.sock") or server.poll() is not None, "its socket")
        assert server.poll() is None, line_
        server.terminate()
        server.wait(timeout=PATIENCE_S)
