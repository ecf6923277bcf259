# SPDX-License-Identifier: Apache-2.0
"""Attacks on a broker beside honest callers, and what became of both.

    attacks.py [--seconds S] [--sessions N] [--may-fail] [--list] [NAME[/unix]...]

Each attack (all of ROWS without a name) comes by TCP, or through the broker's unix socket from another user. It gets a
fresh broker and redis-server, and honest sessions of 20 leases on the broker's unix socket. An attack *holds* when no
honest lease is lost, p99 from heartbeat to ack stays below 300 ms, the broker's memory grows by at most 64 MB (SENT_MB
where it is what was sent; 64 MB of events that wait to be written) and is given back within a minute, and a new caller
is served at once afterwards. Where the HTTP face or the operators' port is attacked, or by some frames and calls
(NEWCOMERS), each new connection of another peer is answered within a second meanwhile. Prints a line for each; exits
with 1 when one does not hold.

Not every attack holds with every gRPC: NEEDS_HARDENED are frames that gRPC 1.51 handles without end and without
telling anybody, and calls that it takes although it has told that it does not, as in MANY_CALLS. --may-fail: those may
fail when the broker says that its gRPC is not hardened.
"""
import argparse
import concurrent.futures
import functools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import grpc

import unread_sessions
from access_files import jwt_options, wrongly_signed
from curl import http_face
from harness import Distlockd, World, eventually, free_port
from measures import cpu_seconds, most_unwritten, resident_mb, watch_memory
from newcomers import ASKED, ASKED_MS, NEWCOMERS, ask, ask_status, ask_while, slow_connections

HERE = pathlib.Path(__file__).parent
P99_MS, GROWTH_MB, BACK_MB, BACK_S = 300, 64, 32, 60
FLOOD_ACK_MS, FLOOD_CALL_MS = 300, 200  # slowest ack, and p99 of calls, beside FLOODS
SENT_MB = 256  # where many sessions fill their windows and messages; SECURITY.md says it
OWN_MB = 64  # of events that wait to be written; what gRPC holds of them and has read ahead is beside it
OPEN_FILES = 256  # of the broker, in "emfile"
GROWTH_LOG_MB, GROWTH_SERIES = 2, 20  # in "denied-keys"
STRANGER = 4242  # the uid of who attacks a unix socket, when root runs this

FRAMES = ("settings", "settings-unread", "ping", "priority", "window-update", "empty-data",
                  "empty-continuation", "continuation-big", "continuation-tiny", "hpack-string", "hpack-varint")
CALLS = ("rapid-reset", "rapid-reset-session", "unacked-streams", "metadata-64k", "acquire-waiting", "watch")
FLOODS = ("commands", "commands-read", "churn-read", "heartbeats", "proofs")
NEEDS_HARDENED = (*FRAMES, *CALLS)
# More at once on a connection than the broker told.
MANY_CALLS = ("sessions", "force-release", "denied-keys", "proofs-signed")
ROWS = ("none", "busy", *NEEDS_HARDENED, *(f"{name}/unix" for name in NEEDS_HARDENED), "window-0", "garbage",
        "preface-garbage", "idle", "half", "http1", "tls-hello", "plain-hello", "tls-slow", "tls-flood", "big-message",
        "bin-rubbish", "list-unread", "refusals-unread", "commands-unread", "ops-slow", "sessions", "emfile",
        "force-release", "denied-keys", "proofs-signed", "policy-reload", "http-slow", "http-slow/unix", "http-waits",
        "http-waits/unix", "ops-hold", *FLOODS, *(f"{name}/unix" for name in FLOODS))
TLS_ROWS = ("tls-slow", "tls-flood", "plain-hello")


NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def openssl(folder, *args):
    subprocess.run(["openssl", *args], cwd=folder, check=True, capture_output=True)


def sign_certificate(folder, name, key, names):
    """NAME.pem and its key, from the authority in the folder. names: as subjectAltName takes them."""
    openssl(folder, "req", *NEW_KEY, "-subj", f"/CN={name}", "-keyout", key, "-out", f"{name}.csr")
    (folder / f"{name}.ext").write_text(f"subjectAltName={names}\n", encoding="utf-8")
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "2", "-extfile", f"{name}.ext", "-out", f"{name}.pem")


def make_certificates(folder):
    """ca.pem, cert.pem and key.pem (for localhost and 127.0.0.1), client.pem and client.key."""
    folder = pathlib.Path(folder)
    openssl(folder, "req", "-x509", *NEW_KEY, "-days", "2", "-subj", "/CN=test-ca", "-keyout", "ca.key",
            "-out", "ca.pem")
    sign_certificate(folder, "cert", "key.pem", "DNS:localhost,IP:127.0.0.1")
    sign_certificate(folder, "client", "client.key", "DNS:client.test")
    return folder


