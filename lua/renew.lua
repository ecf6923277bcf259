-- SPDX-License-Identifier: Apache-2.0
-- KEYS holder keys of up to 100 locks, one slot
-- ARGV owner_id, token (0: any), ttl_ms, hold_until_us (end by max_hold; 0: none) for each key in turn
-- {RENEWED, time, r...}   r of each key: 1 renewed, 0 gone, 2 another's, under another token, or foreign. A key that is gone is not made again.
-- A key lives for its ttl, cut at hold_until, and then for its holder's delay.
local values, reply = redis.call('MGET', unpack(KEYS)), {RENEWED, NOW}
for i, key in ipairs(KEYS) do
  local owner, token, ttl, hold_until = unpack(ARGV, 4 * i - 3, 4 * i)
  local holder = values[i] and parse_holder(values[i])
  if holder and is_held_by(holder, owner, token) then
    local px = tonumber(ttl)
    if hold_until ~= '0' then px = math.min(px, math.floor((tonumber(hold_until) - now) / 1000)) end
    -- Past its end: what is left of its delay is not cut short.
    reply[i + 2] = px > 0 and redis.call('PEXPIRE', key, str(px + tonumber(holder.delay))) or 0
  elseif values[i] or redis.call('EXISTS', key) == 1 then
    reply[i + 2] = 2
  else
    reply[i + 2] = 0
  end
end
return reply
