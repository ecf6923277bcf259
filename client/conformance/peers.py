# SPDX-License-Identifier: Apache-2.0
"""The processes of one case: scripted brokers and the driver of a client. Both read JSON lines and write JSON lines."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import threading
import time

PATIENCE_S = 40  # only ends a case that hangs
NUMBERS = {"id", "acquire_id", "seq", "echo_seq", "fencing_token"}  # protobuf writes them as text


class Failed(AssertionError):
    """A step of a case did not come true."""


def boot_now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def environment(token_file=None):
    """For drivers in languages without CLOCK_BOOTTIME: how far that is from the monotonic clock, or a little less."""
    apart = min(-(time.clock_gettime_ns(time.CLOCK_MONOTONIC) - time.clock_gettime_ns(time.CLOCK_BOOTTIME))
                for _ in range(5))
    token = {"DISTLOCK_TOKEN_FILE": str(token_file)} if token_file else {}
    return {**os.environ, "DISTLOCK_BOOT_APART_NS": str(apart), **token}


def with_numbers(value):
    if isinstance(value, list):
        return [with_numbers(one) for one in value]
    if isinstance(value, dict):
        return {name: int(one) if name in NUMBERS and isinstance(one, str) else with_numbers(one)
                for name, one in value.items()}
    return value


class Peer:
    """One process. `events`: all that it has said. A waiter takes an event out of `fresh`, so that each counts once."""

    def __init__(self, name, argv, changed, token_file=None):
        self.name, self.changed = name, changed
        self.events, self.fresh = [], []
        self.over = False
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *argv], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1 << 16,
                                        env=environment(token_file))
        self.errors = ""
        self._readers = [threading.Thread(target=run, daemon=True) for run in (self._read, self._read_errors)]
        for reader in self._readers:
            reader.start()

    def _read(self):
        for text in self.process.stdout:
            self.hear(with_numbers(json.loads(text)))
        with self.changed:
            self.over = True
            self.changed.notify_all()

    def hear(self, event):
        with self.changed:
            self.events.append(event)
            self.fresh.append(event)
            self.changed.notify_all()

    def _read_errors(self):
        for text in self.process.stderr:
            self.errors = (self.errors + text)[-4000:]

    def write(self, *lines):
        try:
            self.process.stdin.write("".join(json.dumps(line) + "\n" for line in lines))
            self.process.stdin.flush()
        except OSError as error:
            raise Failed(f"{self.name} takes no commands: {error}") from None

    def take(self, match, what, patience=PATIENCE_S):
        """The first fresh event that matches, which is fresh no more. Waits for it."""
        deadline = time.monotonic() + patience
        seen = 0
        with self.changed:
            while True:
                for index in range(min(seen, len(self.fresh)), len(self.fresh)):
                    if match(self.fresh[index]):
                        return self.fresh.pop(index)
                seen = len(self.fresh)
                if self.over:
                    raise Failed(f"{self.name} ended with {self.process.poll()} before {what}\n{self.errors}")
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Failed(f"no {what} from {self.name} within {patience} s")
                self.changed.wait(left)

    def signal(self, number):
        self.process.send_signal(number)
        if number == signal.SIGSTOP:
            while self._state() not in "TZ":
                time.sleep(0.002)

    def _state(self):
        with open(f"/proc/{self.process.pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0]

    def kill(self):
        self.process.kill()
        self.process.wait()
        for reader in self._readers:
            reader.join()


class Broker(Peer):
    """A distlock_scripted_broker. Started again, it has the address that it had."""

    def __init__(self, name, program, listen, changed):
        super().__init__(f"broker {name}", [program, "--listen", listen], changed)
        self.address = self.take(lambda event: event["event"] == "listening", "address")["address"]

    def do(self, **line):
        """Returns when the broker has done it."""
        self.write(line)
        answer = self.take(lambda event: event["event"] in ("done", "error"), f"answer to {line}")
        if answer["event"] == "error":
            raise Failed(f"{self.name} cannot do {line}: {answer['message']}")


class Cast:
    """All processes of one case, in a folder of their own."""

    def __init__(self, broker_program, driver_argv, token=None):
        self.changed = threading.Condition()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dlc"))  # short, because the path of a unix socket must be
        self._broker_program = str(broker_program)
        self.brokers, self.past = {}, []
        if token:
            self.show(token)
        self.driver = Peer("the driver", driver_argv, self.changed, token and self.folder / "token")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for peer in [self.driver, *self.brokers.values()]:
            peer.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def show(self, token):
        """What the driver's client shows to brokers from now on."""
        new = self.folder / "token.new"
        new.write_text(token + "\n", encoding="utf-8")
        new.chmod(0o600)
        new.replace(self.folder / "token")

    def listen_at(self, name):
        return f"unix://{self.folder}/{name}.sock"

    def start_broker(self, name, listen=None):
        if name in self.brokers:
            self.past.append(self.brokers[name])
        self.brokers[name] = Broker(name, self._broker_program, listen or self.listen_at(name), self.changed)
        return self.brokers[name]

    def story(self, most=60):
        """What was said, for a case that failed."""
        lines = [(event.get("at", 0), peer.name, event) for peer in [self.driver, *self.past, *self.brokers.values()]
                 for event in list(peer.events) if event["event"] not in ("done", "message")]
        lines.sort(key=lambda line: line[0])
        told = [f"    {at / 1e9:.3f} {name}: {json.dumps({k: v for k, v in event.items() if k != 'at'})[:300]}"
                for at, name, event in lines[-most:]]
        return "\n".join(told + ([f"    the driver's stderr: {self.driver.errors}"] if self.driver.errors else []))
