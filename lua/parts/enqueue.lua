-- SPDX-License-Identifier: Apache-2.0
-- Step of an acquire that has a place: writes its entry, and keeps the queue alive. Uses acquire's arguments, request,
-- and what queue_room sets.
local new_entry = table.concat({broker, ttl, delay, want, since, info}, ';')
redis.call('HSET', WAITERS, owner, new_entry, unpack(request and {request, owner} or {}))
redis.call('SET', slot_key(broker), own_tag or '1', 'PX', slot_ms)
remove(dead)
redis.call('PEXPIRE', QUEUE, slot_ms)
redis.call('PEXPIRE', WAITERS, slot_ms)
if new_entry ~= entry then tell(watchers) end -- a repeat may change nothing
