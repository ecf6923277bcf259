#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Builds the package of client/node, for the tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../client/node"
./install.sh
rm -rf dist
node_modules/.bin/tsc -p .
