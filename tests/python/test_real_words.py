# SPDX-License-Identifier: Apache-2.0
"""No message of a real broker speaks to a caller of this package of a field that he has not written."""
import distlock
import pytest

LONG, MUCH = "x" * 600, "x" * 2000
ASKED = {
    "one try": (lambda dl: dl.lock("held", wait=0).acquire(), "set wait to wait in the queue"),
    "a wait": (lambda dl: dl.lock("held", wait=0.05).acquire(), "not free within wait"),
    "another limit": (lambda dl: dl.permits("held", limit=2, wait=0).acquire(), "set wait to wait until"),
    "a long wait": (lambda dl: dl.lock("a", wait=1e8).acquire(), "wait is "),
    "no key": (lambda dl: dl.lock("").acquire(), "key is empty"),
    "many permits": (lambda dl: dl.permits("a", limit=2, n=3).acquire(), r"limit is 2.*at least n \(3\)"),
    "fewer permits": (lambda dl: dl.permits("a", limit=2, n=-3).acquire(), "n is -3"),
    "the same twice": (lambda dl: dl.all(["a", "a"]).acquire(), r"locks\[1\].key names"),
    "an election": (lambda dl: dl.campaign("", "v").acquire(), "name is empty"),
    "a long value": (lambda dl: dl.campaign("e", MUCH).acquire(), "value has 2"),
    "a long proclamation": (lambda dl: dl.campaign("e", "v").acquire().proclaim(MUCH), "value has 2"),
    "a leader": (lambda dl: dl.leader(""), "election is empty"),
    "an observer": (lambda dl: next(iter(dl.observe(""))), "election is empty"),
    "a list": (lambda dl: list(dl.list(LONG)), "prefix has 600 bytes"),
    "all of a list": (lambda dl: list(dl.list("a", namespace="-")), "prefix is for one namespace"),
    "a watch": (lambda dl: next(iter(dl.watch_locks("a", namespace="-"))), "prefix is for one namespace"),
    "a token": (lambda dl: dl.check_token("held", -1), "token is -1; pass the token of"),
    "a detached lease": (lambda dl: dl.acquire_detached("", ttl=0.1), "key is empty.*ttl is 100ms"),
    "a detached lease, busy": (lambda dl: dl.acquire_detached("held", wait=0), "set wait to wait in the queue"),
    "several": (lambda dl: dl.lock("a", ttl=0.1, lock_delay=99, owner=LONG, metadata={"a": MUCH},
                                   min_hold=1e6).acquire(),
                "ttl is.*lock_delay is.*min_hold is.*owner has.*metadata has"),
}


def test_all_of_them(world, connect):
    broker = world.distlockd(world.redis().url)
    with connect(broker.url).lock("held"):
        dl = connect(broker.url)
        for what, (ask, message) in ASKED.items():
            with pytest.raises(distlock.Refused, match=message) as refused:
                ask(dl)
            for word in ("max_wait", "acquire.", "adopt.", "key_prefix", "fencing_token"):
                assert word not in refused.value.message, what
