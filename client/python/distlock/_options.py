# SPDX-License-Identifier: Apache-2.0
"""What both kinds of clients do before a request is sent."""
import dataclasses
import functools
import os
import sys
from typing import Any, Callable, Dict, Iterable, List, Optional, Union

from distlock import _bearer, _convert, _fork, _tls
from distlock._access import FROM_ENVIRONMENT, Access
from distlock._channel import Addresses, check_addresses, check_threads, default_address, named_in_messages
from distlock._convert import ELECTION_VALUE
from distlock._core import Core
from distlock._lease import Phase
from distlock._threads import owned
from distlock._words import OF_REDIS
from distlock.errors import ClientClosed
from distlock.hooks import Observer
from distlock.types import Lock, Mode, Options, Stats
from distlock.v1 import lock_pb2


def _ignore(left: float) -> None:
    pass


class Base:
    """A client's settings, and the core of this process: a child of fork gets one of its own at its first call."""

    def __init__(self, address: Optional[str], label: Optional[str], unreachable_after: Optional[float],
                 options: Options,
                 on_draining: Optional[Callable[[float], object]], observer: Optional[Observer],
                 ends_with_process: bool = True, access: Access = FROM_ENVIRONMENT) -> None:
        check_threads()
        self.address = address or default_address()
        check_addresses(self.address)
        _tls.check(self.address, access)
        _bearer.check(self.address, access)
        self._access, self._named = access, named_in_messages(address)
        self.label = label if label is not None else os.path.basename(sys.argv[0] or "python")
        self._unreachable_after = _convert.patience_of(unreachable_after)
        self._options = options
        self._on_draining = on_draining or _ignore
        self._observer = observer
        self._ends_with_process = ends_with_process
        self._cores: Dict[int, Core] = {}  # by the generation of processes
        self._closed = False

    def __getstate__(self) -> Dict[str, Any]:
        return {**vars(self), "_cores": {}}  # a copy is a client of the same settings, also in another process

    @property
    def _core(self) -> Core:
        core = self._cores.get(_fork.generation)
        if core is None and not self._closed:
            session = self._observer.session if self._observer is not None else lambda event, address: None
            core = Core(self._addresses(), self.label, self._unreachable_after, self._on_draining, session,
                        self._ends_with_process)
            # When nobody has this client any more, nor a lock of it.
            core.owner = owned(self, core.mail.put, functools.partial(core.close, 0))
            core = self._cores.setdefault(_fork.generation, core)  # another thread may have come here
        if core is None or self._closed:
            raise ClientClosed("the client was closed; make a new one")
        return core

    def _addresses(self) -> Addresses:
        return Addresses(self.address, self._access, named=self._named)

    @property
    def connected(self) -> bool:
        """Whether a session is open at this moment. The first call of this client connects."""
        core = self._cores.get(_fork.generation)
        return core is not None and core.table.link.opened

    def stats(self) -> Stats:
        """What this client holds and waits for at this moment. Asks no broker, and waits for nothing."""
        core = self._cores.get(_fork.generation)
        leases = list(core.table.live.values()) if core is not None else []
        held = [lease for lease in leases if core is not None and core.held(lease)]
        at_risk = [lease for lease in held if core is not None and core.table.at_risk(lease, core.clock())]
        waiting = [lease for lease in leases if lease.phase <= Phase.GRANTED]
        return Stats(len(held), len(at_risk), len(waiting), self.connected)

    def _when_drained(self, tell: Callable[[], object]) -> bool:
        """False: it never had anything, and does not call `tell`."""
        core = self._cores.get(_fork.generation)
        if core is not None:
            core.post(lambda now, fx: core.when_drained.append(tell))
        return core is not None

    def _close(self) -> None:
        self._closed = True
        core = self._cores.get(_fork.generation)
        if core is not None:
            core.close()

    def _with(self, changes: Any) -> Options:
        if not changes:
            return self._options
        known = [field.name for field in dataclasses.fields(Options)]
        for name in changes:
            if name not in known:
                of_redis = f"; {OF_REDIS}" if name in ("timeout", "blocking_timeout", "blocking") else ""
                raise TypeError(f"{name!r} is no option here; those of lock() are "
                                f"{', '.join(['wait', 'on_loss', 'on_queued', *known])}{of_redis}")
        return dataclasses.replace(self._options, **changes)

    def _specs(self, locks: Iterable[Union[str, Lock]], changes: Any) -> List[lock_pb2.LockSpec]:
        options = self._with(changes)
        made = [lock if isinstance(lock, Lock) else Lock(lock) for lock in locks]
        if not made:
            raise _convert.invalid("locks", "is empty; name at least one")
        return [_convert.spec(lock.key, lock.mode, lock.options or options, lock.permits, lock.limit) for lock in made]

    def _of_campaign(self, changes: Any) -> Dict[str, str]:
        """How its caller writes the arguments of a lock."""
        return {"key": "name", **({} if self._with(changes).metadata else {"metadata": "value"})}

    def _candidate(self, name: str, value: str, changes: Any) -> List[lock_pb2.LockSpec]:
        options = self._with(changes)
        if ELECTION_VALUE in options.metadata:
            raise _convert.invalid("metadata", f"has an entry {ELECTION_VALUE}, under which an election shows its "
                                   "value: give that as the value")
        metadata = {**options.metadata, **_convert.election(value)}
        return [_convert.spec(name, Mode.EXCLUSIVE, dataclasses.replace(options, metadata=metadata))]
