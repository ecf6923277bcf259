# SPDX-License-Identifier: Apache-2.0
"""The soak: real processes under load while seeded faults come and go, and a judgement of the recorded history.

Times of faults, 1 to 3 at once, take turns with calm times, in which no effect of the faults may be left. In the end
all faults stop, every client must be served, and nothing may be left behind. The run is void when a fault cannot be
shown to have taken effect, or when the load was too small.
Exit code: 0 good, 1 an invariant was violated, 2 void. After SIGTERM or SIGINT the faults end, and what ran so far is
judged; the last but one line says how many minutes that were.
"""
import argparse
import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from harness import REDIS_SERVER
from soak_attacks import ATTACK_ROWS
from soak_cluster import CLUSTER_ROWS, ClusterSoakStage
from soak_faults import Fault
from soak_quorum import QuorumStage, rows_of_quorum
from soak_sentinel import SENTINEL_ROWS, SentinelStage
from soak_stage import BIN, Stage, boot_now
from soak_table import rows_for

WARM_S = 3.0


class Soak:
    def __init__(self, stage, options, dice):
        self.stage, self.options, self.dice = stage, options, dice
        rows = (ATTACK_ROWS if options.attacked else SENTINEL_ROWS if options.sentinel else
                CLUSTER_ROWS if options.cluster else rows_of_quorum() if options.quorum else
                rows_for(dice, stage.store.can_step))
        self.rows = [row for row in rows if options.only in row.name]
        self.unused = []
        self.done, self.active = [], []
        self.calm_grants, self.calm_s = 0, 0.0
        self.quiet_bursts = 0
        self.given_on = 0  # locks that were kept and given on, since each broker's last start
        self.troubles = []
        self.began = time.monotonic()
        self.told = 0.0
        self.minutes = 0.0  # under load and faults, the calm times in between included
        self.must_end = threading.Event()

    # ---- Faults ----

    def _targets(self, row):
        if row.on == "store":
            return [("store", 0)]
        number = len(self.stage.clients) if row.on == "client" else len(self.stage.brokers)
        return [(row.on, i) for i in range(number)]

    def _cause_one(self, longest):
        """The rows take turns in a random order, so that a run has as many kinds of faults as possible."""
        taken = {fault.target for fault, _ in self.active}
        if not self.unused:
            self.unused = self.dice.sample(self.rows, len(self.rows))
        for row in self.unused:
            free = [target for target in self._targets(row) if target not in taken]
            if not free:
                continue
            self.unused.remove(row)
            seconds = self.dice.uniform(min(1.0, row.longest / 2), min(row.longest, longest))
            fault = Fault(self.stage, row, self.dice.choice(free), seconds, random.Random(self.dice.random()))
            thread = threading.Thread(target=fault.run, daemon=True)
            thread.start()
            self.active.append((fault, thread))
            return

    def _reap(self):
        for fault, thread in list(self.active):
            if thread.is_alive():
                continue
            self.active.remove((fault, thread))
            self.done.append(fault)
            if self.options.verbose or not fault.evidence:
                print(f"  {fault.row.name} ({fault.actor}, {boot_now() - fault.began:.1f} s): "
                      f"{fault.evidence or 'NOT OBSERVED ' + fault.error}", flush=True)

    def burst(self, seconds, longest):
        before = self.stage.history.count_grants()
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.must_end.is_set():
            self._reap()
            if len(self.active) < self.dice.randint(1, 3):
                self._cause_one(longest)
            self._sleep(self.dice.uniform(0.1, 1.0))
        while self.active:
            self._reap()
            self._sleep(0.05)
        whole = not self.must_end.is_set()
        self.quiet_bursts += whole and self.stage.history.count_grants() == before

    def calm(self, seconds):
        """Measures the rate of grants in the last part of the calm time, when no effect of the faults may be left."""
        self._sleep(max(0.0, seconds - self.options.measure))
        before, began = self.stage.history.count_grants(), time.monotonic()
        self._sleep(self.options.measure)
        self.calm_grants += self.stage.history.count_grants() - before
        self.calm_s += time.monotonic() - began

    def _sleep(self, seconds):
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, 0.5))
            self._check_processes()
            if time.monotonic() - self.told > 10:
                self.told = time.monotonic()
                print(
                    f"{self.told - self.began:6.0f} s: {self.stage.history.count_grants()} grants, "
                    f"{len(self.done)} faults over, {len(self.active)} under way, {self.stage.stalls} stalls",
                    flush=True)

    def _check_processes(self):
        """Records each process that ended without a fault."""
        broken = {fault.target for fault, _ in self.active}
        for kind, processes in (("broker", self.stage.brokers), ("client", self.stage.clients),
                                ("store", [self.stage.store])):
            for number, process in enumerate(processes):
                if (kind, number) not in broken and not process.alive():
                    story = f"{process.name} ended by itself with {process.popen.returncode}"
                    if story not in self.troubles:
                        self.troubles.append(story)
                        print(f"  {story}\n{process.log()[-4000:]}", flush=True)

    # ---- The course ----

    def run(self):
        options, times = self.options, self.stage.times
        self.calm(WARM_S + options.measure)
        end = self.began + options.minutes * 60
        while True:
            self.burst(options.burst, options.longest)
            if self.troubles or self.must_end.is_set() or time.monotonic() + times.aftermath > end:
                break
            self.calm(times.aftermath + options.measure)
        self.stage.heal()
        self.calm(times.aftermath + options.measure)
        self.stage.history.write("healed")
        self.minutes = min(options.minutes, (time.monotonic() - self.began) / 60)
        late = self.stage.send_clients_home(patience=90)
        self.troubles += [f"{name} did not end well after SIGTERM" for name in late]
        self.stage.note_leftovers()


