# SPDX-License-Identifier: Apache-2.0
"""Whether this process is a child of the one that made an object."""
import os
from typing import Any, List

generation = 0  # of processes; a child of fork has the next one
_kept: List[Any] = []


def _in_child() -> None:
    global generation
    generation += 1


def keep(thing: Any) -> None:
    """Keeps the parent's threads, locks and connections from being destroyed in a child, where that may hang."""
    _kept.append(thing)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
