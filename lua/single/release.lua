-- SPDX-License-Identifier: Apache-2.0
-- Ends a hold.
-- KEYS holder, last token, queue, waiters
-- ARGV owner_id, token (0: any), block_ms (nobody gets the owner's share for so long; 0: for what is left of the
--      min_hold of an EXCLUSIVE holder; -: free at once), token_keep_ms, trusted, broker_id (the caller's),
--      fair_after_us, hold_off (see parts/hold_off.lua), and the tag of the broker's channel if that is a shard's
-- {RELEASED, time, "blocked", ms}   nobody gets it for so long
-- {RELEASED, time, "" or "look" (the caller's broker is to tend), then owner_id, token, since_us, ttl_ms and delay_ms
--      of each next holder that waits at the caller's broker}   other brokers learn of their grants from their channel
-- {NOT_HOLDER, time}   also when the owner has it under another token
-- {NOT_HOLDER, time, "blocked", ms}   a release of that token has left the lock blocked
-- {GONE, time}   {FOREIGN, time, key, type or "shape"}
-- include parts/head.lua
local owner, token, block_ms, keep, trusted, broker, fair_after, hold_off, channel = unpack(ARGV)
local value, stored, watchers = unpack(redis.call('MGET', HOLDER, TOKEN, WATCHERS))
local waiting
if block_ms == '0' then
-- include parts/fast_release.lua
end
-- include parts/values.lua
-- include parts/holders.lua
-- include parts/hold_off.lua
-- include parts/queue.lua
-- include parts/hand_off.lua
-- include parts/block.lua
own_tag = channel
local h, bad = read_hold_to_release(value, owner, token)
if bad then return bad end
return release_hold(h, block_ms, h.mine.since, {keep = keep, trusted = trusted == '1', broker = broker, quiet = true,
  waiting = waiting, fair_after = tonumber(fair_after), watchers = watchers})
