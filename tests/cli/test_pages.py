# SPDX-License-Identifier: Apache-2.0
"""Every command that a page shows runs: in fenced blocks, and in inline code that begins with a program. BLANKS fills
the words that a reader replaces. ELSEWHERE names the tests that run the commands of other programs."""
import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import pytest

import broker as brokers
from broker import PATIENCE_S

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests/tidy"))
from rules import Tree  # noqa: E402

PAGES = [f for f in Tree(REPOSITORY).files if f.endswith(".md") and f != "tests/track_record.md"]
PRESETS = json.loads((REPOSITORY / "CMakePresets.json").read_text(encoding="utf-8"))
OPTIONS = (REPOSITORY / "CMakeLists.txt").read_text(encoding="utf-8")
SHELL = {".", ":", "[", "[[", "cd", "chmod", "echo", "eval", "exit", "export", "for", "fi", "done", "git", "kill", "mkdir",
         "read", "sed", "umask", "wait"}  # what comes with every shell
BY_US = {"distlockctl", "redis-cli", "curl", "flock", "openssl", "ss"}  # run by this test, unless the page's row differs
CHECKED = {"distlockd", "cmake", "ctest"}  # only their options are
SCRIPT = re.compile(r"((deploy|tests|client)/[\w/.-]+|run|museum)\.(sh|py)")
FOREIGN = "another product's command, which no test has"
RECIPES, RUNBOOKS, INSTALLED = "tests/cli/test_recipes.py", "tests/deploy/test_runbooks.py", "tests/deploy/test_installation.py"
ELSEWHERE = {  # a page's commands, and the test that runs each
    "CONTRIBUTING.md": {"pre-commit": FOREIGN},
    "client/README.md": {"mvn": "tests/interop/test_java.py", "java": "tests/interop/test_java.py"},
    "client/cli/README.md": {},
    "client/go/README.md": {"go": "tests/go/CMakeLists.txt"},
    "client/migration.md": {"etcdctl": FOREIGN, "consul": FOREIGN},
    "client/node/README.md": {"npm": "client/node/install.sh"},
    "client/python/README.md": {"pip": "tests/python/test_real_wheel.py", "python3": "tests/python/test_real_wheel.py"},
    "deploy/README.md": {"docker": "tests/deploy/test_dockerfile.py"},
    "deploy/choosing.md": {"distlockctl": RECIPES},
    "deploy/jobs.md": {"systemctl": INSTALLED},
    "deploy/operations.md": {"apt": INSTALLED, "systemctl": INSTALLED, "usermod": FOREIGN, "kubectl": RUNBOOKS},
    "deploy/runbooks.md": {"distlockctl": RUNBOOKS, "kubectl": RUNBOOKS, "systemctl": INSTALLED, "chronyc": FOREIGN,
                           "docker": "tests/deploy/test_dockerfile.py"},
    "helm/distlock/README.md": {"helm": "tests/deploy/test_charts.py", "kubectl": RUNBOOKS},
    "proto/promises.md": {"etcdctl": FOREIGN},
    "tests/README.md": {"sim_small_test": "tests/sim/small/CMakeLists.txt", "pytest": "tests/cli/CMakeLists.txt",
                        "distlock_check_history": "tests/e2e/test_mixed.py"},
    "tests/bench/README.md": {"distlock_bench": "tests/bench/CMakeLists.txt"},
}
PROGRAMS = BY_US | CHECKED | {"cd"} | {program for row in ELSEWHERE.values() for program in row}
# Words of pages that a reader replaces, what a reader's machine has, and what would never end.
BLANKS = {
    r"kubectl exec (-it )?\S+ -- (?=distlockctl [a-z])": "", r"docker run .*--entrypoint distlockctl distlock|docker compose "
    r"run --rm try": "distlockctl", r"/usr/local/bin/": "./", r"(?<= )/tmp/": "", r' "\$@"$': "", r"--preset P\b": "--preset release",
    r"\bNAMESPACE:KEY\b": "default:k", r"\bKEY\b": "k", r"\bNAME\b": "n", r"\bVALUE\b": "v", r"\bCMD\b": "true",
    r"\bTOKEN$": "1", r"\bCOMMAND\b": "run", r"\bFILE\b": "file", r"\bCASES\b": "cases.yaml", r"'\.\.\.'": "true",
    r"distlockctl \.\.\.": "distlockctl status", r"distlockctl (run|hold|watch|force-release|store upgrade)$":
    r"distlockctl \1 --help", r"job -- sleep 20": "job -- true", r"; sleep 20": "; sleep 600", r"-w 30 echo": "-w 600 echo",
    r"(distlockctl force-release ([\w/]+))(?! --help)": r"distlockctl acquire \2 && \1", r"distlockctl top": "distlockctl top --once",
    r"redis://lock-store": "unix://$REDIS", r"redlock://(\.\.\.|\S*h1,h2,h3)": "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3",
    r"redis-cli( -u URL| -h replica| -p 26379)?": "redis-cli -e -s $REDIS", r"old-host 6379": "NO ONE",
    r"(?<!--http-api )127\.0\.0\.1:7421": "$HTTP", r"\bcurl (?=-s)": "curl --fail-with-body ",
    r'"leaseId":"\.\.\."': """"leaseId":"'$(eval "$(distlockctl acquire $RANDOM)"; echo $DISTLOCK_LEASE_ID)'\"""",
    r"curl (--[a-z-]+)$": r"curl --help all | grep -e '\1'", r"flock (-[a-z])$": r"flock --help | grep -e '\1'",
    r"openssl x509": "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=x "
                     "-keyout key -out file 2>&- && openssl x509",
}
EXITS = {"quorum-init": 69, "SENTINEL": 1, "CLUSTER INFO": 1, "check-token": 1, "held off": 69, "upgrade --to 2": 78}  # of what a private store is not
ENDLESS = re.compile(r"distlockctl (watch|hold) (?!--help)|.*--observe|.*curl .* -sN|redis-cli.* MONITOR")
REDIRECTION = re.compile(r"&?[<>]+&?")
FENCE = re.compile(r"^( *)(`{3,})(\w*)[^\n]*\n(.*?)^ *\2$", re.M | re.S)
VARIES = (r"\d{4}-\d\d-\d\dT[\d:.]+Z|[\w.-]+@[\w.-]+(:\d+)?|\b[0-9a-f]{16}\b|\b[\d.]+(ms|s|m|h)\b|(?<=store)\s+\S+,")


