# SPDX-License-Identifier: Apache-2.0
"""Hooks for tracing and metrics, such as OpenTelemetry, without a dependency."""
from typing import Sequence


class Observer:
    """Give one to connect(observer=...). Override what you need. Methods must not block; what they raise is logged."""

    def acquiring(self, keys: Sequence[str], mode: str) -> object:
        """A request begins, on the caller's thread or task. What this returns, a span say, comes back in the others."""
        return None

    def answered(self, cookie: object, outcome: str, waited: float) -> None:
        """The request is over, on the caller's thread or task. outcome: GRANTED, the reason of a Refused, or CANCELLED
        when the caller gave up. waited: seconds, as the caller saw them."""

    def ended(self, cookie: object, cause: str, held_for: float) -> None:
        """One lock of the request has ended, on any thread. cause: GIVEN_BACK, or that of LockLost. held_for: in s."""

    def session(self, what: str, address: str) -> None:
        """The session with the broker at `address` has `opened` or `ended`. On any thread."""
