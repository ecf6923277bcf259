# SPDX-License-Identifier: Apache-2.0
"""A broker in this process that grants everything, and misbehaves on command.

    with FakeBroker("unix:///tmp/x.sock") as broker:
        broker.on_acquire = lambda session, command: session.refuse(command.id, "LOCK_HELD")
        session = broker.session()      # the newest, once it is open
        session.event(id=1, lost=...)
"""
import itertools
import queue
import threading
import time
from concurrent import futures

import grpc
from distlock.v1 import lock_pb2, lock_service_pb2 as wire, look_pb2 as look

PATIENCE_S = 20
VALIDITY_S = 3


def eventually(condition, what="the condition"):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.005)
    raise AssertionError(f"{what} did not come true within {PATIENCE_S} s")


class FakeSession:
    """One stream. `commands`: all that came."""

    def __init__(self, broker, context):
        self.broker, self.context = broker, context
        self.commands, self.sizes = [], []
        self.outbox = queue.SimpleQueue()  # a response, or None for the end
        self.answers_heartbeats = True
        self.ended = threading.Event()
        self.half_closed = threading.Event()

    def event(self, **event):
        self.outbox.put(wire.SessionResponse(events=[wire.SessionEvent(**event)]))

    def grant(self, command_id, key="", **more):
        fields = {"lease_id": f"{self.broker.url} {next(self.broker.leases)}", "holder_id": "h", "hold_count": 1,
                  "fencing_token": next(self.broker.tokens), "key": key, **more}
        grant = lock_pb2.Grant(**fields)
        grant.valid_for.FromMilliseconds(int(VALIDITY_S * 1000))
        grant.echo_seq = max((one.heartbeat.seq for one in self.commands if one.HasField("heartbeat")), default=0)
        self.event(id=command_id, granted=grant)

    def refuse(self, command_id, reason, **more):
        self.event(id=command_id, refused=lock_pb2.Refusal(reason="REFUSAL_REASON_" + reason, **more))

    def lose(self, acquire_id, reason):
        self.event(id=acquire_id, lost=wire.LeaseLost(reason="LOST_REASON_" + reason, message="by the test"))

    def drain(self, seconds=30):
        message = wire.BrokerDraining()
        message.time_left.FromSeconds(seconds)
        self.event(draining=message)

    def end(self, code=None, details=""):
        self.outbox.put((code, details))

    def got(self, kind):
        return [one for one in list(self.commands) if one.HasField(kind)]

    def await_command(self, kind, count=1):
        """The count-th command of that kind."""
        return eventually(lambda: len(self.got(kind)) >= count and self.got(kind), f"{count} {kind}")[count - 1]

    def read(self, requests):
        try:
            for request in requests:
                self.sizes.append(request.ByteSize())
                for command in request.commands:
                    self.commands.append(command)
                    self.obey(command)
            self.half_closed.set()
        except grpc.RpcError:
            pass
        except Exception:
            pass

    def obey(self, command):
        kind = command.WhichOneof("command")
        if self.broker.frozen.is_set():
            return
        if kind == "open":
            opened = wire.SessionOpened(session_id="s", broker_id="b", max_message_bytes=self.broker.max_bytes,
                                        max_leases=10_000, max_unanswered=4096, features=self.broker.features)
            opened.validity.FromSeconds(VALIDITY_S)
            opened.heartbeat_interval.FromSeconds(1)
            self.event(id=command.id, opened=opened)
        elif kind == "acquire":
            self.broker.on_acquire(self, command)
        elif kind == "adopt":
            self.broker.on_adopt(self, command)
        elif kind == "release":
            self.event(id=command.id, released=wire.LeaseReleased(outcome=wire.RELEASE_OUTCOME_RELEASED))
        elif kind == "downgrade":
            self.event(id=command.id, downgraded=wire.LeaseDowngraded())
        elif kind == "heartbeat" and self.answers_heartbeats:
            ack = wire.HeartbeatAck(seq=command.heartbeat.seq)
            ack.valid_for.FromSeconds(VALIDITY_S)
            self.event(heartbeat_ack=ack)
        elif kind == "cancel":
            self.refuse(command.cancel.acquire_id, "CANCELLED")
        elif kind == "goodbye":
            self.outbox.put((None, ""))


def grant_all(session, command):
    for i, lock in enumerate(command.acquire.locks):
        session.grant(command.id + i, lock.key)


def adopt(session, command):
    session.grant(command.id, command.adopt.lock.key, fencing_token=session.broker.adopted_token)


class FakeBroker:
    def __init__(self, url):
        self.url = url
        self.on_acquire, self.on_adopt = grant_all, adopt
        self.adopted_token = 1
        self.features, self.max_bytes = ["permit", "adopt"], 64 << 10
        self.refuse_sessions = None  # (code, details, trailers)
        self.frozen = threading.Event()
        self.sessions = []
        self.tokens, self.leases = itertools.count(1), itertools.count(1)
        self.unary = {}  # method name -> function of (request, context)
        self._server = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        self._server = grpc.server(futures.ThreadPoolExecutor(32))
        session = grpc.stream_stream_rpc_method_handler(self._session, wire.SessionRequest.FromString,
                                                        wire.SessionResponse.SerializeToString)
        handlers = {"Session": session}
        for name in ("Acquire", "Renew", "Release", "GetLock"):
            room = look if name == "GetLock" else wire
            handlers[name] = grpc.unary_unary_rpc_method_handler(
                lambda request, context, name=name: self.unary[name](request, context),
                getattr(room, name + "Request").FromString, getattr(room, name + "Response").SerializeToString)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("distlock.v1.LockService",
                                                                                    handlers),))
        self._server.add_insecure_port(self.url)
        self._server.start()

    def stop(self):
        for session in self.sessions:
            session.end()
        self._server.stop(0).wait()

    def session(self, number=1):
        """The number-th session, once it is open."""
        found = eventually(lambda: len(self.sessions) >= number and self.sessions[number - 1], f"session {number}")
        found.await_command("open")
        return found

    def _session(self, requests, context):
        if self.refuse_sessions is not None:
            code, details, trailers = self.refuse_sessions
            context.set_trailing_metadata(trailers)
            context.abort(code, details)
        session = FakeSession(self, context)
        self.sessions.append(session)
        context.add_callback(session.ended.set)
        context.add_callback(lambda: session.outbox.put((None, "")))
        threading.Thread(target=session.read, args=(requests,), daemon=True).start()
        while True:
            answer = session.outbox.get()
            if isinstance(answer, wire.SessionResponse):
                yield answer
                continue
            code, details = answer
            if code is not None and context.is_active():
                context.abort(code, details)
            return
