#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the pinned packages of package-lock.json into node_modules, unless they are there. They come from npm's
# cache, or from the registry that npm is set up with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
for tool in node npm; do
  command -v "$tool" >/dev/null || {
    printf 'client/node/install.sh: %s is missing; deploy/install-deps.sh --test installs it\n' "$tool" >&2
    exit 1
  }
done
version=$(node -p process.versions.node)
[ "${version%%.*}" -ge 20 ] || {
  printf 'client/node/install.sh: node is %s, and the package needs 20 or newer\n' "$version" >&2
  exit 1
}
[ package-lock.json -nt node_modules/.package-lock.json ] || exit 0
npm ci --ignore-scripts --prefer-offline --no-audit --no-fund --loglevel error >&2
