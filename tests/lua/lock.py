# SPDX-License-Identifier: Apache-2.0
"""The scripts as a broker calls them: as the build assembled them, loaded once, replies decoded. After every call
each key must have a TTL."""

import hashlib
import os
import pathlib

from resp import Connection, ReplyError

LUA = pathlib.Path(__file__).resolve().parents[2] / "lua"
VERBS = ("acquire", "acquire_all", "batch", "renew", "release", "withdraw", "tend", "inspect", "watch", "downgrade",
         "force", "census", "schema", "adopt", "wanted")
(GRANTED, QUEUED, HELD, LATE, FOREIGN, QUEUE_FULL, RELEASED, NOT_HOLDER, WITHDRAWN, GONE, TENDED, RENEWED,
 INSPECTED, MISMATCH, DOWNGRADED, TOLD) = range(1, 17)
ADOPTED = 17
KEEP_MS = 86_400_000
SLOT_MS = 30_000
TTL_MS = 15_000
FAIR_AFTER_US = 100_000
NOBODY = "0" * 32
# The scripts as the build assembles them, which is what the broker sends. ctest names their folder.
SCRIPTS = pathlib.Path(os.environ.get("DISTLOCK_SCRIPTS", LUA.parent / "build/release/generated/lua"))


def source(verb):
    path = SCRIPTS / f"{verb}.lua"
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: build distlock_lua; DISTLOCK_SCRIPTS is <build>/generated/lua")
    return path.read_text()


SOURCES = {verb: source(verb) for verb in VERBS}
SHA = {verb: hashlib.sha1(text.encode()).hexdigest() for verb, text in SOURCES.items()}


def owner(n):
    return f"{n:032x}"


def broker(n):
    return f"{n:016x}"


def load(redis):
    for verb in VERBS:
        assert redis("SCRIPT", "LOAD", SOURCES[verb]).decode() == SHA[verb]


def of_item(reply, i):
    """What the i-th item's own script would have answered."""
    time, item = reply[0], reply[1 + i]
    if isinstance(item, ReplyError):
        raise item
    if isinstance(item, list):
        return item
    return {GRANTED: [GRANTED, time, time, time], RELEASED: [RELEASED, time, b""]}[item]


def one_holder(reply):
    """A reply about at most one holder and one grant, in a shape that is always as long: HELD (left, value, queue
    length), QUEUED (place and the same), RELEASED and WITHDRAWN without an empty word, TENDED (left, the five fields,
    more). Without the last token of QUEUED and TENDED."""
    code, time, *rest = reply
    if code in (HELD, QUEUED):
        place, rest = (rest[:1], rest[1:3] + rest[4:]) if code == QUEUED else ([], rest)
        left, length, *shown = rest
        return [code, time, *place, left, shown[-1] if shown else "", length]
    if code in (RELEASED, WITHDRAWN) and rest[0] == "":
        return [code, time, *rest[1:]]
    if code == TENDED:
        return [code, time, rest[0], *(rest[3:] or ["", "0", "0", "0", "0"]), rest[1]]
    if code == INSPECTED:
        last, length, _, shown, *rest = rest
        return [code, time, *(rest[:2] if shown else [-2, ""]), last, length, *rest[2 * shown:]]
    return reply


def writes(redis):
    """How many changes the server has counted: each goes to its replicas."""
    return int(redis("INFO", "persistence").decode().partition("rdb_changes_since_last_save:")[2].split()[0])


