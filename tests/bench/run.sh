#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds for release and measures the broker against direct Redis clients. Leaves nothing running.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
  cat <<'TEXT'
usage: tests/bench/run.sh [--quick] [--peers] [--json FILE] [--charts FOLDER] [--bin FOLDER]
                          [option of distlock_bench ...]

Prints Markdown tables of medians and min..max over interleaved rounds. tests/bench/README.md explains the rows.

  --quick         rough figures in less than a minute (without the build)
  --peers         also measure other lock systems; installs them (deploy/install-deps.sh --peers)
  --json FILE     also write every sample to FILE
  --charts FOLDER also draw throughput.svg and handoff.svg there, and with --growth growth-leases.svg,
                  growth-memory.svg, growth-waiters.svg and growth-waiters-cpu.svg
  --bin FOLDER    use the distlockd and distlock_bench found there instead of building them
  --only REGEX    only cases that match as "section/case", such as '^lone|^handoff' or '1 x 256'
  --growth        also the rows that show how costs grow, which take minutes
  --rounds N      interleaved rounds (5)
  --seconds S     length of each closed loop (1)
  --clients T     tcp or unix: how clients reach the broker, and direct ones Redis (tcp)
  --store T       tcp or unix: how the broker reaches Redis (unix)

Exit: 0 all rows valid, 1 a row is invalid or nothing could be measured, 64 wrong usage.
TEXT
}

bin='' peers='' json='' charts='' options=()
while [ $# -gt 0 ]; do
  case "$1" in
    --bin)
      [ $# -ge 2 ] || { echo "tests/bench/run.sh: --bin needs a folder" >&2; exit 64; }
      bin=$2
      shift
      ;;
    --json | --charts)
      [ $# -ge 2 ] || { echo "tests/bench/run.sh: $1 needs a value" >&2; exit 64; }
      case "$1" in
        --json) json=$2 ;;
        --charts) charts=$2 ;;
      esac
      shift
      ;;
    --peers) peers=yes options+=(--peers) ;;
    -h | --help) usage; exit 0 ;;
    *) options+=("$1") ;;
  esac
  shift
done

if [ -z "$bin" ]; then
  deploy/install-deps.sh --test >&2
  cmake --preset release -DDISTLOCK_TESTS=ON >/dev/null
  cmake --build --preset release --target distlockd distlock_bench >&2
  bin=build/release/bin
fi

if [ -n "$peers" ] && ! deploy/install-deps.sh --peers >&2; then
  echo "tests/bench/run.sh: not every peer is installed; the rows of those that are not say so" >&2
fi

if [ -n "$charts" ] && [ -z "$json" ]; then
  json=$(mktemp)
  trap 'rm -f "$json"' EXIT
fi
[ -z "$json" ] || options+=(--json "$json")

code=0
"$bin/distlock_bench" --daemon "$bin/distlockd" "${options[@]}" || code=$?
# The exit codes of the option parser for wrong usage.
[ "$code" -lt 100 ] || [ "$code" -ge 128 ] || code=64
if [ -n "$charts" ] && [ "$code" -le 1 ]; then /usr/bin/python3 -B tests/bench/charts.py "$json" "$charts"; fi
exit "$code"
