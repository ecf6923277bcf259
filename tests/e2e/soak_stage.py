# SPDX-License-Identifier: Apache-2.0
"""The processes of a soak: one store, some brokers, client programs, a proxy on every connection
between them, and the records of all. The records are judged by distlock_check_history (tests/sim/history).
"""
import concurrent.futures
import contextlib
import json
import os
import pathlib
import shutil
import threading
import time

from client import boot_now
from faults import Admin, leftovers
from harness import DISTLOCKD, Process, Redis, RedisError, World, eventually
from shown_clock import REDIS_ARGS, SHIM, ShownClock

BIN = pathlib.Path(DISTLOCKD).parent
STALL_S = 0.25  # a pause of this process that counts as a fault
DURABLE = ("--appendonly", "yes", "--appendfsync", "always", *REDIS_ARGS)
MARKER = "soak:marker"
FDS_SPARE = 4  # descriptors that a broker may use more than after the warm-up, for threads and pollers


def ns(seconds):
    return int(seconds * 1_000_000_000)


class Times:
    """The promises under test, in seconds, and the tolerance of the checkers."""

    def __init__(self, short):
        self.validity = 2.0
        self.ttls = (3.0, 4.0)
        self.longest_delay = 0.5
        self.slot = 6.0
        self.drain = 2.0
        self.slack = 5.0     # for one hand-over on a busy machine
        self.recovery = 6.0  # connect timeout, back-off and a third of a queue slot, on a busy machine
        self.longest_hold = 4.0 if short else 8.0

    @property
    def longest_ttl(self):
        return max(self.ttls) + self.longest_delay

    @property
    def aftermath(self):
        """For how long after its end a fault may still have effects."""
        return self.recovery + self.longest_ttl + self.validity


class History:
    """The records of this program, and the folder with the records of all."""

    def __init__(self, folder, times):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir()
        self._lock = threading.Lock()
        self._file = open(self.folder / "driver.jsonl", "w", encoding="utf-8", buffering=1)
        self._offsets = {}
        self.grants = 0
        self._line({"run": {"calm": False, "validity": ns(times.validity),
                            "longest_ttl": ns(times.longest_ttl), "slack": ns(times.slack), "slow": ns(times.slack),
                            "recovery": ns(times.recovery)}})

    def files(self):
        return sorted(self.folder.glob("*.jsonl"))

    def write(self, kind, at=None, **more):
        self._line({"at": ns(boot_now() if at is None else at), "kind": kind, **more})

    def _line(self, record):
        with self._lock:
            self._file.write(json.dumps(record) + "\n")

    def count_grants(self):
        """The number of grants so far; reads the records that the clients have written since the last call."""
        for path in self.folder.glob("client*.jsonl"):
            with open(path, "rb") as file:
                file.seek(self._offsets.get(path, 0))
                text = file.read()
            whole = text[:text.rfind(b"\n") + 1]
            self._offsets[path] = self._offsets.get(path, 0) + len(whole)
            self.grants += whole.count(b'"kind":"granted"')
        return self.grants


class Store(Redis):
    """A Redis or Valkey with persistent data, whose wall clock can be stepped if the clock shim is built."""

    def __init__(self, folder, program):
        super().__init__(folder, "store", args=DURABLE)
        self.argv[0] = program
        self.can_step = SHIM.exists()
        if self.can_step:
            self.clock = ShownClock(self.folder / "clock-page").of(self)

    def step_clock(self, seconds):
        self.clock.step(seconds)

    def lose_data(self):
        shutil.rmtree(self.folder / "appendonlydir", ignore_errors=True)

    def errors(self, kind):
        """How many replies had this error."""
        with contextlib.suppress(OSError, RedisError):
            for line in self.command("INFO", "errorstats").splitlines():
                if line.startswith(f"errorstat_{kind}:"):
                    return int(line.partition("count=")[2])
        return 0

    def marked(self):
        with contextlib.suppress(OSError, RedisError):
            return self.command("GET", MARKER) is not None
        return None

    def mark(self):
        eventually(lambda: self._mark(), "a store that takes a marker")

    def _mark(self):
        with contextlib.suppress(OSError, RedisError):
            return self.command("SET", MARKER, "1") == "OK"

    def time(self):
        seconds, micros = self.command("TIME")
        return int(seconds) + int(micros) / 1e6


class Load(Process):
    """A client program; each run of it has a name and a history of its own."""

    def __init__(self, stage, number, life):
        self.number, self.life = number, life
        times = stage.times
        name = f"client-{number}.{life}"
        argv = [
            BIN / "distlock_soak_load", "--name", name, "--server", stage.client_nets[number].url,
            "--history", stage.history.folder / f"{name}.jsonl", "--register", stage.register_path,
            "--seed", stage.seed * 100 + number * 10 + life % 10,
            "--workers", stage.workers, "--pause", stage.pause_ms, "--locks", stage.locks,
            "--longest-hold", int(times.longest_hold * 1000), "--longest-delay", int(times.longest_delay * 1000),
            "--ttl", *(int(ttl * 1000) for ttl in times.ttls)
        ]
        super().__init__(name, argv, stage.folder)


