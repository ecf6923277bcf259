#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs what is missing, builds, and runs every test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: tests/run.sh [--packaging | --all | --long] [--preset P | --asan | --tsan] [--filter REGEX] [--jobs N]

Without options, what a contributor runs: builds the release preset, runs its tests, and runs clang-format and
clang-tidy on the C++ files that changed.

  --packaging     also the tests that need a gigabyte of tools (a JDK, a browser, helm, systemd, promtool): those of
                  charts, units and alerts, the status page and the Java package
  --all           --packaging, and the rooms with threads of their own (shard, acceptor, http, the C++ client's core)
                  under ThreadSanitizer, a short search of the fuzzers, clang-format on all files, clang-tidy on
                  server, client and proto, ruff and mypy on the Python package
  --preset P      only preset P: dev, release, asan or tsan (may be repeated)
  --asan          as --preset asan: the tests under AddressSanitizer and UndefinedBehaviorSanitizer
  --tsan          as --preset tsan: the rooms with threads of their own under ThreadSanitizer
  --filter REGEX  only tests whose ctest name matches, such as '^core' or 'Drain'
  --long          --all, and clang-tidy on all files, the tests labelled long (simulations, mutations, model check),
                  coverage and a soak of 30 minutes: hours
  --jobs N        tests at a time (default: five for two processors, as most tests wait more than they compute)
TEXT
}

say() { printf '== %s (%s s)\n' "$*" "$SECONDS"; }
die() { printf 'tests/run.sh: %s\n' "$*" >&2; exit 64; }

readonly NOT_HARDENED='gRPC is the system'"'"'s, not hardened: its source package was not to be had'

presets=() filter='' packaging='' all='' long='' jobs=$(($(nproc) * 5 / 2))
while [ $# -gt 0 ]; do
  case "$1" in
    --asan | --tsan) presets+=("${1#--}") ;;
    --preset | --filter | --jobs)
      [ $# -ge 2 ] || die "$1 needs a value; see --help"
      case "$1" in
        --preset) presets+=("$2") ;;
        --filter) filter=$2 ;;
        --jobs) jobs=$2 ;;
      esac
      shift
      ;;
    --packaging) packaging=yes ;;
    --all) all=yes packaging=yes ;;
    --long) long=yes packaging=yes ;;
    -h | --help) usage; exit 0 ;;
    *) die "unknown option '$1'; see --help" ;;
  esac
  shift
done
fuzz=''
if [ "${#presets[@]}" -gt 0 ]; then
  [ -z "$all" ] || die "--all names its own presets; leave out --preset, --asan and --tsan"
else
  presets=(release)
  [ -z "$all$long" ] || { presets+=(tsan); fuzz='--runs 1000'; }
fi
[ -z "$long" ] || fuzz='--seconds 60'

run_preset() {
  local preset=$1 select=() unity grpc
  [ -z "$filter" ] || select+=(-R "$filter")
  if [ -z "$packaging" ]; then select+=(-LE '^(long|packaging)$'); elif [ -z "$long" ]; then select+=(-LE '^long$'); fi
  # A filter may well name tests that the later presets do not have.
  [ -z "$filter" ] || [ "$preset" = "${presets[0]}" ] || select+=(--no-tests=ignore)
  # The others compile each file alone, and so find includes that are missing; as clang-tidy does.
  case $preset in release | tsan) unity=ON ;; *) unity=OFF ;; esac
  grpc=system
  if [ "$preset" = release ]; then
    # As it is shipped.
    if [ -e "$(deploy/grpc/hardened.sh where)" ]; then grpc=hardened; else say "$NOT_HARDENED"; fi
  fi
  say "$preset: configure"
  cmake --preset "$preset" -DDISTLOCK_TESTS=ON -DDISTLOCK_UNITY=$unity -DDISTLOCK_GRPC=$grpc >/dev/null
  say "$preset: build"
  cmake --build --preset "$preset"
  say "$preset: test, $jobs at a time"
  ctest --preset "$preset" --parallel "$jobs" --output-junit tests.xml "${select[@]}" || {
    local code=$?
    /usr/bin/python3 -B tests/last_words.py "build/$preset/tests.xml"
    exit "$code"
  }
}

run_lint() {
  local scope=()
  [ -z "$all" ] || scope=(--product)
  [ -z "$long" ] || scope=(--all)
  say "format and lint"
  /usr/bin/python3 -B tests/tidy/lint.py "${scope[@]}"
  [ -z "$all$long" ] || client/python/lint.sh
}

if [ -n "$packaging" ]; then deploy/install-deps.sh --all; else deploy/install-deps.sh --test; fi
passed=''
for preset in "${presets[@]}"; do
  run_preset "$preset"
  passed+="${passed:+, }$preset"
  # Needs the sources that the build generates.
  if [ "$preset" = release ] && [ -z "$filter" ]; then
    run_lint
    passed+=', format and lint'
  fi
done
if [ -n "$fuzz" ] && [ -z "$filter" ]; then
  say "fuzzers"
  # An option and its value: splitting is meant.
  # shellcheck disable=SC2086
  tests/fuzz/run.sh $fuzz
  passed+=', fuzzers'
fi
if [ -n "$long" ] && [ -z "$filter" ]; then
  say "coverage of the core"
  tests/coverage.sh
  say "soak"
  tests/soak.sh
  passed+=', coverage, soak'
fi
say "all passed: $passed"
