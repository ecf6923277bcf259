-- SPDX-License-Identifier: Apache-2.0
-- A cover ends: each reader that has the lock at this broker gets a slot and a whole ttl, whether the server knew of it
-- or not. The lock is SHARED like any other from then on.
-- KEYS holder, last token, queue, waiters
-- ARGV owner_id that has it, token, ttl_ms, the last token that the broker has given, token_keep_ms, trusted, broker_id
--      (the caller's), hold_off (see parts/hold_off.lua), the tag of the broker's channel if that is a shard's, or "",
--      then of each reader, in the order of tokens: owner_id, token, info ("": that of the hold)
-- {NOTED, time, queue_length, "" or "look", next holders as of release}   also when it has been done
-- {NOT_HOLDER, time}   that owner does not have it under that token as a cover; nothing was done
-- include parts/head.lua
-- include parts/values.lua
-- include parts/holders.lua
-- include parts/queue.lua
-- include parts/hand_off.lua
local from, token, ttl, given, keep, trusted, broker, hold_off, channel = unpack(ARGV, 1, 9)
own_tag = channel ~= '' and channel or nil
-- include parts/hold_off.lua
local value, stored, watchers = unpack(redis.call('MGET', HOLDER, TOKEN, WATCHERS))
local waiting = redis.pcall('ZCARD', QUEUE)
if type(waiting) ~= 'number' then waiting = 0 end
-- It has been done when any of them is there: some may have been ended by others since.
if not value then
  for i = 10, #ARGV, 3 do
    local slot = redis.pcall('HGET', HOLDER, ARGV[i])
    if type(slot) == 'string' and string.match(slot, '^%d+;(%d+);') == ARGV[i + 1] then
      return {NOTED, NOW, waiting, ''}
    end
  end
  return {NOT_HOLDER, NOW}
end
local h = parse_holder(value)
if not h or not is_held_by(h, from, token) or not is_readers(value) then return {NOT_HOLDER, NOW} end

h.mine = h
lift_hold_off(h)
local expiry, slots = now + tonumber(ttl) * 1000, {'holders', ''}
for i = 10, #ARGV, 3 do
  local since = str(math.min(tonumber(ARGV[i + 1]), now))
  local info = ARGV[i + 2] ~= '' and ARGV[i + 2] or info_of(h)
  local slot = {token = ARGV[i + 1], since = since, ttl = ttl, delay = '0', permits = 1, info = info}
  slots[#slots + 1], slots[#slots + 2] = ARGV[i], slot_value(slot, expiry)
end
h.many, h.kind, h.limit, h.used, h.soonest = true, 's', 0, #slots / 2 - 1, expiry
slots[2] = header(h)
-- include parts/slot_stays.lua
-- One key cannot be both shapes. DEL is never refused by maxmemory, and after it the next write is not either.
redis.call('DEL', HOLDER)
redis.call('HSET', HOLDER, unpack(slots))
redis.call('PEXPIRE', HOLDER, ttl)
-- It never falls: waiters have been told it, and take a grant under a token that is not greater for an old one.
local last = last_token(stored, tonumber(given))
if last then redis.call('SET', TOKEN, str(last), 'PX', keep) end
tell(watchers)
local grants, tend_again =
  pass_on(h, {keep = keep, trusted = trusted == '1', broker = broker, quiet = true}, tonumber(given))
return list({NOTED, NOW, waiting, tend_again and 'look' or ''}, grants)
