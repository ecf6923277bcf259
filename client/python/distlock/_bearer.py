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
