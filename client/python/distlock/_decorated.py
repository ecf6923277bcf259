# SPDX-License-Identifier: Apache-2.0
"""The decorators of both kinds of clients."""
import enum
import functools
import inspect
import types
from typing import Any, Callable, Final, Mapping, Optional

from distlock.errors import Busy


class Skip(enum.Enum):  # of one member, which type checkers know by `is`, and which pickle leaves the same
    """What a decorated function returns when the lock is busy and busy=SKIP was given. False."""

    SKIP = "SKIP"

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "distlock.SKIP"

    def __json__(self) -> str:  # for the results of celery
        return self.value


SKIP: Final = Skip.SKIP
Take = Callable[..., Any]  # Client.lock
Key = Any  # a text, or a function of the call's arguments
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


def decorated(lock: Take, key: Key, wait: Optional[float], busy: Any, options: Mapping[str, Any],
              function: Callable[..., Any]) -> Callable[..., Any]:
    """Each call of the function holds the lock."""
    refuse_later(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        request = lock(key(*args, **kwargs) if callable(key) else key, wait=wait, **options)
        try:
            request.__enter__()
        except Busy:
            if busy is None:
                raise
            return busy
        try:
            result = function(*args, **kwargs)
            refuse_unrun(function, result)
        except BaseException as error:
            request.__exit__(type(error), error, error.__traceback__)
            raise
        request.__exit__(None, None, None)
        return result

    return call


def decorated_for_a_loop(lock: Take, key: Key, wait: Optional[float], busy: Any, options: Mapping[str, Any],
                         function: Callable[..., Any]) -> Callable[..., Any]:
    """The same of asyncio, for a coroutine function, or for a plain one, which becomes one."""
    refuse_later(function, awaits=True)

    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        request = lock(key(*args, **kwargs) if callable(key) else key, wait=wait, **options)
        try:
            await request.__aenter__()
        except Busy:
            if busy is None:
                raise
            return busy
        try:
            result = function(*args, **kwargs)
            if inspect.isawaitable(result):
                result = await result
            refuse_unrun(function, result)
        except BaseException as error:
            await request.__aexit__(type(error), error, error.__traceback__)
            raise
        await request.__aexit__(None, None, None)
        return result

    return call
