# SPDX-License-Identifier: Apache-2.0
"""Shared by the fault tests: clients that are processes of their own, checks of the hand-over from a holder that is
gone, and reads of the store. Run as a program, this file is a thin client that prints its deadlines.
"""
import contextlib
import hashlib
import json
import os
import pathlib
import signal
import socket
import sys
import threading
import time

from client import Client, api, boot_now
from harness import DISTLOCKD, Process, RedisError, eventually, read_reply
from proxy import PATIENCE_S

DISTLOCKCTL = os.environ.get("DISTLOCKCTL", str(pathlib.Path(DISTLOCKD).with_name("distlockctl")))
# The scripts, assembled by the build.
SCRIPTS = pathlib.Path(os.environ.get("DISTLOCK_SCRIPTS", pathlib.Path(DISTLOCKD).parents[1] / "generated/lua"))
SLACK_S = 5  # added to upper bounds, for a busy machine
# Arguments of a broker that loses no lease and refuses none because processes are not run for some seconds. Leases need
# a ttl to match: LONG_TTL_S.
PATIENT = ("--validity", "20s", "--default-ttl", "60s", "--store-timeout", "30s")
LONG_TTL_S = 60.0


def script_sha(verb):
    """The SHA-1 by which the broker calls a script."""
    path = SCRIPTS / f"{verb}.lua"
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: build distlock_lua; DISTLOCK_SCRIPTS is <build>/generated/lua")
    return hashlib.sha1(path.read_bytes()).hexdigest().encode()


# ---- Clients that are processes ----

class Program(Process):
    """A client process whose JSON lines are its events."""

    def __init__(self, world, name, argv):
        super().__init__(name, argv, world.folder)
        world._add(self).launch()

    def all(self, event=None):
        found = [json.loads(line) for line in self.log().splitlines() if line.startswith("{") and line.endswith("}")]
        return [e for e in found if event in (None, e.get("event"))]

    def wait_for(self, event):
        return eventually(lambda: self.all(event), f"{event} of {self.name}: {self.log()}")[0]

    def believed_until(self):
        """The last deadline that a thin client has printed."""
        return max((e["until"] for e in self.all("believes")), default=0.0)


def thin_client(world, url, kind, key, ttl, name="holder"):
    """Starts this file as a client process; kind: session or hold."""
    return Program(world, name, [sys.executable, "-B", __file__, url, kind, key, ttl])


def ctl(world, url, *args, name="ctl"):
    """Starts distlockctl hold or run: a client with the C++ library."""
    end = args.index("--") if "--" in args else len(args)
    return Program(world, name, [DISTLOCKCTL, *args[:end], "--server", url, "-o", "json", *args[end:]])


def _thin_client_main(url, kind, key, ttl):
    def say(event, **more):
        print(json.dumps({"event": event, "at": boot_now(), **more}), flush=True)
    client = Client(url)
    spec = client.spec(key, ttl=float(ttl))
    if kind == "hold":
        stream = client.hold(spec)
        grant = stream.wait_for("granted")
        until = lambda: stream.believed_until
        believes = stream.believes
    else:
        stream = client.session()
        lock = stream.acquire(spec)
        grant = stream.wait_for(lock, "granted")
        until = lambda: stream.believed_until.get(lock, 0.0)
        believes = lambda: stream.believes(lock)
    said = until()
    say("believes", until=said)
    say("granted", token=grant.fencing_token)
    while believes():
        if until() > said:
            said = until()
            say("believes", until=said)
        time.sleep(0.002)
    say("lost")
    stream.wait_end()
    say("ended")


# ---- Holders and waiters ----

class Holder:
    """A lock on a Session or Hold stream, with one interface for both."""

    def __init__(self, client, kind, key="k", **fields):
        self.kind = kind
        spec = client.spec(key, **fields)
        self.stream = client.hold(spec) if kind == "hold" else client.session()
        self.id = None if kind == "hold" else self.stream.acquire(spec)

    def wait_for(self, event):
        return self.stream.wait_for(event) if self.kind == "hold" else self.stream.wait_for(self.id, event)

    def granted(self):
        self.grant = self.wait_for("granted")
        return self

    def all(self, event):
        return self.stream.all(event) if self.kind == "hold" else self.stream.all(event, self.id)

    def times(self, event):
        """When each event of this kind arrived, on the boot clock."""
        return [t for t, e in list(self.stream.events)
                if e.WhichOneof("event") == event and (self.kind == "hold" or e.id == self.id)]

    def at(self, event):
        return self.times(event)[0]

    def believes(self):
        return self.stream.believes() if self.kind == "hold" else self.stream.believes(self.id)

    def until(self):
        found = self.stream.believed_until
        return found if self.kind == "hold" else found.get(self.id, 0.0)

    def release(self):
        assert self.kind == "session"
        return self.stream.wait_for(self.stream.release(self.id), "released").outcome

    @property
    def token(self):
        return self.grant.fencing_token


