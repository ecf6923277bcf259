# SPDX-License-Identifier: Apache-2.0
"""Runs the cases of cases.yaml against a client: `run.py --driver PROGRAM [ARGS]`. Exit code 1 when one fails."""
import argparse
import concurrent.futures
import os
import pathlib
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
    with Cast(options.broker, options.driver) as cast:
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
    parser.add_argument("--driver", required=True, help="the client's driver, a command line")
    parser.add_argument("--broker", default=os.environ.get("DISTLOCK_SCRIPTED_BROKER",
                                                           str(PROGRAMS / "distlock_scripted_broker")),
                        help="distlock_scripted_broker (default: DISTLOCK_SCRIPTED_BROKER, else of build/release)")
    parser.add_argument("--only", default="", help="cases whose name or area contains this")
    parser.add_argument("--jobs", type=int, default=12, help="cases at the same time; most of them only wait")
    parser.add_argument("--verbose", action="store_true", help="a line for each case")
    options = parser.parse_args(argv)
    options.driver = shlex.split(options.driver)
    if not pathlib.Path(options.broker).exists():
        parser.error(f"there is no {options.broker}: build the target distlock_scripted_broker, or name it by --broker")
    return options


def main(argv):
    options = parse(argv)
    cases = [case for case in case_file.load() if options.only in case.name or options.only in case.area]
    if not cases:
        sys.exit(f"no case has {options.only} in its name or area")
    return run(cases, options)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