class Honest:
    def __init__(self, url, sessions, leases=20, args=()):
        self.process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, HERE / "honest.py", "--server", url,
             "--sessions", str(sessions), "--leases", str(leases), *args],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline().strip()
        assert line == "ready", f"the honest sessions did not begin: {line}"

    def result(self):
        out, _ = self.process.communicate("", timeout=60)
        return json.loads(out)

    def kill(self):
        self.process.kill()
        self.process.wait()


POLICY = """version: 1
rules:
- {name: honest, who: ["uid:%d"], locks: ["*"], may: [acquire, look, watch, list], broker: [status, sessions]}
"""


class Stage:
    """A broker on a unix socket and on TCP, and honest sessions."""

    def __init__(self, world, sessions, tls=False, args=(), policy=False, open_files=0):
        self.world = world
        flags = list(args)
        self.policy = world.folder / "policy.yaml"
        if policy:
            self.write_policy()
            flags += ["--policy", self.policy]
        if tls:
            pems = make_certificates(world.folder)
            flags += ["--tls-cert", pems / "cert.pem", "--tls-key", pems / "key.pem", "--allow-all"]
        self.daemon = Distlockd(world.folder, world.redis().url, "--listen", "127.0.0.1:0", *flags,
                                listen=f"unix://{world.folder}/d.sock?mode=0666")
        if open_files:
            self.daemon.argv = ["prlimit", f"--nofile={open_files}", *self.daemon.argv]
        world._add(self.daemon).start()
        self.url = f"unix://{world.folder}/d.sock"
        with self.daemon.client(self.url) as client:
            self.tcp = next(a for a in client.status().listen_addresses if not a.startswith("unix:"))
        os.chmod(world.folder, 0o755)  # for a stranger
        self.honest = Honest(self.url, sessions)

    def write_policy(self, comment=""):
        made = self.policy.with_suffix(".new")
        made.write_text(POLICY % os.getuid() + f"# {comment}\n", encoding="utf-8")
        made.rename(self.policy)

    def reload_policy(self, running):
        """A hundred times a second; how often."""
        count = 0
        while running():
            count += 1
            self.write_policy(count)
            os.kill(self.daemon.pid, signal.SIGHUP)
            time.sleep(0.01)
        return count

    def said(self):
        """Megabytes of the log, and the number of series in the metrics."""
        lines = self.daemon.get("/metrics")[1].splitlines()
        return self.daemon.log_path.stat().st_size / 1e6, sum(not line.startswith("#") for line in lines)

    def assail(self, name, seconds, over="tcp"):
        target = self.tcp if over == "tcp" else f"{self.world.folder}/d.sock"
        if name == "force-release":
            target = self.daemon.argv[self.daemon.argv.index("--admin-listen") + 1]
        if name in ASKED:
            target = self.http_of(name)
        more = ["--token", wrongly_signed(self.world.folder)] if name == "proofs-signed" else []
        command = ["setpriv", "--pdeathsig", "KILL", "--"]
        if over == "unix" and os.geteuid() == 0:
            if name in ASKED:
                os.chmod(http_face(self.daemon), 0o666)
            command = ["setpriv", "--pdeathsig", "KILL", "--reuid", str(STRANGER), "--clear-groups", "--"]
        program = "flood.py" if name in FLOODS else "assailant.py"
        command += [sys.executable, "-B", HERE / program, name, "--target", target, "--seconds", str(seconds), *more]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    def http_of(self, name):
        at = self.daemon.http if name.startswith("ops-") else http_face(self.daemon)
        return at.removeprefix("http://")

    def served_within(self, patience):
        """Seconds until a new caller has taken and released a lock; infinite when it is not served."""
        begin = time.monotonic()
        while time.monotonic() < begin + patience:
            try:
                with self.daemon.client(self.url) as client:
                    client.release(client.acquire(client.spec("afterwards", 0), timeout=2).lease_id, timeout=2)
                return time.monotonic() - begin
            except grpc.RpcError:
                continue
        return float("inf")


def says_hardened(daemon):
    return 'hardened="true"' in daemon.get("/metrics")[1]


@functools.cache
def is_hardened():
    """Whether the broker that is tested bounds what frames may cost."""
    with tempfile.TemporaryDirectory(prefix="dlatk") as folder, World(folder) as world:
        return says_hardened(world.distlockd(world.redis().url))


