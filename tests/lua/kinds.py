# SPDX-License-Identifier: Apache-2.0
"""Many holders as the tests speak of them: readers, writers and permits on one lock, and the raw state beneath."""

from lock import GRANTED, HELD, KEEP_MS, FAIR_AFTER_US, QUEUED, TENDED, Lock, broker, owner


class RwLock(Lock):
    """The same calls with the replies as they are; `policy` as the broker turns it into a want and a preference."""

    def __init__(self, redis, policy="fair", **how):
        super().__init__(redis, **how)
        self.policy = policy

    def ask(self, n, kind, wait=1, **how):
        preferred = (self.policy, kind) in (("writer", "x"), ("reader", "s"))
        adaptive = "a" if self.policy == "adaptive" else ""
        argv = self.acquire_argv(n, wait=wait, want=kind + adaptive, preferred=int(preferred), **how)
        return self.call("acquire", *argv)

    def read(self, n, **how):
        return self.ask(n, "s", **how)

    def write(self, n, **how):
        return self.ask(n, "x", **how)

    def give_back(self, n, block=0, at=1, token=0):
        """(word, numbers of the next holders at the same broker)"""
        argv = (owner(n), token, block, KEEP_MS, self.trusted, broker(at), FAIR_AFTER_US, self.hold_off)
        code, _, word, *grants = self.call("release", *argv)
        return word, [int(who, 16) for who in grants[0::5]]

    def leave(self, n, at=1):
        code, _, *rest = self.call("withdraw", owner(n), 0, KEEP_MS, self.trusted, broker(at), 0, FAIR_AFTER_US,
                                  self.hold_off)
        return code, [int(who, 16) for who in rest[1::5]]

    def look(self, *asked, at=1, slot=30_000):
        """(left, more, numbers of the holders named), or the whole reply when it is another one"""
        reply = self.call("tend", broker(at), slot, KEEP_MS, self.trusted, self.hold_off, self.least,
                          *(owner(n) for n in asked))
        return (reply[2], reply[3], [int(who, 16) for who in reply[5::5]]) if reply[0] == TENDED else reply

    def holders(self):
        """{number: permits} of those whose hold has not expired, in the order of their grants."""
        kind = self.redis("TYPE", self.h)
        if kind in ("string", b"string"):
            return {int(self.redis("GET", self.h).split(b";")[1], 16): 1}
        items = self.redis("HGETALL", self.h)
        slots = {k: v.split(b";") for k, v in zip(items[0::2], items[1::2]) if k != b"holders"}
        seconds, us = self.redis("TIME")
        now = int(seconds) * 1_000_000 + int(us)
        alive = sorted((int(v[1]), self.number(k), int(v[5])) for k, v in slots.items() if int(v[0]) > now)
        return {n: permits for _, n, permits in alive}

    @staticmethod
    def number(field):
        """Of an owner id; -token of a share that is blocked."""
        return -int(field.split(b":")[1]) if field.startswith(b"blocked:") else int(field, 16)

    def token_of(self, n):
        slot = self.redis("HGET", self.h, owner(n))
        return slot.split(b";")[1].decode()


__all__ = ["GRANTED", "HELD", "QUEUED", "RwLock"]
