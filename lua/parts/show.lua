-- SPDX-License-Identifier: Apache-2.0
-- Definitions: holders as callers are shown them, behind holders.lua.
local MOST_SHOWN = 128

-- One of many holders in the shape of an EXCLUSIVE holder's value.
local function value_of(slot)
  local owner = string.sub(slot.owner, 1, #BLOCKED) == BLOCKED and NOBODY or slot.owner
  return table.concat({'1', owner, slot.token, slot.since, slot.ttl, slot.delay, slot.info}, ';')
end

-- Appends left_ms and value of at most 16 holders to `reply`. Shows none of more than 128: all slots would have to be
-- read for it.
local function show(h, left, reply)
  if h.kind == 'x' then
    reply[#reply + 1], reply[#reply + 2] = left, h.value
  elseif h.kind and redis.call('HLEN', HOLDER) <= MOST_SHOWN + 1 then
    for i, slot in ipairs(read_slots(h)) do
      if i > 16 then break end
      reply[#reply + 1], reply[#reply + 2] = math.ceil((slot.expiry - now) / 1000), value_of(slot)
    end
  end
  return reply
end
