#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The image's HEALTHCHECK: 0 while the broker is alive, else 1. The state of its store does not matter: a restart would
# end locks that survive an outage of the store. Asks /healthz at DISTLOCK_HTTP, or, for a broker without HTTP, gRPC at
# DISTLOCK_SERVER. Ends within 5 s.
set -uo pipefail

healthz() {
  local host=${1%:*} port=${1##*:} status
  host=${host#[} host=${host%]}
  case "$host" in '' | 0.0.0.0 | ::) host=localhost ;; esac
  exec 3<>"/dev/tcp/$host/$port" || return 1
  printf 'GET /healthz HTTP/1.0\r\n\r\n' >&3
  read -r -t 2 status <&3 && [[ $status == *' 200 '* ]]
}

http=${DISTLOCK_HTTP-127.0.0.1:9420}
if [ -n "$http" ] && healthz "$http" 2>/dev/null; then exit 0; fi
# This also fails while the store is down, but then stdout names the state of the store.
[ -n "$(distlockctl status --connect-timeout 2s 2>/dev/null)" ] || exit 1
