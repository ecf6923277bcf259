#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# From a fresh Debian machine to a held lock: installs what is missing, builds, starts a broker on a private Redis,
# runs a command under a lock, and leaves nothing running.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
  '') ;;
  -h | --help) echo "usage: deploy/quickstart.sh"; exit 0 ;;
  *) printf "quickstart: unknown argument '%s'; it takes none\n" "$1" >&2; exit 64 ;;
esac

say() { printf '\n== %s\n' "$*"; }

deploy/install-deps.sh --build

say "building distlockd and distlockctl"
cmake --preset release -DDISTLOCK_TESTS=OFF -DDISTLOCK_UNITY=ON >/dev/null
cmake --build --preset release --target distlockd distlockctl
bin=$PWD/build/release/bin

dir=$(mktemp -d)
daemon=''
stop() {
  local code=$?
  trap - EXIT
  if [ -n "$daemon" ] && kill -TERM "$daemon" 2>/dev/null; then
    wait "$daemon" 2>/dev/null || true
  fi
  if [ "$code" -ne 0 ] && [ "$code" -lt 128 ] && [ -s "$dir/distlockd.log" ]; then
    printf 'quickstart: failed; the last lines of the daemon were:\n' >&2
    tail -n 20 "$dir/distlockd.log" >&2
  fi
  rm -rf "$dir"
  exit "$code"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

export DISTLOCK_SERVER=unix://$dir/distlock.sock

say "starting a broker with its own Redis"
"$bin/distlockd" --listen "$DISTLOCK_SERVER" --http 127.0.0.1:0 >"$dir/distlockd.log" 2>&1 &
daemon=$!
deadline=$((SECONDS + 30))
until "$bin/distlockctl" status >/dev/null 2>&1; do
  if ! kill -0 "$daemon" 2>/dev/null; then
    echo "quickstart: the broker ended before it was ready" >&2
    exit 1
  fi
  if [ "$SECONDS" -ge "$deadline" ]; then
    echo "quickstart: the broker was not ready within 30 s" >&2
    exit 1
  fi
  sleep 0.1
done
echo "ready at $DISTLOCK_SERVER"

say "distlockctl run demo -- sh -c '...'"
# The child expands the variables, not this script.
# shellcheck disable=SC2016
"$bin/distlockctl" run demo -- sh -c '
  echo "in the command: I hold \"$DISTLOCK_KEY\", fencing token $DISTLOCK_TOKEN"
  echo "distlockctl show demo, meanwhile:"
  "$1" show demo' sh "$bin/distlockctl"

say "stopping the broker"
kill -TERM "$daemon"
wait "$daemon"
daemon=''
echo "it gave everything back and ended with 0"

cat <<'TEXT'

Try next, with a broker of your own on the default socket (as root, or give --listen and DISTLOCK_SERVER):
  build/release/bin/distlockd &
  build/release/bin/distlockctl run backup --max-hold 1h -- rsync -a /srv/ /backup/
  build/release/bin/distlockctl run nightly -n -- ./report.sh    one try: exit code 1 when another holds it
  build/release/bin/distlockctl run crawl -w 60 -- ./crawl       waits in the queue, at most a minute
  build/release/bin/distlockctl ls
  build/release/bin/distlockd --help
TEXT
