#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs simulations and checks each. Its options are those of distlock_sim.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

case " $* " in
  *" --help "* | *" -h "*)
    cat <<'TEXT'
usage: tests/sim/run.sh [--seeds N | --minutes M] [--seed S] [--workload W] [--topology T]
                        [--keep-going] [--quiet]

Builds the simulator and runs N simulations (default 20000) from seed S on (default: a random one, which is printed).
Ends with the line "N seeds, M violations, R seeds per hour and core"; the exit code is 0 only without violations. Stops
at the first violation unless --keep-going. One simulation with its full log: build/release/bin/distlock_sim --seed S.
Workloads: mixed mutex queue churn detached hold rw permit. Topologies: single sentinel cluster quorum.
TEXT
    exit 0
    ;;
esac
case " $* " in
  *" --seeds"* | *" --minutes"*) ;;
  *) set -- --seeds 20000 "$@" ;;
esac

[ -f build/release/build.ninja ] || cmake --preset release -DDISTLOCK_TESTS=ON >/dev/null
cmake --build --preset release --target distlock_sim >/dev/null
exec build/release/bin/distlock_sim "$@"
