# SPDX-License-Identifier: Apache-2.0
"""What the decorators of both kinds of clients have in common."""
import inspect
import types
from typing import Any, Callable


class Skip:
    """What a decorated function returns when the lock is busy and busy=SKIP was given. False."""

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "SKIP"  # the same object in another process

    def __repr__(self) -> str:
        return "distlock.SKIP"


SKIP = Skip()


LATER = (types.CoroutineType, types.GeneratorType, types.AsyncGeneratorType)


def refuse_unrun(function: Callable[..., object], result: Any) -> None:
    """TypeError: what a function has returned runs only when its lock is given back: of a coroutine function that
    another decorator hides, or of contextlib.contextmanager."""
    made = getattr(result, "gen", result)
    if isinstance(made, LATER):
        if not isinstance(made, types.AsyncGeneratorType):
            made.close()
        name = getattr(function, "__qualname__", repr(function))
        raise TypeError(f"{name} returned a {type(result).__name__}, which runs after the call: take the lock inside")


def refuse_later(function: Callable[..., object], awaits: bool = False) -> None:
    """TypeError: the lock would be given back before the function's body runs. awaits: the decorated one awaits it."""
    name = getattr(function, "__qualname__", repr(function))
    for one in (function, type(function).__call__):  # also of an object that is called
        if inspect.iscoroutinefunction(one) and not awaits:
            raise TypeError(f"{name} is a coroutine function: decorate it with locked of distlock.aio")
        if inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one):
            raise TypeError(f"{name} is a generator, whose body runs after the call: take the lock inside")
