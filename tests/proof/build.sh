#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# build.sh TARGET...: builds these of the release preset, as tests/run.sh does it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

if [ ! -f build/release/build.ninja ]; then
  deploy/install-deps.sh --test
  grpc=system
  [ ! -e "$(deploy/grpc/hardened.sh where)" ] || grpc=hardened
  cmake --preset release -DDISTLOCK_TESTS=ON -DDISTLOCK_UNITY=ON -DDISTLOCK_GRPC=$grpc
fi
cmake --build --preset release --target "$@"
