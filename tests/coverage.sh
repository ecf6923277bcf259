#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Measures which lines and branches of server/core its tests run: unit tests, small system and simulations; and of
# server/access, by its unit tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: tests/coverage.sh [--access] [--seeds N] [--seed S] [--missed]

Builds with clang (preset coverage), runs core_test, sim_exhaustive_test and N simulations (default 3000) from seed S on
(default 1), and prints a table by file. Fails below 98 % of the lines or of the branches. Then the same for
server/access and access_test; there each branch must be run, except in the two files with errors of libraries.

  --access   only server/access
  --missed   also the lines that hold a branch which never went one of its ways
TEXT
}

readonly LEAST_LINES=98 LEAST_BRANCHES=98
seeds=3000 seed=1 missed='' only=''
while [ $# -gt 0 ]; do
  case "$1" in
    --seeds | --seed)
      [[ ${2:-} =~ ^[0-9]+$ ]] || { printf 'tests/coverage.sh: %s needs a number\n' "$1" >&2; exit 64; }
      printf -v "${1#--}" %s "$2"
      shift
      ;;
    --missed) missed=yes ;;
    --access) only=access ;;
    -h | --help) usage; exit 0 ;;
    *) printf "tests/coverage.sh: unknown option '%s'; see --help\n" "$1" >&2; exit 64 ;;
  esac
  shift
done

command -v clang++ >/dev/null || {
  echo 'tests/coverage.sh: there is no clang: deploy/install-deps.sh --all installs it' >&2
  exit 1
}
build=build/coverage
programs=(access_test core_test sim_exhaustive_test distlock_sim)
[ -z "$only" ] || programs=(access_test)
printf '== build\n'
cmake --preset coverage -DDISTLOCK_TESTS=ON >/dev/null
cmake --build --preset coverage --target "${programs[@]}" | tail -n 1
rm -f "$build"/*.profraw
# Reads lcov, and prints the lines that hold a branch which never went one of its ways.
show_missed() {
  python3 -c '
import os, sys
told = set()
for record in sys.stdin:
    kind, _, rest = record.rstrip("\n").partition(":")
    if kind == "SF":
        path = os.path.relpath(rest)
        with open(path) as source:
            lines = source.read().split("\n")
    elif kind == "BRDA":
        line, _, _, count = rest.split(",")
        if count in ("0", "-") and (path, line) not in told:
            told.add((path, line))
            print(f"{path}:{line} {lines[int(line) - 1].strip()}")'
}
run() {
  local name=$1
  shift
  printf '== %s\n' "$name"
  LLVM_PROFILE_FILE=$build/$name.profraw "$build/bin/$name" "$@" >"$build/$name.log" 2>&1 ||
    { tail -n 20 "$build/$name.log"; printf 'tests/coverage.sh: %s failed\n' "$name" >&2; exit 1; }
}
run access_test --gtest_brief=1
llvm-profdata merge -o "$build/access.profdata" "$build"/access_test.profraw
access() {
  local kind=$1
  shift
  llvm-cov "$kind" "$build/bin/access_test" -instr-profile="$build/access.profdata" "$@"
}
access report -show-region-summary=false server/access | sed 's|^/.*/server/|server/|'
[ -z "$missed" ] || access export -format=lcov server/access | show_missed
# Two of these files have code for failures of memory or a library. A switch has a branch for a value that no enumerator
# has: the compiler sees to it that each enumerator is named.
access export -format=lcov server/access | python3 -c '
import pathlib, sys
count = {"DA": 0, "BRDA": 0}
missed = dict(count)
short = set()
for record in sys.stdin:
    kind, _, rest = record.rstrip("\n").partition(":")
    if kind == "SF":
        path = pathlib.Path(rest)
        lines = path.read_text().split("\n")
        counts = path.parent.name == "access" and path.suffix == ".cc"
    elif kind in count and counts:
        fields = rest.split(",")
        if kind == "BRDA" and lines[int(fields[0]) - 1].lstrip().startswith("switch ("):
            continue
        count[kind] += 1
        if fields[-1] in ("0", "-"):
            missed[kind] += 1
            if path.name not in ("jwt.cc", "tokens.cc"):
                short.add(f"{path.name}:{fields[0]}")
print("access: {} of {} lines are not run, {} of {} branches".format(
    missed["DA"], count["DA"], missed["BRDA"], count["BRDA"]))
if short:
    sys.exit("tests/coverage.sh: not every line and branch of what decides is run: " + ", ".join(sorted(short)))'
[ -z "$only" ] || exit 0
rm -f "$build"/*.profraw
run core_test --gtest_brief=1
run sim_exhaustive_test --gtest_brief=1
run distlock_sim --seeds "$seeds" --seed "$seed" --quiet
llvm-profdata merge -o "$build/core.profdata" "$build"/*.profraw

view() {
  local kind=$1
  shift
  llvm-cov "$kind" "$build/bin/core_test" -object "$build/bin/sim_exhaustive_test" -object "$build/bin/distlock_sim" \
    -instr-profile="$build/core.profdata" "$@" server/core
}
[ -z "$missed" ] || view export -format=lcov | show_missed
view report -show-region-summary=false | sed 's|^/.*/server/|server/|'
view export -format=text -summary-only | python3 -c '
import json, sys
totals = json.load(sys.stdin)["data"][0]["totals"]
lines, branches = totals["lines"]["percent"], totals["branches"]["percent"]
print(f"core: {lines:.2f} % of the lines, {branches:.2f} % of the branches")
sys.exit(lines < float(sys.argv[1]) or branches < float(sys.argv[2]))' $LEAST_LINES $LEAST_BRANCHES
