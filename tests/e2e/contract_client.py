# SPDX-License-Identifier: Apache-2.0
"""A client that does what proto/distlock/v1/session.md says, under the names of its pseudo code, and nothing more.

`Rules` is the pseudo code: no threads, no IO; the clock and the sender are given. `ContractClient` runs it on a gRPC
stream, on any clock, and can be paused like a process.
"""
import itertools
import queue
import threading

import grpc

from client import CHANNEL_OPTIONS, api, boot_now, seconds

LEAST_PAUSE_S = 0.01
OPEN_PATIENCE_S = 10


class SlowClock:
    """A clock that counts `rate` seconds for each second of the machine."""

    def __init__(self, rate):
        self.rate, self.start = rate, boot_now()

    def now(self):
        return self.start + (boot_now() - self.start) * self.rate

    def true(self, local):
        return self.start + (local - self.start) / self.rate


class Lease:
    def __init__(self, program, spec):
        self.program, self.spec = program, spec
        self.state, self.deadline, self.token = "WAITING", 0.0, 0


class Rules:
    """`program` of a lease has granted(lease), believes(lease), lost(lease, why), refused(lease, refusal)."""

    def __init__(self, now, send):
        self.now, self.send, self.ids = now, send, itertools.count(1)
        self.sent, self.seq, self.acked = {0: now()}, 0, -1
        self.session_deadline = now() + OPEN_PATIENCE_S
        self.leases, self.heartbeat_due, self.validity, self.interval = {}, float("inf"), None, None
        self.broken = False
        send(api().SessionCommand(id=next(self.ids), open=api().OpenSession(client="contract client")))

    def acquire(self, lease):
        lease_id = next(self.ids)
        self.leases[lease_id] = lease
        self.send(api().SessionCommand(id=lease_id, acquire=api().AcquireLocks(locks=[lease.spec])))
        return lease_id

    def release(self, lease_id):
        if self.leases.pop(lease_id, None) is not None:
            self.send(api().SessionCommand(id=next(self.ids), release=api().ReleaseLease(acquire_id=lease_id)))

    def heartbeat(self):
        self.seq += 1
        self.sent[self.seq] = self.now()
        self.sent.pop(self.seq - 64, None)
        self.heartbeat_due = self.now() + self.interval
        self.send(api().SessionCommand(heartbeat=api().Heartbeat(seq=self.seq)))

    def hear(self, event):
        on = getattr(self, "on_" + (event.WhichOneof("event") or "nothing"), None)
        if on is not None and not self.broken:
            on(event.id, getattr(event, event.WhichOneof("event")))

    def on_opened(self, _, opened):
        self.validity, self.interval = seconds(opened.validity), seconds(opened.heartbeat_interval)
        self.session_deadline = self.sent[0] + self.validity
        self.heartbeat_due = self.sent[0] + self.interval
        if self.now() - self.sent[0] > self.validity / 6:
            self.heartbeat()

    def on_granted(self, lease_id, grant):
        lease = self.leases.get(lease_id)
        if lease is None:
            return
        lease.state, lease.token = "GRANTED", grant.fencing_token
        if grant.echo_seq in self.sent:
            self.set_deadline(lease_id, self.sent[grant.echo_seq] + seconds(grant.valid_for))

    def on_heartbeat_ack(self, _, ack):
        if ack.seq not in self.sent or ack.seq <= self.acked or self.now() >= self.session_deadline:
            return
        self.acked = ack.seq
        promised = self.sent[ack.seq] + seconds(ack.valid_for)
        self.session_deadline = max(self.session_deadline, promised)
        limits = {limit.acquire_id: self.sent[ack.seq] + seconds(limit.valid_for) for limit in ack.limits}
        for lease_id, lease in list(self.leases.items()):
            if lease.state != "WAITING":
                self.set_deadline(lease_id, limits.get(lease_id, max(lease.deadline, promised)))

    def set_deadline(self, lease_id, deadline):
        lease = self.leases[lease_id]
        if lease.state == "HELD" and self.now() >= lease.deadline:
            return self.end(lease_id, "EXPIRED")
        lease.deadline = deadline
        if lease.state == "GRANTED" and self.now() < deadline:
            lease.state = "HELD"
            lease.program.granted(lease)
        if lease.state == "HELD":
            lease.program.believes(lease)
        half_way = self.now() + max((deadline - self.now()) / 2, LEAST_PAUSE_S)
        self.heartbeat_due = min(self.heartbeat_due, half_way)

    def on_refused(self, lease_id, refusal):
        lease = self.leases.pop(lease_id, None)
        if lease is not None:
            lease.program.refused(lease, refusal)

    def on_lost(self, lease_id, lost):
        if lease_id in self.leases:
            self.end(lease_id, lost.reason)

    def end(self, lease_id, why):
        lease = self.leases.pop(lease_id)
        if lease.state == "HELD":
            lease.program.lost(lease, why)
        if why == "EXPIRED":
            release = api().ReleaseLease(acquire_id=lease_id, lapsed=True)
            self.send(api().SessionCommand(id=next(self.ids), release=release))

    def timer(self):
        if self.now() >= self.session_deadline:
            return self.break_off()
        for lease_id, lease in list(self.leases.items()):
            if lease.state == "HELD" and self.now() >= lease.deadline:
                self.end(lease_id, "EXPIRED")
        if self.now() >= self.heartbeat_due:
            self.heartbeat()

    def timer_due(self):
        held = [lease.deadline for lease in self.leases.values() if lease.state == "HELD"]
        return min([self.heartbeat_due, self.session_deadline, *held])

    def break_off(self):
        """The stream ended, or must end. What is left in `leases` is to be asked for in the next session."""
        self.broken = True
        for lease_id, lease in list(self.leases.items()):
            if lease.state == "HELD":
                del self.leases[lease_id]
                lease.program.lost(lease, "EXPIRED" if self.now() >= lease.deadline else "DISCONNECTED")


