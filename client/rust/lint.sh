#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs rustfmt and clippy on the crate, its tests and the driver of client/conformance.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
cargo fmt --check
cargo clippy --locked --all-targets "$@" -- -D warnings
