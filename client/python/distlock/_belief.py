# SPDX-License-Identifier: Apache-2.0
"""Until when a client may believe in a session: "Belief" in proto/distlock/v1/session.md. Numbers only."""
from collections import OrderedDict

from distlock._clock import NEVER


class SessionBelief:
    """One session, from its Open (heartbeat 0) to its end. `grace`: how long the broker has to answer the Open."""

    REMEMBERED = 64

    def __init__(self, now: int, grace: int) -> None:
        self._sent: "OrderedDict[int, int]" = OrderedDict({0: now})
        self._lapsed = False
        self.last_sent, self.last_sent_at = 0, now
        self.last_acked = -1
        self.deadline = now + grace

    def send(self, now: int) -> int:
        """A heartbeat is about to be handed to gRPC; its seq."""
        self.last_sent += 1
        self.last_sent_at = self._sent[self.last_sent] = now
        if len(self._sent) > self.REMEMBERED:
            self._sent.popitem(last=False)
        return self.last_sent

    def deadline_of(self, seq: int, valid_for: int) -> int:
        """The deadline of a promise that answers heartbeat `seq`; 0 for one that is forgotten or was never sent."""
        sent = self._sent.get(seq)
        return 0 if sent is None else sent + valid_for

    def ack(self, seq: int, valid_for: int, now: int) -> bool:
        """Whether this ack extends anything."""
        deadline = self.deadline_of(seq, valid_for)
        if self.lapsed(now) or deadline == 0 or seq <= self.last_acked:
            return False
        # The grace of the Open is no promise: the first answer replaces it.
        self.deadline = deadline if self.last_acked < 0 else max(self.deadline, deadline)
        self.last_acked = seq
        return True

    def lapsed(self, now: int) -> bool:
        """No answer came for a whole validity: the broker has given the session up, too. Final."""
        self._lapsed = self._lapsed or now >= self.deadline
        return self._lapsed

    @property
    def unanswered(self) -> int:
        return self.last_sent - max(self.last_acked, 0)

    @property
    def unanswered_since(self) -> int:
        """When the oldest heartbeat without an answer was sent, of those remembered; NEVER: all are answered."""
        if self.unanswered == 0:
            return NEVER
        return next((at for seq, at in self._sent.items() if seq > self.last_acked), NEVER)

    def overdue(self, deadline: int, now: int) -> bool:
        """Whether the oldest of these heartbeats has waited for half of what was left then until `deadline`."""
        since = self.unanswered_since
        return since != NEVER and now - since >= (deadline - since) // 2
