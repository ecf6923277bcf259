# SPDX-License-Identifier: Apache-2.0
"""How a client's connections are made: its TLS, its token and its channel options, which are arguments of connect, or
named by the environment."""
import dataclasses
import json
import os
from dataclasses import dataclass, field
from typing import Mapping, Optional, Sequence, Tuple, Union

from distlock.types import Tls

ChannelOptions = Union[Mapping[str, Union[int, str]], Sequence[Tuple[str, Union[int, str]]]]
TOKEN_FILE = "DISTLOCK_TOKEN_FILE"


@dataclass(frozen=True)
class Access:
    """What is None comes from the environment, at each use."""

    tls: Optional[Tls] = None
    token: Optional[str] = field(default=None, repr=False)
    token_file: Optional[str] = None
    options: Tuple[Tuple[str, Union[int, str]], ...] = ()

    @property
    def pem_files(self) -> Tuple[Tuple[str, str], ...]:
        """What names each, and its path or "", in the order of grpc.ssl_channel_credentials."""
        if self.tls is None:
            return tuple((name, os.environ.get(name) or "")
                         for name in ("DISTLOCK_TLS_CA", "DISTLOCK_TLS_KEY", "DISTLOCK_TLS_CERT"))
        return tuple((f"tls.{name}", os.fspath(getattr(self.tls, name) or "")) for name in ("ca", "key", "cert"))

    @property
    def server_name(self) -> Optional[str]:
        return os.environ.get("DISTLOCK_TLS_SERVER_NAME") if self.tls is None else self.tls.server_name

    @property
    def token_path(self) -> Tuple[str, str]:
        """What names the file of the token, and its path or ""."""
        if self.token_file is not None:
            return "token_file", self.token_file
        return TOKEN_FILE, os.environ.get(TOKEN_FILE, "")

    def pack(self) -> bytes:
        """For another process."""
        return json.dumps(dataclasses.asdict(self)).encode()

    @staticmethod
    def unpack(data: bytes) -> "Access":
        made = json.loads(data)
        tls = None if made["tls"] is None else Tls(**made["tls"])
        return Access(tls, made["token"], made["token_file"], tuple((name, value) for name, value in made["options"]))


def access(tls: Optional[Tls], token: Optional[str], token_file: Union[str, "os.PathLike[str]", None],
           options: Optional[ChannelOptions]) -> Access:
    """Of the arguments of connect."""
    if tls is not None:
        ca, cert, key = (None if path is None else os.fspath(path) for path in (tls.ca, tls.cert, tls.key))
        tls = Tls(ca, cert, key, tls.server_name)
    pairs = options.items() if isinstance(options, Mapping) else options or ()
    return Access(tls, token, None if token_file is None else os.fspath(token_file), tuple(pairs))


FROM_ENVIRONMENT = Access()
