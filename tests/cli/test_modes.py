# SPDX-License-Identifier: Apache-2.0
"""-s, -x, --limit, --permits and --policy: which holders a lock admits together, and what show and ls print."""
import json
import subprocess

import pytest

from broker import eventually
from ctl import ends, line

READS = ["sh", "-c", "echo in; read x; true"]  # runs until its stdin ends


@pytest.fixture
def inside(ctl):
    """Starts `run k` with these flags, and waits until its command runs."""
    def start(*flags):
        process = ctl.start("run", "k", *flags, "--", *READS, stdin=subprocess.PIPE)
        assert line(process) == "in"
        return process
    return start


def leave(process):
    process.stdin.close()
    assert ends(process) == 0


def tried(ctl, *flags):
    """The exit code of `run k -n` with these flags."""
    return ctl("run", "k", "-n", *flags, "--", "true").returncode


class TestShared:
    def test_readers_share_and_keep_writers_out(self, ctl, broker, inside):
        first, second = inside("-s"), inside("--shared")
        assert tried(ctl, "-x") == tried(ctl) == 1
        leave(first)
        assert tried(ctl, "-x") == 1 and tried(ctl, "-s") == 0
        leave(second)
        assert tried(ctl, "-x") == 0

    def test_no_reader_beside_a_writer(self, ctl, broker, inside):
        writer = inside("-x")
        assert tried(ctl, "-s") == 1
        leave(writer)
        assert tried(ctl, "-s") == 0

    def test_a_writer_waits_for_all_readers_and_keeps_later_ones_waiting(self, ctl, broker, inside):
        first, second = inside("-s"), inside("-s")
        writer = ctl.start("run", "k", "--exclusive", "--", "echo", "mine")
        eventually(lambda: broker.queue_length("k") == 1)
        assert tried(ctl, "-s") == 1
        leave(first)
        assert writer.poll() is None and broker.queue_length("k") == 1
        leave(second)
        assert ends(writer) == 0 and writer.stdout.read() == "mine\n"

    def test_hold(self, ctl, broker, inside):
        holds = [ctl.start("hold", "k", "-s", "--until-eof", stdin=subprocess.PIPE) for _ in range(2)]
        assert all(line(hold).startswith("granted") for hold in holds)
        leave(inside("-s"))
        for hold in holds:
            leave(hold)
        assert broker.free("k")

    def test_acquire_renew_and_release_of_shares(self, ctl, broker):
        leases = [ctl.json("acquire", "k", "-s")[0]["lease_id"] for _ in range(2)]
        assert tried(ctl, "-x") == 1
        assert ctl("renew", "-", text=leases[0]).returncode == 0
        assert ctl("release", "-", text=leases[0]).stdout == "released\n"
        assert ctl("renew", "-", text=leases[0]).returncode == 75
        assert ctl("renew", "-", text=leases[1]).returncode == 0 and tried(ctl, "-x") == 1
        assert ctl("release", "-", text=leases[1]).stdout == "released\n"
        assert tried(ctl, "-x") == 0


class TestLimit:
    def test_two_are_granted_and_the_third_is_busy(self, ctl, broker, inside):
        first, second = inside("--limit", "2"), inside("--limit", "2")
        busy = ctl("run", "k", "-n", "--limit", "2", "--owner", "me", "-E", "9", "--", "echo", "no")
        assert (busy.returncode, busy.stdout) == (9, "") and "LOCK_HELD" in busy.stderr
        leave(first)
        assert tried(ctl, "--limit", "2") == 0
        leave(second)

    def test_some_take_more(self, ctl, broker, inside):
        two = inside("--limit", "3", "--permits", "2")
        assert tried(ctl, "--limit", "3", "--permits", "2") == 1
        assert tried(ctl, "--limit", "3", "--permits", "1") == tried(ctl, "--limit", "3") == 0
        waiter = ctl.start("acquire", "k", "--limit", "3", "--permits", "3")
        eventually(lambda: broker.queue_length("k") == 1)
        leave(two)
        assert ends(waiter) == 0

    @pytest.mark.parametrize("command", [["run", "k", "-c", "true"], ["hold", "k"], ["acquire", "k"]])
    def test_one_try_with_another_limit_or_mode_is_a_mismatch(self, ctl, broker, inside, command):
        held = inside("--limit", "2")
        for flags in (["--limit", "3"], ["-x"], ["-s"]):
            done = ctl(*command, "-n", *flags)
            assert done.returncode == 1 and "LIMIT_MISMATCH" in done.stderr, flags
            done = ctl(*command, "-w", "500ms", *flags)
            assert done.returncode == 1 and "WAIT_TIMEOUT" in done.stderr, flags
        leave(held)

    @pytest.mark.parametrize("flags", [["--limit", "3"], ["-x"], ["-s"]])
    def test_another_limit_or_mode_waits_for_the_holders(self, ctl, broker, inside, flags):
        held = inside("--limit", "2")
        waiter = ctl.start("run", "k", *flags, "--", "echo", "mine")
        eventually(lambda: broker.queue_length("k") == 1)
        newcomer = ctl.start("run", "k", "--limit", "2", "--", "true")
        eventually(lambda: broker.queue_length("k") == 2)
        assert waiter.poll() is None
        leave(held)
        assert ends(waiter) == ends(newcomer) == 0 and waiter.stdout.read() == "mine\n"

    def test_more_permits_than_there_are(self, ctl, broker):
        if not broker.real:
            problem = ("acquire.locks[0].limit", "is 2; less than permits")
            broker.fake.refusal = ("INVALID_ARGUMENT", "wrong request", [problem])
        done = ctl("run", "k", "--limit", "2", "--permits", "3", "--", "true")
        assert done.returncode == 64
        assert done.stderr.startswith("distlockctl: --limit is 2; ") and "permits" in done.stderr