class Lock:
    through_batch = False  # acquires and releases go as the only item of a batch
    hold_off = 0  # the argument of all that may grant
    least = 0  # the least token of those that hand on: none is given
    by_token = False  # a release that would be of any grant names the one there is

    def __init__(self, redis, name="default/k", prefix="dl", trusted=1, check_ttl=True):
        self.redis, self.name, self.prefix, self.trusted, self.check_ttl = redis, name, prefix, trusted, check_ttl
        base = f"{prefix}:{{{name}}}"
        self.base, self.h, self.t, self.q, self.w = base, base + ":h", base + ":t", base + ":q", base + ":w"
        self.v = base + ":v"
        self.keys = (self.h, self.t, self.q, self.w)

    def slot(self, n=1):
        return f"{self.base}:b:{broker(n)}"

    def command(self, verb, *argv, keys=None):
        keys = self.keys if keys is None else keys
        return ("EVALSHA", SHA[verb], len(keys), *keys, *argv)

    def item(self, verb, *argv):
        """An acquire or a release, given its own arguments, as batch takes it."""
        if verb == "release":
            return f"1;{argv[0]};{argv[1]};" if argv[1] else f"1;{argv[0]};"
        who, ttl, delay, not_after, wait, _, _, info, _, _, _, want, preferred, _, _ = argv
        return f"a{who}{wait}{preferred}{not_after};{int(ttl) + int(delay)};{want};{ttl};{delay};{info}"

    def batch_command(self, verb, *argv):
        """The batch of one item."""
        if verb == "release":
            keep, trusted, at, fair_after = argv[3:7]
            common = (at, SLOT_MS, trusted, 10_000, fair_after, argv[-1])
        else:
            common = (argv[5], argv[6], argv[9], argv[10], argv[13], argv[-1])
            keep = argv[8]
        return ("EVALSHA", SHA["batch"], 1, self.h, keep, ";".join(map(str, common)), self.item(verb, *argv))

    def named(self, who):
        """The token of the EXCLUSIVE grant that `who` has; 0, which is any, when there is none."""
        value = self.redis("GET", self.h) if self.redis("TYPE", self.h) in ("string", b"string") else None
        parts = (value or b"").split(b";")
        ours = len(parts) > 2 and parts[1].decode() == who and parts[2].isdigit() and len(parts[2]) <= 16
        return parts[2].decode() if ours else 0

    def call(self, verb, *argv, keys=None):
        if self.by_token and verb == "release" and argv[1] == 0:
            argv = (argv[0], self.named(argv[0]), *argv[2:])
        if self.through_batch and (verb == "acquire" or verb == "release" and argv[2] == 0):
            reply = of_item(self.redis(*self.batch_command(verb, *argv)), 0)
        else:
            reply = self.redis(*self.command(verb, *argv, keys=keys))
        assert isinstance(reply[0], int) and None not in reply, reply
        reply = [item.decode("latin-1") if isinstance(item, bytes) else item for item in reply]
        if self.check_ttl:
            self.assert_ttls()
        return reply

    def assert_ttls(self):
        keys = self.redis("KEYS", "*")
        for key, left in zip(keys, self.redis.pipeline([("PTTL", key) for key in keys])):
            assert left != -1, f"{key} has no TTL"

    def acquire_argv(self, n, wait=0, at=1, ttl=TTL_MS, delay=0, not_after=0, info="info", limit=10_000, slot=SLOT_MS,
                     want="x", preferred=0, fair_after=FAIR_AFTER_US):
        return (owner(n), ttl, delay, not_after, wait, broker(at), slot, info, KEEP_MS, self.trusted, limit, want,
                preferred, fair_after, self.hold_off)

    def acquire(self, n, **how):
        return one_holder(self.call("acquire", *self.acquire_argv(n, **how)))

    def enqueue(self, n, **how):
        return self.acquire(n, wait=1, **how)

    def release(self, n, block=0, at=1, token=0):
        argv = (owner(n), token, block, KEEP_MS, self.trusted, broker(at), FAIR_AFTER_US, self.hold_off)
        return one_holder(self.call("release", *argv))

    def withdraw(self, n, at=1, keep_grant=0, not_after=0):
        return one_holder(self.call("withdraw", owner(n), not_after, KEEP_MS, self.trusted, broker(at), keep_grant,
                                    FAIR_AFTER_US, self.hold_off))

    def tend(self, at=1, slot=SLOT_MS, first=None):
        if first is None:  # the first one who waits
            usable = self.redis("TYPE", self.q) in ("zset", b"zset")
            first = next(iter(self.waiters()), 0) if usable else 0
        return one_holder(self.call("tend", broker(at), slot, KEEP_MS, self.trusted, self.hold_off, self.least,
                                    owner(first)))

    def inspect(self, limit=100):
        return one_holder(self.call("inspect", limit, 100))

    def watch(self, at=1, slot=SLOT_MS, limit=100):
        return one_holder(self.call("watch", limit, 100, broker(at), slot))

    def downgrade(self, n, at=1, token=0, more="", elsewhere=0):
        return self.call("downgrade", owner(n), token, KEEP_MS, self.trusted, broker(at), more, elsewhere,
                         self.hold_off, self.least)

    def force(self, n, of=1, at=1, token=0, reason="why"):
        """`of`: the broker that owner n has it through; None: it is not known."""
        through = "" if of is None else broker(of)
        return self.call("force", owner(n), token, through, reason, KEEP_MS, self.trusted, broker(at), FAIR_AFTER_US,
                         self.hold_off, self.least)

    def wanted(self, n, token, of=1, at=1):
        """`of`: the broker that owner n has it through."""
        return self.call("wanted", owner(n), token, broker(of), broker(at))

    def slots(self):
        """The readers that hold it, by number: their slots without the end."""
        if self.redis("TYPE", self.h) not in ("hash", b"hash"):
            return {}
        slots = self.redis("HGETALL", self.h)
        return {int(field, 16): slot.split(b";", 1)[1].decode()
                for field, slot in zip(slots[::2], slots[1::2]) if len(field) == 32}

    def renew(self, *pairs):
        """pairs: (lock, n, ttl), or (lock, n, ttl, token), or (lock, n, ttl, token, hold_until)"""
        common, grants = pairs[0][2], []
        for _, n, ttl, *more in pairs:
            token, hold_until = (*more, 0, 0)[:2]
            if ttl == common and not hold_until:
                grants.append(f"1;{owner(n)};{token};")
            else:
                grants.append(f"{owner(n)};{token};{ttl};{hold_until}")
        reply = self.call("renew", common, *grants, keys=[pair[0].h for pair in pairs])
        return reply[:2] + [int(digit) for digit in reply[2]]

    def holder(self):
        """The number of the owner that holds it, or None."""
        value = self.redis("GET", self.h)
        return int(value.split(b";")[1], 16) if value else None

    def waiters(self):
        return [int(member, 16) for member in self.redis("ZRANGE", self.q, 0, -1)]

    def snapshot(self):
        keys = sorted(self.redis("KEYS", "*"))
        return {key: self.redis("DUMP", key) for key in keys}


