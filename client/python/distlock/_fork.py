# SPDX-License-Identifier: Apache-2.0
"""What happens to this package in a child of fork: its objects of the parent's count as another process's."""
import os
import weakref
from typing import Any, List

generation = 0  # of processes; a child of fork has the next one
_kept: List[Any] = []
_watched: "weakref.WeakSet[Any]" = weakref.WeakSet()


def watch(thing: Any) -> None:
    """Has `thing.after_fork()` called in each child, before anything else of this package runs there."""
    _watched.add(thing)


def keep(thing: Any) -> None:
    """Keeps the parent's threads, locks and connections from being destroyed in a child, also at its end: gRPC would
    wait for threads, and for locks of threads, that the child does not have."""
    _kept.append(thing)
    try:
        import ctypes
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))  # the end of the interpreter empties the list above
    except (AttributeError, ImportError):  # an interpreter without reference counts
        pass


def _in_child() -> None:
    global generation
    generation += 1
    for thing in list(_watched):
        thing.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
