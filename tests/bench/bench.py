#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the broker beside programs without one, and beside other lock systems. run.sh builds what it needs.

Prints Markdown tables of medians and min..max over interleaved rounds. README.md says how to read them. Exit code: 0
all rows are valid, 1 one is not.
"""
import argparse
import dataclasses
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

from lab import Invalid, Lab, NotRun
from harness import DISTLOCKD, REDIS_SERVER, World
from rows import PEER_SECTIONS, SECTIONS


@dataclasses.dataclass(frozen=True)
class Size:
    rounds: int = 5
    seconds: float = 1.0  # of each closed loop
    warm: float = 0.2     # before it counts
    handoffs: int = 60
    queues: int = 5
    leases: int = 100_000
    sessions: int = 2000  # idle ones
    ttl: float = 30.0     # of leases that are renewed


QUICK = Size(rounds=1, seconds=0.25, warm=0.05, handoffs=3, queues=1, leases=2000, sessions=100, ttl=2.0)


def selected(sections, only):
    """The rows that match as "section/row", and the ratios that are still possible."""
    found = []
    for section in sections:
        rows = {name: run for name, run in section.rows.items() if re.search(only, f"{section.id}/{name}")}
        ratios = [ratio for ratio in section.ratios if {ratio.of, ratio.against} <= rows.keys()]
        if rows:
            found.append(dataclasses.replace(section, rows=rows, ratios=ratios))
    return found


def measured(run, lab):
    try:
        return {"values": run(lab)}
    except (Invalid, subprocess.TimeoutExpired, AssertionError) as problem:
        return {"error": " ".join(str(problem).split())}
    except NotRun as reason:
        return {"not_run": " ".join(str(reason).split())}


def run_rounds(lab, sections):
    """{section: [{row: sample} of each round]}"""
    results = {section.id: [] for section in sections}
    for round_ in range(lab.size.rounds):
        for section in (s for s in sections if round_ < s.rounds_max):
            names = list(section.rows)
            first = round_ % len(names)  # so that no row always follows the same one
            samples = {}
            for name in names[first:] + names[:first]:
                print(f"\rround {round_ + 1}: {section.id}/{name:60}", end="", file=sys.stderr, flush=True)
                samples[name] = measured(section.rows[name], lab)
            results[section.id].append(samples)
    print(f"\r{'':80}\r", end="", file=sys.stderr)
    return results


def why_none(samples, name):
    """Why a row has no values in these rounds; "" when it has them."""
    for key, word in (("error", "INVALID"), ("not_run", "NOT RUN")):
        for sample in samples:
            if key in sample[name]:
                return f"{word}: {sample[name][key]}".replace("|", "/")[:300]
    return ""


def number(value):
    return f"{value:.{0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2}f}"


def summary(values):
    if len(values) < 2:
        return number(values[0]) if values else "–"
    return f"**{number(statistics.median(values))}** ({number(min(values))}..{number(max(values))})"


def compared(samples, ratio):
    return [ratio.how(sample[ratio.of]["values"][ratio.column], sample[ratio.against]["values"][ratio.column])
            for sample in samples]


def table(section, samples):
    yield f"\n### {section.title} (`{section.id}`, {len(samples)} rounds)\n"
    yield f"| | {' | '.join(section.columns)} |"
    yield "|---|" + "---:|" * len(section.columns)
    for name in section.rows:
        cells = why_none(samples, name) or " | ".join(
            summary([s[name]["values"][column] for s in samples if column in s[name]["values"]])
            for column in section.columns)
        yield f"| {name} | {cells} |"
    if section.ratios:
        yield "\n| same round | |\n|---|---:|"
    for ratio in section.ratios:
        why = why_none(samples, ratio.of) or why_none(samples, ratio.against)
        yield f"| {ratio.name} | {why.partition(':')[0] or summary(compared(samples, ratio))} |"
    if section.notes:
        yield f"\n{section.notes}"


def all_valid(results):
    return not any("error" in sample for rounds in results.values() for round_ in rounds for sample in round_.values())


def machine_cpu_seconds():
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _, _, irq, softirq = map(int, stat.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def conditions(lab, noise):
    with open("/proc/cpuinfo", encoding="utf-8") as cpus:
        model = next((line.partition(": ")[2].strip() for line in cpus if line.startswith("model name")), "?")

    def version(program):
        return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    return {"machine": f"{os.cpu_count()} cores, {model}, kernel {platform.release()}; all processes share them",
            "versions": f"{version(DISTLOCKD)}; {version(REDIS_SERVER)}, volatile",
            "store": f"a proxy adds a round trip of {lab.delay_ms} ms" if lab.delay_ms else "on this machine",
            "rounds": f"{lab.size.rounds}, closed loops of {lab.size.seconds} s after {lab.size.warm} s",
            "noise": f"other processes used {noise:.0f} % of the machine"}


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="each row once and short: whether it runs, not how fast")
    parser.add_argument("--peers", action="store_true", help="also other lock systems, those that are installed")
    parser.add_argument("--store-delay", type=float, default=0, metavar="MS", help="how far away the store is")
    parser.add_argument("--only", default="", metavar="REGEX", help='rows that match as "section/row", such as ^lone')
    parser.add_argument("--rounds", type=int, help="interleaved rounds (5)")
    parser.add_argument("--seconds", type=float, help="length of each closed loop (1)")
    parser.add_argument("--json", metavar="FILE", help="also write every sample there")
    return parser.parse_args()


def main():
    args = options()
    size = QUICK if args.quick else Size()
    size = dataclasses.replace(size, rounds=args.rounds or size.rounds, seconds=args.seconds or size.seconds)
    sections = selected(SECTIONS + PEER_SECTIONS * args.peers, args.only)
    if args.store_delay:  # the proxy stands before one server only
        sections = [section for section in sections if not section.id.startswith("quorum")]
    if not sections:
        sys.exit(f"bench.py: --only '{args.only}' matches nothing")
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))  # of the programs
    with tempfile.TemporaryDirectory(prefix="dlbench") as folder, World(folder) as world:
        lab = Lab(world, size, args.store_delay)
        begin, machine = time.monotonic(), machine_cpu_seconds()
        results = run_rounds(lab, sections)
        others = machine_cpu_seconds() - machine - lab.cpu_seconds()
        shown = conditions(lab, max(0.0, others) / (time.monotonic() - begin) / os.cpu_count() * 100)
        lab.end()
    print(*(f"- {name}: {value}" for name, value in shown.items()), sep="\n")
    for section in sections:
        print(*table(section, results[section.id]), sep="\n")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump({"conditions": shown, "rounds": results}, out, ensure_ascii=False)
    sys.exit(0 if all_valid(results) else 1)


if __name__ == "__main__":
    main()
