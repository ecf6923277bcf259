# SPDX-License-Identifier: Apache-2.0
"""The token of DISTLOCK_TOKEN_FILE is read anew for each call, and leaves this machine in no plain text."""
import pytest

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
