#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# if_built.sh FOLDER COMMAND...: the command, unless build.sh had to skip; then exit code 77.
set -euo pipefail
if [ -e "$1/skipped" ]; then
  cat "$1/skipped"
  exit 77
fi
shift
exec "$@"
