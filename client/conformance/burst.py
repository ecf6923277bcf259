# SPDX-License-Identifier: Apache-2.0
"""An honest client that asks for very much at once, of a real broker, by TCP.

    burst.py --driver DRIVER [--locks 10000] [--key-bytes 500] [--owner-bytes 250] [--busy N]

Every lock must be granted and held until all are, no connection may be cut, and another client from the same address
must be served at once afterwards; also while N processes want a processor each. Exit code: 0 good, 1 not, 77 when the
driver cannot take so many at once.
"""
import argparse
import contextlib
import shlex
import subprocess
import sys
import tempfile
import threading
import time

from case_file import REPOSITORY
from peers import Failed, Peer

sys.path.insert(0, str(REPOSITORY / "tests/e2e"))

from harness import World  # noqa: E402

PATIENCE_S = 300
SKIPPED = 77


@contextlib.contextmanager
def busy(count):
    """So many processes that do nothing but compute, until the end of the block."""
    spin = ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, "-c", "while True: pass"]
    with contextlib.ExitStack() as started:
        for _ in range(count):
            process = started.enter_context(subprocess.Popen(spin))
            started.callback(process.kill)
        yield


def await_grants(driver, count):
    deadline = time.monotonic() + PATIENCE_S
    seen = taken = 0
    while taken < count:
        with driver.changed:
            while seen == len(driver.events):
                if driver.over or not driver.changed.wait(deadline - time.monotonic()):
                    raise Failed(f"only {taken} of {count} were granted")
        for event in driver.events[seen:]:
            seen += 1
            if event["event"] in ("refused", "lost", "failed"):
                raise Failed(f"after {taken} grants: {event}")
            taken += event["event"] == "granted"


def burst(driver, broker, address, options):
    padding = "k" * options.key_bytes
    commands = [{"do": "acquire", "lock": f"L{i}", "key": f"{i}{padding}"[:options.key_bytes], "ttl_ms": 15000,
                 "owner": "o" * options.owner_bytes} for i in range(options.locks)]
    driver.write({"do": "connect", "address": address, "unreachable_ms": 10_000})
    began = time.monotonic()
    threading.Thread(target=driver.write, args=commands, daemon=True).start()
    await_grants(driver, options.locks)
    took = time.monotonic() - began
    lost = [event for event in driver.events if event["event"] == "lost"]
    if lost:
        raise Failed(f"{len(lost)} lost, such as {lost[0]}")
    cut = sum(broker.metric("distlock_connections_cut_total", cause=cause)
              for cause in ("early_cancels", "open_calls", "unused_bytes", "frames", "no_pause"))
    if cut:
        raise Failed(f"{cut:.0f} connections were cut")
    with broker.client(address) as client:
        client.release(client.acquire(client.spec("afterwards", 0), timeout=5).lease_id, timeout=5)
    print(f"{options.locks} locks of {options.key_bytes + options.owner_bytes} bytes in {took:.1f} s, none lost")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--driver", required=True)
    parser.add_argument("--locks", type=int, default=10_000)
    parser.add_argument("--key-bytes", type=int, default=500)
    parser.add_argument("--owner-bytes", type=int, default=250)
    parser.add_argument("--busy", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dlburst") as folder, World(folder) as world:
        broker = world.distlockd(world.redis().url, "--listen", "127.0.0.1:0", "--limits",
                                 f"max-leases-per-session={options.locks + 10}")
        with broker.client() as client:
            address = next(one for one in client.status().listen_addresses if not one.startswith("unix:"))
        driver = Peer("the driver", shlex.split(options.driver), threading.Condition())
        try:
            ready = driver.take(lambda event: event["event"] == "ready", "ready")
            if "many" not in ready["features"]:
                return SKIPPED
            with busy(options.busy):
                burst(driver, broker, address, options)
        except Failed as error:
            print(f"{error}\n{driver.errors[-2000:]}", file=sys.stderr)
            return 1
        finally:
            driver.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
