# SPDX-License-Identifier: Apache-2.0
"""The script runs and its reply never arrives: nothing is granted twice, nothing is left behind, and no client gets an
error."""
import concurrent.futures
import uuid

import grpc
import pytest

from client import api, boot_now, failure
from faults import Holder, await_nothing_left, leftovers, script_sha, waiter
from harness import eventually
from promises import row

FAST = ("--validity", "1s")
BROKERS = ("dl:schema", "dl:m", "dl:beat")  # keys of no lock


@pytest.fixture
def redis(world):
    return world.redis()


@pytest.fixture
def net(world, redis):
    return world.proxy(redis.url)


@pytest.fixture
def daemon(world, net):
    return world.distlockd(net.url, *FAST)


@pytest.fixture
def other(world, redis):
    """Another broker, with an unbroken connection to the same store."""
    return world.distlockd(redis.url, *FAST, name="other")


def lose(net, verb):
    """Loses the reply to the next call of a script."""
    return net.drop_reply_after(script_sha(verb))


def end_of_all(redis, *streams):
    for stream in streams:
        stream.stream.cancel()
    await_nothing_left(redis)


@row("a reply is lost after the script ran")
@pytest.mark.parametrize("kind", ["session", "hold"])
def test_reply_to_an_acquire(world, redis, net, daemon, kind):
    client = world.client(daemon.url)
    lost = lose(net, "acquire")
    holder = Holder(client, kind, ttl=10).granted()
    assert lost.happened()
    value = redis.command("GET", redis.key("k", "h")).split(";")
    assert value[2] == str(holder.token), "the grant of the first attempt and that of the second differ"
    assert len(holder.all("granted")) == 1
    assert failure(client.acquire, client.spec("k", 0)).reason == "LOCK_HELD"
    end_of_all(redis, holder)


def test_reply_to_an_acquire_that_had_to_queue(world, redis, net, daemon):
    client = world.client(daemon.url)
    holder = Holder(client, "session", ttl=10).granted()
    lost = lose(net, "acquire")
    first, second = waiter(client), None
    assert lost.happened()
    second = waiter(client)
    assert client.lock("k").queue_length == 2 and first.all("queued")[0].position == 0
    holder.release()
    assert first.granted().token > holder.token and not second.all("granted")
    end_of_all(redis, first, second)


def test_reply_to_one_try(world, redis, net, daemon):
    client = world.client(daemon.url)
    lost = lose(net, "acquire")
    grant = client.acquire(client.spec("k", 0))
    assert lost.happened()
    lost = lose(net, "acquire")
    assert failure(client.acquire, client.spec("k", 0)).reason == "LOCK_HELD"
    assert lost.happened()
    assert client.release(grant.lease_id) == api().RELEASE_OUTCOME_RELEASED
    await_nothing_left(redis)


@pytest.mark.parametrize("verb", ["acquire", "release"])
def test_replies_to_several_attempts_in_a_row(world, redis, net, daemon, verb):
    client = world.client(daemon.url)
    holder = Holder(client, "session", ttl=10).granted() if verb == "release" else None
    lost = lose(net, verb)
    if verb == "acquire":
        holder = Holder(client, "session", ttl=10)
        answered = lambda: holder.all("granted")
    else:
        released = holder.stream.release(holder.id)
        answered = lambda: holder.stream.all("released", released)
    losses = 0
    while losses < 3 and not answered():  # the next attempt comes on a new connection, which takes a moment
        eventually(lambda: lost.happened() or answered(), "another loss")
        losses += lost.happened()
        lost = lose(net, verb) if lost.happened() and losses < 3 else lost
    eventually(answered, "an answer")
    assert losses >= 1
    if verb == "release":
        assert answered()[0].outcome == api().RELEASE_OUTCOME_RELEASED
    else:
        assert redis.command("GET", redis.key("k", "h")).split(";")[2] == str(holder.granted().token)
    assert len(holder.all("granted")) == 1
    end_of_all(redis, holder)


def test_reply_to_a_release(world, redis, net, daemon):
    client = world.client(daemon.url)
    holder = Holder(client, "session", ttl=10).granted()
    lost = lose(net, "release")
    assert holder.release() == api().RELEASE_OUTCOME_RELEASED, "the client held it when the script ran"
    assert lost.happened()
    await_nothing_left(redis)
    grant = client.acquire(client.spec("k", 0))
    lost = lose(net, "release")
    assert client.release(grant.lease_id) != api().RELEASE_OUTCOME_STILL_HELD
    assert lost.happened()
    await_nothing_left(redis)


