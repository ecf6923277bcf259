# SPDX-License-Identifier: Apache-2.0
"""The client of contract_client.py with several brokers: it moves its leases, as "Moving a lease" of
proto/distlock/v1/session.md says, under the names of its pseudo code, and nothing more."""
import queue
import threading
import uuid

import grpc

from client import CHANNEL_OPTIONS, api, seconds
from contract_client import Lease, Rules

RETRY_S = 0.1
FINAL = ("NOT_HOLDER", "NOT_SUPPORTED", "INVALID_ARGUMENT", "PERMISSION_DENIED", "UNAUTHENTICATED")


class MovingLease(Lease):
    def __init__(self, program, spec, resume):
        super().__init__(program, spec)
        self.resume = resume
        self.id, self.session, self.lease_id = None, None, ""  # where it is held
        self.request, self.heir, self.new = None, None, None  # the adoption that is not answered


class MovingRules(Rules):
    """One session of a client."""

    def __init__(self, client, now, send):
        self.client, self.former, self.moves = client, False, {}
        super().__init__(now, send)

    def acquire(self, lease):
        lease.session, lease.id = self, super().acquire(lease)
        return lease.id

    def adopt(self, lease):
        lease.request = lease.request or uuid.uuid4().hex
        lease.heir, lease.new = self, next(self.ids)
        self.moves[lease.new] = lease
        command = api().AdoptLease(lease_id=lease.lease_id, lock=lease.spec, request_id=lease.request)
        self.send(api().SessionCommand(id=lease.new, adopt=command))

    def give_up_move(self, lease, lapsed):
        """What is released or lost while its adoption is unanswered is released in the new session, too."""
        if lease.heir is not None and self.moves.pop(lease.new, None) is not None:
            release = api().ReleaseLease(acquire_id=lease.new, lapsed=lapsed)
            self.send(api().SessionCommand(id=next(self.ids), release=release))
        lease.heir = lease.new = lease.request = None

    def release(self, lease_id):
        lease = self.leases.get(lease_id)
        super().release(lease_id)
        if lease is not None and lease.heir is not None:
            lease.heir.give_up_move(lease, lapsed=False)

    def end(self, lease_id, why):
        lease = self.leases[lease_id]
        super().end(lease_id, why)
        if lease.heir is not None:
            lease.heir.give_up_move(lease, lapsed=True)

    def on_opened(self, _, opened):
        super().on_opened(_, opened)
        self.client.opened(self)

    def on_draining(self, *_):
        if not self.former:
            self.former = True
            self.client.draining(self)

    def on_granted(self, lease_id, grant):
        lease = self.moves.pop(lease_id, None)
        if lease is None:
            if lease_id in self.leases:
                self.leases[lease_id].lease_id = grant.lease_id
            return super().on_granted(lease_id, grant)
        former = lease.session
        if former is not None:
            former.leases.pop(lease.id, None)
        else:
            self.client.homeless.remove(lease)
        lease.id, lease.session, lease.lease_id = lease_id, self, grant.lease_id
        lease.request = lease.heir = lease.new = None
        self.leases[lease_id] = lease
        if self.now() >= lease.deadline:
            self.end(lease_id, "EXPIRED")
        else:
            assert grant.fencing_token == lease.token, "an adopted lease has another token"
            lease.program.moved(lease)
            if grant.echo_seq in self.sent:
                self.set_deadline(lease_id, self.sent[grant.echo_seq] + seconds(grant.valid_for))
        if former is not None:
            self.client.leave_if_empty(former)

    def on_refused(self, lease_id, refusal):
        lease = self.moves.pop(lease_id, None)
        if lease is None:
            return super().on_refused(lease_id, refusal)
        reason = api().RefusalReason.Name(refusal.reason).removeprefix("REFUSAL_REASON_")
        lease.heir = lease.new = None
        if reason == "NOT_HOLDER":
            self.client.lose(lease, "TAKEN")
        elif reason in FINAL:
            lease.request = None
        else:
            self.client.later(lambda: self.client.adopt(lease))

    def on_lost(self, lease_id, lost):
        lease = self.leases.get(lease_id)
        moves = lease is not None and lease.state == "HELD" and (lease.request or self.former or lease.resume)
        if moves and lost.reason in (api().LOST_REASON_MOVED, api().LOST_REASON_DRAINED):
            self.make_homeless(lease_id)
        else:
            super().on_lost(lease_id, lost)

    def make_homeless(self, lease_id):
        lease = self.leases.pop(lease_id)
        lease.session = None
        self.client.homeless.append(lease)
        if lease.heir is None:
            self.client.adopt(lease)

    def break_off(self):
        for lease in list(self.moves.values()):  # the next session asks again, with the same request_id
            lease.heir = lease.new = None
        self.moves.clear()
        for lease_id, lease in list(self.leases.items()):
            moves = lease.request or self.former or lease.resume
            if lease.state == "HELD" and moves and self.now() < lease.deadline:
                self.make_homeless(lease_id)
        super().break_off()


