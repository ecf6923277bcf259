-- SPDX-License-Identifier: Apache-2.0
-- Turns an EXCLUSIVE hold into a SHARED one, with the same token and end.
-- KEYS holder, last token, queue, waiters
-- ARGV owner_id, token (0: any), token_keep_ms, trusted, broker_id (the caller's), more (appended to its info),
--      elsewhere (1: another broker has its stream), hold_off and least (as of tend), and the tag of the broker's
--      channel if that is a shard's
-- {DOWNGRADED, time, "" or "look", next holders as of release}   also when it has the lock SHARED already
-- {MISMATCH, time, kind, limit}   it has it in another mode
-- {HELD, time}   it is held, and its stream elsewhere; nothing was done
-- {NOT_HOLDER, time}   {GONE, time}   {FOREIGN, time, key, type or "shape"}
-- include parts/head.lua
-- include parts/values.lua
-- include parts/holders.lua
-- include parts/queue.lua
-- include parts/hand_off.lua
local owner, token, keep, trusted, broker, more, elsewhere, hold_off, least, channel = unpack(ARGV)
own_tag = channel
-- include parts/hold_off.lua
-- include parts/least_token.lua
local value, watchers = unpack(redis.call('MGET', HOLDER, WATCHERS))
local h, bad = read_own_hold(value, owner, token)
if bad then return bad end
if elsewhere == '1' then return {HELD, NOW} end
if h.kind == 's' then return {DOWNGRADED, NOW, ''} end
if h.kind ~= 'x' then return {MISMATCH, NOW, h.kind, h.limit} end

local px = redis.call('PTTL', HOLDER)
if px < 0 then px = math.min(tonumber(h.ttl) + tonumber(h.delay), MAX_PX) end
px = math.max(px, 1)
local slot = {token = h.token, since = h.since, ttl = h.ttl, delay = h.delay, permits = 1,
  info = info_of(h) .. more}
h.many, h.kind, h.limit, h.used, h.soonest = true, 's', 0, 1, now + px * 1000
-- include parts/slot_stays.lua
-- One key cannot be both shapes. DEL is never refused by maxmemory, and after it the next write is not either.
redis.call('DEL', HOLDER)
redis.call('HSET', HOLDER, 'holders', header(h), owner, slot_value(slot, h.soonest))
redis.call('PEXPIRE', HOLDER, str(px))
tell(watchers)
local grants, tend_again =
  pass_on(h, {keep = keep, trusted = trusted == '1', broker = broker, quiet = true}, tonumber(h.token))
return list({DOWNGRADED, NOW, tend_again and 'look' or ''}, grants)
