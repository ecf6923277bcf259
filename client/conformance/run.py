# SPDX-License-Identifier: Apache-2.0
"""Runs the cases of cases.yaml against a client: `run.py --driver "PROGRAM ARGS"`. Exit code 1 when one fails. With
--real it runs one driver, or several together, against real brokers under load and faults instead."""
import argparse
import concurrent.futures
import os
import pathlib
import random
import shlex
import sys
import time

import case_file
from peers import Cast, Failed
from steps import Play

PROGRAMS = case_file.REPOSITORY / "build/release/bin"


def play(case, options):
    """Returns ok, skipped, or the story of the failure; and seconds."""
    began = time.monotonic()
    with Cast(options.broker, options.drivers[0], case.token) as cast:
        try:
            ready = cast.driver.take(lambda event: event["event"] == "ready", "ready")
            if not case.needs <= set(ready["features"]):
                return "skipped", 0.0
            Play(case, cast).run()
        except Failed as error:
            return f"{error}\n{cast.story()}", time.monotonic() - began
    return "ok", time.monotonic() - began


def report(case, result, seconds, verbose):
    if result not in ("ok", "skipped"):
        print(f"FAILED {case.name} ({case.area}): {result}\n    session.md: {case.says}", flush=True)
    elif verbose:
        print(f"{result:8}{seconds:6.2f} s  {case.area}: {case.name}", flush=True)
    return result


def run(cases, options):
    began = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        futures = {pool.submit(play, case, options): case for case in cases}
        results = [report(futures[done], *done.result(), options.verbose)
                   for done in concurrent.futures.as_completed(futures)]
    counts = {word: results.count(word) for word in ("ok", "skipped")}
    failed = len(results) - sum(counts.values())
    print(f"{counts['ok']} of {len(results)} cases passed, {failed} failed, {counts['skipped']} need what this client "
          f"does not have; {time.monotonic() - began:.0f} s")
    return 1 if failed or not counts["ok"] else 0


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--driver", required=True, action="append", help="the client's driver, a command line; with "
                        "--real there may be several, which share the locks")
    parser.add_argument("--broker", default=os.environ.get("DISTLOCK_SCRIPTED_BROKER",
                                                           str(PROGRAMS / "distlock_scripted_broker")),
                        help="distlock_scripted_broker (default: DISTLOCK_SCRIPTED_BROKER, else of build/release)")
    parser.add_argument("--only", default="", help="cases whose name or area contains this")
    parser.add_argument("--jobs", type=int, default=8, help="cases at the same time; most of them only wait")
    parser.add_argument("--verbose", action="store_true", help="a line for each case")
    parser.add_argument("--real", action="store_true", help="against two real brokers (DISTLOCKD) and a redis-server")
    parser.add_argument("--tls", action="store_true", help="against a real broker that serves TLS, with the variables")
    parser.add_argument("--seconds", type=float, default=20, help="--real: how long faults go on coming")
    parser.add_argument("--seed", type=int, default=0, help="--real: of the faults and the load; 0: any")
    parser.add_argument("--min-grants", type=int, default=100, help="--real: with fewer the run is void")
    options = parser.parse_args(argv)
    options.drivers = [shlex.split(driver) for driver in options.driver]
    options.seed = options.seed or random.SystemRandom().randrange(1, 1_000_000)
    if options.real:
        return options
    if len(options.drivers) > 1:
        parser.error("several drivers are for --real")
    if options.tls:
        return options
    if not pathlib.Path(options.broker).exists():
        parser.error(f"there is no {options.broker}: build the target distlock_scripted_broker, or name it by --broker")
    return options


def main(argv):
    options = parse(argv)
    if options.real:
        import real  # needs what the tests with real processes need
        return real.run(options)
    if options.tls:
        import tls
        return tls.run(options)
    cases = [case for case in case_file.load() if options.only in case.name or options.only in case.area]
    if not cases:
        sys.exit(f"no case has {options.only} in its name or area")
    return run(cases, options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