def waiter(client, key="k", kind="hold", **fields):
    found = Holder(client, kind, key, **fields)
    found.wait_for("queued")
    return found


class Belief:
    """Records a holder's deadline in a thread, so that it is known also after the stream has ended."""

    def __init__(self, holder):
        self.holder, self.until, self._done = holder, holder.until(), threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self):
        while not self._done.wait(0.001):
            self.until = max(self.until, self.holder.until())

    def stop(self):
        self._done.set()
        self._thread.join()
        return max(self.until, self.holder.until())


def handed_over(waiting, believed_until, token, since, within):
    """The waiter got the lock with a greater token, after the holder's belief had ended, and at most `within` after
    `since`."""
    grant = waiting.granted().grant
    at = waiting.at("granted")
    print(f"granted {(at - since) * 1000:.0f} ms after; bound {within * 1000:.0f} ms; "
          f"belief had ended {(at - believed_until) * 1000:.0f} ms before")
    assert at >= believed_until, f"granted {believed_until - at:.4f} s before the belief of the other ended"
    assert at - since <= within + SLACK_S, f"granted only {at - since:.3f} s after, not {within}"
    assert grant.fencing_token > token
    return at - since


# ---- The store ----

def leftovers(redis):
    """Keys that idle locks must not leave behind. Last tokens stay for a day, the census' marker and heartbeat
    for a week, the schema's mark for a month, a broker's queue slot for --queue-slot."""
    stays = (":t", ":m", ":beat", ":schema")
    return [k for k in redis.command("KEYS", "*") if not k.endswith(stays) and "}:b:" not in k]


def await_nothing_left(redis):
    eventually(lambda: not leftovers(redis), "a store without holders, queues and waiters")


def expiry(redis, key):
    """When the key expires in the store, by this machine's boot clock; 0 when it does not exist."""
    at = redis.command("PEXPIRETIME", key) / 1000
    return at - time.time() + boot_now() if at > 0 else 0.0


class Admin:
    """A connection to the store that stays open when the store accepts no new ones."""

    def __init__(self, redis):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE_S)
        self.sock.connect(str(redis.path))
        self.stream = self.sock.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()
        self.sock.close()

    def __call__(self, *args):
        self.sock.sendall(f"*{len(args)}\r\n".encode() + b"".join(b"$%d\r\n%s\r\n" % (len(a), a) for a in
                                                                  (str(a).encode() for a in args)))
        return read_reply(self.stream)


class Monitor(Admin):
    """Reads every command that the store executes from now on."""

    def __enter__(self):
        self.lines = []
        assert self("MONITOR") == "OK"
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        return self

    def _read(self):
        with contextlib.suppress(OSError, ValueError):
            while line := self.stream.readline():
                self.lines.append(line.decode(errors="replace"))

    def seen(self, redis):
        """All lines so far. They come on a connection of their own, so this sends a mark and waits for it."""
        mark = f"mark-{boot_now()}"
        redis.command("ECHO", mark)
        eventually(lambda: any(mark in line for line in list(self.lines)), f"the monitor to hear of {mark}")
        return list(self.lines)

    def __exit__(self, *_):
        self.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        super().__exit__()


@contextlib.contextmanager
def in_background(work, *args):
    """Runs `work` in a thread while the block runs; raises its error, if any, when both are done."""
    errors = []

    def run():
        try:
            work(*args)
        except Exception as error:  # pylint: disable=broad-except
            errors.append(error)
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    yield thread
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "the work in the background never ended"
    if errors:
        raise errors[0]


def stopped(*processes):
    """Freezes processes and their descendants; returns a function that lets them go on."""
    pids = [p for process in processes for p in _freeze(process.pid)]
    assert len(pids) >= len(processes), "a process to be frozen has ended"

    def go_on():
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):  # a process that went on earlier has ended it
                os.kill(pid, signal.SIGCONT)
    return go_on


def _freeze(pid):
    """A process first, then its children: a frozen one starts no more. Those that have ended meanwhile are left out."""
    try:
        os.kill(pid, signal.SIGSTOP)
        eventually(lambda: _state(pid) in "TZ", f"process {pid} to be frozen")
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:
            below = [int(c) for c in children.read().split()]
    except (ProcessLookupError, FileNotFoundError):
        return []
    return [pid] + [p for child in below for p in _freeze(child)]


def _state(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
        return stat.read().rpartition(")")[2].split()[0]


__all__ = ["Admin", "Belief", "Holder", "LONG_TTL_S", "Monitor", "PATIENT", "Program", "RedisError", "SLACK_S",
           "await_nothing_left", "api", "ctl", "expiry", "handed_over", "in_background", "leftovers", "script_sha",
           "stopped", "thin_client", "waiter"]

if __name__ == "__main__":
    _thin_client_main(*sys.argv[1:])
