#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs tests on servers of later Debian releases than this machine's.
set -euo pipefail

usage() {
  cat <<'TEXT'
usage: tests/e2e/later_servers.sh [--only redis|valkey] [--fetch] [PYTEST ARGUMENTS]

Runs tests/e2e (default: those of Cluster and Sentinel) on the redis-server of Debian 13 (Redis 8) and on the
valkey-server of Debian's unstable (Valkey 9). The packages, with the libraries that they need, are fetched and verified
through the Debian archive that this machine uses, and unpacked in ~/.cache/distlock/servers: nothing is installed.

  --only S  only Redis or Valkey
  --fetch   only fetch what is missing, and print the servers' versions
TEXT
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/distlock/servers
say() { printf 'later_servers: %s\n' "$*" >&2; }
die() { printf 'later_servers: %s\n' "$*" >&2; exit 1; }

only='' fetch=''
while [ $# -gt 0 ]; do
  case "$1" in
    --only) only=${2:-}; shift ;;
    --fetch) fetch=yes ;;
    -h | --help) usage; exit 0 ;;
    *) break ;;
  esac
  shift
done
case "$only" in '' | redis | valkey) ;; *) die "--only takes redis or valkey; see --help" ;; esac

suite_of() { case "$1" in redis) echo trixie ;; valkey) echo sid ;; esac; }

# All files that apt reads or writes are in $work.
apt_in_work() {
  local tool=$1
  shift
  "$tool" -q -o Dir::Etc::sourcelist="$work/source.list" -o Dir::Etc::sourceparts=/dev/null \
    -o Dir::State="$work/state" -o Dir::State::status="$work/status" -o Dir::Cache="$work/cache" \
    -o APT::Sandbox::User=root -o APT::Update::Error-Mode=any "$@" 2>>"$work/log"
}

archive() {
  apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' |
    awk '$1 ~ /debian\/?$/ && $3 == "main" {print $1; exit}'
}

# Into $cache/NAME, whole or not at all.
get() {
  local name=$1 uri keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$work/debs" "$work/root"
  : >"$work/status"
  uri=$(archive)
  [ -n "$uri" ] || die "apt knows no Debian archive here"
  printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$uri" "$(suite_of "$name")" >"$work/source.list"
  say "fetching $name-server of $(suite_of "$name") from $uri"
  apt_in_work apt-get update >>"$work/log" ||
    { tail -n 5 "$work/log" >&2; die "the archive has no $(suite_of "$name")"; }
  local packages
  packages=$(apt_in_work apt-cache depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
    --no-replaces --no-enhances "$name-server" | grep -E "^(lib|$name-)[^<]*$" | sort -u)
  # Package names have no spaces: splitting is intended.
  # shellcheck disable=SC2086
  (cd "$work/debs" && apt_in_work apt-get download $packages >>"$work/log") ||
    { tail -n 5 "$work/log" >&2; die "not all packages of $name can be had"; }
  local deb program loader
  for deb in "$work"/debs/*.deb; do dpkg-deb -x "$deb" "$work/root"; done
  loader=$(cd "$work/root" && find . -name 'ld-linux-*.so.*' | head -1)
  mkdir -p "$work/root/run"
  # With the libraries of its own release.
  for program in server cli; do
    cat >"$work/root/run/$name-$program" <<TEXT
#!/bin/sh
root=$cache/$name
exec "\$root/$loader" --library-path "\$(echo "\$root"/usr/lib/*-linux-gnu):\$(echo "\$root"/lib/*-linux-gnu)" \\
  "\$root/usr/bin/$name-$program" "\$@"
TEXT
    chmod +x "$work/root/run/$name-$program"
  done
  mkdir -p "$cache"
  rm -rf "${cache:?}/$name"
  mv "$work/root" "$cache/$name"
}

[ $# -gt 0 ] || set -- test_cluster.py test_cluster_slots.py test_sentinel.py
status=0
for name in redis valkey; do
  [ -z "$only" ] || [ "$only" = "$name" ] || continue
  server=$cache/$name/run/$name-server
  [ -x "$server" ] || (get "$name")
  "$server" --version
  [ -z "$fetch" ] || continue
  cd "$here"
  REDIS_SERVER=$server DISTLOCKD=${DISTLOCKD:-$(realpath ../../build/release/bin/distlockd)} \
    /usr/bin/python3 -B -m pytest -q -p no:cacheprovider "$@" || status=1
done
exit "$status"
