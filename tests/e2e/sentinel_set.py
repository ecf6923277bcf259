# SPDX-License-Identifier: Apache-2.0
"""One primary, its replicas and the sentinels that watch them: real processes on free ports of 127.0.0.1.

    servers = SentinelSet(world)
    daemon = world.distlockd(servers.url)
    old = servers.primary()
    old.kill()
    new = servers.await_other_primary(old)
"""
import contextlib
import socket

from harness import REDIS_SERVER, Process, Redis, RedisError, eventually, free_port, read_reply
from proxy import PATIENCE_S

NAME = "locks"
DOWN_AFTER_MS = 1000
TILT_TRIGGER_MS = 600_000


def ask(port, *args, password=None, host="127.0.0.1"):
    """One command on a connection of its own. Raises RedisError for an error reply."""
    with socket.create_connection((host, port), timeout=PATIENCE_S) as sock, sock.makefile("rb") as stream:
        for command in ([("AUTH", password)] if password else []) + [args]:
            parts = [str(part).encode() for part in command]
            sock.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
            reply = read_reply(stream)
        return reply


class Sentinel(Process):
    """One sentinel that watches `primary` under NAME. Its file of settings survives a restart."""

    def __init__(self, folder, name, primary, quorum, password=None, settings=(), tls=None, host="127.0.0.1"):
        """tls: (certificate, key) of a second port, which speaks TLS."""
        self.port, self.password, self.host = free_port(), password, host
        self.tls_port = free_port() if tls else 0
        self.file = folder / f"{name}.conf"
        lines = [f"port {self.port}", f"bind {host}", f"bind-source-addr {host}", "protected-mode no", f"dir {folder}",
                 f"sentinel monitor {NAME} {primary.host} {primary.port} {quorum}",
                 f"sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}",
                 f"sentinel failover-timeout {NAME} 4000", f"sentinel parallel-syncs {NAME} 2", *settings]
        if password:
            lines += [f"requirepass {password}", f"sentinel sentinel-pass {password}"]
        if tls:
            lines += [f"tls-port {self.tls_port}", f"tls-cert-file {tls[0]}", f"tls-key-file {tls[1]}",
                      f"tls-ca-cert-file {tls[0]}", "tls-auth-clients no"]
        self.file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        super().__init__(name, [REDIS_SERVER, self.file, "--sentinel"], folder)

    def start(self):
        self.launch()
        self.await_ready(lambda: self._answers())
        # A sentinel that was not run for two seconds takes its clock for wrong and does nothing for thirty. That is
        # longer than the leases of tests last, and here it is never the clock. A restart forgets it.
        self.command("SENTINEL", "DEBUG", "tilt-trigger", TILT_TRIGGER_MS)
        return self

    def command(self, *args):
        return ask(self.port, *args, password=self.password, host=self.host)

    def fields(self):
        flat = self.command("SENTINEL", "MASTER", NAME)
        return dict(zip(flat[::2], flat[1::2]))

    def _answers(self):
        with contextlib.suppress(OSError, RedisError):
            return self.command("PING") == "PONG"
        return False


class SentinelSet:
    """Started and settled: every replica is in step and every sentinel knows all the others."""

    def __init__(self, world, replicas=2, sentinels=3, server_args=(), sentinel_password=None, sentinel_settings=(),
                 host_of=lambda name: "127.0.0.1"):
        """host_of: the address of the server or sentinel of that name, which also its own connections come from."""
        self.world = world

        def server(i, *args):
            host = host_of(f"server{i}")
            self.servers.append(world.redis(name=f"server{i}", tcp=True, host=host, args=(
                "--bind-source-addr", host, "--protected-mode", "no", *args, *server_args)))
        self.servers = []
        server(0)
        for i in range(1, replicas + 1):
            server(i, "--replicaof", self.servers[0].host, self.servers[0].port)
        eventually(lambda: self._replicas_in_step(replicas), "the replicas being in step")
        self.sentinels = [world._add(Sentinel(world.folder, f"sentinel{i}", self.servers[0], sentinels // 2 + 1,
                                             sentinel_password, sentinel_settings,
                                             host=host_of(f"sentinel{i}"))).start()
                          for i in range(sentinels)]
        eventually(lambda: all(self._settled(s, replicas, sentinels) for s in self.sentinels),
                   "the sentinels knowing each other")

    @property
    def url(self):
        return self.url_of(NAME)

    def url_of(self, name):
        return "redis+sentinel://" + ",".join(f"{s.host}:{s.port}" for s in self.sentinels) + f"/{name}"

    def primary(self):
        """The server that most of the living sentinels call the primary."""
        ports = [int(s.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[1]) for s in self.sentinels if s.alive()]
        return self.by_port(max(set(ports), key=ports.count))

    def by_port(self, port):
        return next(server for server in self.servers if server.port == port)

    def await_other_primary(self, than):
        """The new primary, once all living sentinels agree and it takes writes."""
        def agreed():
            names = {int(s.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME)[1])
                     for s in self.sentinels if s.alive()}
            if len(names) != 1 or names == {than.port}:
                return None
            server = self.by_port(names.pop())
            with contextlib.suppress(OSError, RedisError):
                return server if server.command("ROLE")[0] == "master" else None
            return None
        return eventually(agreed, "another primary")

    def await_whole(self):
        """Every living server follows the primary that all sentinels name, so that the next failover can begin."""
        def whole():
            # A server ends the connections of its clients when its role changes.
            with contextlib.suppress(OSError, RedisError):
                primary = self.primary()
                living = [s for s in self.servers if s.alive() and s is not primary]
                linked = all(s.command("ROLE")[:4] == ["slave", primary.host, primary.port, "connected"]
                             for s in living)
                return linked and all("failover_in_progress" not in s.fields()["flags"] for s in self.sentinels)
            return False
        eventually(whole, "all servers following the primary")

    def _replicas_in_step(self, count):
        return len(self.servers[0].command("ROLE")[2]) == count

    @staticmethod
    def _settled(sentinel, replicas, sentinels):
        fields = sentinel.fields()
        return int(fields["num-slaves"]) == replicas and int(fields["num-other-sentinels"]) == sentinels - 1


__all__ = ["DOWN_AFTER_MS", "NAME", "Redis", "Sentinel", "SentinelSet", "ask"]
