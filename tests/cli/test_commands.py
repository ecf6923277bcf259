# SPDX-License-Identifier: Apache-2.0
"""acquire, renew, release, show, ls, status, drain, completion, and what all commands share."""
import json
import os
import re
import stat

import pytest

from broker import eventually
from ctl import ends, line

COMMANDS = ["run", "elect", "hold", "acquire", "renew", "downgrade", "release", "show", "ls", "watch", "check-token",
            "status", "sessions", "drain", "top", "force-release", "quorum-init", "store", "completion", "man"]
LEASE_FIELDS = {"namespace", "key", "lease_id", "holder_id", "token", "ttl_ms", "valid_for_ms", "waited_ms"}


def environment(text):
    return dict(row.split("=", 1) for row in text.splitlines())


def test_an_unknown_command_is_named(ctl):
    assert ctl("--version").stdout.startswith("distlockctl ")
    done = ctl("lokc", "k")
    assert done.returncode == 64 and "'lokc' is not a command" in done.stderr
    assert "A subcommand is required" in ctl().stderr


def test_a_name_that_is_not_utf8_is_refused_in_one_line(ctl, broker):
    if not broker.real:
        pytest.skip("the fake cannot read it")
    for command in ("acquire", "renew", "show", "watch"):
        done = ctl(command, os.fsdecode(b"a\xff"))
        assert done.returncode == 64 and "not UTF-8" in done.stderr and done.stderr.count("\n") == 1, command


def test_help_that_cannot_be_written_is_a_failure(ctl):
    with open("/dev/full", "w") as full:
        done = ctl("--help", stdout=full)
    assert done.returncode == 70 and "cannot write to stdout" in done.stderr


def test_top_refuses_json_and_short_intervals(ctl):
    for flags in (("-o", "json", "--once"), ("--interval", "50ms", "--once")):
        assert ctl("top", *flags).returncode == 64, flags


class TestForceRelease:
    def test_takes_it_and_says_from_how_many(self, ctl, broker):
        for _ in range(2):
            ctl("acquire", "k", "--shared")
        assert ctl("force-release", "k", "--reason", "why").stdout == "default:k was taken from 2 holders\n"
        assert broker.free("k")
        nobody = ctl("force-release", "k")
        assert (nobody.returncode, nobody.stdout) == (1, "default:k was held by nobody\n")

    def test_from_one_holder_as_json(self, ctl, broker):
        [lease] = ctl.json("acquire", "k", "--namespace", "n")
        assert ctl("force-release", "k", "--namespace", "n", "--holder-id", "0123456789abcdef").returncode == 1
        [done] = ctl.json("force-release", "k", "--namespace", "n", "--holder-id", lease["holder_id"])
        assert done == {"event": "force_released", "released": 1}

    def test_bad_ids_and_no_broker(self, ctl):
        assert ctl("force-release", "k", "--holder-id", "x").returncode == 64
        assert ctl("force-release", "k", "--server", "unix:///nowhere", "--connect-timeout", "1s").returncode == 69


