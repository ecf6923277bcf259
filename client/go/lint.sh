#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs gofmt, go vet and staticcheck on the modules and on tests/go. The first time it builds the pinned staticcheck
# from the Go module proxy, into the user's cache.
set -euo pipefail
readonly STATICCHECK=v0.7.0

cd "$(dirname "${BASH_SOURCE[0]}")"
tools=${XDG_CACHE_HOME:-$HOME/.cache}/distlock/staticcheck-$STATICCHECK-$(go env GOVERSION)
if [ ! -e "$tools/complete" ]; then
  rm -rf "$tools"
  # Outside of any module, so that it is built with its own versions.
  (cd / && GOBIN=$tools go install "honnef.co/go/tools/cmd/staticcheck@$STATICCHECK") >&2
  : >"$tools/complete"
fi
for module in . gocronlock k8slock k8slock/examples/controller ../../tests/go; do
  (
    cd "$module"
    unformatted=$(gofmt -l .)
    [ -z "$unformatted" ] || { printf 'gofmt has changes for:\n%s\n' "$unformatted" >&2; exit 1; }
    go vet ./...
    "$tools/staticcheck" -checks inherit,ST1000,ST1005,ST1016,ST1020,ST1021,ST1022 ./...
  )
done
