#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts each bug of the museum into a copy of this tree, and runs simulated worlds until one of them shows the bug.
set -uo pipefail

usage() {
  cat <<'TEXT'
usage: tests/sim/museum.sh [--seeds N] [--seed S] [--sample K] [--check] [BUG...]

Puts each bug of tests/sim/museum, or the named ones (a number, a name, or the path of a patch), into a copy of this
tree, builds it, and runs worlds until one has a violation. Fails when a bug is not caught, when one does not apply or
build, when the row that changes nothing is caught, or when the median of the seeds needed is over 1000.

  --seeds N   the number of worlds to try for a bug (default 20000)
  --seed S    the first world, and the choice of the sample (default 1; with --sample a random one)
  --sample K  only K bugs, drawn by the seed, and the row that changes nothing
  --check     only check that each bug still applies; builds nothing
TEXT
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
museum=$root/tests/sim/museum
readonly CHUNK=500 HANG_SECONDS=10 WORLDS_A_SECOND=20 MEDIAN_MAX=1000 STORY_WIDTH=110

die() { printf 'museum.sh: %s\n' "$*" >&2; exit 64; }
mutate() { /usr/bin/python3 -B "$museum/mutate.py" "$@"; }
changes_nothing() { [[ ${1##*/} = 00-* ]]; }

seeds=20000 seed='' sample='' check='' wanted=()
while [ $# -gt 0 ]; do
  case "$1" in
    --seeds | --seed | --sample)
      [[ ${2:-} =~ ^[0-9]+$ ]] || die "$1 needs a number; see --help"
      printf -v "${1#--}" %s "$2"
      shift
      ;;
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
seed=${seed:-1}

work=$(mktemp -d "${TMPDIR:-/tmp}/distlock-museum.XXXXXX")
trap 'rm -rf "$work"' EXIT
# The same paths from build to sources as the tree's own release build, so that ccache knows what that has compiled.
tree=$work/tree build=$work/tree/build/release sim=$build/bin/distlock_sim sound_tree=$work/sound_tree
mkdir -p "$tree/tests"
cp -R "$root"/{CMakeLists.txt,deploy,proto,lua,server,client} "$tree"
cp -R "$root/tests/CMakeLists.txt" "$root/tests/sim" "$tree/tests"
# The tree may change while this runs.
cp -R "$tree" "$sound_tree"

# A bug may well leave something unused.
cat >"$work/launch" <<'TEXT'
#!/usr/bin/env bash
cache=$(command -v ccache)
$cache "$@" 2>/dev/null || exec "$@" -Wno-error
TEXT
chmod +x "$work/launch"

build() {
  CCACHE_BASEDIR=$tree nice cmake --build "$build" --target distlock_sim --parallel "$(nproc)" >"$work/build.log" 2>&1
}

started=$SECONDS
printf 'museum of %d bugs, seed %s: building ...\n' "${#bugs[@]}" "$seed"
{ cmake -S "$tree" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DDISTLOCK_TESTS=ON \
  -DCMAKE_C_COMPILER_LAUNCHER="$work/launch" -DCMAKE_CXX_COMPILER_LAUNCHER="$work/launch" >"$work/build.log" 2>&1 &&
  build && cp "$sim" "$work/sound"; } ||
  { tail -n 30 "$work/build.log"; printf 'museum.sh: the tree itself does not build\n' >&2; exit 1; }
printf 'built in %d s\n' $((SECONDS - started))

# Runs worlds and prints the first with a violation: "SEED STORY". Prints nothing when there is none.
run_worlds() {
  local binary=$1 first=$2 count=$3 text status
  # The limit is processor time, because worlds are slow on a busy machine without hanging.
  text=$(ulimit -S -t $((HANG_SECONDS + count / WORLDS_A_SECOND))
    exec nice "$binary" --seeds "$count" --seed "$first" --quiet 2>&1)
  status=$?
  [ $status -ne 0 ] || return 0
  if [ $status -eq 1 ] && [[ $text =~ VIOLATION\ seed\ ([0-9]+)\ [^:]*:[^:]*\):\ ([^$'\n']*) ]]; then
    printf '%s %s\n' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
  elif [ "$count" -gt 1 ]; then
    # It crashed or hung, and did not name the seed.
    local half=$((count / 2)) found
    found=$(run_worlds "$binary" "$first" "$half")
    printf '%s\n' "${found:-$(run_worlds "$binary" $((first + half)) $((count - half)))}"
  elif [ $status -eq $((128 + $(kill -l XCPU))) ]; then
    printf '%s the world does not come to an end\n' "$first"
  else
    printf '%s crash (status %d): %s\n' "$first" $status "${text%%$'\n'*}"
  fi
}

# Sets `needed` and `story`, or empties `story`. A world that goes wrong without the bug is no catch.
search() {
  local first=$1 strict=$2 at=$1 end=$(($1 + seeds)) count found
  story='' needed=$seeds
  while [ "$at" -lt "$end" ]; do
    count=$((end - at < CHUNK ? end - at : CHUNK))
    found=$(run_worlds "$sim" "$at" "$count")
    if [ -z "$found" ]; then
      at=$((at + count))
      continue
    fi
    at=${found%% *}
    if [ -z "$strict" ] && [ -n "$(run_worlds "$work/sound" "$at" 1)" ]; then
      printf '        seed %s goes wrong without the bug too\n' "$at"
      at=$((at + 1))
      continue
    fi
    story=${found#* } needed=$((at - first + 1))
    return
  done
}

caught=() tried=0 faults=0
fault() { printf '%-26s %s  (%s)\n' "$1" "$2" "$3"; faults=$((faults + 1)); }

visit() {
  local one=$1 name number touched
  name=$(basename "$one" .patch) number=${name%%[!0-9]*}
  changes_nothing "$one" || tried=$((tried + 1))
  touched=$(mutate --tree "$tree" apply "$one") || { fault 'DOES NOT APPLY' "$name" 'see above'; return; }
  if build; then
    search $((seed * 1000000 + 10#${number:-999} * 20011)) "$(changes_nothing "$one" && echo strict)"
    if changes_nothing "$one"; then
      if [ -z "$story" ]; then
        printf 'not caught in %-9d seeds  %s\n' "$needed" "$name"
      else
        fault "CAUGHT after $needed seeds" "$name" "${story:0:STORY_WIDTH}"
      fi
    elif [ -n "$story" ]; then
      printf 'caught  after %-6d seeds  %s  (%s)\n' "$needed" "$name" "${story:0:STORY_WIDTH}"
      caught+=("$needed")
    else
      fault "MISSED  in $needed seeds" "$name" 'no world shows it'
    fi
  else
    grep -m1 'error' "$work/build.log"
    fault 'DOES NOT BUILD' "$name" 'see above'
  fi
  # Copies the sound files, because their new times make the build compile them again.
  while read -r file; do cp "$sound_tree/$file" "$tree/$file"; done <<<"$touched"
}

for one in "${bugs[@]}"; do visit "$one"; done
median=0
[ "${#caught[@]}" -eq 0 ] || median=$(printf '%s\n' "${caught[@]}" | sort -n | sed -n "$(((${#caught[@]} + 1) / 2))p")
printf 'caught %d of %d, median %d seeds, in %d s\n' "${#caught[@]}" "$tried" "$median" $((SECONDS - started))
# The median of a small sample proves nothing.
[ "$faults" -eq 0 ] && { [ -n "$sample" ] || [ "$median" -le "$MEDIAN_MAX" ]; }