class TestLease:
    def test_taken_renewed_and_given_back(self, ctl, broker):
        lease = environment(ctl("acquire", "k", "--ttl", "20s").stdout)
        assert lease["DISTLOCK_TTL"] == "20s"
        assert int(lease["DISTLOCK_TOKEN"]) == broker.lock("k").fencing_token
        assert lease["DISTLOCK_HOLDER_ID"] == broker.lock("k").holders[0].holder_id
        assert ctl("renew", extra_env=lease).stdout.startswith("renewed, valid for 19")
        assert ctl("release", extra_env=lease).stdout == "released\n"
        assert broker.free("k")
        again = ctl("release", extra_env=lease)
        assert (again.returncode, again.stdout) == (0, "already_gone\n")
        late = ctl("renew", extra_env=lease)
        assert late.returncode == 75 and "NOT_HOLDER" in late.stderr

    def test_downgrade_lets_readers_in(self, ctl, broker):
        lease = environment(ctl("acquire", "k").stdout)
        reader = ctl.start("acquire", "k", "-s")
        eventually(lambda: broker.queue_length("k") == 1)
        assert ctl("downgrade", extra_env=lease).stdout == "downgraded\n"
        assert ends(reader) == 0
        assert ctl.json("downgrade", "-", text=lease["DISTLOCK_LEASE_ID"]) == [{"outcome": "downgraded"}]
        assert [h.mode for h in broker.lock("k").holders] == [2, 2]
        ctl("release", extra_env=lease)
        assert ctl("downgrade", extra_env=lease).returncode == 75
        assert ctl("downgrade").returncode == 64

    def test_as_json_and_through_stdin(self, ctl, broker):
        [lease] = ctl.json("acquire", "k")
        assert set(lease) == LEASE_FIELDS
        assert ctl("renew", "-", text=lease["lease_id"] + "\n").returncode == 0
        [released] = ctl.json("release", "-", text=lease["lease_id"])
        assert released == {"outcome": "released"}

    def test_a_lease_file_for_systemd(self, ctl, broker, folder):
        path = os.path.join(folder, "lease")
        done = ctl("acquire", "k", "--lease-file", path)
        assert (done.returncode, done.stdout) == (0, "")
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        with open(path, encoding="ascii") as f:
            text = f.read()
        assert environment(text)["DISTLOCK_LEASE_ID"]
        assert ctl("release", "-", text=text).stdout == "released\n"

    def test_links_pipes_and_devices_are_written_to_and_not_replaced(self, ctl, broker, folder):
        real, link, pipe = (os.path.join(folder, name) for name in ("real", "link", "pipe"))
        with open(real, "w", encoding="ascii") as f:
            f.write("old")
        os.symlink("real", link)
        assert ctl("acquire", "k", "--lease-file", link).returncode == 0
        assert os.path.islink(link)
        with open(real, encoding="ascii") as f:
            assert environment(f.read())["DISTLOCK_LEASE_ID"]
        os.mkfifo(pipe)
        assert ctl("acquire", "nobody-reads", "--lease-file", pipe).returncode == 70
        assert broker.free("nobody-reads")
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        assert ctl("acquire", "read", "--lease-file", pipe).returncode == 0
        assert environment(os.read(reader, 4096).decode())["DISTLOCK_LEASE_ID"]
        os.close(reader)
        assert stat.S_ISFIFO(os.stat(pipe).st_mode)
        assert ctl("acquire", "full", "--lease-file", "/dev/full").returncode == 70
        assert broker.free("full") and stat.S_ISCHR(os.stat("/dev/full").st_mode)

    def test_a_lease_that_cannot_be_written_is_released(self, ctl, broker, folder):
        done = ctl("acquire", "k", "--lease-file", os.path.join(folder, "no", "such", "folder"))
        assert done.returncode == 70
        assert broker.free("k")

    def test_the_same_request_gets_the_same_grant(self, ctl, broker):
        request = "--request-id=0123456789abcdef"
        first, second = ctl("acquire", "k", request).stdout, ctl("acquire", "k", request).stdout
        assert environment(first)["DISTLOCK_LEASE_ID"] == environment(second)["DISTLOCK_LEASE_ID"]

    def test_busy_names_the_holder_and_when_to_retry(self, ctl, broker):
        ctl("acquire", "k", "--owner", "bob")
        done = ctl("acquire", "k", "-n")
        assert done.returncode == 1
        assert "bob" in done.stderr and "LOCK_HELD" in done.stderr and re.search(r"retry after 1\d", done.stderr)
        assert ctl("acquire", "k", "-w", "500ms").returncode == 1

    def test_a_wait_that_is_granted(self, ctl, broker):
        lease = environment(ctl("acquire", "k").stdout)
        waiter = ctl.start("acquire", "k")
        eventually(lambda: broker.queue_length("k") == 1)
        ctl("release", extra_env=lease)
        assert ends(waiter) == 0

    @pytest.mark.parametrize("wait", [[], ["-w", "1h"]])
    def test_a_wait_ends_when_the_broker_falls_silent(self, ctl, broker, wait):
        if not broker.real:
            pytest.skip("only a process can be stopped so that its kernel alone answers")
        ctl("acquire", "k")
        waiter = ctl.start("acquire", "k", *wait, "--connect-timeout", "500ms")
        eventually(lambda: broker.queue_length("k") == 1)
        broker.fall_silent()
        assert ends(waiter) == 69
        said = waiter.stderr.read()
        assert said.startswith(f"distlockctl: cannot reach the broker at {broker.address} within 500ms: ")

    def test_an_answer_without_a_grant(self, ctl, fake):
        fake.fake.grants_nothing = True
        done = ctl("acquire", "k")
        assert (done.returncode, done.stdout) == (70, "") and "with 0 grants" in done.stderr

    def test_without_a_lease_id(self, ctl, broker):
        for command in ("renew", "release"):
            assert ctl(command).returncode == 64
            assert ctl(command, "-").returncode == 64

    def test_each_bad_field_is_named(self, ctl, fake):
        problems = [("locks[0].ttl", "too short"), ("locks[0].key", "too long")]
        fake.fake.refusal = ("INVALID_ARGUMENT", "2 fields are wrong", problems)
        done = ctl("acquire", "k")
        assert done.returncode == 64
        assert done.stderr == "distlockctl: --ttl too short\ndistlockctl: KEY too long\n"
        error = json.loads(ctl("acquire", "k", "-o", "json").stderr)["error"]
        fields = [(bad["field"], bad["problem"]) for bad in error["fields"]]
        assert fields == [("--ttl", "too short"), ("KEY", "too long")]
        assert error["message"] == "--ttl too short; KEY too long"


