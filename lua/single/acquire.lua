-- SPDX-License-Identifier: Apache-2.0
-- Takes a lock, or a place in its queue.
-- KEYS holder, last token, queue, waiters
-- ARGV owner_id, ttl_ms, delay_ms, not_after_us (0: never late), wait (0 one try, 1 queue, 2 queue again: another try
--      of the same request keeps its place), broker_id, slot_ms, info, token_keep_ms, trusted (1: PUBLISH counts every
--      subscriber), max_waiters, want (see lua/README.md), preferred (1: its place is before all that are not),
--      fair_after_us, hold_off (see parts/hold_off.lua), and the tag of the broker's channel if that is a shard's
-- {GRANTED, time, token, since_us}   also when the owner has it already
-- {QUEUED, time, position, left_ms, queue_length, last token, then left_ms and value of at most 16 holders}
-- {HELD, time, left_ms, queue_length, holders as above}   one try; or, with wait 2, another try has the request's place
-- {QUEUE_FULL, time, queue_length}   {LATE, time}   {MISMATCH, time, kind of the holders, their limit}
-- {FOREIGN, time, key, type or "shape"}
-- include parts/head.lua
local owner, ttl, delay, not_after, wait, broker, slot_ms, info, keep, trusted, max_waiters, want, preferred,
  fair_after, hold_off, channel = unpack(ARGV)
if not_after ~= '0' and now >= tonumber(not_after) then return {LATE, NOW} end
local value, stored, watchers = unpack(redis.call('MGET', HOLDER, TOKEN, WATCHERS))
-- include parts/fast_acquire.lua
-- include parts/values.lua
-- include parts/holders.lua
-- include parts/hold_off.lua
-- include parts/show.lua
-- include parts/queue.lua
-- include parts/hand_off.lua
-- include parts/acquire.lua
