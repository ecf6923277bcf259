# SPDX-License-Identifier: Apache-2.0
"""Brokers and client programs over a Cluster of real processes, and the records of all, which distlock_check_history
judges. The programs and the records are those of the soak.

    with ClusterStage(folder) as stage:
        stage.load()
        ...
        figures = stage.judge()
"""
import json
import pathlib
import subprocess
import time

from client import boot_now
from cluster_set import NODE_TIMEOUT_MS, ClusterSet
from harness import Process, World, eventually
from soak_stage import BIN, History, Load, Times, ns

MAX_TTL_S = 5
HOLD_OFF_S = MAX_TTL_S + NODE_TIMEOUT_MS / 1000 + 1  # as server/store/redis/README.md has it without a guard
QUIET_S = 90


class ClusterStage:
    def __init__(self, folder, hold_off="0", brokers=2, clients=3, seed=1):
        self.folder, self.seed = pathlib.Path(folder), seed
        self.times = Times(True)
        if hold_off == "auto":
            self.times.recovery += HOLD_OFF_S + 2 * NODE_TIMEOUT_MS / 1000
        self.history = History(self.folder / "history", self.times)
        self.workers, self.pause_ms, self.locks = 6, 60, 12
        self.register_path = str(self.folder / "register.sock")
        self.world = World(self.folder)
        self.cluster = ClusterSet(self.world)
        self.brokers = [self.world.distlockd(
            self.cluster.url, "--validity", f"{self.times.validity}s", "--queue-slot", f"{self.times.slot}s",
            "--default-ttl", "4s", "--max-ttl", f"{MAX_TTL_S}s", "--failover-hold-off", hold_off,
            name=f"broker-{i}") for i in range(brokers)]
        self._await_no_hold_off()
        self.client_nets = [self.brokers[i % brokers] for i in range(clients)]
        self.clients = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.world.__exit__()

    def _await_no_hold_off(self):
        """A server that is new grants nobody a lock for a while."""
        with self.brokers[0].client() as client:
            for node in self.cluster.primaries():
                key = next(f"w{i}" for i in range(10_000) if self.cluster.primary_of(f"w{i}") is node)
                client.release(client.acquire(client.spec(key, ttl=2.0, max_wait=60.0), timeout=90).lease_id)

    def load(self):
        """Starts the clients, and returns once locks change hands."""
        self.world._add(Process("register", [
            BIN / "distlock_soak_load", "--serve-register", "--register", self.register_path, "--history",
            self.history.folder / "register.jsonl"], self.folder)).launch()
        eventually(lambda: pathlib.Path(self.register_path).exists(), "the register")
        for number in range(len(self.client_nets)):
            load = Load(self, number, 1)
            self.world._add(load).launch()
            self.clients.append(load)
        self.await_grants(20)

    def await_grants(self, more):
        before = self.history.count_grants()
        eventually(lambda: self.history.count_grants() >= before + more, f"{more} more grants")

    def fault(self, kind, began, actor="store"):
        self.history.write("fault", at=began, fault=kind, actor=actor, actor_kind="store", lasts=ns(boot_now() - began))

    def records(self):
        for path in self.history.files():
            with open(path, encoding="utf-8") as lines:
                yield from (json.loads(line) for line in lines)

    def judge(self):
        """Ends the load; what distlock_check_history finds in all records."""
        time.sleep(self.times.aftermath)  # by then the records say that all faults are over
        self.history.write("healed")
        self.await_grants(20)
        for load in self.clients:
            load.terminate()
        deadline = time.monotonic() + QUIET_S
        while time.monotonic() < deadline and any(load.alive() for load in self.clients):
            time.sleep(0.05)
        assert all(load.popen.returncode == 0 for load in self.clients), "a client did not end well"
        done = subprocess.run([BIN / "distlock_check_history", "--json", *self.history.files()], capture_output=True,
                              text=True, check=False)
        print(done.stdout[-6000:], done.stderr)
        assert done.returncode <= 1, "the history cannot be read"
        return json.loads(done.stdout.splitlines()[-1])
