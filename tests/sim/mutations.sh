#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts each bug of the mutation tests into a copy of this tree, and runs simulations until one of them shows the bug.
set -uo pipefail

usage() {
  cat <<'TEXT'
usage: tests/sim/mutations.sh [--seeds N] [--seed S] [--sample K | --for COMMIT [--most K]] [--keep-seeds] [--build DIR]
                           [--check] [BUG...]

Puts each bug of tests/sim/mutations, or the named ones (a number, a name, or the path of a patch), into a copy of this
tree, compiles what depends on it, and runs simulations until one has a violation. Fails when a bug is not caught, when
one does not apply or build, when the row that changes nothing is caught, or when the median of the seeds needed is over
1000.

  --seeds N   the number of simulations to try for a bug (default 20000)
  --seed S    the first simulation, and the choice of the sample (default 1; with --sample a random one)
  --sample K  only K bugs, drawn by the seed, and the row that changes nothing
  --for COMMIT  only --most K bugs (default 12) whose row names a seed: those in a folder that the commit touches, then
              others by its hash. That seed runs first, and 20000 others only if it does not show the bug any more. When
              too few rows name a seed, or git does not know the commit, 09 11 12 make up for them
  --keep-seeds  write the seed that has caught a bug into its row
  --build DIR a build of this tree by Ninja, for all that a bug does not change (default build/release)
  --check     only check that each bug still applies; builds nothing
TEXT
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
mutations=$root/tests/sim/mutations
readonly USUAL_SEEDS=20000 SAMPLE='09 11 12'
readonly CHUNK=100 HANG_SECONDS=10 WORLDS_A_SECOND=5 MEDIAN_MAX=1000 STORY_WIDTH=110

die() { printf 'mutations.sh: %s\n' "$*" >&2; exit 64; }
mutate() { /usr/bin/python3 -B "$mutations/mutate.py" "$@"; }
changes_nothing() { [[ ${1##*/} = 00-* ]]; }

seeds=$USUAL_SEEDS seed='' sample='' for='' most=12 keep='' check='''' build=$root/build/release wanted=()
while [ $# -gt 0 ]; do
  case "$1" in
    --seeds | --seed | --sample | --most)
      [[ ${2:-} =~ ^[0-9]+$ ]] || die "$1 needs a number; see --help"
      printf -v "${1#--}" %s "$2"
      shift
      ;;
    --build)
      [ -f "${2:-}/build.ninja" ] || die "--build needs the folder of a build by Ninja; see --help"
      build=$(cd "$2" && pwd)
      shift
      ;;
    --for)
      [ -n "${2:-}" ] || die "--for needs a commit; see --help"
      for=$2
      shift
      ;;
    --keep-seeds) keep=yes ;;
    --check) check=yes ;;
    -h | --help) usage; exit 0 ;;
    -*) die "unknown option '$1'; see --help" ;;
    *) wanted+=("$1") ;;
  esac
  shift
done

if [ -n "$check" ]; then mutate check "${wanted[@]}"; exit; fi
listing=$(mutate list "${wanted[@]}") || exit 64
mapfile -t bugs <<<"$listing"

if [ -n "$sample" ]; then
  seed=${seed:-$RANDOM}
  mapfile -t drawn < <(for one in "${bugs[@]}"; do
    changes_nothing "$one" || printf '%s %s\n' "$(printf '%s %s' "$seed" "$one" | cksum | cut -d' ' -f1)" "$one"
  done | sort -n | head -n "$sample" | cut -d' ' -f2- | sort -n)
  listing=$(mutate list 00 "${drawn[@]}") && mapfile -t bugs <<<"$listing"
fi
if [ -n "$for" ]; then
  [ -z "$sample" ] && [ "${#wanted[@]}" -eq 0 ] || die "--for chooses by itself: no --sample and no BUG beside it"
  picked='' commit=$(git -C "$root" rev-parse --verify --quiet "$for^{commit}" 2>/dev/null || true)
  if [ -n "$commit" ]; then
    mapfile -t touched < <(git -C "$root" show -m --first-parent --name-only --format= "$commit")
    picked=$(mutate --commit "$commit" --most "$most" pick "${touched[@]}") || exit 64
  fi
  # The names are words, and numbers of rows are, too: splitting is meant.
  # shellcheck disable=SC2046,SC2086
  listing=$(mutate list $picked $SAMPLE | awk '!seen[$0]++' | head -n "$most")
  mapfile -t bugs <<<"$listing"
fi
seed=${seed:-1}

# The program that shows such a bug.
program_of() {
  case "$1" in
    ballot*) echo sim_quorum_test ;;
    'unit PendingReleases'* | 'unit Force'*) echo core_test ;;
    unit*) echo store_pure_test ;;
    *) echo distlock_sim ;;
  esac
}

programs=(distlock_sim)
for one in "${bugs[@]}"; do
  simulations=$(mutate simulations "$one") || exit 64
  programs+=("$(program_of "$simulations")")
done
started=$SECONDS
printf '%d bugs, seed %s: building ...\n' "${#bugs[@]}" "$seed"
log=$(mktemp)
{ { [ -f "$build/build.ninja" ] || (cd "$root" && cmake --preset release -DDISTLOCK_TESTS=ON -DDISTLOCK_UNITY=ON); } &&
  nice cmake --build "$build" --target "${programs[@]}" --parallel "$(nproc)"; } >"$log" 2>&1 ||
  { tail -n 30 "$log"; printf 'mutations.sh: the tree itself does not build\n' >&2; exit 1; }
rm "$log"
printf 'built in %d s\n' $((SECONDS - started))

# A place that no other run uses. It has the same path in the next run, so that ccache knows what was compiled there.
for ((slot = 1; ; ++slot)); do
  work=$build/mutations/$slot
  mkdir -p "$work"
  exec 9>"$work.lock"
  ! flock -n 9 || break
done
trap 'rm -rf "$work"' EXIT
rm -rf "${work:?}"/*
tree=$work/tree sound_tree=$work/sound_tree
mkdir -p "$tree/tests" "$work/sound"
cp -R "$root"/{deploy,lua,proto,server,client} "$tree"
cp -R "$root"/tests/{core,sim,store} "$tree/tests"
cp -R "$tree" "$sound_tree"
for program in "${programs[@]}"; do cp "$build/bin/$program" "$work/sound"; done

# Whether the row is shown by a test program; and the test without seeds that is meant, if one is.
is_test() { [ "$program" != distlock_sim ]; }
named_test() { [[ $simulations != 'ballot '* && $simulations != 'unit '* ]] || printf '%s' "${simulations#* }"; }

# Builds $program with the files named as they are in $tree.
build() {
  nice /usr/bin/python3 -B "$mutations/rebuild.py" --build "$build" --copy "$tree" --work "$work/built" "bin/$program" \
    "$@" >"$work/build.log" 2>&1
}

simulations_of() {
  local binary=$1 first=$2 count=$3 filter
  filter=$(named_test)
  if is_test; then
    DISTLOCK_QUORUM_SEEDS=$first:$count exec nice "$binary" --gtest_filter="${filter:-QuorumSimulations.*}"
  else
    # Its options are words: splitting is meant.
    # shellcheck disable=SC2086
    exec nice "$binary" $simulations --seeds "$count" --seed "$first" --quiet
  fi
}

# Runs simulations and prints the first with a violation: "SEED STORY". Prints nothing when there is none.
run_simulations() {
  local binary=$1 first=$2 count=$3 text status
  # The limit is processor time, because simulations are slow on a busy machine without hanging.
  text=$(ulimit -S -t $((HANG_SECONDS + count / WORLDS_A_SECOND)); simulations_of "$@" 2>&1)
  status=$?
  [ $status -ne 0 ] || return 0
  if [ $status -eq 1 ] && [[ $text =~ VIOLATION\ seed\ ([0-9]+)\ [^:]*:[^:]*\):\ ([^$'\n']*) ]]; then
    printf '%s %s\n' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
  elif is_test && [ $status -eq 1 ] && [[ $text =~ seed\ ([0-9]+):\ ([^$'\n']*) ]]; then
    printf '%s %s\n' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
  elif is_test && [ $status -eq 1 ] && [[ $text =~ FAILED[^A-Za-z]*([^$'\n']*) ]]; then
    printf '%s %s\n' "$first" "${BASH_REMATCH[1]}"
  elif [ "$count" -gt 1 ]; then
    # It crashed or hung, and did not name the seed.
    local half=$((count / 2)) found
    found=$(run_simulations "$binary" "$first" "$half")
    printf '%s\n' "${found:-$(run_simulations "$binary" $((first + half)) $((count - half)))}"
  elif [ $status -eq $((128 + $(kill -l XCPU))) ]; then
    printf '%s the simulation does not come to an end\n' "$first"
  else
    printf '%s crash (status %d): %s\n' "$first" $status "${text%%$'\n'*}"
  fi
}

# Sets `needed` and `story`, or empties `story`. A simulation that goes wrong without the bug is no catch.
search() {
  local first=$1 strict=$2 at=$1 end=$(($1 + $3)) count found
  [ -z "$(named_test)" ] || end=$(($1 + 1))
  story='' needed=$((end - at))
  while [ "$at" -lt "$end" ]; do
    count=$((end - at < CHUNK ? end - at : CHUNK))
    found=$(run_simulations "$work/built/$program" "$at" "$count")
    if [ -z "$found" ]; then
      at=$((at + count))
      continue
    fi
    at=${found%% *}
    if [ -z "$strict" ] && [ -n "$(run_simulations "$work/sound/$program" "$at" 1)" ]; then
      printf '        seed %s goes wrong without the bug too\n' "$at"
      at=$((at + 1))
      continue
    fi
    story=${found#* } needed=$((at - first + 1)) caught_by=$at
    return
  done
}

caught=() tried=0 faults=0
fault() { printf '%-26s %s  (%s)\n' "$1" "$2" "$3"; faults=$((faults + 1)); }

judge() {
  local one=$1 name=$2
  if changes_nothing "$one" && [ -z "$story" ]; then
    printf 'not caught in %-9d seeds  %s\n' "$needed" "$name"
  elif changes_nothing "$one"; then
    fault "CAUGHT after $needed seeds" "$name" "${story:0:STORY_WIDTH}"
  elif [ -n "$story" ]; then
    printf 'caught  after %-6d seeds  %s  (%s)\n' "$needed" "$name" "${story:0:STORY_WIDTH}"
    caught+=("$needed")
    [ -z "$keep" ] || [ -n "$(named_test)" ] || mutate --keep "$caught_by" seed "$one"
  else
    fault "MISSED  in $needed seeds" "$name" 'no simulation shows it'
  fi
}

# With --for, the seed that the row names comes first.
show() {
  local one=$1 first=$2 count=$seeds known=''
  [ -z "$for" ] || known=$(mutate seed "$one")
  if [ -n "$known" ]; then
    search "$known" '' 1
    [ -z "$story" ] || return
    printf '        seed %s does not show %s any more\n' "$known" "$one"
    count=$((seeds > USUAL_SEEDS ? seeds : USUAL_SEEDS))
  fi
  search "$first" "$(changes_nothing "$one" && echo strict)" "$count"
}

visit() {
  local one=$1 name number touched files simulations
  name=$(basename "$one" .patch) number=${name%%[!0-9]*}
  changes_nothing "$one" || tried=$((tried + 1))
  simulations=$(mutate simulations "$one") || return
  program=$(program_of "$simulations")
  touched=$(mutate --tree "$tree" apply "$one") || { fault 'DOES NOT APPLY' "$name" 'see above'; return; }
  mapfile -t files <<<"$touched"
  if ! build "${files[@]}"; then
    grep -m1 'error' "$work/build.log"
    fault 'DOES NOT BUILD' "$name" 'see above'
  elif ! cmp -s "$build/bin/$program" "$work/sound/$program"; then
    printf 'mutations.sh: %s was built anew meanwhile; start again\n' "$build" >&2
    exit 1
  else
    show "$one" $((seed * 1000000 + 10#${number:-999} * 20011))
    judge "$one" "$name"
  fi
  for file in "${files[@]}"; do cp "$sound_tree/$file" "$tree/$file"; done
}

for one in "${bugs[@]}"; do visit "$one"; done
median=0
[ "${#caught[@]}" -eq 0 ] || median=$(printf '%s\n' "${caught[@]}" | sort -n | sed -n "$(((${#caught[@]} + 1) / 2))p")
printf 'caught %d of %d, median %d seeds, in %d s\n' "${#caught[@]}" "$tried" "$median" $((SECONDS - started))
# The median of a small sample proves nothing.
[ "$faults" -eq 0 ] && { [ -n "$sample$for" ] || [ "$median" -le "$MEDIAN_MAX" ]; }
