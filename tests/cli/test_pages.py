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

import pytest

import broker as brokers
from broker import PATIENCE_S, eventually

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tests/tidy"))
from rules import Tree  # noqa: E402

pytestmark = pytest.mark.skipif(not os.environ.get("DISTLOCKD"), reason="a broker in memory serves less than that")
PAGES = [f for f in Tree(REPOSITORY).files if f.endswith(".md") and f != "tests/track_record.md"]
PRESETS = json.loads((REPOSITORY / "CMakePresets.json").read_text(encoding="utf-8"))
OPTIONS = (REPOSITORY / "CMakeLists.txt").read_text(encoding="utf-8")
RUN = {"distlockctl", "redis-cli", "curl", "flock", "openssl"}  # here, unless the page's row names another test
CHECKED = {"distlockd", "cmake", "ctest"}  # only their options
SCRIPT = re.compile(r"((deploy|tests|client)/[\w/.-]+|run|mutations)\.(sh|py)")
SHELL = {".", ":", "[", "[[", "cd", "chmod", "echo", "eval", "exit", "export", "for", "fi", "done", "git", "kill",
         "mkdir", "read", "sed", "umask", "wait"}
FOREIGN = "another product's command, which no test has"
INSTALLED, RUNBOOKS = "tests/deploy/test_installation.py", "tests/deploy/test_runbooks.py"
JOBS, WHEEL = "tests/python/test_real_jobs.py", "tests/python/test_real_wheel.py"
ELSEWHERE = {  # the test that runs a program as the page does, or what the test runs
    "CONTRIBUTING.md": {"pre-commit": FOREIGN},
    "README.md": {"python3": WHEEL, "v/bin/pip": WHEEL},
    "client/go/README.md": {"go": "tests/go/CMakeLists.txt"},
    "client/migration.md": {"consul": FOREIGN},
    "client/node/README.md": {"npm": "client/node/install.sh"},
    "client/python/README.md": {"python3": WHEEL, "v/bin/pip": WHEEL},
    "client/python/jobs.md": {"distlockctl": JOBS, "rq": JOBS},
    "client/python/web.md": {"python": "tests/python/test_real_web.py"},
    "deploy/README.md": {"docker": "tests/deploy/test_dockerfile.py"},
    "deploy/choosing.md": {"distlockctl": "tests/cli/test_recipes.py"},
    "deploy/operations.md": {"apt": INSTALLED, "systemctl": INSTALLED, "usermod": FOREIGN, "kubectl": RUNBOOKS},
    "deploy/runbooks.md": {"distlockctl": RUNBOOKS, "chronyc": FOREIGN},
    "deploy/topologies.md": {"helm": "tests/deploy/test_other_charts.py"},
    "helm/distlock-sidecar/README.md": {"kubectl": RUNBOOKS},
    "helm/distlock/README.md": {"helm": "tests/deploy/test_charts.py", "kubectl": RUNBOOKS},
    "tests/README.md": {"sim_exhaustive_test": "tests/sim/exhaustive/CMakeLists.txt",
                        "distlock_check_history": "tests/e2e/test_mixed.py"},
}
KNOWN = RUN | CHECKED | {program for row in ELSEWHERE.values() for program in row}
BLANKS = {
    # the words that a reader replaces
    r"\bNAMESPACE:KEY\b": "default:k", r"\bKEY\b": "k", r"\bNAME\b": "n", r"\bVALUE\b": "v", r"\bCMD\b": "true",
    r"\bTOKEN$": "1", r"\bCOMMAND\b": "run", r"\bFILE\b": "file", r"--preset P\b": "--preset release", r' "\$@"$': "",
    r"'\.\.\.'": "true", r"distlockctl \.\.\.": "distlockctl status",
    r'"leaseId":"\.\.\."': """"leaseId":"'$(eval "$(distlockctl acquire $RANDOM)"; echo $DISTLOCK_LEASE_ID)'\"""",
    # where the broker and its store are
    r"kubectl exec (-it |-c \S+ )?\S+ -- (?=distlockctl [a-z])": "",
    r"docker run .*--entrypoint distlockctl distlock|docker compose run --rm try": "distlockctl",
    r"redis://lock-store": "unix://$REDIS", r"redis-cli( -u URL| -h replica| -p 26379)?": "redis-cli -e -s $REDIS",
    r"redlock://(\.\.\.|\S*h1,h2,h3)": "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", r"old-host 6379": "NO ONE",
    r"(?<!--http-api )127\.0\.0\.1:7421": "$HTTP", r"\bcurl (?=-s)": "curl --fail-with-body ", r"(?<= )/tmp/": "",
    # what must be there before, and how long it takes
    r"(distlockctl force-release ([\w/]+))": r"distlockctl acquire \2 && \1",
    r"openssl x509": "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=x "
                     "-keyout key -out file 2>&- && openssl x509",
    r"distlockctl top": "distlockctl top --once", r"job -- sleep 20": "job -- true", r"; sleep 20": "; sleep 600",
    r"-w 30 echo": "-w 600 echo",
    # what is only named
    r"^distlockctl (?!(?:status|sessions|ls|drain|reload|top)\b)([a-z-]+|(?:store|policy|token) [a-z]+)$":
        r"distlockctl \1 --help | grep 'Usage: distlockctl \1'",  # --help ends with 0, whatever is before it
    r"curl (--[a-z-]+)$": r"curl --help all | grep -e '\1'", r"flock (-[a-z])$": r"flock --help | grep -e '\1'",
}
# Exit codes that the page does not state: the store is no sentinel or cluster, and no release has schema 2.
EXITS = {"SENTINEL": 1, "CLUSTER": 1, "upgrade --to 2": 78, "token k": 1, "held off": 69}
ENDLESS = re.compile(r"distlockctl watch (?!--help)|--observe|\bcurl .*-sN|redis-cli .*MONITOR")
FENCE = re.compile(r"^( *)(`{3,})(\w*)[^\n]*\n(.*?)^ *\2$", re.M | re.S)
REDIRECTION = re.compile(r"&?[<>]+&?")
NO_PROGRAM = re.compile(r"\[?\w+=.*|env|exec|coproc|LOCK|do|then|else|if|while|!|[{}].*")
VARIES = (r"\d{4}-\d\d-\d\dT[\d:.]+Z|[\w.-]+@[\w.-]+(:\d+)?|\b[0-9a-f]{16}\b|\b[\d.]+(ms|s|m|h)\b|(?<=store)\s+\S+,")