@row("a reply is lost after the script ran")
@pytest.mark.parametrize("behind", ["same broker", "other broker"])
def test_reply_to_a_release_that_handed_off(world, redis, net, daemon, other, behind):
    mine, theirs = world.client(daemon.url), world.client(other.url)
    holder = Holder(mine, "session", ttl=10).granted()
    first = waiter(mine if behind == "same broker" else theirs, ttl=10)
    second = waiter(mine, ttl=10)
    lost = lose(net, "release")
    released = boot_now()
    assert holder.release() == api().RELEASE_OUTCOME_RELEASED
    assert lost.happened()
    assert first.granted().token > holder.token
    print(f"granted {(first.at('granted') - released) * 1000:.0f} ms after a release whose reply was lost")
    assert first.at("granted") - released < 8, "only when a ttl had ended"
    value = redis.command("GET", redis.key("k", "h")).split(";")
    assert value[2] == str(first.token), "the repeated release took the lock from its next holder"
    assert not second.all("granted")
    assert mine.release(first.grant.lease_id) == api().RELEASE_OUTCOME_RELEASED
    assert second.granted().token > first.token
    end_of_all(redis, second)


@row("a reply is lost after the script ran")
def test_reply_to_a_withdrawal(world, redis, net, daemon):
    client = world.client(daemon.url)
    holder = Holder(client, "session", ttl=10).granted()
    first, second = (waiter(client, kind="session") for _ in range(2))
    lost = lose(net, "withdraw")
    first.stream.cancel_acquire(first.id)
    assert first.wait_for("refused").reason == api().REFUSAL_REASON_CANCELLED
    lost.wait()
    eventually(lambda: redis.command("ZCARD", redis.key("k", "q")) == 1, "the withdrawal")
    holder.release()
    assert second.granted().token > holder.token and not first.all("granted")
    end_of_all(redis, second)


def test_reply_to_a_withdrawal_that_handed_off(world, redis, net, daemon):
    """A waiter leaves while the lock is handed to it; the next waiter gets the lock, once."""
    client = world.client(daemon.url)
    holder = Holder(client, "session", ttl=10).granted()
    first, second = (waiter(client, kind="session", ttl=10) for _ in range(2))
    lost = lose(net, "release")
    holder.stream.release(holder.id)
    first.stream.cancel_acquire(first.id)
    lost.wait()
    assert first.wait_for("refused").reason == api().REFUSAL_REASON_CANCELLED
    assert second.granted().token > holder.token and len(second.all("granted")) == 1
    end_of_all(redis, second)


@row("a reply is lost after the script ran")
def test_reply_to_a_renewal(world, redis, net, daemon):
    client = world.client(daemon.url)
    holders = [Holder(client, kind, kind, ttl=3).granted() for kind in ("session", "hold")]
    for _ in range(2):
        lose(net, "renew").wait()
    renewed = len(holders[1].all("renewed"))
    holders[1].stream.wait_for("renewed", renewed + 4)
    for holder in holders:
        assert holder.believes() and not holder.all("lost")
    grant = client.acquire(client.spec("detached", ttl=3))
    lost = lose(net, "renew")
    assert client.renew(grant.lease_id).ttl.seconds == 3
    assert lost.happened()
    client.release(grant.lease_id)
    end_of_all(redis, *holders)


def test_reply_to_tending_a_queue(world, redis, net):
    daemon = world.distlockd(net.url, "--queue-slot", "1500ms")
    client = world.client(daemon.url)
    holder = Holder(client, "session", ttl=10).granted()
    waiting = [waiter(client) for _ in range(2)]
    for _ in range(2):
        lose(net, "tend").wait()
    holder.release()
    assert waiting[0].granted().token > holder.token and not waiting[1].all("granted")
    end_of_all(redis, *waiting)


# ---- Unary calls and their request_id ----

