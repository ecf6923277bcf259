# SPDX-License-Identifier: Apache-2.0
"""Sessions of one peer that ask for locks which others hold, and read no answer.

    unread_sessions.py --target HOST:PORT|/path/of/the.sock --held KEY... [--sessions N] [--together N]
        [--window BYTES] [--acquires N] [--asks N]

Opens the sessions, prints "idle" and keeps them alive. At a line on stdin they begin to ask, as fast as the broker
takes it, and let no byte of an answer through. At the next line they read all that waits for them, and are silent.
Prints JSON: how much they sent and read, and how often each status message came at their ends.
"""
import argparse
import collections
import functools
import json
import os
import select
import subprocess
import sys
import time
import urllib.parse

import hpack
import hyperframe.frame as frames

from assailant import OPEN, PREFACE, SESSION, SOURCE, Target, frame, headers, message
from client import api, duration

FIRST_WINDOW = 65_535
# By few tries, that the answers are what takes memory; and by as many as fit into a message and what gRPC reads ahead.
ATTACKS = {"refusals-unread": ("--asks", "200"),
           "commands-unread": ("--together", "1", "--acquires", "3000", "--asks", "1000000000")}
TOLD = ("10 no", "8 the")  # how the status begins of a session that has lapsed, or that does not read
ALL = (1 << 31) - 1
FIRST_ID = 2
BEAT_S = 0.8
CLOSE_S = 20


def begin(name, client, target):
    """The process of one of ATTACKS, whose sessions are idle. client: one of somebody else, who takes the locks."""
    keys = [f"held/{i}" for i in range(8)]
    for key in keys:
        for _ in range(16):
            client.acquire(client.spec(key, 0, mode=api().LOCK_MODE_SHARED, ttl=600, owner="h" * 256,
                                       metadata={"m": "v" * 1000}))
    process = subprocess.Popen(
        ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, "-B", __file__, "--target", target, "--held", *keys,
         *ATTACKS[name]], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "idle\n"
    return process


def tell(process, word):
    process.stdin.write(word + "\n")
    process.stdin.flush()


def untold(ends):
    """The ends that do not say why."""
    return {end: count for end, count in ends.items() if end[:5] not in TOLD}


@functools.cache
def beat_message(seq):
    beat = api().SessionCommand(heartbeat=api().Heartbeat(seq=seq))
    return message(api().SessionRequest(commands=[beat]).SerializeToString())


@functools.cache
def ask_message(first_id, keys, acquires):
    """One try for each of so many locks."""
    commands = []
    for i in range(acquires):
        lock = api().LockSpec(key=keys[i % len(keys)], max_wait=duration(0))
        commands.append(api().SessionCommand(id=first_id + i, acquire=api().AcquireLocks(locks=[lock])))
    return message(api().SessionRequest(commands=commands).SerializeToString())


class Stream:
    def __init__(self, window):
        self.window, self.next_id, self.beats = window, FIRST_ID, 0
        self.rest = b""  # of a message that has begun
        self.end = None  # why it ended


