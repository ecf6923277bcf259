# SPDX-License-Identifier: Apache-2.0
"""The token of DISTLOCK_TOKEN_FILE is read anew for each call, and leaves this machine in no plain text."""
import re

import pytest

import distlock
from distlock._bearer import bearer
from distlock.v1 import look_pb2


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


def test_a_token_as_an_argument(monkeypatch, tmp_path, broker, connect):
    path, shown = tmp_path / "token", []
    monkeypatch.setenv("DISTLOCK_TOKEN_FILE", str(tmp_path / "no such file"))

    def look(request, context):
        told = dict(context.invocation_metadata())
        shown.append((told.get("authorization"), told["user-agent"].split()[0]))
        return look_pb2.GetLockResponse()

    broker.unary["GetLock"] = look
    path.write_text("by-file\n")
    by_file = connect(broker.url, token_file=path)
    for client in (connect(broker.url, token="given"), by_file,
                   connect(broker.url, token="given", channel_options=[("grpc.primary_user_agent", "mine")])):
        client.inspect("k")
    path.write_text("renewed\n")
    by_file.inspect("k")
    assert [one[0] for one in shown] == ["Bearer given", "Bearer by-file", "Bearer given", "Bearer renewed"]
    assert [one[1] == "mine" for one in shown] == [False, False, True, False]


@pytest.mark.parametrize("more, problem", [
    ({"token": "a b"}, "token: it holds no token"), ({"token": ""}, "token: it is empty"),
    ({"token": "a", "token_file": "/x"}, "token and token_file are given"),
    ({"token_file": "/no/such"}, "token_file: cannot read '/no/such'"),
    ({"tls": distlock.Tls(ca="/x")}, "tls is given, but no address"),
    ({"address": "tls://h:1", "tls": distlock.Tls(ca="/no/such")}, "tls.ca: cannot read '/no/such'"),
    ({"address": "tls://h:1", "tls": distlock.Tls(cert=__file__)}, f"tls.cert: '{__file__}' holds no PEM block"),
])
def test_arguments_that_cannot_be_used_are_named(more, problem):
    for connect in (distlock.connect, distlock.aio.connect):
        with pytest.raises(ValueError, match=re.escape(problem)):
            connect(**{"address": "unix:///s", **more})


def test_a_token_is_not_printed():
    assert "given" not in repr(distlock.connect("unix:///s", token="given")._access)
