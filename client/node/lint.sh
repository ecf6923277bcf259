#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs typescript-eslint's strict rules and tsc on the package. Installs the pinned versions of package-lock.json, if
# they are not there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
./install.sh
node_modules/.bin/eslint .
node_modules/.bin/tsc --noEmit -p .
