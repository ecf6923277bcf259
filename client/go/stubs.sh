#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Makes the package of the contract's messages anew, in distlockv1 or in the folder given. It is kept in the repository,
# so that building the module needs no protoc; tests/go compares it with the contract. The first time, the pinned
# generators are built from the Go module proxy into the user's cache.
set -euo pipefail
readonly PROTOBUF=v1.36.10 GRPC=v1.5.1 PACKAGE=distlock.dev/client/go/distlockv1

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
out=${1:-$here/distlockv1}
tools=${XDG_CACHE_HOME:-$HOME/.cache}/distlock/protoc-gen-go-$PROTOBUF-grpc-$GRPC
if [ ! -e "$tools/complete" ]; then
  rm -rf "$tools"
  # Outside of any module, so that each is built with its own versions.
  (cd / && GOBIN=$tools go install "google.golang.org/protobuf/cmd/protoc-gen-go@$PROTOBUF" &&
    GOBIN=$tools go install "google.golang.org/grpc/cmd/protoc-gen-go-grpc@$GRPC") >&2
  : >"$tools/complete"
fi
mkdir -p "$out"
PATH=$tools:$PATH protoc -I "$here/../../proto" --go_out="$out" --go_opt=module=$PACKAGE --go-grpc_out="$out" \
  --go-grpc_opt=module=$PACKAGE distlock/v1/admin_service.proto distlock/v1/lock.proto \
  distlock/v1/lock_service.proto distlock/v1/look.proto
