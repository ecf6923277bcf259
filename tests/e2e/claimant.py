# SPDX-License-Identifier: Apache-2.0
"""A client that claims to end with its process. Run as a program it takes locks, prints JSON lines, and waits to be
killed: python3 claimant.py URL KEY... [--kind session|hold] [--forge inode|boot] [--leave fork|exec|goodbye|memory]

SIGUSR1 has it do what --leave says: leave a child that keeps the connection, become another program, say goodbye, use
512 MB of memory.
"""
import argparse
import json
import os
import signal
import sys
import threading
import time

from client import Client, api, boot_now
from faults import Program

BOOT_ID = "/proc/sys/kernel/random/boot_id"


def own_claim():
    pidfd = os.pidfd_open(os.getpid())
    try:
        with open(BOOT_ID, encoding="ascii") as file:
            return api().ProcessClaim(boot_id=file.read().strip(), pidfd_inode=os.fstat(pidfd).st_ino)
    finally:
        os.close(pidfd)


def claimant(world, url, *args, name="claimant", prefix=()):
    """Starts this file as a client process; returns when it has all its locks."""
    program = Program(world, name, [*prefix, sys.executable, "-B", __file__, url, *args])
    program.wait_for("granted")
    return program


def say(event, **more):
    print(json.dumps({"event": event, "at": boot_now(), **more}), flush=True)


def forged(claim, how):
    if how == "inode":
        claim.pidfd_inode += 1
    if how == "boot":
        claim.boot_id = "00000000-0000-4000-8000-000000000000"
    return claim


def leave(how, session):
    if how == "goodbye":
        session.goodbye()
        session.wait_end()
        say("left")
    elif how == "fork":
        child = os.fork()
        if child != 0:
            say("left", child=child)
    elif how == "exec":
        say("left")
        os.execv("/bin/sleep", ["sleep", "60"])
    elif how == "memory":
        say("left")
        used = [b"x" * (1 << 20) for _ in range(512)]
        say("not killed", megabytes=len(used))


def take(client, args, claim):
    """Takes all locks; returns the last session, and what tells until when the first lock is believed in."""
    if args.kind == "hold":
        streams = [client.hold(client.spec(key, ttl=60.0), claim) for key in args.keys]
        tokens = [stream.wait_for("granted").fencing_token for stream in streams]
        return None, tokens, lambda: streams[0].believed_until
    sessions = [client.session(process=claim) for _ in range(args.sessions)]
    say("opened", bound=[session.opened.process_bound for session in sessions])
    ids = [(sessions[i % len(sessions)], sessions[i % len(sessions)].acquire(client.spec(key, ttl=60.0)))
           for i, key in enumerate(args.keys)]
    tokens = [session.wait_for(one, "granted").fencing_token for session, one in ids]
    return sessions[-1], tokens, lambda: ids[0][0].believed_until.get(ids[0][1], 0.0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("keys", nargs="+")
    parser.add_argument("--kind", choices=("session", "hold"), default="session")
    parser.add_argument("--sessions", type=int, default=1)
    parser.add_argument("--forge", choices=("inode", "boot"))
    parser.add_argument("--leave", choices=("fork", "exec", "goodbye", "memory"))
    args = parser.parse_args()
    asked = threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: asked.set())
    session, tokens, until = take(Client(args.url), args, forged(own_claim(), args.forge))
    said = until()
    say("believes", until=said)
    say("granted", token=tokens[0])
    while not asked.is_set():
        if until() > said:
            said = until()
            say("believes", until=said)
        time.sleep(0.002)
    leave(args.leave, session)
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