def programs(command):
    """[program, options] of all that a shell starts for it; none where it is no shell."""
    found = []
    for row in command.splitlines():
        lexer = shlex.shlex(row, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        try:
            words = list(lexer)
        except ValueError:
            return []
        is_first = True
        for before, word in zip(["", *words], words):
            if set(word) <= set("();|&"):
                is_first = True
            elif REDIRECTION.fullmatch(word) or REDIRECTION.fullmatch(before):
                continue
            elif not is_first:
                found[-1][1].append(word)
            elif not re.match(r"\[?\w+=|(env|exec|coproc|LOCK|do|then|else|if|while|!)$|[{}]", word):
                found.append((word.removeprefix("build/release/bin/"), []))
                is_first = False
    return found


def is_command(row):
    (first, options), *_ = programs(row) or [("", [])]
    return first in PROGRAMS and bool(options) or bool(SCRIPT.fullmatch(first) and options)


def passages(page):
    """(line, [(command, what is shown below it)]) of each block of commands, and of each command within a sentence."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    for block in FENCE.finditer(text):
        rows = re.sub(r"\\\n *", " ", block[4])
        made = [(row, None) for row in rows.splitlines() if row.strip()]
        if block[3] in ("sh", "bash"):
            made = [(rows, None)]
        elif rows.startswith("$ "):
            made = [tuple((part + "\n").split("\n", 1)) for part in re.split(r"^\$ ", rows, flags=re.M)[1:]]
        if block[3] in ("", "sh", "bash", "console") and made and (
                block[3] or is_command(made[0][0]) or re.match(r"\w+=\S+ \w+=", rows)):
            yield text.count("\n", 0, block.start(4)) + 1, made
    prose = FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)
    for code in re.finditer(r"(?<!`)`([^`]+)`", prose):
        command = " ".join(code[1].split()).replace("\\|", "|")
        if is_command(command) and not command.startswith("distlockd cannot "):  # as its log says
            yield prose.count("\n", 0, code.start()) + 1, [(command, None)]


def filled(command):
    for blank, with_what in BLANKS.items():
        command = re.sub(blank, with_what, command)
    return command


def is_ours(page, command):
    """Whether this test runs it."""
    return bool({program for program, _ in programs(filled(command))} & BY_US - set(ELSEWHERE.get(page, ())))


def is_checked(page, command):
    return is_ours(page, command) or any(p in CHECKED or SCRIPT.fullmatch(p) for p, _ in programs(command))


PASSAGES = [(page, number, made) for page in PAGES for number, made in passages(page)]
SHOWN = [(page, program) for page, _, commands in PASSAGES for command, _ in commands for program, _ in programs(command)]


class Place:
    """A broker with a store of its own, and a folder where the commands of a passage run."""

    def __init__(self, api, *options):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dlpage"))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            http = f"127.0.0.1:{free.getsockname()[1]}"
        self.broker = brokers.Real(api, self.folder, os.environ["DISTLOCKD"], "--http-api", http, *options)
        self.here = self.folder / "here"
        self.here.mkdir()
        (self.here / "distlockctl").symlink_to(os.environ["DISTLOCKCTL"])
        (self.here / "policy.yaml").write_text("version: 1\nrules: []\n", encoding="utf-8")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("DISTLOCK_")}
        self.env |= {"PATH": f"{self.here}:{self.env['PATH']}", "DISTLOCK_SERVER": self.broker.address, "HTTP": http,
                     "REDIS": self.broker.redis_path}
        self.started, self.waiting = [], []

    def close(self):
        self.broker.close()
        shutil.rmtree(self.folder)

    def clear(self):
        """Ends the processes and the locks that a passage has left."""
        while self.started:
            end(self.started[-1], signal.SIGKILL)
            self.started.pop().communicate()
        self.run("distlockctl ls -A | cut -d' ' -f1 | xargs -rn1 distlockctl force-release")

    def start(self, command):
        for name in re.findall(r"\./(\w[\w.]*)", command):
            (self.here / name).write_text("#!/bin/sh\n", encoding="utf-8")
            (self.here / name).chmod(0o755)
        self.started.append(subprocess.Popen(["bash", "-o", "pipefail", "-c", command], cwd=self.here, env=self.env,
                                             text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                             stderr=subprocess.STDOUT, start_new_session=True))
        return self.started[-1]

    def run(self, command, shown=None):
        """Runs it to its end, again and again until it prints what is shown: those that wait are heard in time."""
        stated = re.search(r"exit code (\d+)", command)
        codes = [int(stated[1])] if stated else [code for words, code in EXITS.items() if words in command] or [0]
        deadline = time.monotonic() + PATIENCE_S
        while True:
            process = self.start(command)
            if ENDLESS.match(command):
                said, codes = process.stdout.readline(), [0, -signal.SIGTERM]
                assert said, command
                end(process, signal.SIGTERM)
                process.communicate(timeout=PATIENCE_S)
            else:
                said = process.communicate(timeout=PATIENCE_S)[0]
            if process.returncode in codes and is_like(said, shown):
                return
            assert shown is not None and time.monotonic() < deadline, f"{command}\nended with {process.returncode}\n{said}\n{shown}"

    def show(self, command, shown):
        """Runs it as on a terminal: one that ends with & or waits goes on beside those that follow, until the drain."""
        if command.endswith("&"):
            holder = self.start(command[:-1])
            assert is_like(holder.stdout.readline(), shown)
        elif " -w " in command:
            self.waiting.append((self.start(command), shown))
        else:
            if " drain" in command:
                end(self.started[0], signal.SIGTERM)
                for waiter, then in self.waiting:
                    assert is_like(waiter.communicate(timeout=PATIENCE_S)[0], then)
            self.run(command, shown)


def end(process, with_signal):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, with_signal)


def is_like(said, shown):
    """Whether it begins so, but for times, numbers and names of processes."""
    said, shown = (" ".join(re.sub(VARIES, "#", text).split()) for text in (said, shown or ""))
    return re.match(".*".join(map(re.escape, shown.split("..."))), said)


@pytest.fixture(scope="module")
def shared(api):
    place = Place(api)
    yield place
    place.close()


@pytest.fixture
def place(api, request):
    text = str(request.node.callspec.params["commands"])
    if " drain" not in text and "held off" not in text:
        shared = request.getfixturevalue("shared")
        yield shared
        if shared.started:
            shared.clear()
        return
    place = Place(api, *(["--failover-hold-off", "1m"] if "held off" in text else []))
    yield place
    for process in place.started:
        end(process, signal.SIGKILL)
    place.close()


def check_options(page, program, options):
    """Asks distlockd for what it would do, a script for its --help, and looks at the presets."""
    flags = re.findall(r"(?<![\w-])--[a-z][a-z-]*", " ".join(options))
    path = next((p for p in (REPOSITORY / program, (REPOSITORY / page).parent / program) if p.is_file()), None)
    if program == "distlockd":
        done = subprocess.run([os.environ["DISTLOCKD"], *options, "--print-config"], capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stderr
    elif SCRIPT.fullmatch(program):
        python = [sys.executable, "-B"] if path.suffix == ".py" else []
        told = subprocess.run([*python, path, "--help"], capture_output=True, text=True, timeout=PATIENCE_S, check=True).stdout
        assert not [flag for flag in flags if not re.search(rf"{flag}(?![\w-])", told)], told
    elif program in ("cmake", "ctest"):
        kind = "buildPresets" if "--build" in flags else "configurePresets" if program == "cmake" else "testPresets"
        assert options[options.index("--preset") + 1] in [preset["name"] for preset in PRESETS[kind]]
        assert all(name in OPTIONS for name in re.findall(r"-D(\w+)=", " ".join(options)))


@pytest.mark.parametrize("page, commands", [
    pytest.param(page, commands, id=f"{page}:{number}-{commands[0][0][:50]}") for page, number, commands in PASSAGES
    if any(is_checked(page, command) for command, _ in commands)])
def test_the_commands_run(page, commands, place):
    variables = ""
    for command, shown in [(filled(command), shown) for command, shown in commands]:
        for program, options in programs(command):
            check_options(page, program, options)
        if not programs(command):
            variables += f"{command}; "
        elif is_ours(page, command):
            place.run(variables + command) if shown is None else place.show(command, shown)


def test_each_other_program_s_command_is_run_by_a_test():
    assert len(SHOWN) > 200
    rows = {(page, program): test for page, row in ELSEWHERE.items() for program, test in row.items()}
    assert not rows.keys() - SHOWN, "no page shows these"
    assert not [(page, program) for page, program in set(SHOWN) - rows.keys() if program not in BY_US | CHECKED | SHELL
                and not program.startswith("./") and not SCRIPT.fullmatch(program)], "name the tests that run these"
    for (_, program), test in rows.items():
        assert test == FOREIGN or re.search(rf"\b{program.rstrip('3')}\b", (REPOSITORY / test).read_text("utf-8"), re.I), (program, test)