class Ear:
    """A broker's subscription to its channel of notices."""

    def __init__(self, path, at=1, prefix="dl"):
        self._connection, self._channel = Connection(path), f"{prefix}:grant:{broker(at)}"
        self._connection("SUBSCRIBE", self._channel)

    def close(self):
        self._connection("UNSUBSCRIBE", self._channel)
        self._connection.close()

    def heard(self):
        """The notices so far: (name, owner number, token, since, ttl, delay), (name, since, ms) of a block, (name,
        since) of a change of what this broker watches, (name, "force", owner number, token, reason), and (name,
        "wanted", owner number, token)."""
        notices = []
        # Redis queues a notice before the reply to the script that sent it, but on another socket: await a pong too.
        self._connection.send("PING")
        while (message := self._connection.receive())[0] != b"pong":
            name, _, rest = message[2].decode().partition("\n")
            if rest.startswith("force;"):
                _, who, token, reason = rest.split(";", 3)
                notices.append((name, "force", int(who, 16), token, reason))
                continue
            if rest.startswith("wanted;"):
                _, who, token = rest.split(";")
                notices.append((name, "wanted", int(who, 16), token))
                continue
            if ";" not in rest:
                notices.append((name, rest))
                continue
            if rest.count(";") == 1:
                since, block = rest.split(";")
                notices.append((name, since, int(block)))
                continue
            who, token, since, ttl, delay = rest.split(";")
            notices.append((name, int(who, 16), token, since, int(ttl), int(delay)))
        return notices
