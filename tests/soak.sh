#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds what is missing and runs the soak: real processes under load and faults.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: tests/soak.sh [--minutes N] [--seed S] [--build FOLDER] [options of tests/e2e/soak.py]

  --minutes N     how long faults go on coming (default 30)
  --seed S        of the faults and the load (default: any; it is printed)
  --sentinel, --cluster, --quorum  on such servers, with their faults; else on one server
  --build FOLDER  a build to use as it is, instead of building the preset release

Exit code: 0 all well, 1 an invariant was violated, 2 the run proves nothing. The last line tells the number of faults.
After SIGTERM the faults end and what ran so far is judged, which takes a minute.
TEXT
}

build='' pass=()
while [ $# -gt 0 ]; do
  case "$1" in
    -h | --help) usage; exit 0 ;;
    --build)
      [ $# -ge 2 ] || { echo "tests/soak.sh: --build needs a value" >&2; exit 64; }
      build=$2
      shift
      ;;
    *) pass+=("$1") ;;
  esac
  shift
done

if [ -z "$build" ]; then
  deploy/install-deps.sh --test
  cmake --preset release -DDISTLOCK_TESTS=ON >/dev/null
  cmake --build --preset release --target distlockd distlock_soak_load distlock_check_history clock_shim
  build=build/release
fi
DISTLOCKD=$(realpath "$build/bin/distlockd") exec /usr/bin/python3 -B tests/e2e/soak.py "${pass[@]}"
