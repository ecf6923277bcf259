#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Goes through the list of what must hold before a release, and keeps what has run; see --help.
exec /usr/bin/python3 -B "$(dirname "${BASH_SOURCE[0]}")/proof/release.py" "$@"