def programs(command):
    """(program, options) of each that a shell starts for it; none where it is no shell."""
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
            elif not NO_PROGRAM.fullmatch(word):
                found.append((word.removeprefix("build/release/bin/"), []))
                is_first = False
    return found


def is_command(row):
    (first, options), *_ = programs(row) or [("", [])]
    named = first in KNOWN or SCRIPT.fullmatch(first)
    return bool(named and options and not row.startswith("distlockd cannot "))  # as its log says


def passages(page):
    """(line, [(command, what is shown below it)]) of each block of commands, and of each command within a sentence."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    for block in FENCE.finditer(text):
        language, rows = block[3], re.sub(r"\\\n *", " ", block[4])
        commands = [(row, None) for row in rows.splitlines()]
        if language in ("sh", "bash"):
            commands = [(rows, None)]
        elif rows.startswith("$ "):
            commands = [tuple(f"{part}\n".split("\n", 1)) for part in re.split(r"^\$ ", rows, flags=re.M)[1:]]
        if language in ("", "sh", "bash", "console") and (language or any(is_command(row) for row, _ in commands)):
            yield text.count("\n", 0, block.start(4)) + 1, commands
    prose = FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)
    for code in re.finditer(r"(?<!`)`([^`]+)`", prose):
        command = " ".join(code[1].split()).replace("\\|", "|")
        if is_command(command):
            yield prose.count("\n", 0, code.start()) + 1, [(command, None)]


def filled(command):
    for blank, with_what in BLANKS.items():
        command = re.sub(blank, with_what, command)
    return command


def is_run(page, command):
    return bool({program for program, _ in programs(filled(command))} & RUN - set(ELSEWHERE.get(page, ())))


def is_tested(page, command):
    return is_run(page, command) or any(p in CHECKED or SCRIPT.fullmatch(p) for p, _ in programs(command))


PASSAGES = [(page, number, commands) for page in PAGES for number, commands in passages(page)]
SHOWN = [(page, program) for page, _, commands in PASSAGES for command, _ in commands
         for program, _ in programs(command)]


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
        (self.here / "cases.yaml").write_text("- {who: anonymous, verb: drain, expect: deny}\n", encoding="utf-8")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("DISTLOCK_")}
        self.env |= {"PATH": f"{self.here}:{self.env['PATH']}", "DISTLOCK_SERVER": self.broker.address, "HTTP": http,
                     "REDIS": self.broker.redis_path}
        self.started, self.waiting = [], []

    def close(self):
        self.broker.close()
        shutil.rmtree(self.folder)

    def end_all(self):
        while self.started:
            end(self.started[-1], signal.SIGKILL)
            self.started.pop().communicate()

    def start(self, command):
        for name in re.findall(r"\./(\w[\w.]*)", command):
            (self.here / name).write_text("#!/bin/sh\n", encoding="utf-8")
            (self.here / name).chmod(0o755)
        self.started.append(subprocess.Popen(["bash", "-o", "pipefail", "-c", command], cwd=self.here, env=self.env,
                                             text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                             stderr=subprocess.STDOUT, start_new_session=True))
        return self.started[-1]

    def run(self, command, shown=""):
        stated = re.search(r"exit code (\d+)", command)
        codes = [int(stated[1])] if stated else [code for words, code in EXITS.items() if words in command] or [0]
        process = self.start(command)
        if ENDLESS.search(command):
            said, codes = process.stdout.readline(), [0, -signal.SIGTERM]
            assert said, command
            end(process, signal.SIGTERM)
            process.communicate(timeout=PATIENCE_S)
        else:
            said = process.communicate(timeout=PATIENCE_S)[0]
        assert process.returncode in codes and is_like(said, shown), (
            f"{command}\nends with {process.returncode}, not {codes}; it prints\n{said}\nand the page has\n{shown}")

    def show(self, command, shown):
        """Runs it as on a terminal: one that ends with & or waits goes on beside those that follow, until the drain."""
        if command.endswith("&"):
            assert is_like(self.start(command[:-1]).stdout.readline(), shown)
        elif " -w " in command:
            self.waiting.append((self.start(command), shown))
            eventually(lambda: self.broker.queue_length(re.search(r"run (\S+)", command)[1]) == 1, command)
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
    alone = " drain" in text or "held off" in text
    hold_off = ["--failover-hold-off", "1m"] if "held off" in text else []
    place = Place(api, *hold_off) if alone else request.getfixturevalue("shared")
    yield place
    place.end_all()
    if alone:
        place.close()
    else:
        place.run("distlockctl ls -A | cut -d' ' -f1 | xargs -rn1 distlockctl force-release")
        place.end_all()


def check_options(page, program, options):
    """Asks distlockd for its settings and a script for its --help; looks up the presets of cmake and ctest."""
    flags = re.findall(r"(?<![\w-])--[a-z][a-z-]*", " ".join(options))
    if program == "distlockd":
        done = subprocess.run([os.environ["DISTLOCKD"], *options, "--print-config"], capture_output=True, text=True,
                              timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stderr
    elif SCRIPT.fullmatch(program):
        path = next(p for p in (REPOSITORY / program, (REPOSITORY / page).parent / program) if p.is_file())
        python = [sys.executable, "-B"] if path.suffix == ".py" else []
        told = flags and subprocess.check_output([*python, path, "--help"], text=True, timeout=PATIENCE_S)
        assert not [flag for flag in flags if not re.search(rf"{flag}(?![\w-])", f"--help {told}")], told
    elif program in CHECKED:
        kind = "buildPresets" if "--build" in flags else "configurePresets" if program == "cmake" else "testPresets"
        names = [preset["name"] for preset in PRESETS[kind] if not preset.get("hidden")]
        assert options[options.index("--preset") + 1] in names
        assert all(name in OPTIONS for name in re.findall(r"-D(\w+)=", " ".join(options)))


@pytest.mark.parametrize("page, commands", [
    pytest.param(page, commands, id=f"{page}:{number}-{commands[0][0][:50]}") for page, number, commands in PASSAGES
    if any(is_tested(page, command) for command, _ in commands)])
def test_the_commands_run(page, commands, place):
    before = ""
    for command, shown in [(filled(command), shown) for command, shown in commands]:
        for program, options in programs(command):
            check_options(page, program, options)
        if not programs(command):
            before += f"{command}\n"  # variables
        elif is_run(page, command):
            place.run(before + command) if shown is None else place.show(command, shown)


def test_each_command_of_another_program_has_its_test():
    assert len(SHOWN) > 200
    rows = {(page, program): test for page, row in ELSEWHERE.items() for program, test in row.items()}
    assert not (gone := sorted(rows.keys() - SHOWN)), f"no page shows {gone}"
    new = {row for row in SHOWN if row not in rows and row[1] not in RUN | CHECKED | SHELL}
    new = sorted(row for row in new if row[1][:2] != "./" and not SCRIPT.fullmatch(row[1]))
    assert not new, f"name the tests of {new}"
    for (_, program), test in rows.items():
        text = test if test == FOREIGN else (REPOSITORY / test).read_text(encoding="utf-8")
        assert test == FOREIGN or re.search(rf"\b{program.rstrip('3')}\b", text, re.I), f"{test} has no {program}"