class TestShowAndLs:
    def test_show(self, ctl, broker):
        holder = ctl.start("hold", "k", "--owner", "bob", "--metadata", "why=test")
        assert line(holder).startswith("granted")
        ctl.start("hold", "k", "--owner", "eve")
        eventually(lambda: broker.queue_length("k") == 1)
        text = ctl("show", "k").stdout
        assert re.match(r"default:k  held, 1 waiting\n  holder bob  exclusive  for \S+  since 20\S+  token ", text)
        assert "why=test" in text
        assert "\n  waiter 1 eve  exclusive  since 20" in text
        [lock] = ctl.json("show", "k")
        assert list(lock) == ["namespace", "key", "token", "queue_length", "holder_count", "limit", "free", "block",
                              "holders", "waiters"]
        assert lock["block"] is None and "blocked" not in lock["holders"][0]
        assert lock["holders"][0]["owner"] == "bob" and lock["holders"][0]["metadata"] == {"why": "test"}
        assert lock["waiters"][0]["owner"] == "eve" and lock["waiters"][0]["since"].startswith("20")

    def test_show_a_free_lock(self, ctl, broker):
        assert ctl("show", "nobody").stdout == "default:nobody  free, 0 waiting\n"

    def test_ls(self, ctl, broker):
        for key in ("a/1", "a/2", "a/3", "b/1"):
            ctl("acquire", key)
        ctl("acquire", "a/9", "--namespace", "other")
        assert sorted(lock["key"] for lock in ctl.json("ls", "--prefix", "a/", "--all")) == ["a/1", "a/2", "a/3"]
        assert len(ctl("ls", "--all").stdout.splitlines()) == 4
        assert [lock["key"] for lock in ctl.json("ls", "--namespace", "other")] == ["a/9"]

    def test_ls_of_all_namespaces(self, ctl, broker):
        for namespace in ("default", "other"):
            ctl("acquire", "k", "--namespace", namespace)
        ctl("acquire", "another", "--namespace", "other")
        rows = sorted(row.split()[:2] for row in ctl("ls", "-A").stdout.splitlines())
        assert rows == [["default:k", "held"], ["other:another", "held"], ["other:k", "held"]]
        locks = ctl.json("ls", "--all-namespaces")
        assert sorted(f"{lock['namespace']}:{lock['key']}" for lock in locks) == [row[0] for row in rows]
        for flags in (["--namespace", "other"], ["--prefix", "k"]):
            assert ctl("ls", "-A", *flags).returncode == 64

    def test_ls_goes_through_all_pages(self, ctl, fake):
        fake.take(["a", "b", "c"])
        done = ctl("ls")
        assert [row.split()[0] for row in done.stdout.splitlines()] == ["default:a", "default:b", "default:c"]
        assert (done.returncode, done.stderr) == (0, "")

    def test_ls_says_that_there_are_more(self, ctl, broker):
        broker.take(f"k/{i}" for i in range(1000))
        everything = ctl("ls", "-o", "json")
        assert (len(everything.stdout.splitlines()), everything.stderr) == (1000, "")
        broker.take(["one more"])
        first = ctl("ls")
        assert (first.returncode, len(first.stdout.splitlines())) == (0, 1000)
        assert first.stderr == "distlockctl: there are more than these 1000 locks: --all lists every one\n"
        first = ctl("ls", "-o", "json")
        assert len(first.stdout.splitlines()) == 1000 and "--all" in json.loads(first.stderr)["warning"]["message"]
        everything = ctl("ls", "--all")
        assert (len(everything.stdout.splitlines()), everything.stderr) == (1001, "")


