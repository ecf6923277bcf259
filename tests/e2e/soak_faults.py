# SPDX-License-Identifier: Apache-2.0
"""The faults of processes and of the store in a soak; soak_links.py has those of connections, soak_table.py the list of
all.

A fault is a function that breaks something on the stage, waits until its time is up, mends it, and hands back the
evidence that it took effect; without evidence the run is void.
"""
import contextlib
import dataclasses
import random
import threading
import time

from client import boot_now
from faults import Admin
from harness import RedisError, eventually
from soak_stage import MARKER, ns

EVIDENCE_S = 30  # a fault may last so much longer than planned until its effect is seen


@dataclasses.dataclass
class Fault:
    """One active fault. No other fault may have the same `target` meanwhile."""
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
        if not self.row.kind:
            return  # it must have no effect
        more = {} if self.lock is None else {"lock": self.lock}
        history.write("fault", at=since, fault=self.row.kind, actor=self.actor, actor_kind=self.actor_kind,
                      lasts=ns(boot_now() - since) if self.value is None else ns(self.value), **more)

    def wait(self):
        time.sleep(max(0.0, self.began + self.seconds - boot_now()))

    def wait_for(self, seen):
        """Waits until the time is up and the effect was seen; returns the evidence."""
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
        """Recorded before and after the fault: a grant in between may be kept or lost."""
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


def cut_off_client(fault):
    """The client freezes, and its broker sees the connection end: the client cannot learn of its loss."""
    load = fault.stage.clients[fault.number]
    fault.actor = load.name
    with contextlib.suppress(AssertionError):  # no connection: the fault ends without evidence
        eventually(lambda: fault.net.counters().open > 0, f"a connection of {load.name}")
    load.stop()
    seen = fault.wait_for(
        lambda: (n := fault.net.reset_all()) and f"{n} connections of {load.name} in state {load._state()} reset")
    load.cont()
    return seen


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

    def strike():
        # Repeated, because a broker that reconnects at this moment loads the scripts by itself.
        _admin(fault, "SCRIPT", "FLUSH")
        return fault.stage.store.errors("NOSCRIPT") > before and "NOSCRIPT was answered"
    return fault.wait_for(strike)


def kill_connections(fault):
    return fault.wait_for(lambda:
                          (n := _admin(fault, "CLIENT", "KILL", "TYPE", "normal")) and f"{n} connections killed")


def kill_subscribers(fault):
    return fault.wait_for(lambda:
                          (n := _admin(fault, "CLIENT", "KILL", "TYPE", "pubsub")) and f"{n} subscribers killed")


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
    """How long one write takes while the store stands still."""
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
