# SPDX-License-Identifier: Apache-2.0
"""The client for threads against a broker that misbehaves on command."""
import re
import threading

import distlock
import grpc
import pytest
from contract import says
from distlock import _channel, _status
from distlock.v1 import look_pb2
from fake_broker import FakeBroker, eventually


def test_a_lock(broker, connect):
    dl = connect(broker.url, label="tests")
    with dl.lock("k", wait=10, owner="me", metadata={"a": "b"}) as held:
        assert held.is_held and held and held.token == 1 and 0 < held.valid_for <= 3 and held.cause == ""
        assert not held.lost and "held" in repr(held)
    spec = broker.session().await_command("acquire").acquire.locks[0]
    assert (spec.key, spec.owner, dict(spec.metadata)) == ("k", "me", {"a": "b"})
    assert 0 < spec.max_wait.ToNanoseconds() <= 10 * 10**9
    assert broker.session().await_command("open").open.client == "tests"
    assert not held.is_held and not held.lost and held.cause == "GIVEN_BACK"
    assert broker.session().await_command("release").release.lapsed is False


def test_a_release_tells_the_outcome(broker, connect):
    held = connect(broker.url).lock("k").acquire()
    assert held.release() is distlock.Outcome.RELEASED
    assert held.release() is distlock.Outcome.ALREADY_GONE


def test_busy_names_the_holders(broker, connect):
    def refuse(session, command):
        session.refuse(command.id, "LOCK_HELD", message="held by host 7", queue_length=3,
                       holders=[{"holder_id": "h", "owner": "host 7", "fencing_token": 9}])

    broker.on_acquire = refuse
    with pytest.raises(distlock.Busy, match="host 7") as busy:
        with connect(broker.url).lock("k", wait=0):
            pass
    assert [one.owner for one in busy.value.holders] == ["host 7"] and busy.value.queue_length == 3


@pytest.mark.parametrize("reason, kind", [
    ("WAIT_TIMEOUT", distlock.Busy), ("LIMIT_MISMATCH", distlock.Busy), ("STORE_UNAVAILABLE", distlock.Unavailable),
    ("STORE_HOLD_OFF", distlock.Unavailable),
    ("INVALID_ARGUMENT", distlock.InvalidRequest), ("INVALID_ARGUMENT", ValueError),
    ("PERMISSION_DENIED", distlock.Refused), ("QUOTA_EXCEEDED", distlock.Refused)])
def test_refusals(broker, connect, reason, kind):
    broker.on_acquire = lambda session, command: session.refuse(command.id, reason, message="why")
    with pytest.raises(kind) as refused:
        connect(broker.url).lock("k").acquire()
    assert refused.value.reason == reason and refused.value.message == "why"


def test_a_lock_is_not_free_during_a_hold_off(broker, connect):
    def answer(request, context):
        response = look_pb2.GetLockResponse(lock={"key": request.key})
        if request.key == "held off":
            response.hold_off.FromSeconds(38)
        return response

    broker.unary["GetLock"] = answer
    dl = connect(broker.url)
    free, held_off = dl.inspect("k"), dl.inspect("held off")
    assert (free.is_free, free.hold_off, held_off.is_free, held_off.hold_off) == (True, 0, False, 38)


def test_leaving_a_lost_lock_raises(broker, connect):
    heard = threading.Event()
    with pytest.raises(distlock.LockLost, match="FORCED") as lost:
        with connect(broker.url).lock("k", on_loss=lambda held: heard.set()) as held:
            session = broker.session()
            session.lose(session.await_command("acquire").id, "FORCED")
            assert held.lost.wait(20)
            with pytest.raises(distlock.LockLost):
                held.check()
    assert lost.value.cause == "FORCED" and heard.wait(20)


def test_the_error_of_the_body_is_kept(broker, connect):
    with pytest.raises(KeyError):
        with connect(broker.url).lock("k") as held:
            session = broker.session()
            session.lose(session.await_command("acquire").id, "TAKEN")
            assert held.lost.wait(20)
            raise KeyError


def test_a_handler_of_a_signal_withdraws_the_wait(broker, connect):
    import signal
    broker.on_acquire = lambda session, command: None

    def stop(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, stop)
    try:
        dl, main = connect(broker.url), threading.main_thread().ident

        def interrupt():
            broker.session().await_command("acquire")
            signal.pthread_kill(main, signal.SIGUSR1)

        threading.Thread(target=interrupt, daemon=True).start()
        with pytest.raises(KeyboardInterrupt):
            dl.lock("k").acquire()
    finally:
        signal.signal(signal.SIGUSR1, before)
    acquired = broker.session().await_command("acquire")
    assert broker.session().await_command("cancel").cancel.acquire_id == acquired.id


@says("Open a new session: at the next broker at once, when several are known")
def test_a_dead_address_costs_nothing(broker, connect, folder):
    for _ in range(3):
        dl = connect(f"unix://{folder}/nobody.sock,{broker.url}", unreachable_after=20)
        with dl.lock("k") as held:
            assert held.is_held
        dl.close()