class TestBroker:
    def test_status(self, ctl, broker):
        assert ctl("status").stdout.startswith("broker ")
        [status] = ctl.json("status")
        assert status["store_state"] == "up" and not status["draining"]

    def test_status_shows_the_stores_server_and_its_replicas(self, ctl, fake):
        v1 = fake.fake.api
        node = v1.StoreNode(address="10.0.0.7:6379", state=v1.STORE_NODE_STATE_HELD_OFF, role="master", version="7.2.4",
                            identity="1a2b3c4d", epoch=3, guard="min-replicas", primary_changes=2)
        node.hold_off_left.seconds = 12
        node.replicas.add(address="10.0.0.8:6379", online=True).lag.seconds = 1
        fake.fake.store_nodes = [node]
        assert ctl("status").stdout.endswith("""\
confirm   1 of the replicas must have each grant
primary   10.0.0.7:6379, held off (no new locks for 12s), version 7.2.4, identity 1a2b3c4d, epoch 3, \
hold-off after a failover: min-replicas
replica   10.0.0.8:6379, online, lag 1s
""")
        [status] = ctl.json("status")
        assert status["wait_replicas"] == 1
        assert status["store_nodes"] == [{
            "address": "10.0.0.7:6379", "state": "held_off", "problem": "", "refusal": "", "role": "master",
            "version": "7.2.4",
            "identity": "1a2b3c4d", "epoch": 3, "guard": "min-replicas", "hold_off_left_ms": 12000,
            "replicas": [{"address": "10.0.0.8:6379", "online": True, "lag_ms": 1000}], "primary_changes": 2}]

    def test_status_shows_what_the_votes_of_each_independent_server_are_worth(self, ctl, fake):
        v1 = fake.fake.api
        nodes = [v1.StoreNode(address=f"h{i}:6379", state=v1.STORE_NODE_STATE_UP, role="master", version="7.2.4",
                              identity="1a2b3c4d", independent=True) for i in range(3)]
        nodes[0].clock_skew.FromMilliseconds(2)
        nodes[1].clock_skew.FromMilliseconds(-3)
        nodes[1].state = v1.STORE_NODE_STATE_HELD_OFF
        nodes[1].not_counted = "it may have forgotten locks"
        nodes[1].hold_off_left.seconds = 12
        nodes[2].state, nodes[2].problem = v1.STORE_NODE_STATE_DOWN, "connection refused"
        nodes[2].not_counted = "connection refused"
        fake.fake.store_nodes = nodes
        assert ctl("status").stdout.endswith("""\
server    h0:6379, up, counted, clock 2ms ahead, version 7.2.4, identity 1a2b3c4d
server    h1:6379, up, not counted for 12s: it may have forgotten locks, clock 3ms behind, version 7.2.4, \
identity 1a2b3c4d
server    h2:6379, down: connection refused, version 7.2.4, identity 1a2b3c4d
""")
        [status] = ctl.json("status")
        shown = [(n["counted"], n["not_counted"], n["clock_skew_us"]) for n in status["store_nodes"]]
        assert shown == [(True, "", 2000), (False, "it may have forgotten locks", -3000),
                         (False, "connection refused", None)]

    def test_status_of_a_broker_without_store(self, ctl, fake):
        fake.fake.store_up = False
        done = ctl("status")
        assert done.returncode == 69
        assert "DOWN: connection refused" in done.stdout

    def test_a_broker_without_store_is_alive(self, ctl, fake):
        fake.fake.store_up = False
        assert ctl.json("status", "--alive", "--server", ctl.env["DISTLOCK_SERVER"]) == [{"alive": True}]
        assert ctl.json("status", "--alive", extra_env={"DISTLOCK_HTTP": ""}) == [{"alive": True}]
        done = ctl("status", "--alive", extra_env={"DISTLOCK_HTTP": "127.0.0.1:1"})
        assert done.returncode == 69 and "no broker says that it is alive at http://127.0.0.1:1/healthz" in done.stderr
        assert ctl("status", "--alive", "--explain").returncode == 64

    def test_sessions(self, ctl, broker):
        holders = [ctl.start("hold", key) for key in "ab"]
        assert all(line(holder).startswith("granted") for holder in holders)
        waiter = ctl.start("hold", "a")
        eventually(lambda: broker.queue_length("a") == 1)
        found = ctl.json("sessions")
        assert sorted((s["kind"], s["client"], s["leases"], s["waiters"]) for s in found) == [
            ("session", "distlockctl", 0, 1), ("session", "distlockctl", 1, 0), ("session", "distlockctl", 1, 0)]
        assert all(s["session_id"] and s["peer"].startswith("unix:") and s["since"].startswith("20") for s in found)
        rows = ctl("sessions").stdout.splitlines()
        row = r"\S+ +session +\d leases, \d waiters  since 20\S+  from unix:.*"
        assert len(rows) == 3 and all(re.fullmatch(row, r) for r in rows)
        assert waiter.poll() is None

    def test_drain(self, ctl, broker):
        [draining] = ctl.json("drain", "--timeout", "7s")
        assert draining["event"] == "draining" and draining["timeout_ms"] == 7000

    def test_drain_of_several_brokers_is_refused(self, ctl):
        done = ctl("drain", "--server", "a:7420,b:7420")
        assert done.returncode == 64
        assert done.stderr == "distlockctl: drain ends one broker, and a:7420,b:7420 are 2: give --server only one\n"

    def test_drain_and_wait(self, ctl, broker):
        done = ctl.start("drain", "--wait", "-o", "json")
        assert json.loads(line(done))["event"] == "draining"
        if not broker.real:
            broker.fake.stop()
        assert json.loads(line(done))["event"] == "drained"
        assert ends(done) == 0

    def test_drain_and_wait_for_a_broker_that_falls_silent(self, ctl, broker):
        """A silent broker may still run, with all its locks."""
        if not broker.real:
            pytest.skip("only a process can be stopped so that its kernel alone answers")
        holder = ctl.start("hold", "k")  # otherwise the broker exits before the test can stop it
        assert line(holder).startswith("granted")
        draining = ctl.start("drain", "--wait", "--connect-timeout", "500ms")
        assert line(draining).startswith("draining broker ")
        broker.fall_silent()
        assert ends(draining) == 69
        assert draining.stdout.read() == "" and "it may not have drained yet" in draining.stderr.read()


