# SPDX-License-Identifier: Apache-2.0
"""The Python package, as client/conformance drives it: its client for asyncio, or with --threads the one for threads.
Commands come as JSON lines on stdin; what the package says goes out as JSON lines on stdout.
client/conformance/README.md lists both."""
import asyncio
import ctypes
import json
import multiprocessing
import os
import pathlib
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "python"))

import distlock  # noqa: E402
from distlock import aio  # noqa: E402

PR_SET_PDEATHSIG = 1
COMMANDS = ("connect", "close", "acquire", "acquire_all", "fork", "spawn", "cancel", "release", "downgrade", "state")
OPTIONS = {"ttl_ms": "ttl", "max_hold_ms": "max_hold", "lock_delay_ms": "lock_delay",
           "min_hold_ms": "min_hold", "owner": "owner", "reentrant": "reentrant", "resume": "resume"}


def boot_now():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def say(event, **more):
    """One line on stdout, whole and at once."""
    line = {"event": event, "at": boot_now(), **more}
    text = json.dumps(line).encode() + b"\n"
    while text:
        text = text[os.write(1, text):]


class Entry:
    """One lock of the case, from its request on."""

    def __init__(self, name):
        self.name, self.task, self.held, self.releasing = name, None, None, False

    def granted(self, held):
        self.held = held
        say("granted", lock=self.name, token=held.token, hold_count=held.hold_count, until=self.until())
        held.on_loss(lambda held: say("lost", lock=self.name, cause=held.cause, message=""))

    def refused(self, error):
        reason = getattr(error, "reason", "CLIENT_CLOSED")
        more = {}
        if getattr(error, "retry_after", None) is not None:
            more["retry_after_ms"] = error.retry_after * 1000
        say("refused", lock=self.name, reason=reason, message=str(error),
            holders=[holder.owner for holder in getattr(error, "holders", ())], **more)

    def until(self):
        """The deadline, or a few microseconds less."""
        return boot_now() + round(self.held.valid_for * 1e9)

    def state(self):
        at = boot_now()  # before the question: so long at least the answer is true
        held, risk = self.held.is_held, self.held.at_risk
        name = ("AT_RISK" if risk else "HELD") if held else "RELEASED" if self.held.cause == "GIVEN_BACK" else "LOST"
        return {"at": at, "state": name, "cause": self.held.cause, "token": self.held.token,
                "until": self.until() if held else 0}


def work(address, keys, results):
    """In a process of its own: takes locks, tells, and waits to be killed."""
    client, taken, kept = distlock.connect(address, label="worker"), [], []
    for key in keys:
        try:
            kept.append(client.lock(key, wait=0).acquire())
            taken.append("GRANTED")
        except distlock.Refused as refused:
            taken.append(refused.reason)
    results.send(taken)
    try:
        results.recv()
    except EOFError:  # the driver has ended
        os._exit(0)


def oversee(address, keys):
    """Starts a worker, and kills it when it has told what it has taken."""
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe()
    worker = spawning.Process(target=work, args=(address, keys, there), daemon=True)
    worker.start()
    there.close()
    taken = here.recv()
    worker.kill()
    worker.join()
    say("worker", taken=taken)


