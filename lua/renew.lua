-- SPDX-License-Identifier: Apache-2.0
-- KEYS holder keys of up to 100 locks, one slot
-- ARGV owner_id, token (0: any), ttl_ms, hold_until_us (end by max_hold; 0: none) for each key in turn
-- {RENEWED, time, r...}   r of each key: 1 renewed, 0 gone, 2 another's, under another token, or foreign. A key that is gone is not made again.
-- A key, or one slot of many, lives for its ttl, cut at hold_until, and then for its holder's delay.
local values, reply = redis.call('MGET', unpack(KEYS)), {RENEWED, NOW}

-- What max_hold ends may end sooner than whoever watches has been shown: it is to look again.
local function tell_of_cut(key)
  local watchers = redis.pcall('GET', string.sub(key, 1, -2) .. 'v')
  if type(watchers) == 'string' then tell(watchers, key) end
end

-- One of many holders: only its own slot, whose expiry may come before all others only by max_hold.
local function renew_slot(key, owner, token, ttl, hold_until)
  local got = redis.pcall('HMGET', key, 'holders', owner)
  local slot = not got.err and parse_slot(owner, got[2])
  if not slot or not is_held_by(slot, owner, token) then return redis.call('EXISTS', key) == 1 and 2 or 0 end
  local px = tonumber(ttl)
  if hold_until ~= '0' then px = math.min(px, math.floor((tonumber(hold_until) - now) / 1000)) end
  if px <= 0 then return 0 end
  px = px + tonumber(slot.delay)
  -- First what maxmemory never refuses.
  redis.call('PEXPIRE', key, str(math.max(px, redis.call('PTTL', key))))
  local expiry, head, soonest = now + px * 1000, string.match(got[1] or '', '^(.*;)(%d+)$')
  redis.call('HSET', key, owner, slot_value(slot, expiry))
  if head and expiry < tonumber(soonest) then redis.call('HSET', key, 'holders', head .. str(expiry)) end
  if px < tonumber(ttl) + tonumber(slot.delay) then tell_of_cut(key) end
  return 1
end

local function renew_holder(key, holder, owner, token, ttl, hold_until)
  if not holder or not is_held_by(holder, owner, token) then return 2 end
  local px = tonumber(ttl)
  if hold_until ~= '0' then px = math.min(px, math.floor((tonumber(hold_until) - now) / 1000)) end
  -- Past its end: what is left of its delay is not cut short.
  if px <= 0 then return 0 end
  local renewed = redis.call('PEXPIRE', key, str(px + tonumber(holder.delay)))
  if px < tonumber(ttl) then tell_of_cut(key) end
  return renewed
end

for i, key in ipairs(KEYS) do
  local owner, token, ttl, hold_until = unpack(ARGV, 4 * i - 3, 4 * i)
  local value = values[i]
  -- What is usual is told without taking the value apart.
  local mine = '1;' .. owner .. ';' .. token .. ';'
  if value and hold_until == '0' and string.sub(value, 1, #mine) == mine and string.find(value, '^%d+;%d+;0;', #mine + 1) then
    reply[i + 2] = redis.call('PEXPIRE', key, ttl)
  else
    reply[i + 2] = value and renew_holder(key, parse_holder(value), owner, token, ttl, hold_until) or renew_slot(key, owner, token, ttl, hold_until)
  end
end
return reply