class MovingClient:
    """`urls`: brokers of one store; it begins with the first. All rules run in one thread."""

    def __init__(self, urls, clock):
        self.urls, self.at, self.clock = urls, 0, clock
        self.current, self.formers = None, []
        self.homeless = []  # leases that are believed in, and that no session has
        self.waiting = []   # leases that are to be asked for
        self._channels = {}
        self._late = []     # (time, what)
        self._open_at = clock.now()
        self._inbox = queue.SimpleQueue()
        self._over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    # ---- For programs, on any thread ----

    def acquire(self, lease):
        self._inbox.put((None, lambda: self._ask(lease)))

    def do(self, what):
        """Runs what() in the client's thread."""
        self._inbox.put((None, what))

    def close(self):
        self._over = True
        self._inbox.put((None, lambda: None))
        self._thread.join()

    # ---- In the client's thread ----

    def release(self, lease):
        if lease in self.homeless:
            self.homeless.remove(lease)
            if lease.heir is not None:
                lease.heir.give_up_move(lease, lapsed=False)
        elif lease.session is not None:
            lease.session.release(lease.id)
            self.leave_if_empty(lease.session)

    def opened(self, session):
        if session is self.current:
            held = [lease for former in self.formers for lease in former.leases.values() if lease.state == "HELD"]
            for lease in held + self.homeless:
                if lease.heir is None:
                    session.adopt(lease)

    def draining(self, session):
        if session is not self.current:
            return
        self.current, self._open_at = None, self.clock.now()
        self.formers.append(session)
        self.at += 1
        for lease_id, lease in list(session.leases.items()):
            if lease.state != "HELD":
                del session.leases[lease_id]
                session.send(api().SessionCommand(cancel=api().CancelAcquire(acquire_id=lease_id)))
                lease.state = "WAITING"
                self.waiting.append(lease)
        self.leave_if_empty(session)

    def leave_if_empty(self, session):
        if session in self.formers and not session.leases:
            session.send(api().SessionCommand(goodbye=api().Goodbye()))
            session.broken = True

    def adopt(self, lease):
        """Asks the present session, if there is one; the next asks by itself."""
        wanted = lease in self.homeless or (lease.session is not None and lease.session.former)
        ready = self.current is not None and self.current.validity is not None
        if ready and wanted and lease.heir is None and lease.session is not self.current:
            self.current.adopt(lease)

    def lose(self, lease, why):
        if lease in self.homeless:
            self.homeless.remove(lease)
            heir = lease.heir
            lease.program.lost(lease, why)
            if heir is not None:
                heir.give_up_move(lease, lapsed=True)
        elif lease.session is not None and lease.id in lease.session.leases:
            lease.session.end(lease.id, why)

    def later(self, what):
        self._late.append((self.clock.now() + RETRY_S, what))

    def _ask(self, lease):
        if self.current is not None and not self.current.former:
            self.current.acquire(lease)
        else:
            self.waiting.append(lease)

    def _open(self):
        channel = grpc.insecure_channel(self.urls[self.at % len(self.urls)], options=CHANNEL_OPTIONS)
        requests = queue.SimpleQueue()
        call = channel.stream_stream("/distlock.v1.LockService/Session", api().SessionRequest.SerializeToString,
                                     api().SessionResponse.FromString)(iter(requests.get, None))
        session = MovingRules(self, self.clock.now,
                              lambda command: requests.put(api().SessionRequest(commands=[command])))
        self.current, self._channels[session] = session, channel
        threading.Thread(target=self._read, args=(call, session), daemon=True).start()
        for lease in self.waiting:
            session.acquire(lease)
        self.waiting = []

    def _read(self, call, session):
        try:
            for response in call:
                self._inbox.put((session, response))
        except grpc.RpcError:
            pass
        self._inbox.put((session, None))

    def _sessions(self):
        return ([self.current] if self.current is not None else []) + self.formers

    def _drop(self, session):
        """Its stream is over."""
        if not session.broken:
            session.break_off()
        if session is self.current:
            self.current, self._open_at = None, self.clock.now() + RETRY_S
            self.at += 1
        if session in self.formers:
            self.formers.remove(session)
        for lease in session.leases.values():
            lease.state = "WAITING"
            self.waiting.append(lease)
        session.leases = {}
        if session in self._channels:
            self._channels.pop(session).close()

    def _due(self):
        times = [session.timer_due() for session in self._sessions()]
        times += [when for when, _ in self._late] + [lease.deadline for lease in self.homeless]
        return min(times + ([self._open_at] if self.current is None else []), default=float("inf"))

    def _timers(self):
        now = self.clock.now()
        for lease in [lease for lease in self.homeless if now >= lease.deadline]:
            self.lose(lease, "EXPIRED")
        due = [what for when, what in self._late if now >= when]
        self._late = [one for one in self._late if now < one[0]]
        for what in due:
            what()
        for session in self._sessions():
            if not session.broken:
                session.timer()
            if session.broken and session is self.current:
                self._drop(session)
        if self.current is None and now >= self._open_at:
            self._open()

    def _run(self):
        while not self._over:
            try:
                session, what = self._inbox.get(timeout=min(max(0.0, self._due() - self.clock.now()), 1.0))
            except queue.Empty:
                session, what = None, lambda: None
            if session is None:
                what()
            elif what is None:
                self._drop(session)
            else:
                for event in what.events:
                    session.hear(event)
            self._timers()
        for channel in self._channels.values():
            channel.close()
