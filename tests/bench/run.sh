#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds for release what bench.py needs, installs the other lock systems for --peers, and runs it: see --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

case " $* " in
  *' --help '* | *' -h '*) ;;
  *)
    deploy/install-deps.sh --test >&2
    cmake --preset release -DDISTLOCK_TESTS=ON >/dev/null
    cmake --build --preset release --target distlockd distlock_bench >&2
    ;;&
  *' --peers '*)
    deploy/install-deps.sh --peers >&2 ||
      echo "tests/bench/run.sh: not every peer is installed; the rows of those that are not say so" >&2
    ;;
esac
exec /usr/bin/python3 -B tests/bench/bench.py "$@"
