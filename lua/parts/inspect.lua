-- SPDX-License-Identifier: Apache-2.0
-- Definitions: the view of a lock that inspect and watch return, behind holders.lua.
local function inspect(max_waiters, max_holders)
  local value, stored = unpack(redis.call('MGET', HOLDER, TOKEN))
  local h, bad = read_holders(value, '')
  local last, length, _
  if not bad then last, bad = last_token(stored) end
  if not bad then length, bad = try('ZCARD', QUEUE) end
  if not bad then _, bad = try('HLEN', WAITERS) end
  if bad then return bad end
  local slots, block = {}, nil
  for _, slot in ipairs(h.many and read_slots(h) or {}) do
    if string.sub(slot.owner, 1, #BLOCKED) ~= BLOCKED then
      slots[#slots + 1] = slot
    elseif not block or slot.expiry > block.expiry then
      block = slot
    end
  end
  local holders = h.kind == 'x' and (h.owner == NOBODY and 0 or 1) or #slots
  if block then table.insert(slots, 1, block) end
  local reply = {INSPECTED, NOW, str(last), length, holders, 0}
  if h.kind == 'x' then
    reply[6], reply[7], reply[8] = 1, redis.call('PTTL', HOLDER), value
  else
    reply[6] = math.min(#slots, max_holders)
    for i = 1, reply[6] do
      reply[#reply + 1], reply[#reply + 2] = math.ceil((slots[i].expiry - now) / 1000), value_of(slots[i])
    end
  end
  local wanted = math.min(max_waiters, length)
  for rank = 0, wanted - 1, CHUNK do
    local ids = redis.call('ZRANGE', QUEUE, rank, math.min(rank + CHUNK, wanted) - 1)
    local entries = redis.call('HMGET', WAITERS, unpack(ids))
    for i, id in ipairs(ids) do
      reply[#reply + 1] = id
      reply[#reply + 1] = entries[i] or ''
    end
  end
  return reply
end
