-- SPDX-License-Identifier: Apache-2.0
-- Takes a hold over: the same grant, under another owner, for a whole ttl.
-- KEYS holder, last token, queue, waiters
-- ARGV owner_id that has it, token, owner_id that takes it, not_after_us (0: never late), want (see lua/README.md),
--      info, hold_off (see parts/hold_off.lua)
-- {ADOPTED, time, since_us, ttl_ms, delay_ms, max_hold_ms, min_hold_ms (0: none)}   also when an owner_id with the
--      same first half as the new one has it: an earlier try of the same request
-- {HELD, time}   such a try has it, of a later session of the client, or a later one of the same session; nothing was
--      done
-- {MISMATCH, time, kind, limit}   it is held otherwise than `want`
-- {NOT_HOLDER, time}   {GONE, time}   {LATE, time}   also when another server may give it away at its end
-- {FOREIGN, time, key, type or "shape"}
-- include parts/head.lua
-- include parts/values.lua
-- include parts/holders.lua
local from, token, owner, not_after, want, info, hold_off = unpack(ARGV)
if not_after ~= '0' and now >= tonumber(not_after) then return {LATE, NOW} end
-- include parts/hold_off.lua
local value, watchers = unpack(redis.call('MGET', HOLDER, WATCHERS))
local h, bad = read_holders(value, from)
if bad then return bad end
if not h.kind then return {GONE, NOW} end

local function may_take(holder)
  return holder.token == token and (holder.owner == from or string.sub(holder.owner, 1, 16) == string.sub(owner, 1, 16))
end
-- Whether a try of the same request came after `owner`. Those of one session share another four digits behind its
-- number, and the last four count them, from anywhere on and around.
local function is_later_try(other)
  if string.sub(other, 1, 28) ~= string.sub(owner, 1, 28) then return is_later(other, owner) end
  local ahead = (tonumber(string.sub(other, 29), 16) - tonumber(string.sub(owner, 29), 16)) % 65536
  return ahead > 0 and ahead < 32768
end
local held
for _, holder in ipairs(h.kind == 'x' and {h} or h.mine and {h.mine} or read_slots(h)) do
  if may_take(holder) then held = holder end
end
if not held then return {NOT_HOLDER, NOW} end
if held.owner ~= from and is_later_try(held.owner) then return {HELD, NOW} end
if ends_elsewhere(h, held) then return {LATE, NOW} end
local as = parse_want(want)
if as.kind ~= h.kind or h.kind == 'p' and (as.limit ~= h.limit or as.permits ~= held.permits) then
  return {MISMATCH, NOW, h.kind, h.limit or 0}
end

-- The bounds of the hold stay.
local min_hold, hold = bounds_of(h.kind == 'x' and info_of(h) or held.info)
info = (min_hold and 'm' .. min_hold .. ';' or '') .. (hold and 'h' .. hold .. ';' or '') .. info

-- The ttl stays: a shorter one would end the hold before the belief of its former owner. First the write that maxmemory
-- never refuses.
local px = tonumber(held.ttl) + tonumber(held.delay)
if h.kind == 'x' then
  redis.call('PEXPIRE', HOLDER, str(px))
  local mine = table.concat({'1', owner, token, held.since, held.ttl, held.delay, info}, ';')
  redis.call('SET', HOLDER, mine, 'PX', str(px))
else
  redis.call('PEXPIRE', HOLDER, str(math.max(px, redis.call('PTTL', HOLDER))))
  redis.call('HDEL', HOLDER, held.owner)
  held.info = info
  h.soonest, h.stale = math.min(h.soonest, now + px * 1000), true
  redis.call('HSET', HOLDER, owner, slot_value(held, now + px * 1000))
  write_header(h)
end
tell(watchers)
return {ADOPTED, NOW, held.since, held.ttl, held.delay, hold or '0', min_hold or '0'}