class Driver:
    def __init__(self):
        self.entries, self.client, self.address = {}, None, ""
        self.tasks = set()

    def start(self, work):
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    def obey(self, line):
        if line["do"] not in COMMANDS:
            raise ValueError(f"cannot do {line['do']}")
        getattr(self, line["do"])(line)

    def connect(self, line):
        self.address = line["address"]
        more = {"unreachable_after": line["unreachable_ms"] / 1000} if "unreachable_ms" in line else {}
        self.client = aio.connect(self.address, label="conformance",
                                  on_draining=lambda left: say("draining", time_left_ms=left * 1000), **more)

    def close(self, line):
        async def work():
            await self.client.close()
            await asyncio.sleep(0)
            say("closed")

        self.start(work())

    @staticmethod
    def options(line):
        options = {name: line[key] / 1000 if key.endswith("_ms") else line[key]
                   for key, name in OPTIONS.items() if key in line}
        if "on_disconnect" in line:
            options["on_disconnect"] = distlock.OnDisconnect[line["on_disconnect"]]
        options["wait"] = line["wait_ms"] / 1000 if "wait_ms" in line else None
        return options

    def add(self, name):
        if name in self.entries:
            raise ValueError(f"{name} is in use")
        self.entries[name] = Entry(name)
        return self.entries[name]

    def request(self, line, more):
        """What to acquire, with either client."""
        key, mode = line["key"], line.get("mode", "EXCLUSIVE")
        if mode == "SHARED":
            return self.client.shared(key, **more)
        if mode == "PERMIT":
            return self.client.permits(key, limit=line["limit"], n=line.get("permits", 1), **more)
        return self.client.lock(key, **more)

    def acquire(self, line):
        entry = self.add(line["lock"])
        more = self.options(line)
        more["on_queued"] = lambda queued: say("queued", lock=entry.name, position=queued.position)

        async def work():
            entry.granted(await self.request(line, more).acquire())

        self.ask([entry], work())

    def acquire_all(self, line):
        """Lock i of the request is called NAME.i."""
        entries = [self.add(f"{line['lock']}.{i}") for i in range(len(line["keys"]))]

        async def work():
            for entry, held in zip(entries, await self.client.all(line["keys"], **self.options(line)).acquire()):
                entry.granted(held)

        self.ask(entries, work())

    def ask(self, entries, work):
        def tell(task):  # also of a task that was cancelled before it ran
            for entry in entries:
                if task.cancelled():
                    say("refused", lock=entry.name, reason="CANCELLED", message="", holders=[])
                elif task.exception() is not None:
                    entry.refused(task.exception())

        task = self.start(work)
        task.add_done_callback(tell)
        for entry in entries:
            entry.task = task

    def cancel(self, line):
        self.entries[line["lock"]].task.cancel()

    def release(self, line):
        entry = self.entries[line["lock"]]

        async def work(since):
            outcome = await entry.held.release()
            say("released", lock=entry.name, outcome=outcome.name, since=since)

        self.start(work(boot_now()))

    def downgrade(self, line):
        entry = self.entries[line["lock"]]

        async def work():
            try:
                await entry.held.downgrade()
                say("downgraded", lock=entry.name)
            except distlock.DistlockError as error:
                say("not_downgraded", lock=entry.name, reason=getattr(error, "reason", "LOST"))

        self.start(work())

    def state(self, line):
        entry = self.entries[line["lock"]]
        say("state", lock=entry.name, **entry.state())

    def spawn(self, line):
        threading.Thread(target=oversee, args=(self.address, line["keys"]), daemon=True).start()

    def fork(self, line):
        """A child that asks whether it holds the parent's locks, and takes one of its own."""
        child = os.fork()
        if child:
            threading.Thread(target=os.waitpid, args=(child, 0), daemon=True).start()
            return
        try:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            states = {name: entry.state()["state"] for name, entry in self.entries.items()}
            with distlock.connect(self.address) as client:
                try:
                    kept = client.lock("by the child", wait=0).acquire()
                    taken = "GRANTED" if kept else "LOST"
                except distlock.Refused as refused:
                    taken = refused.reason
            say("child", states=states, taken=taken)
        finally:
            os._exit(0)


class ThreadDriver(Driver):
    """The client for threads: each call that waits has a thread."""

    def start(self, work):
        threading.Thread(target=work, daemon=True).start()

    def connect(self, line):
        self.address = line["address"]
        more = {"unreachable_after": line["unreachable_ms"] / 1000} if "unreachable_ms" in line else {}
        self.client = distlock.connect(self.address, label="conformance",
                                       on_draining=lambda left: say("draining", time_left_ms=left * 1000), **more)

    def close(self, line):
        def work():
            self.client.close()
            say("closed")

        self.start(work)

    def ask(self, entries, work):
        def take():
            try:
                held = work()
                for entry, one in zip(entries, held if isinstance(held, distlock.HeldAll) else [held]):
                    entry.granted(one)
            except distlock.DistlockError as error:
                for entry in entries:
                    entry.refused(error)

        self.start(take)

    def acquire(self, line):
        entry, more = self.add(line["lock"]), self.options(line)
        more["on_queued"] = lambda queued: say("queued", lock=entry.name, position=queued.position)
        self.ask([entry], lambda: self.request(line, more).acquire())

    def acquire_all(self, line):
        entries = [self.add(f"{line['lock']}.{i}") for i in range(len(line["keys"]))]
        self.ask(entries, lambda: self.client.all(line["keys"], **self.options(line)).acquire())

    def release(self, line):
        entry, since = self.entries[line["lock"]], boot_now()
        self.start(lambda: say("released", lock=entry.name, outcome=entry.held.release().name, since=since))

    def downgrade(self, line):
        entry = self.entries[line["lock"]]

        def work():
            try:
                entry.held.downgrade()
                say("downgraded", lock=entry.name)
            except distlock.DistlockError as error:
                say("not_downgraded", lock=entry.name, reason=getattr(error, "reason", "LOST"))

        self.start(work)


def main_of_threads():
    driver = ThreadDriver()
    say("ready", language="Python, threads", features=["fork", "queued", "stores", "worker"])
    for text in sys.stdin:
        try:
            driver.obey(json.loads(text))
        except Exception as error:
            say("failed", line=text, message=repr(error))
    os._exit(0)


async def main():
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    driver = Driver()
    say("ready", language="Python, asyncio",
        features=["cancel", "fork", "queued", "many", "ordered", "stores", "worker"])
    async for text in lines:
        try:
            driver.obey(json.loads(text))
        except Exception as error:
            say("failed", line=text.decode(), message=repr(error))
    os._exit(0)


if __name__ == "__main__":
    if "--threads" in sys.argv:
        main_of_threads()
    asyncio.run(main())
