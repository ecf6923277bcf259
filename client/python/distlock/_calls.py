# SPDX-License-Identifier: Apache-2.0
"""Calls that are no session. They begin on a thread of their own: gRPC takes locks then, which one that interrupts the
program inside it would wait for."""
import functools
from typing import Any, Callable, Optional

from distlock import _channel, _status
from distlock._threads import Answer, Worker
from distlock.errors import ClientClosed, Refused


class Begun:
    """A call, and the channel and address of its broker."""

    def __init__(self, calls: "Calls") -> None:
        self._calls = calls
        self.call: Any = None
        self.channel: Any = None
        self.address = ""
        self.response: Any = None
        self.failure: Optional[BaseException] = None

    def refused(self) -> Optional[Refused]:
        """Of a call that is over; without one there is a response. Raises what no broker has said."""
        if self.failure is not None:
            raise self.failure
        try:
            self.response = self.call.result()
        except _channel.RpcError as error:
            return _status.refused(error, self.address)
        return None

    def cancel(self) -> None:
        """Soon."""
        self._calls.worker(lambda: self.call and self.call.cancel())

    def failed_there(self) -> None:
        """Its broker did not answer: the next call goes to another one."""
        self._calls.worker(functools.partial(self._calls.leave, self))


class Calls:
    """One channel, to one of the brokers."""

    def __init__(self, addresses: _channel.Addresses) -> None:
        self._addresses = addresses
        self.worker = Worker()
        self._address = ""
        self._channel: Any = None
        self._closed = False

    def prefer(self, address: str) -> None:
        """The next channel goes there."""
        self._address = address

    def begin(self, name: str, request: Any, timeout: Optional[float], tell: Callable[[Begun], object]) -> Begun:
        """A unary call. `tell` is called when it is over, on any thread."""
        return self._begin(lambda channel: _channel.unary(channel, name).future(request, timeout=timeout), tell, True)

    def stream(self, name: str, request: Any) -> Begun:
        """WatchLock or WatchLocks: waits until the call has begun, not until there is an answer."""
        answer = Answer()
        begun = self._begin(lambda channel: _channel.server_stream(channel, name)(request), answer, False)
        answer.get()
        if begun.failure is not None:
            raise begun.failure
        return begun

    def _begin(self, call: Callable[[Any], Any], tell: Callable[[Begun], object], to_its_end: bool) -> Begun:
        begun = Begun(self)
        if self._closed:
            raise ClientClosed("the client was closed")

        def begin() -> None:
            try:
                self._address = self._address or self._addresses.present
                if self._channel is None:
                    self._channel = self._addresses.open(self._address)
                begun.channel, begun.address = self._channel, self._address
                begun.call = call(self._channel)
                if to_its_end:
                    begun.call.add_done_callback(lambda _: tell(begun))
                    return
            except Exception as error:
                begun.failure = error
            tell(begun)

        self.worker(begin)
        return begun

    def leave(self, failed: Begun) -> None:
        every = self._addresses.all
        if self._channel is failed.channel and self._channel is not None:
            self._address = every[(every.index(failed.address) + 1) % len(every)]
            self._channel = None
            failed.channel.close()

    def close(self) -> None:
        self._closed = True
        if self._channel is not None:
            self.worker(self._close)

    def _close(self) -> None:
        channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()
