-- SPDX-License-Identifier: Apache-2.0
-- Takes several locks, all or none.
-- KEYS of each lock: holder, last token, queue, waiters
-- ARGV not_after_us (0: never late), token_keep_ms, hold_off (see parts/hold_off.lua),
--      then of each lock: owner_id, ttl_ms, delay_ms, want (see lua/README.md), info
-- {GRANTED, time, then token and since_us of each}   {LATE, time}
-- {HELD, time, number of the first lock that is not free, from 1}   nothing was done: that lock is held (even by its
--      owner), waited for, or has a foreign key. The first one, too, while there is a hold-off
-- include parts/head.lua
-- include parts/values.lua
-- include parts/holders.lua
local not_after, keep, hold_off, all = tonumber(ARGV[1]), ARGV[2], ARGV[3], {}
if not_after > 0 and now >= not_after then return {LATE, NOW} end
-- include parts/hold_off.lua
if now < held_off_until then return {HELD, NOW, 1} end

for i = 1, #KEYS / 4 do
  HOLDER, TOKEN, QUEUE, WAITERS = unpack(KEYS, 4 * i - 3, 4 * i)
  local owner, ttl, delay, want, info = unpack(ARGV, 5 * i - 1, 5 * i + 3)
  local free = redis.call('EXISTS', HOLDER) == 0 and try('ZCARD', QUEUE) == 0
  local stored, watchers = unpack(free and redis.call('MGET', TOKEN, string.sub(HOLDER, 1, -2) .. 'v') or {})
  local last = free and last_token(stored)
  if not last then return {HELD, NOW, i} end
  local who = parse_want(want)
  who.owner, who.ttl, who.delay, who.info, who.px = owner, ttl, delay, info, tonumber(ttl) + tonumber(delay)
  all[i] = {who = who, token = str(math.max(last + 1, now)), watchers = watchers}
end
local reply = {GRANTED, NOW}
for i, one in ipairs(all) do
  HOLDER, TOKEN = KEYS[4 * i - 3], KEYS[4 * i - 2]
  grant({}, one.who, one.token, keep, one.watchers)
  reply[#reply + 1], reply[#reply + 2] = one.token, NOW
end
return reply
