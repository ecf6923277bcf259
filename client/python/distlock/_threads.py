# SPDX-License-Identifier: Apache-2.0
"""How the program's threads and this package's wake each other. All of this may be called at any moment, also by a
signal's handler, a finalizer or a profiler on a thread that is inside it: nothing here takes a lock that is ever held.
"""
import _thread
import logging
import queue
import sys
import threading
import weakref
from typing import Any, Callable, List, Optional

log = logging.getLogger("distlock")


_here = threading.local()  # .answers: whether this thread is one that answers come by


def spawn(run: Callable[[], object], answers: bool = True) -> None:
    """A daemon. Not by threading.Thread, whose start takes a lock that a signal's handler might need again."""
    def begin() -> None:
        _here.answers = answers
        run()

    _thread.start_new_thread(begin, ())


def _answers_come_here() -> bool:
    found: Optional[bool] = getattr(_here, "answers", None)
    if found is None:
        frame: Any = sys._getframe()
        module = ""
        while frame is not None:
            name = frame.f_globals.get("__name__", "")
            module, frame = name if name != "threading" else module, frame.f_back
        found = _here.answers = module.startswith("grpc.")  # a thread of gRPC's begins there
    return found


class Bell:
    """Wakes one thread; rung before, it does not wait."""

    def __init__(self) -> None:
        self._latch = threading.Lock()
        self._latch.acquire()

    def ring(self) -> None:
        try:
            self._latch.release()
        except RuntimeError:
            pass  # it is rung already

    def wait(self, timeout: float = -1) -> bool:
        """False: it was not rung in time."""
        return self._latch.acquire(timeout=timeout)


class Answer(Bell):
    """Wakes one thread with a value, once."""

    value: Any = None

    def get(self, timeout: Optional[float] = None) -> Any:
        """None: not in time. RuntimeError on a thread that answers come by, where a hook or finalizer may be, too."""
        if _answers_come_here():
            raise RuntimeError("distlock cannot wait on its own thread, which brings answers: use release_soon()")
        return self.value if self.wait(-1 if timeout is None else timeout) else None

    def __call__(self, value: Any = None) -> None:
        self.value = value
        self.ring()


class Mailbox:
    """Wakes one thread, with what it is sent. A weak reference may have `put` for its callback, which nothing that a
    signal's handler raises can stop, as it stops a finalizer in Python."""

    def __init__(self) -> None:
        self._letters: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self.put = self._letters.put

    def get(self, timeout: float) -> List[Any]:
        """All that has come; waits for the first one."""
        found = []
        try:
            found.append(self._letters.get(timeout=timeout))
            while True:
                found.append(self._letters.get_nowait())
        except queue.Empty:
            return found


class Owned(weakref.ref):  # type: ignore[type-arg]
    """A weak reference to the owner of something. When the owner is dropped, `put` gets this, and `leave` is due. Let
    what is owned keep this."""

    __slots__ = ("leave",)
    leave: Callable[[], object]


def owned(owner: Any, put: Callable[[Any], object], leave: Callable[[], object]) -> Owned:
    made = Owned(owner, put)
    made.leave = leave
    return made


class OneThread:
    """A thread that is there while there is something to do: `run` returns when there is not, and `more` tells whether
    something has come when the thread was about to end."""

    def __init__(self, run: Callable[[], object], more: Callable[[], bool], answers: bool = True) -> None:
        self._work, self._more, self._answers = run, more, answers
        self._running = threading.Lock()  # held by the thread; only tried
        self._alive = False

    def ensure(self) -> None:
        """Call this after there is something to do."""
        if not self._alive:
            spawn(self._run, self._answers)

    def _run(self) -> None:
        while self._running.acquire(False):  # else there is one
            try:
                self._alive = True
                self._work()
            finally:
                self._alive = False
                self._running.release()
            if not self._more():
                return


class Worker:
    """Runs what it is given, in order, on a thread of its own."""

    IDLE_S = 5

    def __init__(self) -> None:
        self._given: "queue.SimpleQueue[Callable[[], object]]" = queue.SimpleQueue()
        self._thread = OneThread(self._run, lambda: not self._given.empty(), answers=False)

    def __call__(self, work: Callable[[], object]) -> None:
        self._given.put(work)
        self._thread.ensure()

    def _run(self) -> None:
        try:
            while True:
                work = self._given.get(timeout=self.IDLE_S)
                try:
                    work()
                except BaseException:  # also of sys.exit: what is behind it is due
                    log.exception("a callback failed")
                del work
        except queue.Empty:
            return
