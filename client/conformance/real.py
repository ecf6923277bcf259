# SPDX-License-Identifier: Apache-2.0
"""The drivers against two real brokers on one store, under load and faults: brokers are killed, frozen and drained in
turn. What the drivers say is written as a history, which distlock_check_history judges as it judges the soak of
tests/e2e. Exit code: 0 good, 1 an invariant was violated, 2 void: too few grants to prove anything."""
import json
import pathlib
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time

from case_file import REPOSITORY
from peers import Failed, Peer, boot_now

sys.path.insert(0, str(REPOSITORY / "tests/e2e"))

import faults as store_looks  # noqa: E402
from harness import DISTLOCKD, World  # noqa: E402

SECOND = 1_000_000_000
VALIDITY_S, TTL_S, SLOT_S, DRAIN_S = 3.0, 3.0, 6.0, 3.0
SLACK_S, RECOVERY_S = 5.0, 6.0
STALL_S = 0.25  # a pause of this process that counts as a fault of the machine
WORKERS, LOCKS, SLOW_LOCKS = 8, 10, 3
LOOK_S = 0.05  # how often a holder's deadline is recorded
LAST_WISH_S = 60
CHECKER = pathlib.Path(DISTLOCKD).with_name("distlock_check_history")
# A history names these words of a client so. The rest is named alike.
REASONS = {"UNREACHABLE": "STORE_UNAVAILABLE", "CLIENT_CLOSED": "CANCELLED"}
ENDS = {"LAPSED": "deadline", "DISCONNECTED": "stream_broke", "CLIENT_CLOSED": "releasing"}
LOST = {"MOVED": "TAKEN", "RELEASED": "TAKEN"}


class History:
    def __init__(self, path):
        self.path = path
        self._file = open(path, "w", encoding="utf-8", buffering=1)
        self._mutex = threading.Lock()
        self.grants = 0
        self._line({"run": {"calm": False, "validity": int(VALIDITY_S * SECOND), "longest_ttl": int(TTL_S * SECOND),
                            "slack": int(SLACK_S * SECOND), "slow": int(SLACK_S * SECOND),
                            "recovery": int(RECOVERY_S * SECOND)}})

    def write(self, kind, at=None, **more):
        self.grants += kind == "granted"
        self._line({"at": boot_now() if at is None else at, "kind": kind, **more})

    def _line(self, record):
        with self._mutex:
            self._file.write(json.dumps(record) + "\n")


class Load(Peer):
    """One driver, and the queues of those who wait for what it says of their lock."""

    def __init__(self, name, argv):
        self.heard, self.ready, self.features = {}, threading.Event(), ()
        super().__init__(name, argv, threading.Condition())

    def hear(self, event):
        if event["event"] == "ready":
            self.features = event["features"]
            self.ready.set()
        elif event.get("lock") in self.heard:
            self.heard[event["lock"]].put(event)
        elif event["event"] == "failed":
            print(f"{self.name}: {event}", flush=True)

    def tell(self, **line):
        with self.changed:
            self.write(line)


