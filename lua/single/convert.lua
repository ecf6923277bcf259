-- SPDX-License-Identifier: Apache-2.0
-- KEYS holder, last token, queue, waiters
-- ARGV owner_id, token (0: any), token_keep_ms, trusted, broker_id (the caller's), more (appended to its info)
-- {CONVERTED, time, "" or "look", next holders as of release}   it had it EXCLUSIVE and has it SHARED, with the same token and end;
--      also when it has it SHARED already
-- {MISMATCH, time, kind, limit}   it has it in another mode   {NOT_HOLDER, time}   {GONE, time}   {FOREIGN, time, key, type or "shape"}
-- include parts/head.lua
-- include parts/prelude.lua
-- include parts/queue.lua
local value, watchers = unpack(redis.call('MGET', HOLDER, WATCHERS))
local h, bad = read_holders(value, ARGV[1])
if bad then return bad end
if not h.kind then return {GONE, NOW} end
if not h.mine or not is_held_by(h.mine, ARGV[1], ARGV[2]) then return {NOT_HOLDER, NOW} end
if h.kind == 's' then return {CONVERTED, NOW, ''} end
if h.kind ~= 'x' then return {MISMATCH, NOW, h.kind, h.limit} end

local px = redis.call('PTTL', HOLDER)
if px < 0 then px = math.min(tonumber(h.ttl) + tonumber(h.delay), MAX_PX) end
px = math.max(px, 1)
local slot = {token = h.token, since = h.since, ttl = h.ttl, delay = h.delay, permits = 1,
  info = string.match(value, '^1;%x+;%d+;%d+;%d+;%d+;(.*)$') .. ARGV[6]}
h.many, h.kind, h.limit, h.used, h.soonest = true, 's', 0, 1, now + px * 1000
-- One key cannot be both shapes. DEL is never refused by maxmemory, and after it the next write is not either.
redis.call('DEL', HOLDER)
redis.call('HSET', HOLDER, 'holders', header(h), ARGV[1], slot_value(slot, h.soonest))
redis.call('PEXPIRE', HOLDER, str(px))
tell(watchers)
local grants, look = pass_on(h, {keep = ARGV[3], trusted = ARGV[4] == '1', broker = ARGV[5], quiet = true}, tonumber(h.token))
return list({CONVERTED, NOW, look and 'look' or ''}, grants)
