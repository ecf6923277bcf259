#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs ruff and mypy --strict on the package. The first time it installs the pinned versions from PyPI, into the user's
# cache.
set -euo pipefail
readonly RUFF=0.17.6 MYPY=2.4.1

tools=${XDG_CACHE_HOME:-$HOME/.cache}/distlock/ruff-$RUFF-mypy-$MYPY
cd "$(dirname "${BASH_SOURCE[0]}")"
if [ ! -e "$tools/complete" ]; then
  rm -rf "$tools"
  /usr/bin/python3 -m venv "$tools" >&2
  "$tools/bin/pip" install --quiet --disable-pip-version-check "ruff==$RUFF" "mypy==$MYPY" types-protobuf >&2
  : >"$tools/complete"
fi
"$tools/bin/ruff" check --no-cache .
"$tools/bin/mypy" --cache-dir=/dev/null
