# SPDX-License-Identifier: Apache-2.0
"""TLS to brokers at tls://host:port, by the files of the argument tls, or of DISTLOCK_TLS_CA, _CERT and _KEY."""
import pathlib
import threading
from typing import Any, Dict, List, Optional, Tuple

import grpc

from distlock._access import Access

SCHEME = "tls://"
Pem = Tuple[Optional[bytes], ...]

_last: Dict[Tuple[Tuple[str, str], ...], Pem] = {}
_lock = threading.Lock()


def _read(files: Tuple[Tuple[str, str], ...]) -> Pem:
    pem: List[Optional[bytes]] = []
    for name, path in files:
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
        raise ValueError(f"{files[2][0]} and {files[1][0]} belong together: give both, or none")
    return tuple(pem)


def connect_failure(address: str, said: str) -> str:
    """Why no connection to the address came about, in words; `said`: gRPC's message of a call that failed for it."""
    if "failed to connect to all addresses" not in said and "empty address list" not in said:
        return said  # of a connection that was there
    secure = address.startswith(SCHEME)
    hangs_up = any(words in said for words in ("Connection reset", "Socket closed", "EOF", "Broken pipe"))
    openssl = said.lower().replace("_", " ")  # as OpenSSL writes it, and BoringSSL in PyPI's gRPC
    if secure and "certificate verify failed" in openssl:
        return ("the broker's certificate is not signed by an authority that this machine trusts, or has expired; "
                "DISTLOCK_TLS_CA names the file of its authority")
    if secure and ("is not in peer certificate" in said or "Hostname Verification Check failed" in said):
        return ("the broker's certificate is for other names than that of the address; DISTLOCK_TLS_SERVER_NAME sets "
                "the name that it must have")
    if secure and "wrong version number" in openssl:
        return "it speaks no TLS; without it, the address is host:port"
    if secure and ("empty address list" in said or "Failed to create security handshaker" in said):
        return "DISTLOCK_TLS_CERT and DISTLOCK_TLS_KEY hold no certificate and the key of this certificate"
    full = ", or it serves as many connections of this host or user as it may (limit max-connections-per-peer)"
    if secure and hangs_up:
        return ("it hangs up during the TLS handshake: it wants a client certificate of an authority that it trusts "
                "(DISTLOCK_TLS_CERT and DISTLOCK_TLS_KEY), or it speaks no TLS (the address is host:port then)" + full)
    if hangs_up:
        tls = "it drains" if address.startswith("unix:") else "it wants TLS (the address is tls://host:port then)"
        return "it hangs up at once: " + tls + full
    return said


def check(addresses: str, access: Access) -> None:
    """ValueError: one of the addresses needs TLS, and a file cannot be used; or none can use it."""
    if SCHEME in addresses:
        _read(access.pem_files)
    elif access.tls is not None:
        raise ValueError(f"tls is given, but no address of {addresses} begins with {SCHEME}")


def open_secure(address: str, options: List[Any], access: Access) -> Any:
    """Reads the files anew, so that renewed ones are used. Where they cannot be read, those of the last time."""
    files = access.pem_files
    with _lock:
        try:
            _last[files] = _read(files)
        except ValueError:
            if files not in _last:
                raise
        pem = _last[files]
    more = [("grpc.ssl_target_name_override", access.server_name)] if access.server_name else []
    return grpc.secure_channel(address[len(SCHEME):], grpc.ssl_channel_credentials(*pem), options=[*options, *more])
