# SPDX-License-Identifier: Apache-2.0
"""The rows: what is measured, and the ratios between rows of one round. SECTIONS and PEER_SECTIONS are the only tables.

A new row is a function from a Lab to {column: number}, which raises Invalid when anything went wrong. A library is a
system in the driver of its language (peers/) and a line in LIBRARIES.
"""
import dataclasses
import functools
import operator
import os
import pathlib
import random
import subprocess
import time
import typing

from lab import Hoard, Invalid, NotRun, REPOSITORY, answer_of
from measures import cpu_seconds, resident_mb

PEERS = REPOSITORY / "tests/bench/peers"
PEER_WARM_S = 2     # Node.js compiles until then, and would look half as fast
SESSIONS = 20       # that hold leases
GOAL_LEASES, GOAL_INTERVAL_S = 100_000, 10  # CPU is that of renewing so many so often
NO_LIMITS = ("--limits", "max-sessions-per-peer=1000000,max-connections=1000000,max-connections-per-peer=1000000,"
             "new-connections-per-peer=1000000")


@dataclasses.dataclass(frozen=True)
class Ratio:
    """Of two rows of one round; `how` may be a difference, too."""
    name: str
    of: str
    against: str
    column: str
    how: typing.Callable = operator.truediv


@dataclasses.dataclass
class Section:
    id: str
    title: str
    columns: tuple
    rows: dict  # name: function
    ratios: list = dataclasses.field(default_factory=list)
    notes: str = ""
    rounds_max: int = 1_000_000


LOAD_COLUMNS = ("pairs/s", "op p50 µs", "op p99 µs")


def lone():
    section = Section("lone", "Uncontended: clients with a connection and one operation in flight each",
                      LOAD_COLUMNS, {})
    for n in (1, 64):
        direct, relay, broker = f"{n} direct", f"{n} through a bare relay", f"{n} through the broker"
        section.rows[direct] = lambda lab, n=n: lab.load("direct", port=lab.near.port, clients=n)
        section.rows[relay] = lambda lab, n=n: lab.load("relayed", target=lab.relay, port=lab.near.port, clients=n)
        section.rows[broker] = lambda lab, n=n: lab.load("sessions", target=lab.near.broker.url, clients=n)
        section.ratios += [Ratio(f"{n} against direct", broker, direct, "pairs/s"),
                           Ratio(f"{n} against the relay", broker, relay, "pairs/s"),
                           Ratio(f"{n}: µs added to an operation", broker, direct, "op p50 µs", operator.sub)]
    section.notes = "Direct: SET NX PX and compare-and-delete."
    return section


def multiplexed():
    direct, broker = "1 direct connection", "1 session of the broker"
    return Section("multiplexed", "Uncontended: 256 operations in flight on one connection", LOAD_COLUMNS, {
        direct: lambda lab: lab.load("pipelined", port=lab.near.port, in_flight=256),
        broker: lambda lab: lab.load("sessions", target=lab.near.broker.url, in_flight=256),
    }, [Ratio("against direct", broker, direct, "pairs/s")], "Direct: the broker's own scripts.")


def of_servers(count):
    return "one server" if count == 1 else f"{count} servers"


def quorum(name, title, run):
    """The same at one server, three and five."""
    return Section(name, title, LOAD_COLUMNS,
                   {of_servers(n): lambda lab, n=n: run(lab, lab.quorum(n)) for n in (1, 3, 5)},
                   [Ratio(f"p50 of {of_servers(n)} against one", of_servers(n), of_servers(1), "op p50 µs")
                    for n in (3, 5)], "All servers over TCP.")


def held_lease(lab):
    with lab.fresh_broker() as broker, Hoard(broker, SESSIONS, lab.size.leases) as hoard:
        before = resident_mb(broker.pid)
        hoard.take()
        return {"B each": (resident_mb(broker.pid) - before) * 2**20 / lab.size.leases}


def idle_session(lab):
    with lab.fresh_broker(*NO_LIMITS) as broker:
        before = resident_mb(broker.pid)
        with Hoard(broker, lab.size.sessions):
            return {"B each": (resident_mb(broker.pid) - before) * 2**20 / lab.size.sessions}


def new_broker(lab):
    with lab.fresh_broker() as broker:
        return {"MB": resident_mb(broker.pid)}


def renewals(lab):
    leases, ttl = lab.size.leases, lab.size.ttl
    with lab.fresh_broker() as broker, Hoard(broker, SESSIONS, leases, ttl) as hoard:
        def watch(seconds):
            def read():
                return time.monotonic(), cpu_seconds(broker.pid), cpu_seconds(lab.near.redis.pid), lab.script_calls()
            begin = read()
            time.sleep(seconds)
            passed, *used = map(operator.sub, read(), begin)
            return [one / passed for one in used]
        idle = watch(ttl / 3)
        hoard.take()
        time.sleep(ttl / 3)  # the first renewals begin
        broker_cpu, redis_cpu, calls = map(operator.sub, watch(ttl), idle)
    if calls <= 0:
        raise Invalid("nothing was renewed")
    scale = 100 * (ttl / 3 / GOAL_INTERVAL_S) * (GOAL_LEASES / leases)
    return {"broker CPU %": broker_cpu * scale, "redis CPU %": redis_cpu * scale}


