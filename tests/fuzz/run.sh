#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the fuzzers with clang and lets each search for a while, starting from its corpus.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

usage() {
  cat <<'TEXT'
usage: tests/fuzz/run.sh [--seconds N | --runs N] [--jobs N] [--grow] [TARGET...]

Without a TARGET: all of them. Ends with 1 when an input crashed one, and says how to run that input again.

  --seconds N  search so long with each target (default 60)
  --runs N     the same N inputs with each target, every time
  --jobs N     targets at a time (default: the processors)
  --grow       afterwards, rewrite the corpora: the smallest inputs that reach what has been reached
  TARGET       such as broker or reply_tree: the folders of tests/fuzz/corpus
TEXT
}

say() { printf '== %s\n' "$*"; }
die() { printf 'tests/fuzz/run.sh: %s\n' "$*" >&2; exit 64; }

seconds=60 runs='' jobs=$(nproc) grow='' targets=()
while [ $# -gt 0 ]; do
  case "$1" in
    --seconds | --runs | --jobs)
      [ $# -ge 2 ] || die "$1 needs a value; see --help"
      case "$2" in '' | *[!0-9]*) die "$1 needs a number, not '$2'" ;; esac
      case "$1" in --seconds) seconds=$2 ;; --runs) runs=$2 ;; --jobs) jobs=$2 ;; esac
      shift
      ;;
    --grow) grow=yes ;;
    -h | --help) usage; exit 0 ;;
    -*) die "unknown option '$1'; see --help" ;;
    *)
      [ -d "tests/fuzz/corpus/$1" ] || die "no target '$1'; there are: $(ls tests/fuzz/corpus | xargs)"
      targets+=("$1")
      ;;
  esac
  shift
done
if [ "${#targets[@]}" -eq 0 ]; then
  for folder in tests/fuzz/corpus/*/; do targets+=("$(basename "$folder")"); done
fi

command -v clang++ >/dev/null || {
  echo 'tests/fuzz/run.sh: there is no clang: deploy/install-deps.sh --all installs it' >&2
  exit 1
}
build=${DISTLOCK_FUZZ_BUILD:-build/fuzz}
say "build ${#targets[@]} fuzzers"
cmake --preset fuzz -B "$build" -DDISTLOCK_UNITY=ON >/dev/null
cmake --build "$build" --target "${targets[@]/%/_fuzz}" | tail -n 1

# Findings stay outside the repository until --grow.
found=$build/found
mkdir -p "$found/log" "$found/crash"
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1
readonly MAX_BYTES=4096

search() {
  local target=$1
  mkdir -p "$found/$target"
  # Entropic scheduling costs more than the inputs themselves, which are quick.
  local length=(-max_total_time="$seconds")
  [ -z "$runs" ] || length=(-runs="$runs" -seed=1)
  "$build/bin/${target}_fuzz" "${length[@]}" -max_len=$MAX_BYTES -timeout=10 -rss_limit_mb=2048 -entropic=0 \
    -print_final_stats=1 -artifact_prefix="$found/crash/$target-" \
    "$found/$target" "tests/fuzz/corpus/$target" >"$found/log/$target" 2>&1
}

report() {
  local target=$1 log=$found/log/$1 input
  if [ "$2" -eq 0 ]; then
    printf '%-12s %9s inputs, %7s a second\n' "$target" \
      "$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")" \
      "$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")"
    return
  fi
  input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
  printf '%-12s FAILED; the log is %s and says:\n' "$target" "$log"
  grep -m 4 -E 'invariant broken|runtime error|ERROR: |SUMMARY' "$log" || tail -n 4 "$log"
  [ -z "$input" ] || printf 'again: %s %s\n' "$build/bin/${target}_fuzz" "$input"
}

say "search for ${runs:-$seconds s}${runs:+ inputs}, $jobs at a time"
failed=0
for ((first = 0; first < ${#targets[@]}; first += jobs)); do
  now=("${targets[@]:first:jobs}") pids=()
  for target in "${now[@]}"; do search "$target" & pids+=($!); done
  for i in "${!now[@]}"; do
    code=0
    wait "${pids[i]}" || code=$?
    [ "$code" -eq 0 ] || failed=1
    report "${now[i]}" "$code"
  done
done
[ "$failed" -eq 0 ] || exit 1
[ -n "$grow" ] || exit 0

say "corpora: keep what adds coverage"
for target in "${targets[@]}"; do
  rm -rf "$found/kept"
  mkdir "$found/kept"
  "$build/bin/${target}_fuzz" -merge=1 -max_len=$MAX_BYTES "$found/kept" "tests/fuzz/corpus/$target" "$found/$target" \
    >"$found/log/$target" 2>&1
  rm -rf "tests/fuzz/corpus/$target"
  mv "$found/kept" "tests/fuzz/corpus/$target"
  printf '%-12s %5d inputs, %s\n' "$target" "$(ls "tests/fuzz/corpus/$target" | wc -l)" \
    "$(du -bsh "tests/fuzz/corpus/$target" | cut -f 1)"
done