class TestShared:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_help_with_examples(self, ctl, broker, command):
        done = ctl(command, "--help")
        assert done.returncode == 0
        assert "Examples:" in done.stdout and f"distlockctl {command}" in done.stdout
        assert max(map(len, done.stdout.splitlines())) <= 140

    @pytest.mark.parametrize("command", COMMANDS)
    def test_help_is_asked_as_a_command_too(self, ctl, broker, command):
        done, asked = ctl("help", command), ctl(command, "--help")
        assert (done.returncode, done.stdout, done.stderr) == (0, asked.stdout, "")

    @pytest.mark.parametrize("word", ["help", "--help"])
    def test_help_lists_the_commands(self, ctl, broker, word):
        done = ctl(word)
        assert done.returncode == 0
        assert [c for c in COMMANDS if not re.search(rf"^  {c} ", done.stdout, re.M)] == []

    @pytest.mark.parametrize("args", [[], ["nonsense"], ["show"], ["ls", "--nonsense"], ["status", "-o", "xml"],
                                      ["show", "k", "--connect-timeout", "never"], ["show", "k", "--timeout", "5"],
                                      ["completion", "tcsh"], ["man", "nonsense"]])
    def test_wrong_usage(self, ctl, broker, args):
        done = ctl(*args)
        assert done.returncode == 64
        assert done.stderr.startswith("distlockctl: ") and done.stderr.count("\n") == 1

    def test_wrong_usage_as_json(self, ctl, broker):
        assert json.loads(ctl("show", "-o", "json").stderr)["error"]["exit_code"] == 64

    @pytest.mark.parametrize("args", [["show", "k"], ["ls"], ["watch", "k"], ["watch", "-A"], ["status"], ["drain"],
                                      ["acquire", "k"], ["renew", "x"], ["release", "x"], ["sessions"],
                                      ["downgrade", "x"], ["check-token", "k", "1"], ["quorum-init"],
                                      ["store", "upgrade", "--to", "2"]])
    def test_no_broker(self, ctl, broker, args):
        done = ctl(*args, "--server", "unix:///nowhere/there.sock", "--connect-timeout", "300ms")
        assert done.returncode == 69
        assert done.stderr.startswith("distlockctl: cannot reach the broker at unix:///nowhere/there.sock within 300ms")
        assert done.stderr.count("\n") == 1

    def test_flags_in_front_of_the_command(self, ctl, broker):
        done = ctl("--server", broker.address, "-o", "json", "status", extra_env={"DISTLOCK_SERVER": "unix:///nowhere"})
        assert json.loads(done.stdout)["store_state"] == "up"