@pytest.mark.parametrize("again", ["same broker", "other broker"])
def test_a_repeat_with_the_same_request_id_gets_the_same_grant(world, redis, net, daemon, other, again):
    request_id = str(uuid.uuid4())
    first, second = world.client(daemon.url), world.client(daemon.url if again == "same broker" else other.url)
    lost = lose(net, "acquire")
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        one = pool.submit(first.acquire, first.spec("k", ttl=10), request_id)
        lost.wait()
        two = second.acquire(second.spec("k", ttl=10), request_id)
        one = one.result()
    assert one.fencing_token == two.fencing_token and one.holder_id == two.holder_id
    assert redis.command("GET", redis.key("k", "h")).split(";")[2] == str(one.fencing_token)
    assert second.release(one.lease_id) == api().RELEASE_OUTCOME_RELEASED
    assert leftovers(redis) == []


@pytest.mark.parametrize("again", ["same broker", "other broker"])
def test_a_repeat_gets_the_answer_that_the_client_lost(world, redis, other, again):
    """The broker cannot know of the loss; the client repeats the call under its request_id, as it should."""
    direct = world.distlockd(redis.url, *FAST, name="direct")
    to_client = world.proxy(direct.url)
    request_id = str(uuid.uuid4())
    client, second = world.client(to_client.url), world.client(direct.url if again == "same broker" else other.url)
    client.lock("k")  # connects
    lost = to_client.drop_reply_after(request_id.encode(), reply=b"lease")
    with pytest.raises(grpc.RpcError) as error:
        client.acquire(client.spec("lease", ttl=10), request_id)  # long enough to tell the answer from a window update
    assert error.value.code() == grpc.StatusCode.UNAVAILABLE
    lost.wait()
    grant = second.acquire(second.spec("lease", 10, ttl=10), request_id)
    assert redis.command("GET", redis.key("lease", "h")).split(";")[2] == str(grant.fencing_token)
    assert failure(second.acquire, second.spec("lease", 0)).reason == "LOCK_HELD"
    assert second.release(grant.lease_id) == api().RELEASE_OUTCOME_RELEASED
    await_nothing_left(redis)


def test_a_release_whose_answer_was_lost_may_be_repeated(world, redis, other):
    to_client = world.proxy(other.url)
    client, next_one = world.client(to_client.url), world.client(other.url)
    grant = client.acquire(client.spec("k", ttl=10))
    lost = to_client.drop_reply_after(grant.lease_id.encode())
    with pytest.raises(grpc.RpcError):
        client.release(grant.lease_id)
    lost.wait()
    eventually(lambda: not leftovers(redis), "the release")
    held = next_one.acquire(next_one.spec("k", 0, ttl=10))
    eventually(lambda: client.release(grant.lease_id) == api().RELEASE_OUTCOME_ALREADY_GONE, "the repeat")
    assert next_one.lock("k").holders[0].fencing_token == held.fencing_token
    assert next_one.release(held.lease_id) == api().RELEASE_OUTCOME_RELEASED
    await_nothing_left(redis)


def test_a_client_that_leaves_while_its_reply_is_lost_leaves_nothing(world, redis, net, daemon):
    client = world.client(daemon.url)
    lost = lose(net, "acquire")
    holder = Holder(client, "hold", ttl=10)
    lost.wait()
    holder.stream.cancel()
    await_nothing_left(redis)
    lost = lose(net, "acquire")
    with pytest.raises(grpc.RpcError) as error:
        client.acquire(client.spec("k", ttl=10), timeout=0.001)
    assert error.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    await_nothing_left(redis)
    assert client.acquire(client.spec("k", 5)).fencing_token > 0


def test_an_idle_store_keeps_nothing_but_last_tokens(world, redis, net):
    """Nor a broker's slot in a queue, once --queue-slot has passed."""
    daemon = world.distlockd(net.url, *FAST, "--queue-slot", "1s")
    client = world.client(daemon.url)
    holder = Holder(client, "session", ttl=5).granted()
    waiting = [waiter(client, kind=kind, ttl=5) for kind in ("session", "hold")]
    lost = lose(net, "release")
    holder.release()
    lost.wait()
    waiting[0].granted()
    for stream in (holder, *waiting):
        stream.stream.cancel()
    ours = redis.key("k", "t")
    eventually(lambda: [k for k in redis.command("KEYS", "*") if "start-up" not in k and k not in BROKERS] == [ours],
               "an idle store")
    assert 0 < redis.command("PTTL", ours) <= 24 * 3600 * 1000
