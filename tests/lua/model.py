# SPDX-License-Identifier: Apache-2.0
"""What the scripts should do, written from lua/README.md without a look at them: a lock as plain Python values. Each
verb takes the time its script reported and answers (reply after the time, without pttl; notices sent)."""

import re

from lock import (GONE, GRANTED, HELD, NOBODY, NOT_HOLDER, QUEUED, QUEUE_FULL, RELEASED, RENEWED, TENDED, WITHDRAWN,
                  broker, owner)


class Model:
    def __init__(self):
        self.ears = set()
        self.flush()

    def flush(self):
        self.holder = None  # owner, token, since, terms
        self.last = 0
        self.queue, self.entries, self.slots = [], {}, set()

    def value(self):
        if self.holder is None:
            return ""
        who, token, since, terms = self.holder
        return f"1;{NOBODY if who is None else owner(who)};{token};{since};{terms[0]};{terms[1]};{terms[2]}"

    def _grant(self, who, time, token, terms):
        self.holder, self.last = (who, token, time, terms), token
        if who in self.queue:
            self.queue.remove(who)
            self.entries.pop(who, None)

    def _hand_off(self, time, at, caller=None, quiet=False, floor=0):
        """caller: (owner, terms), granted in its turn or last. Returns the notices."""
        token, notices = max(self.last + 1, floor + 1, int(time)), []
        for who in list(self.queue):
            entry = self.entries.get(who)
            if caller and who == caller[0]:
                self._grant(who, time, token, caller[1])
                break
            if entry is None or (entry[0] not in self.slots and entry[0] != at):
                self.queue.remove(who)
                self.entries.pop(who, None)
                continue
            where, terms = entry
            if quiet and where == at:
                self._grant(who, time, token, terms)
                break
            if where in self.ears:
                notices.append((where, who, str(token), time, terms[0], terms[1]))
                self._grant(who, time, token, terms)
                break
        else:
            if caller:
                self._grant(caller[0], time, token, caller[1])
        return notices

    def acquire(self, time, who, at, wait, terms, limit):
        if self.holder and self.holder[0] == who:
            return [GRANTED, str(self.holder[1]), self.holder[2]], []
        notices = []
        if self.holder is None:
            notices = self._hand_off(time, at, (who, terms))
            if self.holder[0] == who:
                return [GRANTED, str(self.holder[1]), time], notices
        if not wait:
            return [HELD, self.value(), len(self.queue)], notices
        if who not in self.queue:
            dead = 0
            if len(self.queue) >= limit:
                while dead < len(self.queue):
                    entry = self.entries.get(self.queue[dead])
                    if entry and (entry[0] in self.slots or entry[0] == at):
                        break
                    dead += 1
            if len(self.queue) - dead >= limit:
                return [QUEUE_FULL, len(self.queue)], notices
            for gone in self.queue[:dead]:
                self.entries.pop(gone, None)
            self.queue = self.queue[dead:]
            if not self.queue and not dead:
                self.entries = {}
            self.queue.append(who)
        self.entries[who] = (at, terms)
        self.slots.add(at)
        return [QUEUED, self.queue.index(who), self.value(), len(self.queue)], notices

    def _blocks(self, time, block):
        """For how many ms a release blocks the lock: as it says, or what is left of the holder's min_hold."""
        _, _, since, (_, _, info) = self.holder
        min_hold = re.match(r"m(\d+);", info)
        if block or not min_hold:
            return block
        return max(0, int(min_hold[1]) - (int(time) - int(since)) // 1000)

    def release(self, time, who, at, block=0):
        if self.holder is None:
            return [GONE], []
        if self.holder[0] != who:
            return [NOT_HOLDER], []
        left = self._blocks(time, block)
        if left:
            _, token, since, (ttl, _, info) = self.holder
            self.holder = (None, token, since, (ttl, left, re.sub(r"^m\d+;", "", info) if block else info))
            return [RELEASED, "blocked", str(left)], self._tell_of_block(time, at, left)
        return self._free(time, at)

    def _tell_of_block(self, time, at, block):
        for who in self.queue:
            where = self.entries[who][0] if who in self.entries else None
            if where == at:
                break
            if where in self.slots and where in self.ears:
                return [(where, time, block)]
        return []

    def _free(self, time, at):
        floor, self.holder = self.holder[1], None
        if not self.queue:
            return [RELEASED], []
        reply, notices = self._pass_on(time, at, floor)
        return [RELEASED, *reply], notices

    def _pass_on(self, time, at, floor):
        before = dict(self.entries)
        notices = self._hand_off(time, at, quiet=True, floor=floor)
        if self.holder and before[self.holder[0]][0] == at:
            who, token, since, terms = self.holder
            return [owner(who), str(token), since, str(terms[0]), str(terms[1])], notices
        return [], notices

    def withdraw(self, time, who, at):
        if self.holder and self.holder[0] == who:
            return self._free(time, at)
        if who in self.entries and self.entries[who][0] != at:
            return [GONE], []
        self.entries.pop(who, None)
        if who in self.queue:
            self.queue.remove(who)
            if self.holder or not self.queue:
                return [WITHDRAWN], []
            reply, notices = self._pass_on(time, at, 0)
            return [WITHDRAWN, *reply], notices
        return [GONE], []

    def tend(self, time, at, first):
        holds = self.holder and self.holder[0] == first
        if at not in self.slots or not (holds or (first in self.queue and first in self.entries)):
            return [GONE], []
        notices = [] if self.holder else self._hand_off(time, at, quiet=True)
        if not self.holder:
            return [TENDED, "", "0", "0", "0", "0", 0], notices
        who, token, since, terms = self.holder
        holder = NOBODY if who is None else owner(who)
        return [TENDED, holder, str(token), since, str(terms[0]), str(terms[1]), 0], notices

    def renew(self, time, who):
        return [RENEWED, 0 if self.holder is None else 1 if self.holder[0] == who else 2], []
