# SPDX-License-Identifier: Apache-2.0
"""Starts distlockctl for the tests, and ends all processes that it started.

Nothing here runs Python between fork and exec (preexec_fn, os.fork), because gRPC's own fork handlers may then wait
for ever."""
import json
import os
import signal
import subprocess

from broker import PATIENCE_S


class Ctl:
    def __init__(self, program, address):
        self.program = program
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("DISTLOCK_")}
        self.env["DISTLOCK_SERVER"] = address
        self.running = []

    def start(self, *args, prefix=(), **options):
        """The prefix is a program that then runs distlockctl, such as env with its flags."""
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        env = {**self.env, **options.pop("extra_env", {})}
        options.setdefault("stderr", subprocess.PIPE)
        process = subprocess.Popen([*prefix, self.program, *args], text=True, env=env, **options)
        self.running.append(process)
        return process

    def __call__(self, *args, text=None, **options):
        """Runs distlockctl to its end; the result has returncode, stdout, stderr."""
        options["stdin"] = subprocess.DEVNULL if text is None else subprocess.PIPE
        process = self.start(*args, **options)
        out, err = process.communicate(text, timeout=PATIENCE_S)
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    def json(self, *args, **options):
        done = self(*args, "-o", "json", **options)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def close(self):
        for process in self.running:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream:
                    stream.close()


def ends(process):
    """Waits for the process; its exit code."""
    return process.wait(timeout=PATIENCE_S)


def line(process):
    """The next line that the process prints."""
    return process.stdout.readline().rstrip("\n")


def alive(pid):
    """Whether the process runs: a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False


def state(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return f.read().rsplit(")", 1)[1].split()[0]
