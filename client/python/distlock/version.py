# SPDX-License-Identifier: Apache-2.0
"""The version: that of the brokers."""
__version__ = "0.1.0"
