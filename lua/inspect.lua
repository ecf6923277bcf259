-- SPDX-License-Identifier: Apache-2.0
-- KEYS holder, last token, queue, waiters (only read)
-- ARGV max_waiters
-- {INSPECTED, time, pttl_ms (-2: free), holder_value or "", last_token or "0", queue_length, then for each of the first
--      max_waiters: owner_id, waiter_value or ""}   {FOREIGN, time, key, type or "shape"}
local holder, last, length, _
local bad
holder, bad = read_holder()
if not bad then last, bad = last_token() end
if not bad then length, bad = try('ZCARD', QUEUE) end
if not bad then _, bad = try('HLEN', WAITERS) end
if bad then return bad end
local reply = {INSPECTED, NOW, redis.call('PTTL', HOLDER), holder and holder.value or '', str(last), length}
local wanted = math.min(tonumber(ARGV[1]), length)
for rank = 0, wanted - 1, CHUNK do
  local ids = redis.call('ZRANGE', QUEUE, rank, math.min(rank + CHUNK, wanted) - 1)
  local entries = redis.call('HMGET', WAITERS, unpack(ids))
  for i, id in ipairs(ids) do
    reply[#reply + 1] = id
    reply[#reply + 1] = entries[i] or ''
  end
end
return reply
