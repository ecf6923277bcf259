# SPDX-License-Identifier: Apache-2.0
"""The token of DISTLOCK_TOKEN_FILE is read anew for each call, and leaves this machine in no plain text."""
import re

import pytest

import distlock
from distlock._bearer import bearer


def test_the_token_of_the_file_is_shown(monkeypatch, tmp_path):
    path = tmp_path / "token"
    monkeypatch.delenv("DISTLOCK_TOKEN_FILE", raising=False)
    assert bearer("unix:///s") is None
    monkeypatch.setenv("DISTLOCK_TOKEN_FILE", str(path))
    assert bearer("unix:///s") is None
    path.write_text(" one\n")
    for address in ("unix:///s", "/s", "127.0.0.1:7420", "localhost:7420", "[::1]:7420", "tls://broker:7420"):
        assert bearer(address) == "Bearer one"
    for address in ("10.0.0.1:7420", "broker:7420", "localhost.example:7420"):
        assert bearer(address) is None
    path.write_text("two")
    assert bearer("unix:///s") == "Bearer two"


@pytest.mark.parametrize("text", [b"", b"a b", b"a\x01", "é".encode(), b"a" * (16 * 1024 + 1)])
def test_what_cannot_be_sent_is_not_shown(monkeypatch, tmp_path, text):
    path = tmp_path / "token"
    path.write_bytes(text)
    monkeypatch.setenv("DISTLOCK_TOKEN_FILE", str(path))
    assert bearer("unix:///s") is None


def test_a_file_without_a_token_is_named(monkeypatch, tmp_path):
    path = tmp_path / "token"
    monkeypatch.setenv("DISTLOCK_TOKEN_FILE", str(path))
    with pytest.raises(ValueError, match=f"DISTLOCK_TOKEN_FILE: cannot read '{path}': No such file"):
        distlock.connect("10.0.0.1:1,tls://localhost:1")
    distlock.connect("10.0.0.1:1").close()  # is not shown it
    for text, problem in (("", "is empty"), ("dlt_a\nops:0123\n", "has 2 lines; it must hold the token alone"),
                          ("ops:" + "0a" * 32, "holds a hash, which is for the broker's --token-file"),
                          ("0a" * 32 + "\n", "holds a hash"), ("two words", "holds no token: it has a space"),
                          ("a" * (16 * 1024 + 1), "is larger than 16 KiB")):
        path.write_text(text)
        with pytest.raises(ValueError, match=f"DISTLOCK_TOKEN_FILE: '{path}' {problem}"):
            distlock.connect("unix:///s")
    path.write_text("dlt_" + "A" * 43 + "\n")
    distlock.connect("unix:///s").close()


@pytest.mark.parametrize("address, problem", [
    ("127.0.0.1", "has no port; write 127.0.0.1:7420"),
    ("tls://broker", "has no port; write tls://broker:7420"),
    ("dns:///broker", "has no port; write dns:///broker:7420"),
    ("broker:", "has no port; write broker:7420"),
    ("[::1]", "has no port; write [::1]:7420"),
    ("::1", "is IPv6 without brackets; write [::1]:7420"),
    ("127.0.0.1:72956", "has the port 72956; a port is a number of 1..65535"),
    ("tls://broker:0", "has the port 0; a port is a number of 1..65535"),
    ("a:1,broker:locks", "has the port locks; a port is a number of 1..65535"),
    ("tls://[::1]:65536", "has the port 65536; a port is a number of 1..65535"),
])
def test_a_port_is_needed_and_fits(address, problem):
    with pytest.raises(ValueError, match="the broker's address .* " + re.escape(problem) + "$"):
        distlock.connect(address)


@pytest.mark.parametrize("address", ["[::1]:65535", "a:1,b:2", "dns://8.8.8.8/broker:7420", "dns:broker:7420", "unix:x",
                                     "/x", "ipv4:127.0.0.1:1", "ipv6:[::1]:1"])
def test_addresses_that_are_good(address):
    distlock.connect(address).close()