@pytest.mark.parametrize("command", [["run", "k", "-c", "true"], ["hold", "k"], ["acquire", "k"]])
def test_wrong_usage(ctl, broker, command):
    for flags in ("-s --limit 2", "-x --limit 2", "-s -x", "--permits 2", "-s --permits 2", "--limit 0", "--limit -1",
                  "--limit many", "--limit 5000000000", "--limit 2147483648", "--limit 2 --permits 0",
                  "--policy random", "--ttl 0"):
        done = ctl(*command, *flags.split())
        assert done.returncode == 64 and len(done.stderr) < 200, flags
        assert done.stderr.startswith("distlockctl: ") and done.stderr.count("\n") == 1, flags
    assert broker.free("k")


@pytest.mark.parametrize("command", [["run", "-n", "-c", "true"], ["hold", "-n"], ["acquire", "-n"]])
def test_each_policy_is_sent_to_the_broker(api, ctl, fake, command):
    asked = []
    fake.fake.refusal = ("LOCK_HELD", "it is held", [])
    fake.fake.on_acquire = lambda spec: asked.append((spec.mode, spec.policy))
    for name in ("fair", "writer-preferring", "reader-preferring", "adaptive"):
        assert ctl(*command, "k", "-s", "--policy", name).returncode == 1
    assert asked == [(api.LOCK_MODE_SHARED, getattr(api, "QUEUE_POLICY_" + name)) for name in
                     ("FAIR", "WRITER_PREFERRING", "READER_PREFERRING", "ADAPTIVE")]


class TestShowAndLs:
    def test_show_readers_and_a_writer(self, ctl, broker, inside):
        readers = [inside("-s", "--owner", name) for name in ("ann", "bob")]
        ctl.start("run", "k", "--owner", "eve", "--", "true")
        eventually(lambda: broker.queue_length("k") == 1)
        top, ann, bob, eve = ctl("show", "k").stdout.splitlines()
        assert top == "default:k  held, 1 waiting"
        assert ann.startswith("  holder ann  shared  for ") and bob.startswith("  holder bob  shared  for ")
        assert eve.startswith("  waiter 1 eve  exclusive  since 20")
        [lock] = ctl.json("show", "k")
        assert [(h["owner"], h["mode"], h["permits"]) for h in lock["holders"]] == [("ann", "shared", 0),
                                                                                   ("bob", "shared", 0)]
        assert lock["holder_count"] == 2 and lock["holders"][0]["token"] < lock["holders"][1]["token"]
        assert [(w["owner"], w["mode"], w["permits"]) for w in lock["waiters"]] == [("eve", "exclusive", 0)]
        assert lock["waiters"][0]["since"] >= lock["holders"][1]["since"]
        for reader in readers:
            leave(reader)

    def test_show_permits(self, ctl, broker, inside):
        holders = [inside("--limit", "4", "--permits", n, "--owner", "has" + n) for n in ("1", "3")]
        ctl.start("run", "k", "--limit", "4", "--permits", "2", "--owner", "eve", "--", "true")
        eventually(lambda: broker.queue_length("k") == 1)
        first, one, three, eve = ctl("show", "k").stdout.splitlines()
        assert first == "default:k  held, 4 of 4 permits taken, 1 waiting"
        assert one.startswith("  holder has1  1 permit  for ")
        assert three.startswith("  holder has3  3 permits  for ")
        assert eve.startswith("  waiter 1 eve  2 permits  since 20")
        [lock] = ctl.json("show", "k")
        assert [(h["mode"], h["permits"]) for h in lock["holders"]] == [("permit", 1), ("permit", 3)]
        assert [(w["mode"], w["permits"]) for w in lock["waiters"]] == [("permit", 2)]
        for holder in holders:
            leave(holder)

    def test_ls(self, ctl, broker):
        for flags in (["-s"], ["-s"], ["-s"]):
            ctl("acquire", "table", "--owner", "ann", *flags)
        for permits in ("1", "2"):
            ctl("acquire", "pool", "--owner", "bob", "--limit", "4", "--permits", permits)
        ctl("acquire", "alone", "--owner", "eve")
        rows = {row.split()[0]: row for row in ctl("ls", "--all").stdout.splitlines()}
        assert " shared " in rows["default:table"] and rows["default:table"].endswith(" ann and 2 more")
        assert " 1 free   3 of 4 " in rows["default:pool"] and rows["default:pool"].endswith(" bob and 1 more")
        assert " exclusive " in rows["default:alone"] and rows["default:alone"].endswith(" eve")
        locks = {lock["key"]: lock for lock in ctl.json("ls", "--all")}
        assert {key: lock["holder_count"] for key, lock in locks.items()} == {"table": 3, "pool": 2, "alone": 1}
        assert [(h["mode"], h["permits"]) for h in locks["pool"]["holders"]] == [("permit", 1), ("permit", 2)]
        assert {key: (lock["limit"], lock["free"]) for key, lock in locks.items()} == {
            "table": (None, None), "pool": (4, 1), "alone": (None, None)}
        assert ctl("show", "pool").stdout.startswith("default:pool  1 free, 3 of 4 permits taken, 0 waiting\n")
        [row] = [row for row in ctl("top", "--once").stdout.splitlines() if row.startswith("default:pool ")]
        assert " 3 of 4 " in row
        assert all("waiters" not in lock for lock in locks.values())


def test_a_mismatch_as_json(ctl, broker):
    ctl("acquire", "k", "--limit", "2")
    error = json.loads(ctl("acquire", "k", "-n", "--limit", "3", "-o", "json").stderr)["error"]
    assert (error["reason"], error["exit_code"]) == ("LIMIT_MISMATCH", 1)
