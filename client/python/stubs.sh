#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# stubs.sh [FOLDER]: makes the classes of the contract's messages anew, here or in FOLDER. They are kept in the
# repository, so that building the package needs no protoc. The first time it installs the pinned protoc, 3.21, from
# PyPI into the user's cache: what that makes works with the oldest protobuf of pyproject.toml, and with the newest.
set -euo pipefail
readonly TOOLS=1.51.3

tools=${XDG_CACHE_HOME:-$HOME/.cache}/distlock/grpcio-tools-$TOOLS
cd "$(dirname "${BASH_SOURCE[0]}")"
if [ ! -e "$tools/complete" ]; then
  rm -rf "$tools"
  /usr/bin/python3 -m venv "$tools" >&2
  "$tools/bin/pip" install --quiet --disable-pip-version-check "grpcio-tools==$TOOLS" 'setuptools<81' >&2
  : >"$tools/complete"
fi
out=${1:-.}
"$tools/bin/python" -m grpc_tools.protoc -I ../../proto "--python_out=$out" "--pyi_out=$out" \
  distlock/v1/lock.proto distlock/v1/lock_service.proto distlock/v1/look.proto