class Stage:
    locks = 12  # that the clients share
    terms = Times  # the promises under test

    def __init__(self, folder, seed, program, short, brokers, clients):
        self.folder, self.seed = pathlib.Path(folder), seed
        self.times = self.terms(short)
        self.history = History(self.folder / "history", self.times)
        self.workers, self.pause_ms = 6, 110
        self.register_path = str(self.folder / "register.sock")
        self.world = World(self.folder)
        self.program, self.store = program, None
        self.brokers, self.store_nets, self.client_nets, self.clients = [], [], [], []
        self.stalls = 0
        self._closing = threading.Event()
        self._count = brokers, clients
        # The kernel ends a process with the thread that started it, so this thread starts all of them and lasts.
        self._starter = concurrent.futures.ThreadPoolExecutor(1)

    def __enter__(self):
        world, (brokers, clients) = self.world, self._count
        self._open_store()
        for number in range(brokers):
            self.brokers.append(self._broker(self._store_url(), f"broker-{number}"))
        self._warm_up()
        self.fds = [self._fds(broker) for broker in self.brokers]
        register = Process("register", [
            BIN / "distlock_soak_load", "--serve-register", "--register", self.register_path, "--history",
            self.history.folder / "register.jsonl"
        ], self.folder)
        world._add(register).launch()
        eventually(lambda: os.path.exists(self.register_path), "the register")
        for number in range(clients):
            self.client_nets.append(world.proxy(self.brokers[number % brokers].url))
            self.clients.append(None)
            self.start_client(number)
        threading.Thread(target=self._watch_for_stalls, daemon=True).start()
        return self

    def __exit__(self, *_):
        self._closing.set()
        self.world.__exit__()
        self._starter.shutdown()

    def start(self, start, *args, **kwargs):
        """Runs `start`, which launches a process, on a thread that lasts."""
        return self._starter.submit(start, *args, **kwargs).result()

    def _open_store(self):
        self.store = Store(self.folder, self.program)
        self.world._add(self.store).start()
        self.store.mark()

    def _store_url(self):
        """Of the store for one more broker, each through a proxy of its own."""
        self.store_nets.append(self.world.proxy(self.store.url))
        return self.store_nets[-1].url

    def _broker_args(self):
        return ()

    def _all_broker_args(self):
        times = self.times
        return (*self._broker_args(), "--wait-for-store", "--validity", f"{times.validity}s", "--queue-slot",
                f"{times.slot}s", "--drain-timeout", f"{times.drain}s")

    def _broker(self, url, name):
        return self.world.distlockd(url, *self._all_broker_args(), name=name)

    # A broker has made its threads and pollers when it has served a client.
    def _warm_up(self):
        for broker in self.brokers:
            with broker.client() as client:
                client.release(client.acquire(client.spec("warm-up", ttl=2)).lease_id)
                session = client.session()
                session.goodbye()
                session.wait_end()
            eventually(lambda b=broker: b.metric("distlock_sessions") == 0, "the end of a session")

    def start_client(self, number):
        old = self.clients[number]
        load = Load(self, number, 1 if old is None else old.life + 1)
        self.start(self.world._add(load).launch)
        self.clients[number] = load

    def _watch_for_stalls(self):
        last = boot_now()
        while not self._closing.wait(0.02):
            now = boot_now()
            if now - last > STALL_S:
                self.stalls += 1
                self.history.write("fault", at=last, fault="link_slow", actor="the machine", actor_kind="link",
                                   lasts=ns(now - last))
            last = now

    @staticmethod
    def _fds(process):
        return len(os.listdir(f"/proc/{process.pid}/fd"))

    def grants_in_metrics(self):
        return sum(broker.metric("distlock_grants_total") for broker in self.brokers)

    # ---- The end ----

    def heal(self):
        for net in self.store_nets + self.client_nets:
            net.resume()
            net.accept_new()
        for broker in self.brokers:
            eventually(broker.serving, f"{broker.name} serving again")

    def send_clients_home(self, patience):
        """The clients make no new requests, finish the present ones and end. Returns the names of those that do not."""
        for load in self.clients:
            load.terminate()
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and any(load.alive() for load in self.clients):
            time.sleep(0.05)
        return [load.name for load in self.clients if load.alive() or load.popen.returncode != 0]

    def note_leftovers(self):
        """Records what is still there when everything that may stay for a while has ended: (how many, of what)."""
        def left():
            found = [(1, f"key {key} in the store") for key in leftovers(self.store) if key != MARKER]
            for broker, baseline in zip(self.brokers, self.fds):
                for gauge in ("sessions", "leases", "waiters"):
                    found.append((int(broker.metric(f"distlock_{gauge}")), f"{gauge} in {broker.name}"))
                found.append((max(0, self._fds(broker) - baseline - FDS_SPARE),
                              f"descriptors in {broker.name} too many"))
            return [(count, what) for count, what in found if count > 0]
        deadline = time.monotonic() + self.times.longest_ttl + self.times.slot + self.times.aftermath
        while left() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.history.write("quiet")
        for count, what in left():
            self.history.write("left", count=count, what=what)


__all__ = ["Admin", "BIN", "MARKER", "Stage", "boot_now", "eventually", "ns"]
