# SPDX-License-Identifier: Apache-2.0
"""The bearer token of an argument, or of a file: shown with each call, and the file read anew for each, because whoever
issues tokens replaces it before the old one expires. It leaves this machine in no plain text."""
import re
from typing import Any, Callable, Optional

import grpc

from distlock._access import FROM_ENVIRONMENT, Access

_KEEPS_SECRETS = ("tls://", "unix:", "/", "127.", "localhost:", "[::1]:", "ipv4:127.")
_MOST_BYTES = 16 << 10


def bearer(address: str, access: Access = FROM_ENVIRONMENT) -> Optional[str]:
    """The value of `authorization`; None: nothing can be shown, and the broker says what it misses."""
    _, path = access.token_path
    if not address.startswith(_KEEPS_SECRETS):
        return None
    text = (access.token or "").encode().strip()
    if path and access.token is None:
        try:
            with open(path, "rb") as file:
                text = file.read(_MOST_BYTES + 1).strip()
        except OSError:
            return None
    return f"Bearer {text.decode('ascii')}" if re.fullmatch(rb"[!-~]{1,16384}", text) else None


def check(addresses: str, access: Access) -> None:
    """ValueError: one of the addresses would be shown the token, and there is none in its place."""
    name, path = access.token_path
    if access.token is not None and access.token_file is not None:
        raise ValueError("token and token_file are given: give one")
    if not (path or access.token is not None) or not any(
            one.strip().startswith(_KEEPS_SECRETS) for one in addresses.split(",")):
        return
    if access.token is not None:
        name, path, text = "token", "", access.token.encode().strip()
    else:
        try:
            with open(path, "rb") as file:
                text = file.read(_MOST_BYTES + 1).strip()
        except OSError as error:
            raise ValueError(f"{name}: cannot read {path!r}: {error.strerror}") from None
    lines = text.count(b"\n") + 1
    problem = ("is empty" if not text else
               f"has {lines} lines; it must hold the token alone" if lines > 1 else
               "holds a hash, which is for the broker's --token-file; it must hold the token"
               if re.fullmatch(rb"(.*:)?[0-9a-f]{64}", text) else
               "holds no token: it has a space, or a character that is not ASCII"
               if not re.fullmatch(rb"[!-~]*", text) else
               "is larger than 16 KiB" if len(text) > _MOST_BYTES else "")
    if problem:
        raise ValueError(f"{name}: {path!r} {problem}" if path else f"{name}: it {problem}")


class _Show(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor,  # type: ignore[misc]
            grpc.StreamStreamClientInterceptor):  # type: ignore[misc]
    def __init__(self, address: str, access: Access) -> None:
        self.address, self.access = address, access

    def _call(self, go_on: Callable[[Any, Any], Any], details: Any, request: Any) -> Any:
        shown = bearer(self.address, self.access)
        if shown is not None:
            details = details._replace(metadata=(*(details.metadata or ()), ("authorization", shown)))
        return go_on(details, request)

    intercept_unary_unary = intercept_unary_stream = intercept_stream_stream = _call


def with_token(channel: Any, address: str, access: Access) -> Any:
    """The channel, which shows the token if there is one to show."""
    shows = access.token is not None or access.token_path[1]
    return grpc.intercept_channel(channel, _Show(address, access)) if shows else channel
