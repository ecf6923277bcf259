# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in a soak: a row each. A fault is a function that breaks something on the stage, waits until its time is up,
mends it, and hands back the evidence that it took effect; without evidence the run is void.
"""
import contextlib
import dataclasses
import random
import threading
import time
import typing

from client import boot_now
from faults import Admin
from harness import RedisError, eventually
from proxy import BOTH, DOWN, UP
from soak_stage import MARKER, ns

EVIDENCE_S = 30  # a fault lasts longer than planned when its effect has to be waited for


@dataclasses.dataclass
class Fault:
    """One fault under way. `target` is what nobody else may break meanwhile."""
    stage: object
    row: "Row"
    target: tuple
    seconds: float
    dice: random.Random
    evidence: str = ""
    error: str = ""

    def __post_init__(self):
        self.began = boot_now()
        self.actor, self.actor_kind = self.target[0], self.row.actor_kind
        self.lock, self.value = None, None

    @property
    def number(self):
        return self.target[1]

    def run(self):
        history, since = self.stage.history, self.began
        try:
            self.evidence = self.row.act(self) or ""
        except (AssertionError, OSError, RedisError) as error:
            self.error = f"{type(error).__name__}: {error}"
        more = {} if self.lock is None else {"lock": self.lock}
        history.write("fault", at=since, fault=self.row.kind, actor=self.actor, actor_kind=self.actor_kind,
                      lasts=ns(boot_now() - since) if self.value is None else ns(self.value), **more)

    def wait(self):
        time.sleep(max(0.0, self.began + self.seconds - boot_now()))

    def wait_for(self, seen):
        """Until the time is up and the effect was seen; what was seen."""
        found = None
        while not found and boot_now() < self.began + self.seconds + EVIDENCE_S:
            found = seen()
            if not found:
                time.sleep(0.02)
        self.wait()
        return found

    @property
    def net(self):
        nets = self.stage.client_nets if self.target[0] == "client" else self.stage.store_nets
        return nets[self.number]

    def forgot(self, lock=None):
        """Noted before and after the deed: what is granted in between may be kept or not."""
        self.stage.history.write("forgot", **({} if lock is None else {"lock": lock}))


# ---- Processes ----

def kill_client(fault):
    load = fault.stage.clients[fault.number]
    fault.actor = load.name
    load.kill()
    fault.stage.history.write("died", actor=load.name)
    fault.wait()
    fault.stage.start_client(fault.number)
    return f"{load.name} ended with {load.popen.returncode}" if load.popen.returncode == -9 else ""


def _freeze(fault, process):
    fault.actor = process.name
    process.stop()
    seen = f"{process.name} in state {process._state()}"
    fault.wait()
    process.cont()
    return seen


def stop_client(fault):
    return _freeze(fault, fault.stage.clients[fault.number])


def stop_broker(fault):
    return _freeze(fault, fault.stage.brokers[fault.number])


def stop_store(fault):
    return _freeze(fault, fault.stage.store)


def _restart_broker(fault, broker):
    fault.wait()
    fault.stage.start(broker.start, await_ready=False)
    return f"{broker.name} ended with {broker.popen_before.returncode}"


def kill_broker(fault):
    broker = fault.stage.brokers[fault.number]
    fault.actor, broker.popen_before = broker.name, broker.popen
    broker.kill()
    return _restart_broker(fault, broker)


def drain_broker(fault):
    broker = fault.stage.brokers[fault.number]
    fault.actor, broker.popen_before = broker.name, broker.popen
    code = broker.drain()
    seen = _restart_broker(fault, broker)
    assert code == 0, f"{broker.name} drained with {code}"
    return seen


# ---- The store ----

def _admin(fault, *command):
    with Admin(fault.stage.store) as admin:
        return admin(*command)


def _run_id(fault):
    with contextlib.suppress(OSError, RedisError):
        found = [line for line in _admin(fault, "INFO", "server").splitlines() if line.startswith("run_id:")]
        return found[0] if found else None


def restart_store(fault):
    before = _run_id(fault)
    fault.stage.store.kill()
    fault.wait()
    fault.stage.start(fault.stage.store.start)
    return "another run id" if _run_id(fault) != before and fault.stage.store.marked() else ""


def restart_store_empty(fault):
    fault.forgot()
    fault.stage.store.kill()
    fault.stage.store.lose_data()
    fault.wait()
    fault.stage.start(fault.stage.store.start)
    seen = "the marker is gone" if fault.stage.store.marked() is False else ""
    fault.forgot()
    fault.stage.store.mark()
    return seen


def flush_store(fault):
    fault.forgot()
    _admin(fault, "FLUSHALL")
    fault.forgot()
    seen = "the marker is gone" if fault.stage.store.marked() is False else ""
    fault.stage.store.mark()
    return seen


def delete_key(fault):
    part = fault.dice.choice("hhhtqw")

    def strike():
        keys = [key for key in _admin(fault, "KEYS", f"*:{part}")]
        if not keys:
            return ""
        key = fault.dice.choice(sorted(keys))
        lock = key.partition("{default/")[2].partition("}")[0]
        if not lock.startswith("lock-"):
            return ""
        fault.lock = lock
        if part == "h":
            fault.forgot(lock)
        gone = _admin(fault, "DEL", key)
        if part == "h":
            fault.forgot(lock)
        return f"{key} deleted" if gone == 1 else ""
    return fault.wait_for(strike)


def flush_scripts(fault):
    before = fault.stage.store.errors("NOSCRIPT")
    _admin(fault, "SCRIPT", "FLUSH")
    return fault.wait_for(lambda: fault.stage.store.errors("NOSCRIPT") > before and "NOSCRIPT was answered")


def kill_connections(fault):
    return fault.wait_for(lambda: (n := _admin(fault, "CLIENT", "KILL", "TYPE", "normal")) and f"{n} connections killed")


def kill_subscribers(fault):
    return fault.wait_for(lambda: (n := _admin(fault, "CLIENT", "KILL", "TYPE", "pubsub")) and f"{n} subscribers killed")


def _refusing(fault, setting, value, normal, error):
    before = fault.stage.store.errors(error)
    _admin(fault, "CONFIG", "SET", setting, value)
    try:
        return fault.wait_for(lambda: fault.stage.store.errors(error) > before and f"{error} was answered")
    finally:
        _admin(fault, "CONFIG", "SET", setting, normal)


def fill_store(fault):
    return _refusing(fault, "maxmemory", "1", "0", "OOM")


def refuse_writes(fault):
    return _refusing(fault, "min-replicas-to-write", "1", "0", "NOREPLICAS")


def _slow_write(fault):
    """How long one write takes; the store stands still for a part of the fault's time."""
    began = boot_now()
    with contextlib.suppress(OSError, RedisError):
        _admin(fault, "SET", MARKER, "1")
    return boot_now() - began


