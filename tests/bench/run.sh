#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds for release and measures the broker against direct Redis clients. Leaves nothing running.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
  cat <<'TEXT'
usage: tests/bench/run.sh [--quick] [--peers] [--distances] [--json FILE] [--charts FOLDER] [--bin FOLDER]
                          [option of distlock_bench ...]

Prints Markdown tables of medians and min..max over interleaved rounds. tests/bench/README.md explains the rows.

  --quick         rough figures in less than a minute (without the build)
  --peers         also measure other lock systems; installs them (deploy/install-deps.sh --peers)
  --distances     first with the store 0.5 ms away and 2 ms away, as in most deployments, then on this machine; at a
                  distance only the rows that depend on it, unless --only says which
  --store-delay MS  only with the store so many ms away
  --json FILE     also write every sample to FILE; those at a distance to FILE with -0.5ms or -2ms before .json
  --charts FOLDER also draw throughput.svg and handoff.svg there (with -0.5ms or -2ms before .svg at a distance), and
                  with --growth growth-leases.svg, growth-memory.svg, growth-waiters.svg and growth-waiters-cpu.svg
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

bin='' peers='' json='' charts='' only='' distances=('') options=()
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
    --only | --store-delay)
      [ $# -ge 2 ] || { echo "tests/bench/run.sh: $1 needs a value" >&2; exit 64; }
      case "$1" in
        --only) only=$2 ;;
        --store-delay) distances=("$2") ;;
      esac
      shift
      ;;
    --distances) distances=(0.5 2 '') ;;
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
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  json=$folder/results.json
fi

# Rows whose figures depend on the way to the store.
readonly AT_A_DISTANCE='^(lone|multiplexed|library|handoff-idle|rw|peers|peers-handoff)/'

# One run; "" is a store on this machine.
measure() {
  local ms=$1 chosen=$only file=$json these=("${options[@]}") code=0
  [ -z "$ms" ] || these+=(--store-delay "$ms")
  if [ -n "$ms" ] && [ ${#distances[@]} -gt 1 ]; then
    [ -n "$chosen" ] || chosen=$AT_A_DISTANCE
    file=${json:+${json%.json}-${ms}ms.json}
  fi
  [ -z "$chosen" ] || these+=(--only "$chosen")
  [ -z "$file" ] || these+=(--json "$file")
  [ ${#distances[@]} -eq 1 ] || printf '\n## The store is %s away\n\n' "${ms:-0} ms"
  "$bin/distlock_bench" --daemon "$bin/distlockd" "${these[@]}" || code=$?
  if [ -n "$charts" ] && [ "$code" -le 1 ]; then /usr/bin/python3 -B tests/bench/charts.py "$file" "$charts" $ms; fi
  return "$code"
}

worst=0
for ms in "${distances[@]}"; do
  code=0
  measure "$ms" || code=$?
  # The exit codes of the option parser for wrong usage.
  [ "$code" -lt 100 ] || [ "$code" -ge 128 ] || exit 64
  [ "$code" -lt 128 ] || exit "$code"
  [ "$code" -le "$worst" ] || worst=$code
done
exit "$worst"