class ContractClient:
    """Keeps one session open, and opens the next when it breaks. All rules run in one thread, as after a pause of a
    process: nothing is read and no timer runs while `paused` is set."""

    def __init__(self, url, clock):
        self.url, self.clock = url, clock
        self.running = threading.Event()
        self.running.set()
        self._inbox = queue.SimpleQueue()  # a response, an end (None) of a stream, or something to do
        self._over = False
        self.rules = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def pause(self):
        self.running.clear()

    def resume(self):
        self.running.set()

    def do(self, what):
        """Runs what(rules) in the client's thread. `rules` is None while there is no session."""
        self._inbox.put(("do", what))

    def close(self):
        self._over = True
        self.running.set()
        self._inbox.put(("do", lambda rules: None))
        self._thread.join()

    def _open(self):
        channel = grpc.insecure_channel(self.url, options=CHANNEL_OPTIONS)
        requests = queue.SimpleQueue()
        call = channel.stream_stream("/distlock.v1.LockService/Session", api().SessionRequest.SerializeToString,
                                     api().SessionResponse.FromString)(iter(requests.get, None))
        rules = Rules(self.clock.now, lambda command: requests.put(api().SessionRequest(commands=[command])))
        threading.Thread(target=self._read, args=(call, rules), daemon=True).start()
        return channel, rules

    def _read(self, call, rules):
        try:
            for response in call:
                self._inbox.put((rules, response))
        except grpc.RpcError:
            pass
        self._inbox.put((rules, None))

    def _run(self):
        waiting = []
        while not self._over:
            channel, self.rules = self._open()
            for lease in waiting:
                self.rules.acquire(lease)
            self._live(self.rules)
            if not self.rules.broken:
                self.rules.break_off()
            waiting = list(self.rules.leases.values())
            for lease in waiting:
                lease.state = "WAITING"
            channel.close()

    def _live(self, rules):
        while not self._over and not rules.broken:
            try:
                about, what = self._inbox.get(timeout=max(0.0, rules.timer_due() - self.clock.now()))
            except queue.Empty:
                about = None
            self.running.wait()
            if about == "do":
                what(rules)
            elif about is rules and what is None:
                return
            elif about is rules:
                for event in what.events:
                    rules.hear(event)
            rules.timer()