@says("Ask again for what was not granted yet")
def test_a_wait_outlives_its_stream(broker, connect):
    broker.on_acquire = lambda session, command: None
    answers = []
    dl = connect(broker.url)
    waiter = threading.Thread(target=lambda: answers.append(dl.lock("k", wait=60).acquire()), daemon=True)
    waiter.start()
    broker.session().await_command("acquire")
    broker.session().end(grpc.StatusCode.UNAVAILABLE, "gone")
    second = broker.session(2)
    second.grant(second.await_command("acquire").id)
    waiter.join(20)
    assert answers and answers[0].is_held


@says("Every end but the first means: all leases of the session are lost, except those that move.")
@pytest.mark.parametrize("code", ["UNAVAILABLE", "ABORTED", "INVALID_ARGUMENT", "RESOURCE_EXHAUSTED", None])
def test_each_end_of_a_stream_loses_its_leases(broker, connect, code):
    held = connect(broker.url).lock("k").acquire()
    broker.session().end(getattr(grpc.StatusCode, code) if code else None, "the end")
    assert held.lost.wait(20) and held.cause == "DISCONNECTED"


@says("The program hears nothing.")
def test_a_drain_moves_a_lock(broker, connect, folder):
    with FakeBroker(f"unix://{folder}/other.sock") as other:
        held = connect(f"{broker.url},{other.url}").lock("k").acquire()
        first, second = (broker, other) if broker.sessions else (other, broker)
        second.adopted_token = held.token
        before = held.lease_id
        first.session().drain()
        first.session().await_command("goodbye")
        assert second.session().await_command("adopt").adopt.lease_id == before
        assert held.is_held and held.lease_id != before and not held.lost
        assert held.release() is distlock.Outcome.RELEASED


def test_a_drain_of_the_only_broker_is_told(broker, connect):
    told = []
    dl = connect(broker.url, on_draining=told.append)
    with dl.lock("k") as held:
        broker.session().drain(30)
        eventually(lambda: told)
        assert held.is_held and told == [30.0]


def test_resume_after_a_break(broker, connect):
    held = connect(broker.url).lock("k", resume=True).acquire()
    broker.adopted_token = held.token
    broker.session().end(grpc.StatusCode.UNAVAILABLE, "restarted")
    broker.session(2).await_command("adopt")
    eventually(lambda: not held.at_risk)
    assert held.is_held


@says("Believe in nothing, end the stream.")
def test_a_frozen_broker(broker, connect):
    held = connect(broker.url).lock("k").acquire()
    broker.frozen.set()
    session = broker.session()
    assert held.lost.wait(20) and held.cause == "LAPSED"
    assert session.ended.wait(20)
    broker.frozen.clear()
    again = held._core and connect(broker.url).lock("k").acquire()
    assert again.is_held


@says("Goodbye is the last command and frees all leases at once.")
def test_close_says_goodbye(broker, connect):
    dl = connect(broker.url)
    held = dl.lock("k").acquire()
    assert not broker.session().half_closed.is_set()
    dl.close()
    assert broker.session().got("goodbye")
    assert held.cause == "CLIENT_CLOSED"
    with pytest.raises(distlock.ClientClosed):
        dl.lock("k").acquire()


def test_a_wait_ends_with_the_client(broker, connect):
    broker.on_acquire = lambda session, command: None
    dl, raised = connect(broker.url), []

    def wait():
        try:
            dl.lock("k").acquire()
        except distlock.ClientClosed as error:
            raised.append(error)

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    broker.session().await_command("acquire")
    dl.close()
    waiter.join(20)
    assert raised


def test_a_session_that_is_denied(broker, connect):
    broker.refuse_sessions = (grpc.StatusCode.UNAUTHENTICATED, "no token", ())
    with pytest.raises(distlock.Refused, match="no token") as refused:
        connect(broker.url).lock("k", wait=10).acquire()
    assert refused.value.reason == "UNAUTHENTICATED"


def test_nobody_is_there(connect, folder):
    with pytest.raises(distlock.Unavailable, match="DISTLOCK_SERVER"):
        connect(f"unix://{folder}/nobody.sock", unreachable_after=0.2).lock("k").acquire()


def test_the_default_address_names_the_socket_that_is_missing(monkeypatch, folder):
    monkeypatch.delenv("DISTLOCK_SERVER", raising=False)
    monkeypatch.setattr(_channel, "SOCKET", f"{folder}/missing.sock")
    monkeypatch.setattr(_channel, "LOOPBACK", "127.0.0.1:1")
    missing = f"no broker at 127.0.0.1:1 (there was no socket {folder}/missing.sock) took it within"
    for address, named in ((None, missing), ("127.0.0.1:1", "no broker at 127.0.0.1:1 took it within")):
        with distlock.connect(address, unreachable_after=0.1) as dl:
            with pytest.raises(distlock.Unavailable, match=re.escape(named)):
                dl.lock("k").acquire()
    monkeypatch.setenv("DISTLOCK_SERVER", "127.0.0.1:1")
    with distlock.connect(unreachable_after=0.1) as dl, pytest.raises(distlock.Unavailable, match=":1 took it"):
        dl.lock("k").acquire()


