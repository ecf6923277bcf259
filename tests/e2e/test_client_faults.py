# SPDX-License-Identifier: Apache-2.0
"""The holder dies, freezes, leaves, or is cut off: when its belief ends, and when the next waiter gets the lock."""
import pytest

from client import boot_now
from faults import Belief, Holder, await_nothing_left, ctl, handed_over, stopped, thin_client, waiter
from harness import eventually
from promises import row

V = 1.0
FAST = ("--validity", "1s", "--limits", "keepalive-time=1s,keepalive-timeout=500ms,min-ping-interval=100ms")
TTL = 20  # so long that no test can pass by its expiry
DETECT_S = 0.25
KEEPALIVE_S = 1 + 0.5 + 1  # a silent connection is pinged at most a keepalive-time after its last message
DIRECTIONS = (("up", "down"), ("up",), ("down",))


@pytest.fixture
def redis(world):
    return world.redis()


@pytest.fixture
def daemon(world, redis):
    return world.distlockd(redis.url, *FAST)


@pytest.fixture
def patient(world, redis):
    """A broker with a long validity, so that its clients may be silent for some time."""
    return world.distlockd(redis.url, "--validity", "4s")


# ---- Killed ----

@row("the holder's process is killed")
def test_a_killed_client_loses_the_lock_when_its_belief_ends(world, redis, daemon):
    thin = {kind: thin_client(world, daemon.url, kind, kind, TTL, name=kind) for kind in ("session", "hold")}
    real = ctl(world, daemon.url, "hold", "real", "--ttl", f"{TTL}s")
    tokens = {key: p.wait_for("granted")["token"] for key, p in (*thin.items(), ("real", real))}
    waiting = {key: waiter(world.client(daemon.url), key) for key in tokens}
    for holder in thin.values():
        eventually(lambda h=holder: len(h.all("believes")) >= 3, "some promises")
    killed = boot_now()
    for holder in (*thin.values(), real):
        holder.kill()
    for key, holder in thin.items():
        handed_over(waiting[key], holder.believed_until(), tokens[key], killed, within=V + DETECT_S)
    handed_over(waiting["real"], killed, tokens["real"], killed, within=V + DETECT_S)
    for one in waiting.values():
        one.stream.cancel()
    await_nothing_left(redis)


@row("the holder's process is killed")
def test_the_command_of_a_killed_distlockctl_run_ends_before_the_next_holder_starts(world, daemon):
    work = ("import time, json, os\nwhile True:\n"
            " print(json.dumps({'event': 'works', 'at': time.clock_gettime(time.CLOCK_BOOTTIME),"
            " 'token': int(os.environ['DISTLOCK_TOKEN'])}), flush=True)\n time.sleep(0.005)\n")
    holder = ctl(world, daemon.url, "run", "k", "--ttl", f"{TTL}s", "--", "python3", "-c", work)
    token = holder.wait_for("works")["token"]
    waiting = waiter(world.client(daemon.url))
    killed = boot_now()
    holder.kill()
    handed_over(waiting, killed, token, killed, within=V + DETECT_S)
    last = holder.all("works")[-1]["at"]
    assert last < waiting.at("granted"), "the command still ran when the next holder had the lock"


# ---- Frozen ----

@row("the holder's process stops (SIGSTOP, swap, GC) for more than V")
def test_a_stopped_session_client_learns_of_its_loss_before_anything_else(world, daemon):
    holder = thin_client(world, daemon.url, "session", "k", TTL)
    token = holder.wait_for("granted")["token"]
    waiting = waiter(world.client(daemon.url))
    holder.stop()
    frozen, until, said = boot_now(), holder.believed_until(), len(holder.all())
    handed_over(waiting, until, token, frozen, within=V + DETECT_S)
    holder.cont()
    holder.wait_for("ended")
    # No message that came while it was frozen makes it believe again.
    assert [e["event"] for e in holder.all()[said:]] in (["lost", "ended"], ["believes", "lost", "ended"])
    assert holder.believed_until() < waiting.at("granted")


