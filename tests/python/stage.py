# SPDX-License-Identifier: Apache-2.0
"""A lock table on a stage: the clock and the broker are the test. Times are in seconds."""
from distlock import _convert
from distlock._clock import SECOND
from distlock._lease import Phase, Request
from distlock._lock_table import LockTable
from distlock.types import Mode, Options
from distlock.v1 import lock_pb2, lock_service_pb2 as wire


def ns(seconds):
    return round(seconds * SECOND)


class Hold:
    """One request of the program, and what it has heard."""

    def __init__(self, stage, specs, wait):
        self.answers, self.lost = [], 0
        self.request = Request(specs, None if wait is None else ns(wait), self.answers.append)
        self.lease = self.request.leases[0]
        stage.do("acquire", self.request)

    @property
    def granted(self):
        return self.answers == [None]

    @property
    def held(self):
        return self.lease.phase == Phase.HELD

    @property
    def refused(self):
        return self.answers[0].reason if self.answers and self.answers[0] is not None else None

    @property
    def id(self):
        return self.lease.id


class Stage:
    def __init__(self, brokers=1, unreachable_after=10, opened=True, **options):
        self.now = ns(1000)
        patience = None if unreachable_after is None else ns(unreachable_after)
        self.table = LockTable("there", brokers, "test", patience, ns(1))
        self.draining = []
        self.table.tell_draining = self.draining.append
        if opened:
            self.start()
            self.opened(**options)

    def tell(self, fx):
        for callback, values in fx:
            callback(*values)

    def do(self, method, *values):
        """A method of the table that takes the time and the effects last."""
        fx = []
        result = getattr(self.table, method)(*values, self.now, fx)
        self.tell(fx)
        return result

    def start(self):
        self.do("start")
        return self.sent()

    def wait(self, seconds):
        """Time passes; nothing runs."""
        self.now += ns(seconds)

    def tick(self, seconds=0):
        """Time passes, and the timer runs. Returns what is sent."""
        self.wait(seconds)
        self.do("tick")
        return self.sent()

    def live(self, seconds, step=0.1, answer=True, link=None):
        """Time passes with the timer, and with a broker that answers each heartbeat."""
        until = self.now + ns(seconds)
        while self.now < until:
            for command in self.tick(min(step, (until - self.now) / SECOND)):
                if command.HasField("heartbeat") and answer:
                    self.ack(command.heartbeat.seq, link=link)

    def sent(self, link=None):
        """The commands that are sent now."""
        message = self.table.pack(self.table.link if link is None else link, self.now)
        return list(message.commands) if message is not None else []

    def names(self, commands=None):
        return [one.WhichOneof("command") for one in (self.sent() if commands is None else commands)]

    def hear(self, link=None, id=0, **event):
        self.do("on_event", self.table.link if link is None else link, wire.SessionEvent(id=id, **event))

    def opened(self, validity=3, features=("permit", "adopt"), link=None, max_bytes=64 << 10, store=""):
        message = wire.SessionOpened(session_id="s", broker_id="b", max_message_bytes=max_bytes, max_leases=1000,
                                     features=features, store_id=store)
        message.validity.FromNanoseconds(ns(validity))
        message.heartbeat_interval.FromNanoseconds(ns(validity / 3))
        self.hear(link, opened=message)

    def grant(self, hold, valid_for=3, echo=0, token=7, lease_id="secret", link=None, id=None):
        message = lock_pb2.Grant(lease_id=lease_id, holder_id="h", fencing_token=token, echo_seq=echo, hold_count=1)
        message.valid_for.FromNanoseconds(ns(valid_for))
        self.hear(link, id=hold.id if id is None else id, granted=message)

    def ack(self, seq, valid_for=3, limits=(), link=None):
        message = wire.HeartbeatAck(seq=seq)
        message.valid_for.FromNanoseconds(ns(valid_for))
        for hold, limit in limits:
            message.limits.add(acquire_id=hold.id).valid_for.FromNanoseconds(ns(limit))
        self.hear(link, heartbeat_ack=message)

    def beat(self):
        """A heartbeat is sent now; its seq."""
        self.table.link.heartbeat_due = True
        return [one.heartbeat.seq for one in self.sent() if one.HasField("heartbeat")][-1]

    def refuse(self, id, reason, link=None, **more):
        self.hear(link, id=id, refused=lock_pb2.Refusal(reason="REFUSAL_REASON_" + reason, **more))

    def lose(self, hold, reason, link=None):
        self.hear(link, id=hold.id, lost=wire.LeaseLost(reason="LOST_REASON_" + reason, message="so it is"))

    def drain(self, seconds=30):
        message = wire.BrokerDraining()
        message.time_left.FromNanoseconds(ns(seconds))
        self.hear(draining=message)

    def breaks(self, link=None, cause="DISCONNECTED", failure=None):
        self.do("on_broken", self.table.link if link is None else link, cause, "the stream ended", failure)

    def acquire(self, key="k", wait=None, mode=Mode.EXCLUSIVE, **options):
        return Hold(self, [_convert.spec(key, mode, Options(**options))], wait)

    def acquire_all(self, keys, wait=None):
        return Hold(self, [_convert.spec(key, Mode.EXCLUSIVE, Options()) for key in keys], wait)

    def hold(self, key="k", valid_for=3, lease_id="secret", **options):
        """A lock that is held."""
        hold = self.acquire(key, **options)
        hold.lease.on_end.append(lambda: setattr(hold, "lost", hold.lost + 1))
        self.sent()
        self.grant(hold, valid_for, echo=self.table.link.session.last_sent, lease_id=lease_id)
        assert hold.granted and hold.held
        return hold

    def at_risk(self, hold):
        return self.table.at_risk(hold.lease, self.now)

    def release(self, hold, tell=None):
        fx = []
        self.table.release(hold.lease, tell, self.now, fx)
        self.tell(fx)
        return self.sent()