def test_values_that_cannot_be_sent(broker, connect):
    dl = connect(broker.url)
    for wrong in ({"wait": -1}, {"wait": "5"}, {"ttl": -1}, {"owner": 7}, {"metadata": {"a": 1}}, {"ttl": "x"}):
        with pytest.raises(distlock.InvalidRequest) as refused:
            dl.lock("k", **wrong)
        assert refused.value.field_problems[0][0] == next(iter(wrong))


def test_the_decorator(broker, connect):
    dl = connect(broker.url)

    @dl.locked(lambda name: f"job/{name}", wait=0, busy=distlock.SKIP)
    def job(name):
        return name.upper()

    assert job("a") == "A"
    assert broker.session().await_command("acquire").acquire.locks[0].key == "job/a"
    broker.on_acquire = lambda session, command: session.refuse(command.id, "LOCK_HELD")
    assert job("a") is distlock.SKIP and not job("a")


def test_downgrade_queue_and_observer(broker, connect):
    seen, queued = [], []

    class Seen(distlock.Observer):
        def acquiring(self, keys, mode):
            seen.append((tuple(keys), mode))
            return "span"

        def answered(self, cookie, outcome, waited):
            seen.append((cookie, outcome))

        def ended(self, cookie, cause, held_for):
            seen.append((cookie, cause))

    def queue_first(session, command):
        session.event(id=command.id, queued={"position": 2})
        session.grant(command.id)

    broker.on_acquire = queue_first
    with connect(broker.url, observer=Seen()).lock("k", on_queued=queued.append) as held:
        held.downgrade()
    assert broker.session().got("downgrade")
    eventually(lambda: queued)
    assert queued[0].position == 2
    assert seen == [(("k",), "EXCLUSIVE"), ("span", "GRANTED"), ("span", "GIVEN_BACK")]


def test_a_callback_that_fails_or_blocks_costs_no_lock(broker, connect):
    free, dl = threading.Event(), connect(broker.url)
    with pytest.raises(distlock.LockLost):
        with dl.lock("a", on_loss=lambda held: free.wait(20)) as lost:
            with dl.lock("b", on_loss=lambda held: 1 / 0):
                session = broker.session()
                session.lose(session.await_command("acquire").id, "FORCED")
                assert lost.lost.wait(20)
                beats = len(session.got("heartbeat"))
                session.await_command("heartbeat", beats + 2)
                with dl.lock("c", wait=20) as other:
                    assert other.is_held
                free.set()


def test_addresses(monkeypatch):
    monkeypatch.setenv("DISTLOCK_SERVER", "a:1,b:2")
    assert distlock.connect().address == "a:1,b:2"
    assert _channel.split_addresses(" a:1, b:2,a:1,/x.sock ") == ["a:1", "b:2", "unix:///x.sock"]
    addresses = _channel.Addresses("a,b,c", shuffle=lambda them: them.reverse())
    assert [addresses.present, addresses.next(), addresses.next(), addresses.next()] == ["c", True, True, False]


@says("Switch gRPC's retries off")
def test_the_channel_is_as_the_contract_says():
    options = dict(_channel.OPTIONS)
    assert options["grpc.enable_retries"] == 0 and options["grpc.enable_http_proxy"] == 0
    assert options["grpc.keepalive_time_ms"] == 10_000 and options["grpc.keepalive_timeout_ms"] == 5_000
    assert options["grpc.keepalive_permit_without_calls"] == 1
    assert options["grpc.max_receive_message_length"] == 4 << 20


def test_details_of_a_failed_call():
    def part(number, data):
        return bytes([number << 3 | 2, len(data)]) + data

    info = part(1, b"LOCK_HELD") + part(3, part(1, b"holder_id") + part(2, b"h7")) + part(
        3, part(1, b"fencing_token") + part(2, b"12"))
    resource = part(1, b"lock") + part(3, b"host 7")
    retry = part(1, bytes([1 << 3, 2]))
    status = b"".join(part(3, part(1, b"type.googleapis.com/google.rpc." + name) + part(2, data)) for name, data in (
        (b"ErrorInfo", info), (b"ResourceInfo", resource), (b"RetryInfo", retry)))

    class Error:
        def code(self):
            return grpc.StatusCode.ABORTED

        def details(self):
            return "held"

        def trailing_metadata(self):
            return ((_status.DETAILS, status),)

    refused = _status.refused(Error())
    assert isinstance(refused, distlock.Busy) and refused.retry_after == 2
    assert (refused.holders[0].owner, refused.holders[0].token) == ("host 7", 12)


def test_one_session_and_no_thread_for_each_lock(broker, connect):
    dl = connect(broker.url)
    dl.lock("first").acquire()
    before = threading.active_count()
    held = [dl.lock(str(i)).acquire() for i in range(200)]
    assert threading.active_count() < before + 20 and len(broker.sessions) == 1
    assert all(held) and dl._core.clock() > 0
