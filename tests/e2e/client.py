# SPDX-License-Identifier: Apache-2.0
"""A thin gRPC client for the tests: one method per RPC, streams whose events a test can wait for, and the deadlines
that the contract gives a client (CLOCK_BOOTTIME). It neither retries nor reconnects. The messages come from protoc at
test time: `api().Grant`, `api().LOST_REASON_TAKEN`, ...
"""
import atexit
import functools
import importlib
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import types

import grpc

from proxy import PATIENCE_S

PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"
MODULES = ("distlock.v1.lock_pb2", "distlock.v1.look_pb2", "distlock.v1.lock_service_pb2",
           "distlock.v1.admin_service_pb2", "google.rpc.status_pb2", "google.rpc.error_details_pb2")
FILES = [name.removesuffix("_pb2").replace(".", "/") + ".proto" for name in MODULES]
SERVING = 1
# grpc.min_reconnect_backoff_ms stays as it is: it bounds an attempt to connect, and a call fails with the attempt, so a
# broker that the machine lets wait for a moment would look like one that is gone.
CHANNEL_OPTIONS = (("grpc.use_local_subchannel_pool", 1),  # each client has a connection of its own
                   ("grpc.initial_reconnect_backoff_ms", 50), ("grpc.max_reconnect_backoff_ms", 200))


@functools.cache
def api():
    """All messages and enum values of the contract in one place."""
    out = tempfile.mkdtemp(prefix="distlock-stubs-")
    atexit.register(shutil.rmtree, out, ignore_errors=True)
    subprocess.run(["protoc", f"-I{PROTO}", f"-I{PROTO}/third_party", f"--python_out={out}", *FILES], check=True)
    sys.path.insert(0, out)
    # google.rpc is generated here, but the package google is the one that protobuf installed.
    importlib.import_module("google").__path__.append(f"{out}/google")
    found = {}
    for name in (*MODULES, "google.protobuf.duration_pb2"):
        found.update(vars(importlib.import_module(name)))
    return types.SimpleNamespace(**found)


def boot_now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def duration(seconds):
    return api().Duration(seconds=int(seconds), nanos=round((seconds - int(seconds)) * 1e9))


def seconds(message):
    return message.seconds + message.nanos / 1e9


def health(url, service=b""):
    """Status of the standard health service (1 = serving); None when no broker answers."""
    with grpc.insecure_channel(url, options=CHANNEL_OPTIONS) as channel:
        check = channel.unary_unary("/grpc.health.v1.Health/Check")  # bytes in, bytes out: no stub is needed
        request = b"\x0a" + bytes([len(service)]) + service if service else b""
        try:
            answer = check(request, timeout=5)
        except grpc.RpcError:
            return None
    return answer[1] if answer[:1] == b"\x08" else 0


class Failure:
    """The error of a failed RPC: .code, .reason and .facts of its ErrorInfo, .retry_after in seconds or None,
    .message."""

    def __init__(self, error):
        self.code, self.message, self.reason, self.facts = error.code(), error.details(), None, {}
        self.retry_after, self.fields = None, []
        blobs = [v for k, v in error.trailing_metadata() or () if k == "grpc-status-details-bin"]
        for detail in api().Status.FromString(blobs[0]).details if blobs else ():
            if detail.Is(api().ErrorInfo.DESCRIPTOR):
                info = api().ErrorInfo.FromString(detail.value)
                self.reason, self.facts = info.reason, dict(info.metadata)
            elif detail.Is(api().RetryInfo.DESCRIPTOR):
                self.retry_after = seconds(api().RetryInfo.FromString(detail.value).retry_delay)
            elif detail.Is(api().BadRequest.DESCRIPTOR):
                self.fields = [v.field for v in api().BadRequest.FromString(detail.value).field_violations]

    def __repr__(self):
        return f"{self.code}: {self.reason} {self.facts}: {self.message}"


