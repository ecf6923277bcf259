# SPDX-License-Identifier: Apache-2.0
"""How soon new certificates are shown and withdrawn rights are gone: python3 tests/e2e/access_times.py [--rounds 10]

Rotation: the files of the certificate are replaced, with SIGHUP and without, while honest sessions hold locks by TLS
and newcomers come all the time. Measured from just before the certificate is replaced until a connection begins that
is shown the new one.

Revocation: the policy gets a rule that denies, or a token leaves its file, with SIGHUP and without, while a caller
holds locks and another one waits for them. Measured from just before the file is replaced until the caller's stream has
ended (`told`), and until the other one has the last of the locks (`free`).

Prints medians and maxima in milliseconds. Fails when a lock is lost, when a newcomer is refused, when the old
certificate comes back, when a lock changes hands while a holder that has not heard of it may believe in it, or when
something takes longer than promised: 1 s for a certificate with SIGHUP and 12 s without, 2 s and the validity for
locks. Without SIGHUP the broker needs two looks at the files, half a second apart.
"""
import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import tempfile
import threading
import time

import grpc

from attacks import Honest, make_certificates, sign_certificate
from client import boot_now
from harness import World, eventually
from test_access import APP, APP_LINE, OPS, OPS_LINE, POLICY, Guarded, spec
from test_tls import secure, serial, start

SHOWN_WITHIN_S = {"signal": 1.0, "file": 12.0}
GONE_WITHIN_S = 2.0  # and the validity
NEWCOMERS = 4
PAUSE_S = 0.05  # of each newcomer, so that this process has time for what it measures
LOCKS = 100
DENIAL = "- {name: stolen, who: ['token:app'], locks: ['*'], deny: [acquire]}\n"


def put(path, text):
    """Replaces a file at once, as a program that is careful does; when."""
    made = path.with_name(path.name + ".new")
    made.write_text(text, encoding="utf-8")
    made.chmod(0o600)
    at = boot_now()
    made.rename(path)
    return at


def summary(seconds):
    return {"median_ms": round(statistics.median(seconds) * 1000, 1), "max_ms": round(max(seconds) * 1000, 1)}


class Newcomers:
    """Threads that connect by TLS, take a lock and go, again and again; `refused`: what went wrong."""

    def __init__(self, address, files):
        self.came, self.refused = 0, []
        self._address, self._files, self._mu, self._over = address, files, threading.Lock(), threading.Event()
        self._pool = concurrent.futures.ThreadPoolExecutor()
        self._going = [self._pool.submit(self._come, number) for number in range(NEWCOMERS)]

    def _come(self, number):
        while not self._over.wait(PAUSE_S):
            error = None
            try:
                with secure(self._address, self._files) as one:
                    one.release(one.acquire(one.spec(f"newcomer-{number}")).lease_id)
            except grpc.RpcError as refused:
                error = str(refused)
            with self._mu:
                self.came += 1
                self.refused += [error] if error else []

    def stop(self):
        self._over.set()
        for one in self._going:
            one.result()
        self._pool.shutdown()


def rotate(files, address, daemon, by):
    """How long after the files were replaced a connection began that was shown the new certificate."""
    before = serial(address)
    began = 0.0

    def shows_another():
        nonlocal began
        began = boot_now()
        return serial(address) != before

    with tempfile.TemporaryDirectory() as made:
        fresh = shutil.copytree(files, pathlib.Path(made) / "fresh")
        sign_certificate(fresh, "cert", "key.pem", "DNS:localhost,IP:127.0.0.1")
        put(files / "key.pem", (fresh / "key.pem").read_text(encoding="utf-8"))
        at = put(files / "cert.pem", (fresh / "cert.pem").read_text(encoding="utf-8"))
    if by == "signal":
        os.kill(daemon.pid, signal.SIGHUP)
    eventually(shows_another, "the new certificate")
    took = began - at
    assert all(shows_another() for _ in range(10)), "the old certificate came back"
    return took