class Link:
    """One connection with its sessions."""

    def __init__(self, target, window):
        self.sock = target.connect()
        self.streams, self.by_default, self.window = {}, FIRST_WINDOW, FIRST_WINDOW
        self.out, self.got = bytearray(PREFACE + frame(frames.SettingsFrame, settings={4: window})), b""
        self.decoder, self.block, self.cut = hpack.Decoder(), b"", False
        self.read_bytes = self.sent = 0

    def open(self, number):
        block = headers(SESSION)
        for stream in range(1, 2 * number, 2):
            self.streams[stream] = Stream(self.by_default)
            self.out += frame(frames.HeadersFrame, stream, ["END_HEADERS"], data=block)
            self.streams[stream].rest = message(OPEN)

    def living(self):
        return [] if self.cut else [(at, it) for at, it in self.streams.items() if it.end is None]

    def beat(self):
        for _, stream in self.living():
            stream.beats += 1
            stream.rest += beat_message(stream.beats)

    def ask(self, keys, acquires, most):
        for _, stream in self.living():
            if not stream.rest and stream.next_id - FIRST_ID + acquires <= most:
                stream.rest = ask_message(stream.next_id, keys, acquires)
                stream.next_id += acquires

    def let_through(self):
        self.out += frame(frames.SettingsFrame, settings={4: ALL})
        self.out += frame(frames.WindowUpdateFrame, 0, window_increment=ALL - (1 << 24))

    def fill(self):
        """Frames from what the streams have to say, as far as the broker lets them."""
        for at, stream in self.living():
            while stream.rest and len(self.out) < 1 << 20:
                room = min(self.window, stream.window, 16_000)
                part, stream.rest = stream.rest[:max(room, 0)], stream.rest[max(room, 0):]
                if not part:
                    break
                self.window -= len(part)
                stream.window -= len(part)
                self.sent += len(part)
                self.out += frame(frames.DataFrame, at, data=part)

    def turn(self, ready):
        try:
            if ready & ~select.POLLOUT:
                got = self.sock.recv(1 << 20)
                if not got:
                    raise ConnectionResetError
                self.hear(got)
            if ready & select.POLLOUT:
                del self.out[:self.sock.send(self.out)]
        except BlockingIOError:
            pass
        except OSError:
            self.cut = True

    def hear(self, got):
        self.got += got
        while len(self.got) >= 9:
            seen, size = frames.Frame.parse_frame_header(memoryview(self.got[:9]))
            if len(self.got) < 9 + size:
                return
            seen.parse_body(memoryview(self.got[9:9 + size]))
            self.got = self.got[9 + size:]
            self.heard(seen)

    def heard(self, seen):
        stream = self.streams.get(seen.stream_id)
        if isinstance(seen, frames.SettingsFrame) and "ACK" not in seen.flags:
            by_default = seen.settings.get(4, self.by_default)
            for of in self.streams.values():
                of.window += by_default - self.by_default
            self.by_default = by_default
            self.out += frame(frames.SettingsFrame, flags=["ACK"])
        elif isinstance(seen, frames.PingFrame) and "ACK" not in seen.flags:
            self.out += frame(frames.PingFrame, flags=["ACK"], opaque_data=seen.opaque_data)
        elif isinstance(seen, frames.WindowUpdateFrame):
            if seen.stream_id == 0:
                self.window += seen.window_increment
            elif stream is not None:
                stream.window += seen.window_increment
        elif isinstance(seen, frames.DataFrame):
            self.read_bytes += len(seen.data)
        elif isinstance(seen, (frames.HeadersFrame, frames.ContinuationFrame)):
            self.block += seen.data
            if "END_HEADERS" in seen.flags:
                named, self.block = dict(self.decoder.decode(self.block)), b""
                if "grpc-status" in named and stream is not None:
                    stream.end = f"{named['grpc-status']} " + urllib.parse.unquote(named.get("grpc-message", ""))
        elif isinstance(seen, frames.RstStreamFrame) and stream is not None and stream.end is None:
            stream.end = f"reset {seen.error_code}"
        elif isinstance(seen, frames.GoAwayFrame):
            self.cut = True


def run(links, until, each=lambda link: None, beats=True):
    beat_at = 0
    while not until():
        if beats and time.monotonic() >= beat_at:
            beat_at = time.monotonic() + BEAT_S
            for link in links:
                link.beat()
        going = [link for link in links if not link.cut]
        for link in going:
            each(link)
            link.fill()
        poller = select.poll()
        for link in going:
            poller.register(link.sock, select.POLLIN | (select.POLLOUT if link.out else 0))
        ready = dict(poller.poll(20))
        for link in going:
            link.turn(ready.get(link.sock.fileno(), 0))


def said():
    """Whether there is a line on stdin."""
    if not select.select([0], [], [], 0)[0]:
        return False
    os.read(0, 1000)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", required=True)
    parser.add_argument("--source", default=SOURCE)
    parser.add_argument("--held", nargs="+", required=True)
    parser.add_argument("--sessions", type=int, default=1000)
    parser.add_argument("--together", type=int, default=100, help="sessions of one connection")
    parser.add_argument("--acquires", type=int, default=8, help="in one message")
    parser.add_argument("--asks", type=int, default=200, help="tries of each session, in all")
    parser.add_argument("--window", type=int, default=0, help="bytes that each session lets through all the same")
    args = parser.parse_args()
    target = Target(args.target, args.source)
    links = [Link(target, args.window) for _ in range(args.sessions // args.together)]
    for link in links:
        link.open(args.together)
    told = []
    idle_at = time.monotonic() + 3

    def idle():
        if not told and time.monotonic() > idle_at:
            told.append(print("idle", flush=True))
        return bool(told) and said()

    run(links, idle)
    run(links, said, lambda link: link.ask(tuple(args.held), args.acquires, args.asks))
    sent = sum(link.sent for link in links)
    for link in links:
        link.let_through()
    deadline = time.monotonic() + CLOSE_S
    run(links, lambda: time.monotonic() > deadline or not any(link.living() for link in links), beats=False)
    ends = collections.Counter(stream.end or ("cut" if link.cut else "none")
                               for link in links for stream in link.streams.values())
    read = sum(link.read_bytes for link in links)
    print(json.dumps({"connections": len(links), "cut": sum(link.cut for link in links),
                      "megabytes": round(sent / 1e6, 1), "read_mb": round(read / 1e6, 1), "ends": ends}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
