# SPDX-License-Identifier: Apache-2.0
"""The channel of distlock.testing: what this package uses of gRPC, within the process."""
import collections
import threading
from typing import Any, Callable, Deque, Iterator, Optional, Tuple

from distlock._channel import SERVICE, Addresses, RpcError
from distlock._relay import RelayError
from distlock.v1 import lock_service_pb2 as wire


class Call:
    """A stream of answers, of a session or of a watch. All but what gRPC's calls have is called under `turn`.
    on_cancel(call, error): called under it as well, when the client cancels this."""

    def __init__(self, turn: threading.Condition, now: int, on_cancel: "Callable[[Call, RpcError], object]",
                 name: Optional[Tuple[str, str]] = None) -> None:
        self._turn, self._on_cancel = turn, on_cancel
        self.name = name  # of the lock that is watched
        self.outbox: Deque[Any] = collections.deque()
        self.idle = self.over = False  # the client has seen all; there will be no more
        self.error: Optional[RpcError] = None
        self.heard, self.heard_at = 0, now  # the newest heartbeat
        self.last: Any = None  # what a watch has told

    def __iter__(self) -> "Iterator[Any]":
        return self

    def __next__(self) -> Any:
        with self._turn:
            self.idle = True
            self._turn.notify_all()
            self._turn.wait_for(lambda: self.outbox or self.over)
            self.idle = False
            if self.outbox:
                return self.outbox.popleft()
        if self.error is None:
            raise StopIteration
        raise self.error

    def cancel(self) -> None:
        with self._turn:
            self._on_cancel(self, RelayError("CANCELLED", "cancelled"))

    def read(self, requests: "Iterator[wire.SessionRequest]",
             obey: "Callable[[Call, wire.SessionCommand], object]") -> None:
        """Has the client's commands obeyed, under `turn`. On a thread of its own."""
        for request in requests:
            with self._turn:
                for command in request.commands:
                    if not self.over:
                        obey(self, command)
                self._turn.notify_all()

    def put(self, answer: Any) -> None:
        self.outbox.append(answer)
        self._turn.notify_all()

    def say(self, number: int = 0, **event: Any) -> None:
        self.put(wire.SessionResponse(events=[wire.SessionEvent(id=number, **event)]))

    def end(self, error: Optional[RpcError] = None) -> None:
        self.over, self.error = True, error
        self._turn.notify_all()


class Answer:
    """A unary call, which is over at once."""

    def __init__(self, response: Any, error: Optional[RpcError] = None) -> None:
        self._response, self._error = response, error

    def result(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._response

    def add_done_callback(self, tell: Callable[[Any], object]) -> None:
        tell(self)

    def cancel(self) -> None:
        """It is over."""


class Method:
    def __init__(self, call: Callable[[Any], Any]) -> None:
        self.call = call

    def __call__(self, request: Any, timeout: Optional[float] = None) -> Any:
        return self.call(request)

    future = __call__


class Channel:
    """What this package uses of grpc.Channel. session(requests), ask(method, request), watch(method, request): what
    answers."""

    def __init__(self, session: Callable[[Any], Call], ask: Callable[[str, Any], Answer],
                 watch: Callable[[str, Any], Call]) -> None:
        self._session, self._ask, self._watch = session, ask, watch

    def stream_stream(self, path: str, request_serializer: Any, response_deserializer: Any) -> Method:
        return Method(self._session)

    def unary_unary(self, path: str, request_serializer: Any, response_deserializer: Any) -> Method:
        return Method(lambda request: self._ask(path[len(SERVICE):], request))

    def unary_stream(self, path: str, request_serializer: Any, response_deserializer: Any) -> Method:
        return Method(lambda request: self._watch(path[len(SERVICE):], request))

    def close(self) -> None:
        """Nothing is open."""


class InProcess(Addresses):
    """The one address, which leads to `channel`."""

    def __init__(self, channel: Channel, clock: Callable[[], int]) -> None:
        super().__init__("memory:1")
        self._channel, self.clock = channel, clock

    def open(self, address: str) -> Any:
        return self._channel

    def bearer(self, address: str) -> Optional[str]:
        return None
