# SPDX-License-Identifier: Apache-2.0
"""The soak on a quorum: three independent servers without persistence, and faults of one of them at a time, of most of
them, and, for root, of single pairs of a broker and a server. A server that was restarted is empty and must not count
until nothing it may have forgotten can be held, so the history is judged without any excuse: no fault may give a lock
to two, or a token twice.
"""
import contextlib
import threading

import grpc

from client import boot_now
from harness import Distlockd, RedisError, eventually, free_port
from packet_filter import FIRST_USER, as_user, is_possible
from soak_direct import DirectStage, rows_of_processes
from soak_stage import MARKER
from soak_table import LONG, Row

MAX_TTL_S = 5
SERVERS = 3


class ServerSet:
    """All servers, in the place of a store."""

    name, can_step, popen = "servers", False, None

    def __init__(self, world):
        self.servers = [world.redis(name=f"server-{i}", tcp=True, host=f"127.7.4.{i + 1}") for i in range(SERVERS)]

    @property
    def url(self):
        return "redlock://" + ",".join(f"{server.host}:{server.port}" for server in self.servers)

    def command(self, *args):
        """A command whose reply is a list of keys, at all servers: those of locks."""
        return [key for server in self.servers for key in server.command(*args) if key != "dl:set"]

    @staticmethod
    def alive():
        return True  # each of its processes may be gone at times


class QuorumStage(DirectStage):
    def _open_servers(self):
        self.store = ServerSet(self.world)

    def _store_url(self):
        return self.store.url

    def _broker_args(self):
        return ("--max-ttl", f"{MAX_TTL_S}s", "--default-ttl", "4s", *(() if self.brokers else ("--quorum-new",)))

    def _broker(self, url, name):
        daemon = Distlockd(self.folder, url, *self._all_broker_args(), name=name, listen=f"127.0.0.1:{free_port()}")
        if self.packets:
            as_user(daemon, FIRST_USER + len(self.brokers))
        self.world._add(daemon).start()
        # When it starts again, the servers know what they belong to.
        daemon.argv = [arg for arg in daemon.argv if arg != "--quorum-new"]
        return daemon

    def heal(self):
        super().heal()
        self.await_whole()

    def await_whole(self):
        """All servers count for all brokers that are there."""
        def uncounted(broker):
            with contextlib.suppress(AssertionError, OSError, grpc.RpcError), broker.client() as client:
                return [node.not_counted for node in client.status().store_nodes if node.not_counted]
            return []
        for broker in self.brokers:
            eventually(lambda b=broker: not b.alive() or not uncounted(b), f"all servers counting for {broker.name}")


def _one(fault):
    server = fault.dice.choice(fault.stage.store.servers)
    fault.actor = server.name
    return server


def _until_it_counts(fault):
    fault.stage.await_whole()
    fault.value = boot_now() - fault.began


def restart_one_empty(fault):
    server = _one(fault)
    server.command("SET", MARKER, "1")
    server.kill()
    fault.wait()
    fault.stage.start(server.start)
    seen = f"{server.name} is empty" if server.command("EXISTS", MARKER) == 0 else ""
    _until_it_counts(fault)
    return seen


def stop_one(fault):
    server = _one(fault)
    server.stop()
    seen = f"{server.name} in state {server._state()}"
    fault.wait()
    server.cont()
    _until_it_counts(fault)
    return seen


def sleep_one(fault):
    server = _one(fault)
    began = boot_now()

    def sleep():
        with contextlib.suppress(OSError, RedisError):
            server.command("DEBUG", "SLEEP", f"{fault.seconds:.2f}")
    thread = threading.Thread(target=sleep, daemon=True)
    thread.start()
    fault.wait()
    thread.join()
    _until_it_counts(fault)
    return f"{server.name} slept for {boot_now() - began:.1f} s"


def one_refuses(fault):
    server = _one(fault)
    server.command("CONFIG", "SET", "min-replicas-to-write", "1")

    def refused():
        lines = server.command("INFO", "errorstats").splitlines()
        return any(line.startswith("errorstat_NOREPLICAS") for line in lines) and f"{server.name} refused"
    seen = fault.wait_for(refused)
    server.command("CONFIG", "SET", "min-replicas-to-write", "0")
    _until_it_counts(fault)
    return seen


def one_ends_connections(fault):
    server = _one(fault)
    return fault.wait_for(lambda:
                          (n := server.command("CLIENT", "KILL", "TYPE", "normal")) and f"{n} connections ended")


def stop_most(fault):
    servers = fault.dice.sample(fault.stage.store.servers, SERVERS // 2 + 1)
    fault.actor = " and ".join(server.name for server in servers)
    for server in servers:
        server.stop()
    seen = " ".join(f"{server.name} in state {server._state()}" for server in servers)
    fault.wait()
    for server in servers:
        server.cont()
    _until_it_counts(fault)
    return seen


def cut_pair(fault):
    """What one broker sends to one server is lost; the other brokers reach that server."""
    user, broker = FIRST_USER + fault.number, fault.stage.brokers[fault.number]
    server = _one(fault)
    fault.actor = broker.name
    fault.stage.packets.cut_user(user, server.host)

    def noticed():
        with broker.client() as client:
            return any(node.not_counted for node in client.status().store_nodes) and f"{server.name} does not count"
    seen = fault.wait_for(noticed)
    fault.stage.packets.mend_user(user, server.host)
    fault.stage.await_whole()
    fault.value = boot_now() - fault.began
    return seen


def rows_of_quorum():
    cuts = [Row("a broker is cut off from a server", "link_one_way", "broker", LONG, cut_pair)]
    return rows_of_processes() + (cuts if is_possible() else []) + [
        Row("a server restarts empty", "store_restarted", "store", 6, restart_one_empty, "store"),
        Row("a server stands still", "store_paused", "store", LONG, stop_one, "store"),
        Row("a server sleeps", "store_paused", "store", 6, sleep_one, "store"),
        Row("a server refuses writes", "store_refuses", "store", LONG, one_refuses, "store"),
        Row("a server ends connections", "link_reset", "store", 1, one_ends_connections, "store"),
        Row("most servers stand still", "store_paused", "store", 8, stop_most, "store"),
    ]