def pause_clients(fault):
    _admin(fault, "CLIENT", "PAUSE", int(fault.seconds * 1000), fault.dice.choice(("WRITE", "ALL")))
    took = _slow_write(fault)
    fault.wait()
    return f"a write took {took:.1f} s" if took > fault.seconds / 2 else ""


def sleep_store(fault):
    def sleep():
        with contextlib.suppress(OSError, RedisError):
            _admin(fault, "DEBUG", "SLEEP", f"{fault.seconds:.2f}")
    thread = threading.Thread(target=sleep, daemon=True)
    thread.start()
    time.sleep(0.1)
    took = _slow_write(fault)
    thread.join()
    return f"a write took {took:.1f} s" if took > fault.seconds / 2 - 0.1 else ""


def _step_clock(fault, by):
    store = fault.stage.store
    fault.value = by
    fault.forgot()
    apart = store.time() - boot_now()
    store.step_clock(by)
    moved = store.time() - boot_now() - apart
    fault.forgot()
    fault.wait()
    return f"TIME moved by {moved:.2f} s" if abs(moved - by) < 0.1 + abs(by) / 2 else ""


def clock_ahead(fault):
    return _step_clock(fault, fault.dice.uniform(0.3, 6))


def clock_back(fault):
    return _step_clock(fault, -fault.dice.uniform(0.1, 2))


# ---- Connections ----

def reset_link(fault):
    return fault.wait_for(lambda: (n := fault.net.reset_all()) and f"{n} connections reset")


def _counted(fault, counter):
    before = getattr(fault.net.counters(), counter)
    return lambda: (n := getattr(fault.net.counters(), counter) - before) > 0 and f"{n} {counter}"


def _with_net(fault, counter, start, stop):
    seen = _counted(fault, counter)
    start()
    try:
        return fault.wait_for(seen)
    finally:
        stop()


def silence_link(fault):
    return _with_net(fault, "held", fault.net.pause, fault.net.resume)


def silence_one_way(fault):
    direction = fault.dice.choice(BOTH)
    return _with_net(fault, "held", lambda: fault.net.pause(direction), fault.net.resume)


def lose_bytes(fault):
    direction = fault.dice.choice(BOTH)

    def stop():
        fault.net.reset_all()
        fault.net.resume()
    return _with_net(fault, "dropped_" + direction, lambda: fault.net.drop(direction), stop)


def slow_link(fault):
    return _with_net(fault, "delayed", lambda: fault.net.delay(fault.dice.randint(50, 1500)), fault.net.resume)


def split_link(fault):
    return _with_net(fault, "pieces", fault.net.split, fault.net.resume)


def half_close_link(fault):
    seen = _counted(fault, "halved")
    direction = fault.dice.choice((UP, DOWN))
    found = fault.wait_for(lambda: fault.net.half_close(direction) or seen())
    fault.net.reset_all()
    return found


