# SPDX-License-Identifier: Apache-2.0
"""A broker's messages name fields of the contract; whoever reads them has written arguments of this package."""
import contextlib
import functools
import inspect
import re
from typing import Any, Callable, Iterator, Mapping, TypeVar, cast

from distlock.errors import Refused

ARGUMENTS = {"max_wait": "wait", "key_prefix": "prefix", "fencing_token": "token"}
PHRASES = {"max_wait": ("set {} to wait ", "within {} "), "permits": ("at least {} (",),
           "fencing_token": ("pass the {} of ",)}  # none is of somebody's key
MESSAGE = r"^(acquire|adopt\.lock)\."
WITHOUT_PLACE = r"^((acquire\.)?locks\[0\]|acquire|adopt\.lock)\."
NONE: Mapping[str, str] = {}
BY_NAME = "wait=10 waits for 10 seconds, and wait=0 tries once; all but the key is given by name"
NO_ARGUMENT = "acquire() takes no argument: how long to wait is what the lock was made with, as in lock(key, wait=10)"
OF_REDIS = ("redis-py's blocking_timeout is wait, its timeout is max_hold, and its blocking=False is wait=0; "
            "distlock.compat.redis.Lock takes all three")

F = TypeVar("F", bound=Callable[..., object])


def _argument(path: str, words: Mapping[str, str], alone: bool) -> str:
    """alone: of the only lock of its request, whose place nobody has written."""
    place, dot, field = re.sub(WITHOUT_PLACE if alone else MESSAGE, "", path).rpartition(".")
    field = ARGUMENTS.get(field, field)
    return place + dot + words.get(field, field)


def as_written(refused: Refused, words: Mapping[str, str] = NONE, alone: bool = True) -> Refused:
    """words: how this call writes some of the arguments."""
    def speak(text: str) -> str:
        for field, phrases in PHRASES.items():
            for phrase in phrases:
                text = text.replace(phrase.format(field), phrase.format(_argument(field, words, alone)))
        return text

    problems = tuple((_argument(path, words, alone), speak(problem)) for path, problem in refused.field_problems)
    message = "; ".join(map(" ".join, problems)) or speak(refused.message)
    if (message, problems) == (refused.message, refused.field_problems):
        return refused
    return refused.again(message, problems)


@contextlib.contextmanager
def arguments(**words: str) -> Iterator[None]:
    """What is refused inside names them so."""
    try:
        yield
    except Refused as refused:
        written = as_written(refused, words)
        raise written from written.__cause__


def _fits(takes: inspect.Signature, args: Any, kwargs: Any) -> bool:
    try:
        takes.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def advises(advice: str) -> Callable[[F], F]:
    """Decorates a function, or a coroutine function: a call whose arguments do not fit it is told this besides."""
    def decorate(function: F) -> F:
        takes = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> object:
            try:
                return function(*args, **kwargs)
            except TypeError as error:
                if _fits(takes, args, kwargs):
                    raise
                raise TypeError(f"{error}; {advice}") from None

        @functools.wraps(function)
        async def call_in_loop(*args: Any, **kwargs: Any) -> object:
            return await cast(Any, call(*args, **kwargs))

        return cast(F, call_in_loop if inspect.iscoroutinefunction(function) else call)

    return decorate