@dataclasses.dataclass(frozen=True)
class Library:
    name: str
    language: str
    system: str  # what the driver of the language calls it


LIBRARIES = (
    Library("distlock for Python, threads", "python", "distlock"),
    Library("redis-py", "python", "redis-py"),
    Library("distlock for Go", "go", "distlock"),
    Library("redsync", "go", "redsync"),
    Library("distlock for Node.js", "node", "distlock"),
    Library("redlock", "node", "redlock"),
    Library("etcd", "go", "etcd"),
)


@functools.cache
def driver(language):
    """The program that measures libraries of the language; the first time it is built."""
    def output(*argv):
        done = subprocess.run(argv, cwd=PEERS, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise NotRun(f"{' '.join(map(str, argv))}: {done.stderr[-300:].strip()}")
        return done.stdout.strip()
    if language == "node":
        return ["node", PEERS / "peer.mjs"]
    if language == "python":
        return [output(REPOSITORY / "tests/python/tools.sh") + "/venv/bin/python", "-B", PEERS / "driver.py"]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "distlock/bench-go"
    output("go", "build", "-C", "go", "-o", cache / "driver", ".")
    return [cache / "driver"]


def peer(library, work, options):
    """The row of a library. options(size): what the driver needs for the work."""
    def run(lab):
        def measure(store):
            words = [f"--{name}={value}" for name, value in options(lab.size).items()]
            try:
                return answer_of([*driver(library.language), "--system", library.system, "--work", work,
                                  "--store", store, "--broker", lab.near.broker.url, *words],
                                 Invalid if library.system == "distlock" else NotRun)
            except OSError as problem:
                raise NotRun(str(problem)) from None
        if library.system != "etcd":
            return measure(f"redis://127.0.0.1:{lab.near.port}")
        with lab.etcd() as address:
            return measure(address)
    return run


def peers(name, title, columns, rows, notes):
    """rows: [(prefix of the rows' names, work, options)]"""
    return Section(name, title, columns, {prefix + library.name: peer(library, work, options)
                                          for prefix, work, options in rows for library in LIBRARIES}, [], notes)


def closed_loop(callers):
    return lambda size: {"callers": callers, "seconds": size.seconds, "warm": min(size.warm * 10, PEER_WARM_S)}


def pauses(size):
    """How long the waiter of a hand-off has waited, in ms: evenly from 20 to 150, in the same order in every round. By
    chance, more than half of the pauses might be shorter than the one after which a library looks again."""
    spread = [round(20 + 130 * i / (size.handoffs - 1)) for i in range(size.handoffs)]
    random.Random(20).shuffle(spread)
    return {"pauses": ",".join(map(str, spread))}


SECTIONS = [
    lone(),
    multiplexed(),
    quorum("quorum-lone", "A quorum of independent servers: one operation in flight",
           lambda lab, brokers: lab.load("sessions", target=brokers[0].url)),
    quorum("quorum-hot", "A quorum of independent servers: hand-off among 50 parties through two brokers",
           lambda lab, brokers: lab.load("handoff", target=",".join(broker.url for broker in brokers), clients=50)),
    Section("memory", "Resident memory of a broker", ("MB", "B each"),
            {"a new broker": new_broker, "idle sessions with a connection each": idle_session,
             f"leases held by {SESSIONS} sessions": held_lease}, rounds_max=2),
    Section("renewals", f"Renewing {GOAL_LEASES:,} leases every {GOAL_INTERVAL_S} s".replace(",", " "),
            ("broker CPU %", "redis CPU %"), {"held leases": renewals}, [],
            "The part of a core beyond what the idle sessions take; with --quick it is scaled from fewer.", 1),
]
PEER_SECTIONS = [
    peers("peers", "Peers: uncontended pairs", ("pairs/s", "p50 µs", "p99 µs"),
          [("1 caller, ", "pairs", closed_loop(1)), ("64 callers, ", "pairs", closed_loop(64))],
          "Callers of one process, each on a lock of its own; latency is of a whole pair. The packages of distlock "
          "release by leaving the lock's scope, which does not wait for the answer."),
    peers("peers-handoff", "Peers: hand-off from idle, the waiter has waited 20 to 150 ms", ("p50 µs", "p99 µs"),
          [("", "handoff", pauses)], "A library that asks again and again is as slow as its pause is long."),
    peers("peers-queue", "Peers: 50 waiters hold 1 ms each", ("makespan ms", "slowest ms"),
          [("", "queue", lambda size: {"runs": size.queues, "waiters": 50, "hold": 1})],
          "From the release that starts the queue to the last release. That there is one holder at a time is checked."),
]
