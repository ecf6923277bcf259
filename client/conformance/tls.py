# SPDX-License-Identifier: Apache-2.0
"""A driver at a real broker that serves TLS and wants certificates: it gets in by the DISTLOCK_TLS_ variables, and
stays outside without its certificate, and where the broker's certificate has another name. Exit code: 0 good, 1 not."""
import os
import sys
import tempfile
import threading

from case_file import REPOSITORY
from peers import Failed, Peer

sys.path.insert(0, str(REPOSITORY / "tests/e2e"))

from attacks import make_certificates  # noqa: E402
from harness import World  # noqa: E402

UNREACHABLE_MS = 1_500


def wish(driver, address, variables):
    """What becomes of an acquire through a client with these variables: granted, or the reason of the refusal."""
    before = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("DISTLOCK_TLS_")}
    os.environ.update(variables)
    try:
        peer = Peer("the driver", driver, threading.Condition())
    finally:
        for name in variables:
            del os.environ[name]
        os.environ.update(before)
    try:
        patience = 30_000 if len(variables) == 3 else UNREACHABLE_MS
        peer.write({"do": "connect", "address": address, "unreachable_ms": patience},
                   {"do": "acquire", "lock": "l", "key": "k", "wait_ms": 0, "ttl_ms": 5_000})
        answer = peer.take(lambda event: event["event"] in ("granted", "refused"), "answer to the acquire")
        if answer["event"] == "refused":
            return answer["reason"]
        peer.write({"do": "release", "lock": "l"})
        peer.take(lambda event: event["event"] == "released", "answer to the release")
        return "granted"
    finally:
        peer.kill()


def check(driver):
    with tempfile.TemporaryDirectory(prefix="dlt") as folder, World(folder) as world:
        pem = make_certificates(world.folder)
        broker = world.distlockd(world.redis().url, "--listen", "127.0.0.1:0", "--allow-all", "--tls-cert",
                                 pem / "cert.pem", "--tls-key", pem / "key.pem", "--tls-client-ca", pem / "ca.pem")
        with broker.client() as client:
            address = next(a for a in client.status().listen_addresses if not a.startswith("unix:"))
        address = f"tls://localhost:{address.rpartition(':')[2]}"
        right = {"DISTLOCK_TLS_CA": str(pem / "ca.pem"), "DISTLOCK_TLS_CERT": str(pem / "client.pem"),
                 "DISTLOCK_TLS_KEY": str(pem / "client.key")}
        other = {**right, "DISTLOCK_TLS_SERVER_NAME": "other.test"}
        nameless = {"DISTLOCK_TLS_CA": right["DISTLOCK_TLS_CA"]}
        for variables, wanted in ((right, "granted"), (other, "UNREACHABLE"), (nameless, "UNREACHABLE")):
            found = wish(driver, address, variables)
            if found != wanted:
                raise Failed(f"with {sorted(variables)} the acquire is {found} instead of {wanted}")


def run(options):
    try:
        check(options.drivers[0])
    except Failed as error:
        print(f"FAILED {error}")
        return 1
    return 0
