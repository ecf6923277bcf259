#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Goes through the list of what must hold before a release, and writes down what was run and how it ended.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat <<'TEXT'
usage: tests/release.sh [--quick] [--only STAGE]... [--worlds N] [--soak MINUTES] [--museum K] [--rounds N]
                        [--old PROGRAM] [--record FILE] [--logs FOLDER]

Runs each stage of the release list one after the other, goes on after one that fails, and appends a row for each to
the track record. A release needs a full run, with the sizes as they are, without a failure on a clean tree. A day on
two cores.

  --quick         the same list in small: shows that each stage runs, proves nothing about a release
  --only STAGE    only this stage (may be repeated): suite worlds worlds-sentinel worlds-cluster worlds-quorum museum
                  security-museum attacks mixed soak soak-sentinel bench
  --worlds N      of the stage worlds (2000000); a tenth of them for each of the other three topologies
  --soak MINUTES  of the stage soak (480); an eighth of them, at least one, for soak-sentinel
  --museum K      only K bugs of each museum, drawn by chance
  --rounds N      roll-outs of the stage mixed (100)
  --old PROGRAM   distlockd of the release before, for the stage mixed; else the present build plays it
  --record FILE   the track record (tests/track_record.md)
  --logs FOLDER   where the whole output of each stage goes (build/release-list)

Exit: 0 all stages passed, 1 one failed, 64 wrong usage.
TEXT
}

die() { printf 'tests/release.sh: %s\n' "$*" >&2; exit 64; }

readonly STAGES=(suite worlds worlds-sentinel worlds-cluster worlds-quorum museum security-museum attacks mixed soak
  soak-sentinel bench)
quick='' only=() old='' record=tests/track_record.md logs=build/release-list
worlds=2000000 minutes=480 sample='' rounds=100
while [ $# -gt 0 ]; do
  case "$1" in
    --quick) quick=yes ;;
    --only | --old | --record | --logs)
      [ $# -ge 2 ] || die "$1 needs a value; see --help"
      case "$1" in
        --only)
          [[ " ${STAGES[*]} " == *" $2 "* ]] || die "there is no stage '$2'; the stages are ${STAGES[*]}"
          only+=("$2")
          ;;
        --old) old=$(realpath -e "$2") || die "there is no $2" ;;
        --record) record=$2 ;;
        --logs) logs=$2 ;;
      esac
      shift
      ;;
    --worlds | --soak | --museum | --rounds)
      [[ ${2-} =~ ^[1-9][0-9]*$ ]] || die "$1 needs a number of at least 1, not '${2-}'; see --help"
      case "$1" in
        --worlds) worlds=$2 ;;
        --soak) minutes=$2 ;;
        --museum) sample=$2 ;;
        --rounds) rounds=$2 ;;
      esac
      shift
      ;;
    -h | --help) usage; exit 0 ;;
    *) die "unknown option '$1'; see --help" ;;
  esac
  shift
done
fewer=$((worlds > 9 ? worlds / 10 : 1))
[ "${#only[@]}" -gt 0 ] || only=("${STAGES[@]}")

mixed=(/usr/bin/python3 -B -m pytest -q -p no:cacheprovider tests/e2e/test_mixed.py)
# The command of a stage: in full, or with --quick.
command_of() {
  case "$1${quick:+-quick}" in
    suite) echo tests/run.sh --long ;;
    suite-quick) echo tests/run.sh --filter '^core' ;;
    worlds) echo tests/sim/run.sh --quiet --seeds $worlds ;;
    worlds-quick) echo tests/sim/run.sh --quiet --seeds 50 ;;
    worlds-sentinel) echo tests/sim/run.sh --quiet --topology sentinel --seeds $fewer ;;
    worlds-sentinel-quick) echo tests/sim/run.sh --quiet --topology sentinel --seeds 20 ;;
    worlds-cluster) echo tests/sim/run.sh --quiet --topology cluster --seeds $fewer ;;
    worlds-cluster-quick) echo tests/sim/run.sh --quiet --topology cluster --seeds 20 ;;
    worlds-quorum) echo tests/sim/run.sh --quiet --topology quorum --seeds $fewer ;;
    worlds-quorum-quick) echo tests/sim/run.sh --quiet --topology quorum --seeds 20 ;;
    museum) echo tests/sim/museum.sh ${sample:+--sample "$sample"} ;;
    museum-quick) echo tests/sim/museum.sh --check ;;
    security-museum) echo tests/security/museum/museum.py ${sample:+--sample "$sample"} ;;
    security-museum-quick) echo tests/security/museum/museum.py --check ;;
    attacks) echo /usr/bin/python3 -B tests/e2e/attacks.py ;;
    attacks-quick) echo /usr/bin/python3 -B -m pytest -q -p no:cacheprovider tests/e2e/test_attacks.py ;;
    mixed) echo env ${old:+"DISTLOCKD_OLD=$old"} "DISTLOCK_MIXED_ROUNDS=$rounds" "${mixed[@]}" ;;
    mixed-quick) echo ${old:+env "DISTLOCKD_OLD=$old"} "${mixed[@]}" ;;
    soak) echo tests/soak.sh --minutes "$minutes" ;;
    soak-quick) echo tests/soak.sh --minutes 1 ;;
    soak-sentinel) echo tests/soak.sh --sentinel --minutes $((minutes > 8 ? minutes / 8 : 1)) ;;
    soak-sentinel-quick) echo tests/soak.sh --sentinel --minutes 1 ;;
    bench) echo tests/bench/run.sh --peers --rounds 5 --json "$logs/bench.json" ;;
    bench-quick) echo tests/bench/run.sh --quick --json "$logs/bench.json" ;;
  esac
}

# Before the record itself is a change.
version=$(sed -nE 's/^project\(distlock VERSION ([0-9.]+).*/\1/p' CMakeLists.txt)
commit=$(git rev-parse --short HEAD)
[ -z "$(git status --porcelain)" ] || commit+=' changed'
mkdir -p "$logs"
if [ ! -e "$record" ]; then
  cat >"$record" <<'TEXT'
# Track record

What `tests/release.sh` has run, newest last. "changed" behind a commit: the tree had changes that no commit has.

| when (UTC) | version | commit | stage | command | ended | took | last line |
|---|---|---|---|---|---|---:|---|
TEXT
fi

failed=0
for stage in "${only[@]}"; do
  command=$(command_of "$stage")
  printf '== %s: %s\n' "$stage" "$command"
  began=$SECONDS when=$(date -u +%Y-%m-%dT%H:%M)
  # A command and its arguments: splitting is meant.
  # shellcheck disable=SC2086
  $command >"$logs/$stage.log" 2>&1
  code=$?
  took=$((SECONDS - began))
  ended=passed
  [ $code -eq 0 ] || { ended="failed ($code)"; failed=1; }
  last=$(grep -v '^[[:space:]]*$' "$logs/$stage.log" | tail -1 | tr -d '|\r' | cut -c1-160)
  printf '   %s after %s s: %s (%s)\n' "$ended" "$took" "$last" "$logs/$stage.log"
  printf '| %s | %s | %s | %s | `%s` | %s | %s s | %s |\n' \
    "$when" "$version" "$commit" "$stage" "$command" "$ended" "$took" "$last" >>"$record"
done
exit "$failed"
