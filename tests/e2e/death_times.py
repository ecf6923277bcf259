# SPDX-License-Identifier: Apache-2.0
"""How long a waiter waits after kill -9 of the holder: python3 tests/e2e/death_times.py [--rounds 200]

Each round a distlockctl hold has the lock, this process waits for it, and kills the holder. Prints percentiles in
milliseconds, from just before the kill until the grant is here; `gone`: until the kernel says that the process is gone.
"""
import argparse
import json
import os
import select
import tempfile

from client import boot_now
from faults import ctl, waiter
from harness import World


def one_round(world, daemon, number):
    holder = ctl(world, daemon.url, "hold", "k", name=f"holder{number}")
    holder.wait_for("granted")
    waiting = waiter(world.client(daemon.url))
    pidfd = os.pidfd_open(holder.pid)
    end = select.poll()
    end.register(pidfd, select.POLLIN)
    killed = boot_now()
    holder.popen.kill()
    end.poll()
    gone = boot_now() - killed
    waiting.granted()
    took = waiting.at("granted") - killed
    os.close(pidfd)
    world.client(daemon.url).release(waiting.grant.lease_id)
    holder.popen.wait()
    return took * 1000, gone * 1000


def percentiles(took):
    took = sorted(took)
    at = {"p50_ms": len(took) // 2, "p99_ms": min(len(took) - 1, len(took) * 99 // 100), "max_ms": -1}
    return {name: round(took[i], 2) for name, i in at.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("broker", nargs="*", help="further options of distlockd, after --")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dle2e") as folder, World(folder) as world:
        daemon = world.distlockd(world.redis().url, *args.broker)
        rounds = [one_round(world, daemon, number) for number in range(args.rounds)]
    print(json.dumps({"rounds": len(rounds), "grant": percentiles(took for took, _ in rounds),
                      "gone": percentiles(gone for _, gone in rounds)}))


if __name__ == "__main__":
    main()
