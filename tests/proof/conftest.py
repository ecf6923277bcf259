# SPDX-License-Identifier: Apache-2.0
"""`place`: a repository of its own with a release list of fake stages."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).resolve().parent
PATIENCE_S = 60
TABLE = r'''
from kinds import Amount, Rows, Seeds
WORK = ("sh", "work.sh")
STAGES = [
    Seeds("simulations", ("product",), 100, 10, (*WORK, "seeds", "{first}", "{count}"), quick=("true",)),
    Rows("table", ("product", "tests"), 2, ("cat", "rows"), (*WORK, "rows"),
         r"(?P<row>\w+): (?:good|(?P<bad>bad))(?P<said>.*)", quick=("false",)),
    Amount("soak", ("product",), 30, 20, "minutes", (*WORK, "soak", "{amount}", "{seed}"), seconds=60, least=2,
           grace=30, ran=r"(\d+) minutes of faults", quick=("true",)),
    Amount("suite", ("product",), 1, 1, "runs", (*WORK, "suite"), quick=("true",), may_repeat=True),
]
'''
# The file `script` has its steps, so that a test can change them without changing the code.
# At the end it says how many seeds have run, unless the steps name another number.
WORK = """#!/bin/sh
trap 'code=$?; [ $code != 0 ] || [ "$1" != seeds ] || echo "${told-$3} seeds, 0 violations"; exit $code' EXIT
. ./script
"""


def eventually(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not come true")


class Place:
    def __init__(self, folder):
        self.folder, self.record = folder, folder / "tests/proof/record.jsonl"
        self.started = []
        for path, text in (("product/a.cc", "int a;\n"), ("product/README.md", "A page.\n"), ("tests/t.py", "pass\n"),
                           ("rows", "one\ntwo\nthree\nfour\nfive\n"), ("work.sh", WORK), ("table.py", TABLE),
                           (".gitignore", "build\n"),
                           ("tests/.gitattributes", (HERE.parent / ".gitattributes").read_text(encoding="utf-8"))):
            self.write(path, text)
        self.does("exit 0")
        self.git("init", "-q", "-b", "main")
        self.commit("first")

    def write(self, path, text):
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text, encoding="utf-8")

    def does(self, script):
        """What a piece does from now on. Its words are $1 (the kind) and what its command says behind that."""
        self.write("script", script + "\n")

    def git(self, *args):
        return subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *args], cwd=self.folder, check=True,
                              capture_output=True, text=True).stdout

    def commit(self, message):
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def command(self, *args):
        return [sys.executable, "-B", HERE / "release.py", "--root", self.folder, "--table", self.folder / "table.py",
                *args]

    def run(self, *args, code=0):
        done = subprocess.run(self.command(*args), capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def start(self, *args):
        self.started.append(subprocess.Popen(self.command(*args), stdout=subprocess.PIPE, text=True))
        return self.started[-1]

    def rows(self, stage="", **like):
        if not self.record.exists():
            return []
        rows = [json.loads(line) for line in self.record.read_text(encoding="utf-8").splitlines()]
        return [row for row in rows if row["stage"].startswith(stage) and like.items() <= row.items()]

    def seeds(self):
        """All seeds that are recorded, as often as they are."""
        return sorted(seed for row in self.rows("simulations") for seed in range(row["seeds"][0], sum(row["seeds"])))

    def status(self, stage):
        """(state, text) of a stage."""
        done = subprocess.run(self.command("--status", "--only", stage), capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    def close(self):
        for one in self.started:
            if one.poll() is None:
                one.send_signal(signal.SIGKILL)
            one.wait()
            one.stdout.close()


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    yield made
    made.close()


def is_running(pid):
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):
        return False
