# SPDX-License-Identifier: Apache-2.0
"""How long a waiter waits after kill -9 of the holder: python3 tests/e2e/death_times.py [--rounds 200]

Each round a distlockctl hold has the lock, this process waits for it, and kills the holder. Prints percentiles in
milliseconds, from just before the kill until the grant is here.
"""
import argparse
import json
import tempfile

from client import boot_now
from faults import ctl, waiter
from harness import World


def one_round(world, daemon, number):
    holder = ctl(world, daemon.url, "hold", "k", name=f"holder{number}")
    holder.wait_for("granted")
    waiting = waiter(world.client(daemon.url))
    killed = boot_now()
    holder.popen.kill()
    waiting.granted()
    took = waiting.at("granted") - killed
    world.client(daemon.url).release(waiting.grant.lease_id)
    holder.popen.wait()
    return took * 1000


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("broker", nargs="*", help="further options of distlockd, after --")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dle2e") as folder, World(folder) as world:
        daemon = world.distlockd(world.redis().url, *args.broker)
        took = sorted(one_round(world, daemon, number) for number in range(args.rounds))
    at = {"p50_ms": len(took) // 2, "p99_ms": min(len(took) - 1, len(took) * 99 // 100), "max_ms": -1}
    print(json.dumps({"rounds": len(took), **{name: round(took[i], 2) for name, i in at.items()}}))


if __name__ == "__main__":
    main()