class Wish:
    """One request, to its end."""

    def __init__(self, load, history, lease, lock, dice):
        self.load, self.history, self.lease, self.lock, self.dice = load, history, lease, lock, dice
        self.heard = load.heard[lease] = queue.SimpleQueue()
        self.until = 0

    def note(self, kind, at=None, **more):
        self.history.write(kind, at, lease=self.lease, actor=self.load.name, **more)

    def run(self, hold_s):
        wait_ms = self.dice.choice([None, None, None, 0, self.dice.randint(1, 3000)])
        options = {"ttl_ms": int(TTL_S * 1000), "owner": self.load.name, "resume": self.dice.random() < 0.3}
        if wait_ms is not None:
            options["wait_ms"] = wait_ms
        self.note("asked", lock=self.lock, ttl=int(TTL_S * SECOND),
                  max_wait=-1 if wait_ms is None else wait_ms * 1_000_000)
        self.load.tell(do="acquire", lock=self.lease, key=self.lock, **options)
        if "cancel" in self.load.features and self.dice.random() < 0.1:
            time.sleep(self.dice.uniform(0, 0.3))
            self.note("gave_up")
            self.load.tell(do="cancel", lock=self.lease)
        answer = self.take("granted", "refused")
        if answer["event"] == "refused":
            self.note("refused", answer["at"], reason=REASONS.get(answer["reason"], answer["reason"]))
        else:
            self.note("granted", answer["at"], token=answer["token"])
            self.note("believes", answer["at"], until=answer["until"])
            self.until = answer["until"]
            if self.hold(hold_s):
                self.give_back()
        del self.load.heard[self.lease]

    def take(self, *names):
        while True:
            event = self.heard.get(timeout=LAST_WISH_S + 60)
            if event["event"] in names:
                return event

    def hold(self, seconds):
        """Records each deadline. False: the lock was lost."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.load.tell(do="state", lock=self.lease)
            event = self.take("state", "lost")
            if event["event"] == "state" and event["state"] == "LOST":
                event = self.take("lost")  # which says why
            if event["event"] == "lost":
                self.lose(event)
                return False
            # Microseconds apart is how a driver reads its clock.
            if abs(event["until"] - self.until) > 1_000_000:
                self.until = event["until"]
                self.note("believes", event["at"], until=self.until)
            time.sleep(min(LOOK_S, max(0.0, end - time.monotonic())))
        return True

    def lose(self, event):
        cause = event["cause"]
        more = {"why": ENDS[cause]} if cause in ENDS else {"why": "lost", "lost": LOST.get(cause, cause)}
        self.note("ended", event["at"], **more)

    def give_back(self):
        self.load.tell(do="release", lock=self.lease)
        event = self.take("released", "lost")
        if event["event"] == "lost":
            self.lose(event)
            event = self.take("released")
        else:
            self.note("ended", event["since"], why="releasing")
        if event["outcome"] in ("RELEASED", "ALREADY_GONE"):
            self.note("released", event["at"], outcome=event["outcome"])


def work(load, number, history, dice, stopping):
    """One worker: some use only the slow locks, which are held for long."""
    wishes = 0
    while not stopping.is_set():
        wishes += 1
        slow = number < 2
        lock = f"lock-{dice.randrange(SLOW_LOCKS) if slow else dice.randrange(SLOW_LOCKS, LOCKS)}"
        hold_s = dice.uniform(0, 3) if slow and dice.random() < 0.4 else dice.expovariate(50)
        Wish(load, history, f"{load.name}:{number}.{wishes}", lock, dice).run(hold_s)
        time.sleep(min(dice.expovariate(20), 0.5))


class Stage:
    """The processes of a run, and its faults."""

    def __init__(self, folder, options, dice):
        self.options, self.dice, self.folder = options, dice, folder
        self.world = World(folder)
        self.history = History(folder / "history.jsonl")
        self.loads, self.workers, self.troubles = [], [], []
        self.stopping, self.closing = threading.Event(), threading.Event()

    def __enter__(self):
        self.store = self.world.redis()
        self.brokers = [self.world.distlockd(self.store.url, "--wait-for-store", "--validity", f"{VALIDITY_S}s",
                                             "--queue-slot", f"{SLOT_S}s", "--drain-timeout", f"{DRAIN_S}s",
                                             name=f"broker-{i}") for i in range(2)]
        addresses = ",".join(broker.url for broker in self.brokers)
        for number, argv in enumerate(self.options.drivers):
            load = Load(f"client-{number}", argv)
            self.loads.append(load)
            if not load.ready.wait(30):
                raise Failed(f"{load.name} is not ready: {load.errors}")
            load.tell(do="connect", address=addresses)
        threading.Thread(target=self._watch_for_stalls, daemon=True).start()
        for load in self.loads:
            for number in range(WORKERS):
                dice = random.Random(self.dice.random())
                self.workers.append(threading.Thread(target=work, daemon=True, args=(
                    load, number, self.history, dice, self.stopping)))
                self.workers[-1].start()
        return self

    def __exit__(self, *_):
        self.closing.set()
        for load in self.loads:
            load.kill()
        self.world.__exit__()

    def _watch_for_stalls(self):
        last = boot_now()
        while not self.closing.wait(0.02):
            now = boot_now()
            if now - last > STALL_S * SECOND:
                self.history.write("fault", last, fault="link_slow", actor="the machine", actor_kind="link",
                                   lasts=now - last)
            last = now

    def fault(self, kind):
        broker, began = self.dice.choice(self.brokers), boot_now()
        if kind == "broker_killed":
            broker.kill()
            time.sleep(self.dice.uniform(0, 2))
            broker.start()
        elif kind == "broker_paused":
            broker.stop()
            time.sleep(self.dice.uniform(0.5, VALIDITY_S + 2))
            broker.cont()
        else:
            code = broker.drain()
            if code != 0:
                self.troubles.append(f"{broker.name} drained with {code}")
            time.sleep(self.dice.uniform(0, 1))
            broker.start()
        self.history.write("fault", began, fault=kind, actor=broker.name, actor_kind="broker",
                           lasts=boot_now() - began)
        if self.options.verbose:
            print(f"  {kind} of {broker.name}, {(boot_now() - began) / SECOND:.1f} s; {self.history.grants} grants",
                  flush=True)

    def run(self):
        end = time.monotonic() + self.options.seconds
        kinds = []
        while time.monotonic() < end:
            time.sleep(self.dice.uniform(0.5, 2))
            if not kinds:
                kinds = self.dice.sample(["broker_killed", "broker_paused", "broker_drained"], 3)
            self.fault(kinds.pop())
        self.history.write("healed")
        time.sleep(1)
        self.stopping.set()
        deadline = time.monotonic() + LAST_WISH_S
        for worker in self.workers:
            worker.join(max(0.0, deadline - time.monotonic()))
        late = sum(worker.is_alive() for worker in self.workers)
        if late:
            self.troubles.append(f"{late} requests were not answered within {LAST_WISH_S} s after the last fault")
        for load in self.loads:
            load.tell(do="close")
        self._note_leftovers()

    def _note_leftovers(self):
        deadline = time.monotonic() + TTL_S + SLOT_S + VALIDITY_S + RECOVERY_S
        while store_looks.leftovers(self.store) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.history.write("quiet")
        for key in store_looks.leftovers(self.store):
            self.history.write("left", count=1, what=f"key {key} in the store")


def judge(stage, options):
    checker = subprocess.run([CHECKER, "--json", stage.history.path], capture_output=True, text=True, check=False)
    print(checker.stdout + checker.stderr, end="")
    for trouble in stage.troubles:
        print(f"VIOLATION {trouble}")
    if checker.returncode or stage.troubles:
        return 1
    if stage.history.grants < options.min_grants:
        print(f"VOID: {stage.history.grants} grants, at least {options.min_grants} wanted")
        return 2
    return 0


def run(options):
    for program in (DISTLOCKD, CHECKER):
        if not pathlib.Path(program).exists():
            sys.exit(f"there is no {program}: build it, or name the broker by DISTLOCKD")
    dice = random.Random(options.seed)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="dlr"))
    print(f"seed {options.seed}, in {folder}", flush=True)
    with Stage(folder, options, dice) as stage:
        stage.run()
        code = judge(stage, options)
    if code == 0:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"history and logs are in {folder}", file=sys.stderr)
    return code
