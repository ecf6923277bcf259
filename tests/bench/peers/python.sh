#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs driver.py in the environment of tests/python, which has redis-py and the newest gRPC.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
exec "$("$here/../../python/tools.sh")/venv/bin/python" -B "$here/driver.py" "$@"