def judge(stage, soak, options):
    checker = subprocess.run([BIN / "distlock_check_history", "--json", *stage.history.files()], capture_output=True,
                             text=True, check=False)
    print(checker.stdout[:checker.stdout.rstrip().rfind("\n")] if checker.returncode < 2
          else checker.stdout + checker.stderr)
    if checker.returncode > 1:
        soak.troubles.append("the history cannot be read")
        figures = {"violations": 0, "false_losses": 0}
    else:
        figures = json.loads(checker.stdout.splitlines()[-1])
    rate = soak.calm_grants / max(soak.calm_s, 0.001)
    observed = [fault for fault in soak.done if fault.evidence]
    void = [f"{fault.row.name}: caused, but not observed ({fault.error})" for fault in soak.done if not fault.evidence]
    if rate < options.min_rate:
        void.append(f"only {rate:.0f} grants a second in calm times, {options.min_rate} wanted")
    if soak.quiet_bursts:
        void.append(f"no grant at all in {soak.quiet_bursts} times of faults")
    if options.attacked and figures["false_losses"]:
        soak.troubles.append(f"{figures['false_losses']} leases were lost beside attackers")
    for story in soak.troubles:
        print(f"VIOLATION {story}")
    print(
        f"calm times: {rate:.0f} grants a second over {soak.calm_s:.0f} s; "
        f"{len({f.row.name for f in observed})} kinds of fault; {stage.stalls} stalls of the machine")
    for why in void:
        print(f"VOID {why}")
    violations = figures["violations"] + len(soak.troubles)
    print(f"{soak.minutes:.1f} minutes of faults, seed {options.seed}")
    print(f"{len(observed)} faults observed, {violations} violations, {figures['false_losses']} false losses",
          flush=True)
    return 1 if violations else 2 if void else 0


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0, help="how long faults go on coming")
    parser.add_argument("--seed", type=int, default=0, help="of the faults and the load; 0: any")
    parser.add_argument("--short", action="store_true", help="the mix of the test suite: about 80 s")
    parser.add_argument("--store",
                        default="",
                        help="redis-server or valkey-server; default: as the seed has it, of those installed")
    parser.add_argument("--sentinel", action="store_true", help="behind Sentinel, with the faults of such a set")
    parser.add_argument("--cluster", action="store_true", help="on a Cluster, with failovers and slots that move")
    parser.add_argument("--quorum", action="store_true", help="on a quorum, with the faults of such servers")
    parser.add_argument("--attacked", action="store_true", help="attackers beside honest clients, and no faults")
    parser.add_argument("--locks", type=int, default=12, help="how many the clients share")
    parser.add_argument("--min-rate",
                        type=float,
                        default=100.0,
                        help="grants a second in calm times, or the run is void")
    parser.add_argument("--keep",
                        default="",
                        help="a folder for logs and history; else they are kept only when something is wrong")
    parser.add_argument("--only", default="", help="cause only faults whose name contains this")
    parser.add_argument("--verbose", action="store_true", help="a line for each fault")
    options = parser.parse_args(argv)
    options.seed = options.seed or random.SystemRandom().randrange(1, 1_000_000)
    options.burst, options.longest, options.measure = (14.0, 6.0, 3.0) if options.short else (40.0, 20.0, 5.0)
    if options.short:
        options.minutes = 0.9
    return options


def main(argv):
    options = parse(argv)
    dice = random.Random(options.seed)
    programs = [options.store] if options.store else [p for p in ("redis-server", "valkey-server") if shutil.which(p)]
    program = programs[options.seed % len(programs)]
    if options.sentinel or options.cluster or options.quorum:
        program = REDIS_SERVER  # of all that they start
    folder = pathlib.Path(options.keep or tempfile.mkdtemp(prefix="dlsoak"))
    folder.mkdir(exist_ok=True)
    print(f"seed {options.seed}, {program}, in {folder}", flush=True)
    stage_kind = (SentinelStage if options.sentinel else ClusterSoakStage if options.cluster else
                  QuorumStage if options.quorum else Stage)
    stage = stage_kind(folder, options.seed, program, options.short, brokers=3, clients=5)
    stage.locks = options.locks
    with stage:
        soak = Soak(stage, options, dice)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: soak.must_end.set())
        soak.run()
        code = judge(stage, soak, options)
    if code == 0 and not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"logs and history are in {folder}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