def failure(call, *args, **kwargs):
    """The Failure of a call that must fail."""
    try:
        result = call(*args, **kwargs)
    except grpc.RpcError as error:
        return Failure(error)
    raise AssertionError(f"it should have failed, but answered {result}")


class _ShowBearer(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor,
                  grpc.StreamStreamClientInterceptor):
    """Sends `authorization: Bearer TOKEN` with each call."""

    def __init__(self, token):
        self.metadata = (("authorization", f"Bearer {token}"),)

    def _call(self, go_on, details, request):
        return go_on(details._replace(metadata=self.metadata), request)

    intercept_unary_unary = intercept_unary_stream = intercept_stream_stream = _call


class Client:
    def __init__(self, url, token=None):
        self.channel = grpc.insecure_channel(url, options=CHANNEL_OPTIONS)
        self.calls = grpc.intercept_channel(self.channel, _ShowBearer(token)) if token else self.channel

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends every stream, like a client that goes away."""
        self.channel.close()

    def unary(self, method, request, response, timeout=PATIENCE_S, service="LockService"):
        call = self.calls.unary_unary(f"/distlock.v1.{service}/{method}", type(request).SerializeToString,
                                        response.FromString)
        return call(request, timeout=timeout)

    @staticmethod
    def spec(key, max_wait=None, **fields):
        """A LockSpec; durations (ttl, max_wait, max_hold, min_hold, lock_delay) in seconds. max_wait=0 is one try."""
        for name in ("ttl", "max_hold", "min_hold", "lock_delay"):
            if name in fields:
                fields[name] = duration(fields[name])
        spec = api().LockSpec(key=key, **fields)
        if max_wait is not None:
            spec.max_wait.CopyFrom(duration(max_wait))
        return spec

    def acquire(self, spec, request_id="", timeout=PATIENCE_S):
        return self.acquire_all([spec], request_id, timeout)[0]

    def acquire_all(self, specs, request_id="", timeout=PATIENCE_S):
        request = api().AcquireRequest(locks=specs, request_id=request_id)
        return list(self.unary("Acquire", request, api().AcquireResponse, timeout).grants)

    def renew(self, lease_id, timeout=PATIENCE_S):
        return self.unary("Renew", api().RenewRequest(lease_id=lease_id), api().RenewResponse, timeout)

    def release(self, lease_id, timeout=PATIENCE_S):
        return self.unary("Release", api().ReleaseRequest(lease_id=lease_id), api().ReleaseResponse, timeout).outcome

    def downgrade(self, lease_id, timeout=PATIENCE_S):
        request = api().DowngradeRequest(lease_id=lease_id)
        return self.unary("Downgrade", request, api().DowngradeResponse, timeout)

    def force_release(self, key, holder_id="", reason="", namespace="", timeout=PATIENCE_S):
        request = api().ForceReleaseRequest(namespace=namespace, key=key, holder_id=holder_id, reason=reason)
        return self.unary("ForceRelease", request, api().ForceReleaseResponse, timeout, service="AdminService").released

    def lock(self, key, namespace="", max_waiters=None):
        request = api().GetLockRequest(namespace=namespace, key=key, max_waiters=max_waiters)
        return self.unary("GetLock", request, api().GetLockResponse).lock

    def locks(self, namespace="", key_prefix="", page_size=0, page_token=""):
        request = api().ListLocksRequest(namespace=namespace, key_prefix=key_prefix, page_size=page_size,
                                         page_token=page_token)
        return self.unary("ListLocks", request, api().ListLocksResponse)

    def check_token(self, key, token, namespace=""):
        request = api().CheckTokenRequest(namespace=namespace, key=key, fencing_token=token)
        return self.unary("CheckToken", request, api().CheckTokenResponse)

    def can_i(self, verb, key=""):
        request = api().CheckAccessRequest(verb=verb, key=key)
        return self.unary("CheckAccess", request, api().CheckAccessResponse, service="AdminService")

    def status(self):
        return self.unary("GetStatus", api().GetStatusRequest(), api().GetStatusResponse, service="AdminService")

    def hold(self, spec, process=None):
        return Hold(self.calls, spec, process)

    def session(self, heartbeats=True, process=None):
        """With heartbeats=False the test sends heartbeats itself, by beat(). process: a ProcessClaim."""
        return Session(self.calls, heartbeats, process)


class Stream:
    """Reads a stream in a thread. `events`: all events so far, each (boot_time, event); `end`: the status of its
    end."""

    def __init__(self, call):
        self.call = call
        self.events = []
        self.end = None  # (grpc code, details) once it ended
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        try:
            for response in self.call:
                received = boot_now()
                with self._changed:
                    for event in self.unpack(response):
                        self.heard(received, event)
                        self.events.append((received, event))
                    self._changed.notify_all()
        except grpc.RpcError:
            pass
        with self._changed:
            self.end = (self.call.code(), self.call.details())
            self._changed.notify_all()

    def unpack(self, response):
        return [response]

    def heard(self, received, event):
        pass

    def wait(self, holds, what="an event"):
        """Waits until `holds()` is true, and returns its value. Calls it after each event."""
        deadline = time.monotonic() + PATIENCE_S
        with self._changed:
            while not (value := holds()):
                left = deadline - time.monotonic()
                assert left > 0 and self.end is None, f"{what} never came; heard {self.events}, ended {self.end}"
                self._changed.wait(left)
            return value

    def wait_end(self):
        """Waits for the end, and returns its Failure (reason None and code OK for a good end)."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.end is not None, PATIENCE_S), f"no end; heard {self.events}"
        return Failure(self.call)

    def cancel(self):
        self.call.cancel()