@row("the holder's process stops (SIGSTOP, swap, GC) for more than V")
def test_a_stopped_distlockctl_hold_prints_lost_when_it_goes_on(world, daemon):
    holder = ctl(world, daemon.url, "hold", "k", "--ttl", f"{TTL}s")
    token = holder.wait_for("granted")["token"]
    waiting = waiter(world.client(daemon.url))
    go_on = stopped(holder)
    frozen = boot_now()
    handed_over(waiting, frozen, token, frozen, within=V + DETECT_S)
    go_on()
    assert holder.exit_code() == 75
    assert [e["event"] for e in holder.all()] == ["granted", "lost"]
    waiting.stream.cancel()


def test_the_command_of_a_stopped_distlockctl_run_is_ended(world, daemon):
    work = ["sh", "-c", "trap 'echo told; exit 0' TERM; echo up; while :; do sleep 0.01; done"]
    holder = ctl(world, daemon.url, "run", "k", "--ttl", f"{TTL}s", "--verbose", "--", *work)
    eventually(lambda: "up\n" in holder.log(), "the command's start")
    waiting = waiter(world.client(daemon.url))
    go_on = stopped(holder)  # with its children, as Ctrl-Z or a frozen machine does
    frozen = boot_now()
    handed_over(waiting, frozen, 0, frozen, within=V + DETECT_S)
    assert "told" not in holder.log()
    go_on()
    assert holder.exit_code() == 75
    assert "told\n" in holder.log()


def test_a_client_frozen_for_less_than_its_validity_loses_nothing(world, patient):
    thin = thin_client(world, patient.url, "session", "thin", TTL)
    real = ctl(world, patient.url, "hold", "real", "--ttl", f"{TTL}s")
    for client in (thin, real):
        client.wait_for("granted")
    go_on = stopped(thin, real)
    frozen, promises = boot_now(), len(thin.all("believes"))
    eventually(lambda: boot_now() - frozen > 0.5, "half a second of standing still")
    go_on()
    eventually(lambda: len(thin.all("believes")) >= promises + 3, "new promises")
    assert not thin.all("lost") and not real.all("lost") and real.alive()
    real.terminate()
    assert real.exit_code() == 0
    assert real.all()[-1]["event"] == "released"


# ---- Leaving ----

@row("release, goodbye")
@pytest.mark.parametrize("leave", ["goodbye", "release", "distlockctl"])
def test_a_client_that_leaves_properly_frees_its_lock_at_once(world, redis, patient, leave):
    client = world.client(patient.url)
    if leave == "distlockctl":
        holder = ctl(world, patient.url, "hold", "k", "--ttl", f"{TTL}s")
        token = holder.wait_for("granted")["token"]
    else:
        holder = Holder(client, "session", ttl=TTL).granted()
        token = holder.token
    waiting = waiter(client)
    left = boot_now()
    {"goodbye": lambda: holder.stream.goodbye(), "release": lambda: holder.release(),
     "distlockctl": lambda: holder.terminate()}[leave]()
    assert waiting.granted().token > token
    took = waiting.at("granted") - left
    print(f"granted {took * 1000:.1f} ms after {leave}")
    assert took < 2.5, "the broker waited for the end of the validity"  # belief of at least 2/3 of 4 s was left


# ---- The stream ends without a goodbye ----

def cut_by_cancel(holder, net):
    holder.stream.cancel()


def cut_by_half_close(holder, net):
    holder.stream.half_close()


def cut_by_reset(holder, net):
    net.reset_all()


def cut_by_eof_to_broker(holder, net):
    net.half_close("up")


def cut_by_eof_to_client(holder, net):
    net.half_close("down")


@pytest.mark.parametrize("cut", [cut_by_cancel, cut_by_half_close, cut_by_reset, cut_by_eof_to_broker,
                                 cut_by_eof_to_client], ids=lambda cut: cut.__name__)
def test_the_lock_of_a_broken_stream_is_freed_when_belief_has_ended(world, redis, daemon, cut):
    net = world.proxy(daemon.url)
    kinds = ("session",) if cut is cut_by_half_close else ("session", "hold")
    holders = [Holder(world.client(net.url), kind, kind, ttl=TTL).granted() for kind in kinds]
    waiting = [waiter(world.client(daemon.url), kind) for kind in kinds]
    beliefs = [Belief(h) for h in holders]
    broken = boot_now()
    for holder in holders:
        cut(holder, net)
    for holder, next_one, belief in zip(holders, waiting, beliefs):
        next_one.granted()
        handed_over(next_one, belief.stop(), holder.token, broken, within=V + DETECT_S)
        holder.stream.wait_end()
        next_one.stream.cancel()
    await_nothing_left(redis)


