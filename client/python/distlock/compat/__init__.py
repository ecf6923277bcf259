# SPDX-License-Identifier: Apache-2.0
"""Locks with the interfaces of other packages, for programs that move over."""