def unread(name, stage, seconds, row):
    """The most memory meanwhile; the row gets what the same sessions cost before they asked, and why they ended."""
    pid = stage.daemon.pid
    with stage.daemon.client(stage.url) as client:
        attacker = unread_sessions.begin(name, client, stage.tcp)
    row["idle_mb"] = resident_mb(pid)
    unread_sessions.tell(attacker, "ask")
    deadline = time.monotonic() + seconds
    with concurrent.futures.ThreadPoolExecutor() as pool:
        own = pool.submit(most_unwritten, stage.daemon, lambda: attacker.poll() is None)
        peak = watch_memory(pid, lambda: time.monotonic() < deadline)
        unread_sessions.tell(attacker, "read")
        peak = max(peak, watch_memory(pid, lambda: attacker.poll() is None))
    row["own_mb"] = round(own.result(), 1)
    row.update(json.loads(attacker.stdout.read()))
    return peak


def newcomers_of(stage, name, over):
    """What newcomers of another peer than the attacker's ask for meanwhile, each as ask_while takes it."""
    if name in ASKED:
        return [functools.partial(ask, stage.http_of(name), path) for path in ASKED[name]]
    another = over == "tcp" or os.geteuid() == 0  # the attacker of a socket has another uid then
    return [functools.partial(ask_status, stage.url)] if name in NEWCOMERS and another else []


def assault(stage, name, seconds, over, row):
    """Has the attack done, and adds to `row` what it did; the most memory that the broker had meanwhile, in MB."""
    pid = stage.daemon.pid
    if name == "ops-slow":
        port = int(stage.daemon.http.rpartition(":")[2])
        with concurrent.futures.ThreadPoolExecutor() as pool:
            asked = pool.submit(slow_connections, port, 1_000, seconds)
            peak = watch_memory(pid, lambda: not asked.done())
        row["healthz_ms"] = asked.result()[-1]
        return peak
    if name in unread_sessions.ATTACKS:
        return unread(name, stage, seconds, row)
    log_mb, series = stage.said()
    attacker = stage.assail({"emfile": "idle", "policy-reload": "none"}.get(name, name), seconds, over)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        going = lambda: attacker.poll() is None
        reloads = pool.submit(stage.reload_policy, going) if name == "policy-reload" else None
        newcomers = newcomers_of(stage, name, over)
        asked = pool.submit(ask_while, going, *newcomers) if newcomers else None
        peak = watch_memory(pid, going)
    assert attacker.returncode == 0, "the attack has failed; see above"
    row.update(json.loads(attacker.stdout.read()))
    if asked:
        row["asked"], row["unanswered"] = len(asked.result()), sum(ms > ASKED_MS for ms in asked.result())
        row["asked_ms"] = round(max(asked.result()), 1)
    if reloads:
        row["reloads"] = reloads.result()
    row["log_mb"], row["series"] = (after - before for after, before in zip(stage.said(), (log_mb, series)))
    return peak


def stage_for(name, over, world, sessions):
    args = ["--admin-listen", f"127.0.0.1:{free_port()}"] if name == "force-release" else []
    if name == "proofs-signed":
        args = jwt_options(world.folder)
    if name.startswith("http-"):
        args = ["--http-api", "127.0.0.1:0" if over == "tcp" else f"unix://{world.folder}/h.sock"]
    return Stage(world, min(sessions, 40) if name == "emfile" else sessions, tls=name in TLS_ROWS,
                 policy=name in ("denied-keys", "policy-reload", "proofs-signed"),
                 open_files=OPEN_FILES if name == "emfile" else 0, args=args)


def run_attack(name, seconds, over="tcp", sessions=100):
    """What one attack did, as a dict; "problems" is empty when it holds."""
    with tempfile.TemporaryDirectory(prefix="dlatk") as folder, World(folder) as world:
        stage = stage_for(name, over, world, sessions)
        pid = stage.daemon.pid
        try:
            time.sleep(1)
            before, cpu = resident_mb(pid), cpu_seconds(pid)
            row = {"attack": name, "over": over}
            peak = assault(stage, name, seconds, over, row)
            row["served_s"] = stage.served_within(15)
            row["cpu_s"] = cpu_seconds(pid) - cpu
            row["honest"] = stage.honest.result()
            row["grew_mb"] = peak - row.get("idle_mb", before)
            begin = time.monotonic()
            while resident_mb(pid) > before + BACK_MB and time.monotonic() < begin + BACK_S:
                time.sleep(0.5)
            row["kept_mb"] = resident_mb(pid) - before
            row["hardened"] = says_hardened(stage.daemon)
            row["alive"] = stage.daemon.alive()
            row["cuts"] = counted(stage.daemon, "distlock_connections_cut_total",
                                  ("early_cancels", "open_calls", "unused_bytes", "frames", "no_pause"))
            row["refused"] = counted(stage.daemon, "distlock_connections_refused_total",
                                     ("connections", "peer_connections", "rate", "descriptors", "preface", "penalty"))
        finally:
            stage.honest.kill()
    row["problems"] = list(problems(row))
    return row


