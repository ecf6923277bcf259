#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the driver of folder go, unless it is up to date, into the user's cache, and runs it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/go"
driver=${XDG_CACHE_HOME:-$HOME/.cache}/distlock/bench-go/driver
go build -o "$driver" . >&2
exec "$driver" "$@"