def refuse_connections(fault):
    """Where there is no connection, because of another fault, it waits for one: only then can it be seen to work."""
    def strike():
        fault.net.refuse_new()
        count = fault.net.reset_all()
        if not count:
            fault.net.accept_new()
        return count and f"{count} connections reset, no new ones taken"
    try:
        return fault.wait_for(strike)
    finally:
        fault.net.accept_new()


def lose_reply(fault):
    net = fault.net
    lost = net.drop_reply_after(b"EVALSHA")
    try:
        return fault.wait_for(lambda: lost.happened() and f"a reply of {len(lost.swallowed)} bytes lost")
    finally:
        net._call(lambda: setattr(net, "_loss", None))


@dataclasses.dataclass
class Row:
    name: str
    kind: str        # as histories name it
    on: str          # client, broker: one of them; store
    longest: float   # s
    act: typing.Callable
    actor_kind: str = "link"
    forgets: bool = False
    goes_back: bool = False
    steps: bool = False


LONG = 20.0
ROWS = [
    Row("a client is killed", "client_killed", "client", 3, kill_client, "client"),
    Row("a client stands still", "client_paused", "client", LONG, stop_client, "client"),
    Row("a broker is killed", "broker_killed", "broker", 6, kill_broker, "broker"),
    Row("a broker stands still", "broker_paused", "broker", LONG, stop_broker, "broker"),
    Row("a broker drains", "broker_drained", "broker", 4, drain_broker, "broker"),
    Row("the store stands still", "store_paused", "store", LONG, stop_store, "store"),
    Row("the store sleeps", "store_paused", "store", 6, sleep_store, "store"),
    Row("the store pauses its clients", "store_paused", "store", 6, pause_clients, "store"),
    Row("the store restarts", "store_restarted", "store", 5, restart_store, "store"),
    Row("the store restarts empty", "store_emptied", "store", 5, restart_store_empty, "store", forgets=True),
    Row("the store is emptied", "store_emptied", "store", 1, flush_store, "store", forgets=True),
    Row("a key is deleted", "key_deleted", "store", 1, delete_key, "store", forgets=True),
    Row("the scripts are flushed", "scripts_flushed", "store", 1, flush_scripts, "store"),
    Row("the store ends connections", "link_reset", "store", 1, kill_connections, "store"),
    Row("the store ends subscriptions", "channel_lost", "store", 1, kill_subscribers, "store"),
    Row("the store is full", "store_full", "store", LONG, fill_store, "store"),
    Row("the store refuses writes", "store_refuses", "store", LONG, refuse_writes, "store"),
    Row("the store's clock jumps", "store_clock", "store", 1, clock_ahead, "store", steps=True),
    Row("the store's clock goes back", "store_clock", "store", 1, clock_back, "store", steps=True, goes_back=True),
    Row("a client's connection is reset", "link_reset", "client", 1, reset_link),
    Row("a client's connection falls silent", "link_silent", "client", LONG, silence_link),
    Row("a client's connection falls silent one way", "link_one_way", "client", LONG, silence_one_way),
    Row("a client's bytes are lost", "link_one_way", "client", 8, lose_bytes),
    Row("a client's connection is slow", "link_slow", "client", LONG, slow_link),
    Row("a client's bytes come one by one", "link_slow", "client", 3, split_link),
    Row("a client's connection is half closed", "link_reset", "client", 4, half_close_link),
    Row("a client cannot connect", "link_reset", "client", 8, refuse_connections),
    Row("a broker's connections are reset", "link_reset", "broker", 1, reset_link),
    Row("a broker's connections fall silent", "link_silent", "broker", LONG, silence_link),
    Row("a broker's connections fall silent one way", "link_one_way", "broker", LONG, silence_one_way),
    Row("a broker's bytes are lost", "link_one_way", "broker", 8, lose_bytes),
    Row("a broker's connections are slow", "link_slow", "broker", LONG, slow_link),
    Row("a broker's bytes come one by one", "link_slow", "broker", 3, split_link),
    Row("a broker's connections are half closed", "link_reset", "broker", 4, half_close_link),
    Row("a broker cannot connect", "link_reset", "broker", 8, refuse_connections),
    Row("a broker's reply is lost", "link_reset", "broker", 3, lose_reply),
]


def rows_for(dice, can_step):
    """Those that one run may cause. No order of tokens can be kept by a store that forgets and whose clock goes back, so a run
    has one of the two."""
    goes_back = can_step and dice.random() < 0.3
    return [row for row in ROWS if (can_step or not row.steps) and (goes_back or not row.goes_back) and
            not (goes_back and row.forgets)]


__all__ = ["Fault", "ROWS", "Row", "eventually", "rows_for"]
