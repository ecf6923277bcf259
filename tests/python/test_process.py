# SPDX-License-Identifier: Apache-2.0
"""What a process says of itself to a broker on its machine."""
import os

import pytest

from distlock import _process

needs_pidfds = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="this Python has no pidfds")


@needs_pidfds
def test_a_claim_is_of_this_process():
    claim = _process.claim("unix:///run/distlock/distlock.sock")
    assert len(claim.boot_id) == 36 and claim.pidfd_inode > 0
    assert _process.claim("unix:/x") == claim


@pytest.mark.parametrize("address", ["127.0.0.1:7420", "tls://host:1", "ipv4:127.0.0.1:1"])
def test_no_claim_for_a_broker_that_cannot_check_it(address):
    assert _process.claim(address) is None


def test_no_claim_without_pidfds(monkeypatch):
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    assert _process.claim("unix:/x") is None


@needs_pidfds
def test_no_claim_where_the_kernel_refuses(monkeypatch):
    def refuse(*_):
        raise OSError(38, "Function not implemented")
    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert _process.claim("unix:/x") is None
