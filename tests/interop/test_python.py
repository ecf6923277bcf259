# SPDX-License-Identifier: Apache-2.0
"""Hold, Session and detached leases from stock Python gRPC: grpcio, protobuf and protoc, nothing else."""
import queue
import time
import uuid

import grpc
import pytest


def test_hold(locks, pb):
    stream = locks.Hold(pb.HoldRequest(lock=pb.LockSpec(key="hold", owner="python")))
    grant = next(stream).granted
    assert grant.fencing_token > 0 and grant.valid_for.seconds >= 2
    assert next(stream).renewed.valid_for.seconds >= 1
    assert [h.owner for h in locks.GetLock(pb.GetLockRequest(key="hold")).lock.holders] == ["python"]

    second = locks.Hold(pb.HoldRequest(lock=pb.LockSpec(key="hold")))
    assert next(second).queued.position == 0
    assert locks.Release(pb.ReleaseRequest(lease_id=grant.lease_id)).outcome == pb.RELEASE_OUTCOME_RELEASED
    assert [e.WhichOneof("event") for e in stream if e.WhichOneof("event") != "renewed"] == ["released"]
    assert stream.code() == grpc.StatusCode.OK
    assert next(second).granted.fencing_token > grant.fencing_token
    second.cancel()


def test_session(locks, pb):
    commands = queue.SimpleQueue()

    def send(**command):
        commands.put(pb.SessionRequest(commands=[pb.SessionCommand(**command)]))

    stream = locks.Session(iter(commands.get, None))
    events = (event for response in stream for event in response.events)
    send(id=1, open=pb.OpenSession(client="python"))
    opened = next(events).opened
    assert opened.heartbeat_interval.ToNanoseconds() * 3 == opened.validity.ToNanoseconds()

    sent_at = time.clock_gettime(time.CLOCK_BOOTTIME)
    send(heartbeat=pb.Heartbeat(seq=1))
    ack = next(events).heartbeat_ack
    assert ack.seq == 1 and not ack.limits
    believe_until = sent_at + ack.valid_for.ToNanoseconds() / 1e9

    two = [pb.SessionCommand(id=i, acquire=pb.AcquireLocks(locks=[pb.LockSpec(key=f"s{i}")])) for i in (2, 3)]
    commands.put(pb.SessionRequest(commands=two))
    grants = {event.id: event.granted for event in (next(events), next(events))}
    assert set(grants) == {2, 3} and all(g.echo_seq == 1 for g in grants.values())
    assert time.clock_gettime(time.CLOCK_BOOTTIME) < believe_until

    try_once = pb.LockSpec(key="s2")
    try_once.max_wait.seconds = 0
    send(id=4, acquire=pb.AcquireLocks(locks=[try_once]))
    refused = next(events)
    assert refused.id == 4 and refused.refused.holders[0].holder_id == grants[2].holder_id
    send(id=5, release=pb.ReleaseLease(acquire_id=2))
    assert next(events).released.outcome == pb.RELEASE_OUTCOME_RELEASED
    send(goodbye=pb.Goodbye())
    assert not list(events) and stream.code() == grpc.StatusCode.OK
    assert not locks.GetLock(pb.GetLockRequest(key="s3")).lock.holders


def test_detached(locks, pb):
    lock = pb.LockSpec(key="detached")
    lock.ttl.seconds = 5
    lock.max_wait.seconds = 0
    request = pb.AcquireRequest(locks=[lock], request_id=str(uuid.uuid4()))
    grant, = locks.Acquire(request).grants
    assert locks.Acquire(request).grants[0].fencing_token == grant.fencing_token, "a repeat gets the same grant"
    assert 4 <= locks.Renew(pb.RenewRequest(lease_id=grant.lease_id)).valid_for.ToNanoseconds() / 1e9 <= 5
    with pytest.raises(grpc.RpcError) as busy:
        locks.Acquire(pb.AcquireRequest(locks=[lock]))
    assert busy.value.code() == grpc.StatusCode.ABORTED
    assert locks.Release(pb.ReleaseRequest(lease_id=grant.lease_id)).outcome == pb.RELEASE_OUTCOME_RELEASED
    assert locks.Release(pb.ReleaseRequest(lease_id=grant.lease_id)).outcome == pb.RELEASE_OUTCOME_ALREADY_GONE
    with pytest.raises(grpc.RpcError) as gone:
        locks.Renew(pb.RenewRequest(lease_id=grant.lease_id))
    assert gone.value.code() == grpc.StatusCode.FAILED_PRECONDITION