def counted(daemon, metric, causes):
    return {cause: int(n) for cause in causes if (n := daemon.metric(metric, cause=cause))}


def most_mb(name):
    return SENT_MB if name in ("commands-unread", *FLOODS) else GROWTH_MB


def problems(row):
    honest = row["honest"]
    if not row["alive"]:
        yield "the broker has ended"
    if honest["lost"]:
        yield f"{honest['lost']} honest leases lost"
    if honest["p99"] >= P99_MS:
        yield f"p99 {honest['p99']:.0f} ms"
    flooded = row["attack"] in FLOODS
    if flooded and honest["max"] > FLOOD_ACK_MS:
        yield f"slowest ack {honest['max']:.0f} ms"
    if flooded and honest["call_p99"] > FLOOD_CALL_MS:
        yield f"p99 of calls {honest['call_p99']:.0f} ms"
    if row["grew_mb"] > most_mb(row["attack"]):
        yield f"memory +{row['grew_mb']:.0f} MB"
    if row.get("own_mb", 0) > OWN_MB:
        yield f"{row['own_mb']:.0f} MB of events wait to be written"
    if row["kept_mb"] > BACK_MB:
        yield f"{row['kept_mb']:.0f} MB kept"
    if row["served_s"] > 2:
        yield f"a new caller waited {row['served_s']:.1f} s"
    if row["attack"] == "denied-keys" and (row["log_mb"] > GROWTH_LOG_MB or row["series"] > GROWTH_SERIES):
        yield f"log +{row['log_mb']:.1f} MB, metrics +{row['series']} series"
    if row["attack"] == "policy-reload" and row["reloads"] < 50:
        yield f"only {row['reloads']} reloads"
    if row.get("unanswered"):
        yield f"{row['unanswered']} of {row['asked']} new connections were not answered within {ASKED_MS} ms"
    if row["attack"] in unread_sessions.ATTACKS and (untold := unread_sessions.untold(row["ends"])):
        yield f"sessions that were not told why they end: {untold}"
    if row.get("healthz_ms", 0) > 100:
        yield f"/healthz took {row['healthz_ms']:.0f} ms"


def show(row):
    honest = row["honest"]
    told = ("connections", "cut", "megabytes", "reloads", "ends", "asked", "asked_ms", "own_mb")
    did = " ".join(f"{k}={row[k]}" for k in told if row.get(k))
    causes = " ".join(f"{k}:{v}" for k, v in {**row["cuts"], **row["refused"]}.items())
    verdict = "NOT: " + "; ".join(row["problems"]) if row["problems"] else "HOLDS"
    name = row["attack"] + ("" if row["over"] == "tcp" else f"/{row['over']}")
    times = f"p99 {honest['p99']:6.0f} max {honest['max']:6.0f} ms, calls {honest['call_p99']:4.0f} ms"
    built = "hardened" if row["hardened"] else "system"
    memory = f"+{row['grew_mb']:5.0f} MB ({row['kept_mb']:4.0f} kept)"
    return (f"{name:25} {built:8} lost {honest['lost']:4} {times}, {memory}, cpu {row['cpu_s']:5.1f} s,"
            f" new caller {row['served_s']:4.1f} s: {verdict}   [{did} {causes}]")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seconds", type=float, default=9)
    parser.add_argument("--sessions", type=int, default=100)
    parser.add_argument("--may-fail", action="store_true", help="those of NEEDS_HARDENED and MANY_CALLS may")
    parser.add_argument("--list", action="store_true", help="only print the names of all")
    args = parser.parse_args()
    if args.list:
        print("\n".join(ROWS))
        return 0
    failed = []
    for asked in args.names or ROWS:
        name, _, over = asked.partition("/")
        row = run_attack(name, args.seconds, over or "tcp", args.sessions)
        print(show(row), flush=True)
        if row["problems"] and not (args.may_fail and not row["hardened"] and name in (*NEEDS_HARDENED, *MANY_CALLS)):
            failed.append(asked)
    return 1 if failed else 0


__all__ = ["Distlockd", "GROWTH_MB", "Stage", "eventually", "is_hardened", "make_certificates", "run_attack"]

if __name__ == "__main__":
    sys.exit(main())
