#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Redis for the brokers: it keeps each grant on disk (AOF), deletes nothing to make room, and lets in the user distlock
# alone, with the rights of lua/README.md. The password is the file SECRET (/run/secrets/redis_password). Further
# arguments go to redis-server.
set -eu
password=$(cat "${SECRET:-/run/secrets/redis_password}")
rights="+evalsha +script|load +time +get +mget +set +del +exists +type +pexpire +pexpireat +pttl +zadd +zrem
  +zrange +zcard +zrank +zcount +hset +hdel +hget +hgetall +hexists +hlen +hmget +publish +spublish
  +subscribe +ssubscribe +psubscribe +unsubscribe +punsubscribe +ping +scan +config|get +info +role
  +wait +cluster +asking +client|setname"
acl=$(mktemp)
echo 'user default on nopass nocommands +ping' >"$acl"
# A user is one line: the words are split on purpose.
# shellcheck disable=SC2086
printf 'user distlock reset on >%s ~dl:* resetchannels &dl:* -@all %s\n' "$password" "$(echo $rights)" >>"$acl"
exec redis-server --aclfile "$acl" --appendonly yes --appendfsync everysec --save '' --maxmemory-policy noeviction "$@"