def rotation(rounds, sessions):
    with tempfile.TemporaryDirectory(prefix="dle2e") as folder, World(folder) as world:
        (world.folder / "tls").mkdir()
        files = make_certificates(world.folder / "tls")
        # So many newcomers of one address would wait for their handshakes.
        daemon, address = start(world, files, "--limits", "handshakes-per-second=2000")
        honest = Honest(address, sessions, args=("--ca", files / "ca.pem", "--cert", files / "client.pem",
                                                 "--key", files / "client.key"))
        newcomers = Newcomers(address, files)
        took = {by: [rotate(files, address, daemon, by) for _ in range(rounds)] for by in SHOWN_WITHIN_S}
        newcomers.stop()
        held = honest.result()
        assert not held["lost"] and not held["ended"], held
        assert not newcomers.refused, newcomers.refused[:3]
        turned_away = re.findall(r"distlock_connections_refused_total\{.*\} [^0]\S*", daemon.get("/metrics")[1])
        assert not turned_away, turned_away
        assert daemon.metric("distlock_reloads_total", outcome="refused", unit="tls") == 0, "files did not fit"
        for by, seconds in took.items():
            assert max(seconds) <= SHOWN_WITHIN_S[by], (by, seconds)
        return {"rounds": rounds, "leases_held": sessions * 20, "lost": held["lost"], "newcomers": newcomers.came,
                "refused": len(newcomers.refused), "heartbeat_p99_ms": round(held["p99"], 1),
                **{by: summary(seconds) for by, seconds in took.items()}}


def revoke(guarded, what, by, number):
    """(until the holder's stream has ended, until another caller had all of its locks), in seconds."""
    with guarded.as_(APP) as app, guarded.as_(OPS) as ops, contextlib.ExitStack() as afterwards:
        held = app.session()
        ids = held.acquire_each([spec(app, f"order/{number}/{i}", ttl=30) for i in range(LOCKS)])
        for one in ids:
            held.wait_for(one, "granted")
        heir = ops.session()
        waits = heir.acquire_each([ops.spec(f"order/{number}/{i}", namespace="shop") for i in range(LOCKS)])
        for one in waits:
            heir.wait_for(one, "queued")
        held.wait_ack(held.beat())  # so that it relies on all of them for the whole validity
        afterwards.callback(restore, guarded)
        began = put(guarded.policy, POLICY + DENIAL) if what == "policy" else put(guarded.tokens, OPS_LINE)
        if by == "signal":
            os.kill(guarded.daemon.pid, signal.SIGHUP)
        end = held.wait_end()
        told = boot_now()
        assert end.code == grpc.StatusCode.PERMISSION_DENIED, end
        for one in waits:
            heir.wait_for(one, "granted")
        granted = {event.id: at for at, event in heir.events if event.WhichOneof("event") == "granted"}
        for mine, its in zip(ids, waits):
            assert granted[its] >= held.believed_until[mine], "a lock was given while its holder could believe in it"
        assert heir.end is None and not heir.all("lost"), "a caller whose rights stay has lost a lock"
        return told - began, max(granted.values()) - began


def restore(guarded):
    before = guarded.generation()
    put(guarded.policy, POLICY)
    put(guarded.tokens, OPS_LINE + APP_LINE)
    os.kill(guarded.daemon.pid, signal.SIGHUP)
    eventually(lambda: guarded.generation() > before, "the first policy again")


def revocation(rounds, validity):
    found = {"rounds": rounds, "locks": LOCKS, "validity_s": validity}
    with tempfile.TemporaryDirectory(prefix="dle2e") as folder, World(folder) as world:
        guarded = Guarded(world, "--validity", f"{validity}s")
        for number, (what, by) in enumerate((w, b) for w in ("policy", "token") for b in ("signal", "file")):
            took = []
            for one in range(rounds):
                took.append(revoke(guarded, what, by, f"{number}.{one}"))
                # So that the changes do not all come at the same moment between two looks at the files.
                time.sleep(one / rounds)
            told, free = zip(*took)
            assert max(free) <= GONE_WITHIN_S + validity, (what, by, free)
            found[f"{what}_{by}"] = {"told": summary(told), "free": summary(free)}
        closed = guarded.daemon.metric("distlock_streams_closed_total", cause="revoked")
        assert closed == 4 * rounds, f"{closed} streams were closed"
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10, help="of each way")
    parser.add_argument("--sessions", type=int, default=50, help="that hold 20 locks each during a rotation")
    parser.add_argument("--validity", type=int, nargs="*", default=[1, 3], metavar="SECONDS")
    args = parser.parse_args()
    print(json.dumps({"rotation": rotation(args.rounds, args.sessions)}), flush=True)
    for validity in args.validity:
        print(json.dumps({"revocation": revocation(args.rounds, validity)}), flush=True)


if __name__ == "__main__":
    main()
