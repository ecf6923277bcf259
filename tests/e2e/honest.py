# SPDX-License-Identifier: Apache-2.0
"""Honest sessions beside an attack, in a process of their own.

    honest.py --server URL --sessions 100 --leases 20 --prefix NAME [--ca FILE --cert FILE --key FILE]

Opens the sessions, takes the leases, prints "ready", and sends heartbeats until its stdin ends. Then it prints a JSON
object: lost (leases), ended (sessions), the times from heartbeat to ack in milliseconds, and that of unary calls.
"""
import argparse
import asyncio
import json
import os
import pathlib
import sys

import grpc

from client import api, boot_now, seconds

CHANNELS = 10


def open_channel(args):
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
    if not args.ca:
        return grpc.aio.insecure_channel(args.server, options=options)
    pem = [pathlib.Path(path).read_bytes() if path else None for path in (args.ca, args.key, args.cert)]
    return grpc.aio.secure_channel(args.server, grpc.ssl_channel_credentials(*pem), options=options)


class Session:
    def __init__(self, channel, name, leases):
        self.name, self.wanted = name, leases
        self.granted, self.lost, self.ended = 0, 0, ""
        self.sent = {}    # heartbeat -> when
        self.took = []    # from heartbeat to ack, in seconds
        self.ready = asyncio.Event()
        self.call = channel.stream_stream("/distlock.v1.LockService/Session", api().SessionRequest.SerializeToString,
                                          api().SessionResponse.FromString)()

    async def run(self):
        try:
            reader = asyncio.create_task(self.read())
            spec = [api().LockSpec(key=f"{self.name}/{i}") for i in range(self.wanted)]
            commands = [api().SessionCommand(id=1, open=api().OpenSession(client="honest"))]
            commands += [api().SessionCommand(id=i + 2, acquire=api().AcquireLocks(locks=[lock]))
                         for i, lock in enumerate(spec)]
            await self.call.write(api().SessionRequest(commands=commands))
            seq = 0
            while True:
                seq += 1
                self.sent[seq] = boot_now()
                beat = api().SessionCommand(heartbeat=api().Heartbeat(seq=seq))
                await self.call.write(api().SessionRequest(commands=[beat]))
                await asyncio.sleep(1)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            self.ended = self.ended or str(error)[:200]
        finally:
            reader.cancel()

    async def read(self):
        try:
            async for response in self.call:
                for event in response.events:
                    self.hear(event)
            self.ended = self.ended or "the stream ended"
        except grpc.aio.AioRpcError as error:
            self.ended = self.ended or f"{error.code()}: {error.details()}"

    def hear(self, event):
        kind = event.WhichOneof("event")
        if kind == "granted":
            self.granted += 1
            if self.granted == self.wanted:
                self.ready.set()
        elif kind == "lost":
            self.lost += 1
        elif kind == "heartbeat_ack":
            ack = event.heartbeat_ack.seq
            if ack in self.sent:
                now = boot_now()
                # Those that this ack covers as well were answered no later.
                self.took += [now - self.sent.pop(seq) for seq in sorted(self.sent) if seq <= ack]
            assert seconds(event.heartbeat_ack.valid_for) >= 0


async def call_now_and_then(channel, name, took):
    """Takes and releases a lock of its own, a call each; adds how long each took, in seconds."""
    acquire, release = (
        channel.unary_unary(f"/distlock.v1.LockService/{what}", request.SerializeToString, answer.FromString)
        for what, request, answer in (("Acquire", api().AcquireRequest, api().AcquireResponse),
                                      ("Release", api().ReleaseRequest, api().ReleaseResponse)))
    while True:
        lock = api().LockSpec(key=f"{name}/call")
        lock.max_wait.SetInParent()
        began = boot_now()
        try:
            lease = (await acquire(api().AcquireRequest(locks=[lock]), timeout=10)).grants[0].lease_id
            between = boot_now()
            await release(api().ReleaseRequest(lease_id=lease), timeout=10)
            took += [between - began, boot_now() - between]
        except grpc.aio.AioRpcError:
            took.append(float("inf"))
        await asyncio.sleep(0.05)


def percentile(values, part):
    return values[min(len(values) - 1, int(len(values) * part))] if values else float("inf")


async def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--leases", type=int, default=20)
    parser.add_argument("--prefix", default="honest")
    for name in ("--ca", "--cert", "--key"):
        parser.add_argument(name, default="")
    args = parser.parse_args()
    channels = [open_channel(args) for _ in range(min(CHANNELS, args.sessions))]
    sessions = [Session(channels[i % len(channels)], f"{args.prefix}/{i}", args.leases) for i in range(args.sessions)]
    for session in sessions:
        session.task = asyncio.create_task(session.run())
    await asyncio.wait_for(asyncio.gather(*(session.ready.wait() for session in sessions)), 60)
    for session in sessions:
        session.took.clear()
    calls = []
    caller = asyncio.create_task(call_now_and_then(channels[0], args.prefix, calls))
    print("ready", flush=True)
    stdin = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    await stdin.read()
    caller.cancel()
    # A heartbeat without its ack has taken at least as long as until now.
    took = sorted(t * 1000 for s in sessions for t in s.took + [boot_now() - at for at in s.sent.values()])
    print(json.dumps({
        "lost": sum(s.lost if not s.ended else s.wanted for s in sessions),
        "ended": sorted({s.ended for s in sessions if s.ended}), "beats": len(took),
        "p50": percentile(took, 0.5), "p99": percentile(took, 0.99), "max": took[-1] if took else float("inf"),
        "call_p99": percentile(sorted(one * 1000 for one in calls), 0.99)}))
    sys.stdout.flush()
    os._exit(0)  # what gRPC still waits for is of no use any more


if __name__ == "__main__":
    asyncio.run(main())