# ---- Cut off ----

@row("client and broker cannot reach each other")
@pytest.mark.parametrize("directions", DIRECTIONS, ids="-".join)
def test_a_client_that_is_cut_off_stops_believing_before_the_next_gets_the_lock(world, daemon, directions):
    """A session, a Hold stream (ended by the keepalive) and the C++ library, each on a connection of its own."""
    net = world.proxy(daemon.url)
    session, hold = (Holder(world.client(net.url), kind, kind, ttl=TTL).granted() for kind in ("session", "hold"))
    real = ctl(world, net.url, "hold", "real", "--ttl", f"{TTL}s")
    token = real.wait_for("granted")["token"]
    waiting = {key: waiter(world.client(daemon.url), key) for key in ("session", "hold", "real")}
    beliefs = {"session": Belief(session), "hold": Belief(hold)}
    net.pause(directions)
    cut = boot_now()
    if directions == ("down",):
        # Heartbeats still arrive, so the client must end the session, as the contract says and the library does.
        eventually(lambda: not session.believes(), "the end of the thin client's belief")
        assert not waiting["session"].all("granted")
        session.stream.cancel()
    waiting["session"].granted()
    until = beliefs["session"].stop()
    handed_over(waiting["session"], until, session.token, max(cut, until - V), within=V + DETECT_S)
    assert real.wait_for("lost") and real.exit_code() == 75
    handed_over(waiting["real"], cut, token, cut, within=2 * V + DETECT_S)
    waiting["hold"].granted()
    # Until the keepalive ends the Hold, the broker makes promises, which arrive when only the way up is cut.
    handed_over(waiting["hold"], beliefs["hold"].stop(), hold.token, cut, within=KEEPALIVE_S + V + DETECT_S)
    # Delayed messages arrive now and revive nothing.
    net.resume()
    session.stream.wait_end()
    hold.stream.wait_end()
    assert session.until() <= waiting["session"].at("granted") and not session.believes()


@pytest.mark.parametrize("directions", DIRECTIONS, ids="-".join)
def test_a_network_that_is_back_in_time_costs_nothing(world, patient, directions):
    net = world.proxy(patient.url)
    client = world.client(net.url)
    session, hold = (Holder(client, kind, kind, ttl=TTL).granted() for kind in ("session", "hold"))
    real = ctl(world, net.url, "hold", "real", "--ttl", f"{TTL}s")
    real.wait_for("granted")
    net.pause(directions)
    cut = boot_now()
    eventually(lambda: boot_now() - cut > 0.7, "some silence")
    net.resume()
    heard = len(session.stream.all("heartbeat_ack"))
    session.stream.wait(lambda: len(session.stream.all("heartbeat_ack")) > heard, "an answer")
    promised = len(hold.all("renewed"))
    hold.stream.wait_for("renewed", promised + 1)
    assert session.believes() and hold.believes()
    assert not session.all("lost") and not hold.all("lost") and not real.all("lost")
    real.terminate()
    assert real.exit_code() == 0


def test_a_ttl_much_shorter_than_the_validity_is_held_without_a_gap(world, redis):
    """The ttl limits each promise, so one promise every third of the validity would come too late."""
    daemon = world.distlockd(redis.url, "--validity", "9s")
    holder = Holder(world.client(daemon.url), "hold", ttl=3).granted()
    real = ctl(world, daemon.url, "hold", "real", "--ttl", "3s")
    real.wait_for("granted")
    granted = boot_now()
    eventually(lambda: not holder.believes() or boot_now() - granted > 4, "four seconds of belief")
    assert boot_now() - granted > 4, f"belief had ended {boot_now() - granted:.1f} s after the grant"
    assert not holder.all("lost") and not real.all("lost")
    real.terminate()
    assert real.exit_code() == 0
