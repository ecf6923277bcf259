# SPDX-License-Identifier: Apache-2.0
"""What is shown of a store that answers and grants nobody a lock."""
from ctl import ends


def test_status_of_a_broker_whose_store_refuses_writes(ctl, fake):
    v1 = fake.fake.api
    fake.fake.store_nodes = [v1.StoreNode(address="a:1", state=v1.STORE_NODE_STATE_UP, refusal="OOM is its word")]
    fake.fake.store_refusal = "a:1: OOM is its word"
    done = ctl("status")
    assert done.returncode == 69
    assert ", up, but TAKES NO WRITES, so no lock is granted: a:1: OOM is its word\n" in done.stdout
    assert "primary   a:1, up, refuses writes: OOM is its word\n" in done.stdout
    assert "store TAKES NO WRITES" in ctl("top", "--once").stdout
    explained = ctl("status", "--explain")
    assert explained.returncode == 69
    assert explained.stdout.startswith("No lock is granted: a:1 refuses writes: OOM is its word. It is at maxmemory: ")


def test_a_hold_off_is_shown(ctl, fake):
    fake.fake.hold_off_s = 38
    why = "nobody is newly granted a lock for another 38s: the store may have forgotten a holder (hold-off)"
    assert ctl("show", "k").stdout == f"default:k  held off, 0 waiting\n  {why}\n"
    [lock] = ctl.json("show", "k")
    assert lock["hold_off_ms"] == 38_000
    assert (ctl("ls").stdout, ctl("ls").stderr) == ("", f"distlockctl: {why}\n")
    assert f"! {why}\n" in ctl("top", "--once").stdout
    v1 = fake.fake.api
    fake.fake.store_nodes = [v1.StoreNode(address="a:1", state=v1.STORE_NODE_STATE_HELD_OFF)]
    explained = ctl("status", "--explain")
    assert explained.returncode == 69 and explained.stdout.startswith("No lock is newly granted ")
    fake.fake.refusal = ("STORE_HOLD_OFF", "nobody is newly granted it", [])
    done = ctl("run", "k", "-n", "-q", "-E", "0", "true")
    assert done.returncode == 69 and "STORE_HOLD_OFF" in done.stderr


def test_a_wait_without_an_end_outlasts_a_hold_off(ctl, fake):
    fake.fake.refusal = ("STORE_HOLD_OFF", "nobody is newly granted it", [])
    waiter = ctl.start("run", "k", "--", "echo", "ran")
    assert "nobody is newly granted it" in waiter.stderr.readline()
    fake.fake.refusal = None
    assert ends(waiter) == 0 and waiter.stdout.read() == "ran\n"
