# SPDX-License-Identifier: Apache-2.0
"""TLS to brokers at tls://host:port, by the files that DISTLOCK_TLS_CA, _CERT and _KEY name."""
import os
import pathlib
import threading
from typing import Any, Dict, List, Optional, Tuple

import grpc

SCHEME = "tls://"
FILES = ("DISTLOCK_TLS_CA", "DISTLOCK_TLS_KEY", "DISTLOCK_TLS_CERT")  # in the order of ssl_channel_credentials
Pem = Tuple[Optional[bytes], ...]

_last: Dict[Tuple[str, ...], Pem] = {}
_lock = threading.Lock()


def _read() -> Pem:
    pem: List[Optional[bytes]] = []
    for name in FILES:
        path = os.environ.get(name)
        if not path:
            pem.append(None)
            continue
        try:
            text = pathlib.Path(path).read_bytes()
        except OSError as error:
            raise ValueError(f"{name}: cannot read {path!r}: {error.strerror}") from None
        if b"-----BEGIN " not in text:
            raise ValueError(f"{name}: {path!r} holds no PEM block")
        pem.append(text)
    if (pem[1] is None) != (pem[2] is None):
        raise ValueError("DISTLOCK_TLS_CERT and DISTLOCK_TLS_KEY belong together: give both, or none")
    return tuple(pem)


def connect_failure(address: str, said: str) -> str:
    """Why no connection to the address came about, in words; `said`: gRPC's message of a call that failed for it."""
    if "failed to connect to all addresses" not in said and "empty address list" not in said:
        return said  # of a connection that was there
    secure = address.startswith(SCHEME)
    hangs_up = any(words in said for words in ("Connection reset", "Socket closed", "EOF", "Broken pipe"))
    if secure and "certificate verify failed" in said.lower():
        return ("the broker's certificate is not signed by an authority that this machine trusts, or has expired; "
                "DISTLOCK_TLS_CA names the file of its authority")
    if secure and "is not in peer certificate" in said:
        return ("the broker's certificate is for other names than that of the address; DISTLOCK_TLS_SERVER_NAME sets "
                "the name that it must have")
    if secure and "wrong version number" in said.lower():
        return "it speaks no TLS; without it, the address is host:port"
    if secure and "empty address list" in said:
        return "DISTLOCK_TLS_CERT and DISTLOCK_TLS_KEY hold no certificate and the key of this certificate"
    if secure and hangs_up:
        return ("it hangs up during the TLS handshake: it wants a client certificate of an authority that it trusts "
                "(DISTLOCK_TLS_CERT and DISTLOCK_TLS_KEY), or it speaks no TLS (the address is host:port then)")
    if hangs_up and not address.startswith("unix:"):
        return "it hangs up at once; if it wants TLS, the address is tls://host:port"
    return said


def check(addresses: str) -> None:
    """ValueError: one of the addresses needs TLS, and a file cannot be used."""
    if SCHEME in addresses:
        _read()


def open_secure(address: str, options: List[Any]) -> Any:
    """Reads the files anew, so that renewed ones are used. Where they cannot be read, those of the last time."""
    names = tuple(os.environ.get(name, "") for name in FILES)
    with _lock:
        try:
            _last[names] = _read()
        except ValueError:
            if names not in _last:
                raise
        pem = _last[names]
    server_name = os.environ.get("DISTLOCK_TLS_SERVER_NAME")
    more = [("grpc.ssl_target_name_override", server_name)] if server_name else []
    return grpc.secure_channel(address[len(SCHEME):], grpc.ssl_channel_credentials(*pem), options=[*options, *more])