class Hold(Stream):
    """A Hold call. wait_for("granted") returns the first `granted`, wait_for("renewed", 3) the third `renewed`."""

    def __init__(self, channel, spec, process=None):
        self.believed_until = 0.0  # as proto/distlock/v1/session.md says
        self.granted_at = boot_now()
        call = channel.unary_stream("/distlock.v1.LockService/Hold", api().HoldRequest.SerializeToString,
                                    api().HoldResponse.FromString)
        super().__init__(call(api().HoldRequest(lock=spec, process=process)))

    def heard(self, received, event):
        kind = event.WhichOneof("event")
        if kind == "granted":
            self.granted_at += seconds(event.granted.waited)
        if kind in ("granted", "renewed", "at_risk"):
            told = getattr(event, kind)
            self.granted_at = min(self.granted_at, received - seconds(told.since_granted))
            if kind == "granted" or received < self.believed_until:
                self.believed_until = self.granted_at + seconds(told.since_granted) + seconds(told.valid_for)
        if kind in ("lost", "released"):
            self.believed_until = 0.0

    def all(self, kind):
        return [getattr(e, kind) for _, e in list(self.events) if e.WhichOneof("event") == kind]

    def wait_for(self, kind, count=1):
        return self.wait(lambda: self.all(kind)[count - 1:], kind)[0]

    def believes(self):
        return self.end is None and boot_now() < self.believed_until


