# SPDX-License-Identifier: Apache-2.0
"""The bearer token of DISTLOCK_TOKEN_FILE: shown with each call, and read anew for each, because whoever issues tokens
replaces the file before the old one expires. It leaves this machine in no plain text."""
import os
import re
from typing import Any, Callable, Optional

import grpc

TOKEN_FILE = "DISTLOCK_TOKEN_FILE"
_KEEPS_SECRETS = ("tls://", "unix:", "/", "127.", "localhost:", "[::1]:", "ipv4:127.")
_MOST_BYTES = 16 << 10


def bearer(address: str) -> Optional[str]:
    """The value of `authorization`; None: nothing can be shown, and the broker says what it misses."""
    path = os.environ.get(TOKEN_FILE, "")
    if not path or not address.startswith(_KEEPS_SECRETS):
        return None
    try:
        with open(path, "rb") as file:
            text = file.read(_MOST_BYTES + 1).strip()
    except OSError:
        return None
    return f"Bearer {text.decode('ascii')}" if re.fullmatch(rb"[!-~]{1,16384}", text) else None


def check(addresses: str) -> None:
    """ValueError: one of the addresses would be shown the token, and the file holds none."""
    path = os.environ.get(TOKEN_FILE, "")
    if not path or not any(one.strip().startswith(_KEEPS_SECRETS) for one in addresses.split(",")):
        return
    try:
        with open(path, "rb") as file:
            text = file.read(_MOST_BYTES + 1).strip()
    except OSError as error:
        raise ValueError(f"{TOKEN_FILE}: cannot read {path!r}: {error.strerror}") from None
    lines = text.count(b"\n") + 1
    problem = ("is empty" if not text else
               f"has {lines} lines; it must hold the token alone" if lines > 1 else
               "holds a hash, which is for the broker's --token-file; it must hold the token"
               if re.fullmatch(rb"(.*:)?[0-9a-f]{64}", text) else
               "holds no token: it has a space, or a character that is not ASCII"
               if not re.fullmatch(rb"[!-~]*", text) else
               "is larger than 16 KiB" if len(text) > _MOST_BYTES else "")
    if problem:
        raise ValueError(f"{TOKEN_FILE}: {path!r} {problem}")


class _Show(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor,  # type: ignore[misc]
            grpc.StreamStreamClientInterceptor):  # type: ignore[misc]
    def __init__(self, address: str) -> None:
        self.address = address

    def _call(self, go_on: Callable[[Any, Any], Any], details: Any, request: Any) -> Any:
        shown = bearer(self.address)
        if shown is not None:
            details = details._replace(metadata=(*(details.metadata or ()), ("authorization", shown)))
        return go_on(details, request)

    intercept_unary_unary = intercept_unary_stream = intercept_stream_stream = _call


def with_token(channel: Any, address: str) -> Any:
    """The channel, which shows the token if there is one to show."""
    return grpc.intercept_channel(channel, _Show(address)) if os.environ.get(TOKEN_FILE) else channel
