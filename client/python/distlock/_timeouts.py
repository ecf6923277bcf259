# SPDX-License-Identifier: Apache-2.0
"""When waiting requests are given up."""
import heapq
import itertools
from typing import TYPE_CHECKING, List, Optional

from distlock._clock import NEVER

if TYPE_CHECKING:
    from distlock._lease import Request


class Entry:
    """A request's place in the heap; without the request once it has another one, or none."""

    __slots__ = ("at", "number", "request")

    def __init__(self, at: int, number: int, request: "Request") -> None:
        self.at, self.number = at, number
        self.request: "Optional[Request]" = request

    def __lt__(self, other: "Entry") -> bool:
        return (self.at, self.number) < (other.at, other.number)


class Timeouts:
    """A heap. A request leaves it at once; the empty entries, which stay behind, are never more than the others, but
    for a few. Most requests are answered long before their time."""

    LEAST_TO_CLEAN = 64

    def __init__(self) -> None:
        self._heap: List[Entry] = []
        self._numbers = itertools.count()
        self._empty = 0

    def __len__(self) -> int:
        return len(self._heap)

    def set(self, request: "Request", at: int) -> None:
        """Sets, moves, or with NEVER removes a request's time."""
        entry = request.timeout
        if entry is not None:
            if entry.at == at:
                return
            entry.request = request.timeout = None
            self._empty += 1
            self._clean()
        if at != NEVER:
            request.timeout = Entry(at, next(self._numbers), request)
            heapq.heappush(self._heap, request.timeout)

    @property
    def next(self) -> int:
        """The earliest time, or NEVER."""
        while self._heap and self._heap[0].request is None:
            heapq.heappop(self._heap)
            self._empty -= 1
        return self._heap[0].at if self._heap else NEVER

    def take(self) -> "Request":
        """Removes and returns the request whose time is `next`; there must be one."""
        request = heapq.heappop(self._heap).request
        assert request is not None, "next has removed the empty entries at the top"
        request.timeout = None
        return request

    def _clean(self) -> None:
        if len(self._heap) > self.LEAST_TO_CLEAN and 2 * self._empty > len(self._heap):
            self._heap = [entry for entry in self._heap if entry.request is not None]
            heapq.heapify(self._heap)
            self._empty = 0
