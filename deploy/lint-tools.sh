#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the folder of the pinned clang-format and clang-tidy. The first time it installs them from PyPI, into the
# user's cache: Debian 12 and 13 have different versions, whose results differ.
set -euo pipefail
readonly FORMAT=19.1.7 TIDY=22.1.8

tools=${XDG_CACHE_HOME:-$HOME/.cache}/distlock/clang-format-$FORMAT-clang-tidy-$TIDY
if [ ! -e "$tools/complete" ]; then
  rm -rf "$tools"
  printf 'lint-tools: installing clang-format %s and clang-tidy %s\n' "$FORMAT" "$TIDY" >&2
  /usr/bin/python3 -m venv "$tools" >&2
  "$tools/bin/pip" install --quiet --disable-pip-version-check "clang-format==$FORMAT" "clang-tidy==$TIDY" >&2
  : >"$tools/complete"
fi
printf '%s/bin\n' "$tools"