class Session(Stream):
    """An open Session stream. acquire() returns the command's id; wait_for(id, kind) its event."""

    def __init__(self, channel, heartbeats, process=None):
        self.commands = queue.SimpleQueue()
        self.sent_at = {}         # heartbeat seq -> boot time; 0 = the Open
        self.believed_until = {}  # acquire id -> boot time
        self.furthest = {}        # the same, of the latest deadline that it ever had
        self._lock = threading.Lock()
        self._last_id = self._last_seq = 0
        self._quiet = threading.Event()
        call = channel.stream_stream("/distlock.v1.LockService/Session", api().SessionRequest.SerializeToString,
                                     api().SessionResponse.FromString)
        super().__init__(call(iter(self.commands.get, None)))
        self.sent_at[0] = boot_now()
        self.opened = self.wait_for(self.send(open=api().OpenSession(client="test", process=process)), "opened")
        self.validity = seconds(self.opened.validity)
        if heartbeats:
            threading.Thread(target=self._beat_on, daemon=True).start()

    def _new_ids(self, count):
        first = self._last_id + 1
        self._last_id += count
        return list(range(first, first + count))

    def send(self, **command):
        """Sends one command as a message of its own, and returns its id."""
        with self._lock:
            [command_id] = self._new_ids(1)
            self.commands.put(api().SessionRequest(commands=[api().SessionCommand(id=command_id, **command)]))
        return command_id

    def acquire(self, spec):
        return self.send(acquire=api().AcquireLocks(locks=[spec]))

    def acquire_each(self, specs):
        """Sends a command for each, all in one message, and returns their ids."""
        with self._lock:
            ids = self._new_ids(len(specs))
            commands = [api().SessionCommand(id=i, acquire=api().AcquireLocks(locks=[s])) for i, s in zip(ids, specs)]
            self.commands.put(api().SessionRequest(commands=commands))
        return ids

    def acquire_all(self, specs):
        """Sends one command for all of them, all or nothing, and returns their ids."""
        with self._lock:
            ids = self._new_ids(len(specs))
            command = api().SessionCommand(id=ids[0], acquire=api().AcquireLocks(locks=specs))
            self.commands.put(api().SessionRequest(commands=[command]))
        return ids

    def release(self, acquire_id):
        self.believed_until.pop(acquire_id, None)
        return self.send(release=api().ReleaseLease(acquire_id=acquire_id))

    def cancel_acquire(self, acquire_id):
        return self.send(cancel=api().CancelAcquire(acquire_id=acquire_id))

    def goodbye(self):
        return self.send(goodbye=api().Goodbye())

    def half_close(self):
        self.commands.put(None)

    def beat(self):
        with self._lock:
            self._last_seq += 1
            seq = self._last_seq
            self.sent_at[seq] = boot_now()
            self.commands.put(api().SessionRequest(commands=[api().SessionCommand(heartbeat=api().Heartbeat(seq=seq))]))
        return seq

    def fall_silent(self):
        """Sends no heartbeat from now on; the stream stays open."""
        self._quiet.set()

    def _beat_on(self):
        interval = seconds(self.opened.heartbeat_interval)
        while self.end is None and not self._quiet.is_set():
            self.beat()
            self._quiet.wait(interval)

    def unpack(self, response):
        return response.events

    def heard(self, received, event):
        kind = event.WhichOneof("event")
        if kind == "granted":
            grant = event.granted
            self.believed_until[event.id] = self.sent_at[grant.echo_seq] + seconds(grant.valid_for)
        elif kind == "heartbeat_ack":
            ack = event.heartbeat_ack
            limits = {limit.acquire_id: seconds(limit.valid_for) for limit in ack.limits}
            for acquire_id, until in self.believed_until.items():
                valid_for = limits.get(acquire_id, seconds(ack.valid_for))
                self.believed_until[acquire_id] = max(until, self.sent_at[ack.seq] + valid_for)
        self.furthest.update(self.believed_until)
        if kind in ("lost", "released"):
            self.believed_until.pop(event.id, None)

    def all(self, kind, command_id=None):
        return [getattr(e, kind) for _, e in list(self.events)
                if e.WhichOneof("event") == kind and command_id in (None, e.id)]

    def wait_for(self, command_id, kind, count=1):
        return self.wait(lambda: self.all(kind, command_id)[count - 1:], f"{kind} of {command_id}")[0]

    def wait_ack(self, seq):
        return self.wait(lambda: [a for a in self.all("heartbeat_ack") if a.seq >= seq], f"ack of {seq}")[0]

    def believes(self, acquire_id):
        """Whether a client that follows the contract may believe at this moment that it holds the lock."""
        return self.end is None and boot_now() < self.believed_until.get(acquire_id, 0.0)
