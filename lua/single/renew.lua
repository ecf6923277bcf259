-- SPDX-License-Identifier: Apache-2.0
-- Renews holds of many locks.
-- KEYS holder keys of up to 100 locks, one slot
-- ARGV ttl_ms, and for each key in turn one of
--      "1;owner_id;token;": how the value of an EXCLUSIVE holder begins; renewed for ttl_ms
--      "owner_id;token;ttl_ms;-": for a ttl of its own
--      "owner_id;token;ttl_ms;until_us": of a caller; cut at until_us (0: not), and at the max_hold in its holder's
--      info, but it ends no sooner than without this renewal: that has been promised
--      Token 0: any
-- {RENEWED, time, results}   a digit for each key: 1 renewed, 0 gone, 2 another's, under another token, or foreign; 3
--      the same grant, which another owner has taken over (adopt). Of a single key that max_hold bounds, one element
--      more: what is left of that, in ms.
--      A key that is gone is not made again. A key, or one slot of many, lives for its ttl, and then for its holder's
--      delay.
-- include parts/head.lua
local call, find = redis.call, string.find
local values, results, done = call('MGET', unpack(KEYS)), {}, 0

-- The fast path: an EXCLUSIVE holder without a delay, renewed for the common ttl. In the value an instant of 16 digits
-- follows the grant. PEXPIREAT is not rewritten for replicas, as PEXPIRE is.
local at = string.format('%.0f', math.floor(now / 1000) + tonumber(ARGV[1]))
for i = 1, #KEYS do
  local value, grant = values[i], ARGV[i + 1]
  if value and find(value, grant, 1, true) == 1 and find(value, '^;%d+;0;', #grant + 17) then
    results[i], done = call('PEXPIREAT', KEYS[i], at) == 1 and '1' or '0', done + 1
  else
    results[i] = false
  end
end
if done == #KEYS then return {RENEWED, NOW, table.concat(results)} end
-- include parts/values.lua

-- For how long a hold may be renewed now.
local hold_left
local function px_of(ttl, hold_until, since, info)
  local px = tonumber(ttl)
  if hold_until == '-' then return px end
  local _, hold = bounds_of(info)
  if hold then
    local left = math.floor((tonumber(since) - now) / 1000) + tonumber(hold)
    px, hold_left = math.min(px, left), #KEYS == 1 and math.max(left, 0) or nil
  end
  if hold_until ~= '0' then px = math.min(px, math.floor((tonumber(hold_until) - now) / 1000)) end
  return px
end

-- One of many holders: only its own slot.
local function renew_slot(key, owner, token, ttl, hold_until)
  local got = redis.pcall('HGET', key, owner)
  local slot = type(got) == 'string' and parse_slot(owner, got)
  if not slot or not is_held_by(slot, owner, token) then
    local slots = redis.pcall('HGETALL', key)
    for i = 1, #slots, 2 do
      local other = string.match(slots[i], '^%x+$') and slots[i] ~= owner and parse_slot(slots[i], slots[i + 1])
      if other and other.token == token then return 3 end
    end
    return redis.call('EXISTS', key) == 1 and 2 or 0
  end
  local px = px_of(ttl, hold_until, slot.since, slot.info)
  if px <= 0 then return 0 end
  px = px + tonumber(slot.delay)
  -- First the write that maxmemory never refuses.
  redis.call('PEXPIRE', key, str(math.max(px, redis.call('PTTL', key))))
  redis.call('HSET', key, owner, slot_value(slot, math.max(now + px * 1000, slot.expiry)))
  return 1
end

local function renew_holder(key, holder, owner, token, ttl, hold_until)
  if not holder then return 2 end
  if not is_held_by(holder, owner, token) then
    local is_moved = holder.token == token and holder.owner ~= owner and string.find(holder.owner, '[^0]')
    return is_moved and 3 or 2
  end
  local px = px_of(ttl, hold_until, holder.since, info_of(holder))
  -- Past its end: what is left of its delay is not cut short.
  if px <= 0 then return 0 end
  local life = px + tonumber(holder.delay)
  if hold_until ~= '-' then life = math.max(life, redis.call('PTTL', key)) end
  return redis.call('PEXPIRE', key, str(life))
end

local function renew(key, value, grant)
  local ttl, hold_until = ARGV[1], '-'
  local owner, token = string.match(grant, '^1;(%x+);(%d+);$')
  if not owner then owner, token, ttl, hold_until = string.match(grant, '^(%x+);(%d+);(%d+);([%d-]+)$') end
  if not value then return renew_slot(key, owner, token, ttl, hold_until) end
  return renew_holder(key, parse_holder(value), owner, token, ttl, hold_until)
end

for i, key in ipairs(KEYS) do
  results[i] = results[i] or str(renew(key, values[i], ARGV[i + 1]))
end
local reply = {RENEWED, NOW, table.concat(results)}
if hold_left then reply[4] = str(hold_left) end
return reply
