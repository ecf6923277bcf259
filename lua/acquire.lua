-- SPDX-License-Identifier: Apache-2.0
-- KEYS holder, last token, queue, waiters
-- ARGV owner_id, ttl_ms, delay_ms, not_after_us (0: never late), wait (0 one try, 1 queue), broker_id, slot_ms, info,
--      token_keep_ms, trusted (1: PUBLISH counts every subscriber), max_waiters
-- {GRANTED, time, token, since_us}                                      also when the owner has it already
-- {QUEUED, time, position, pttl_ms, holder_value, queue_length}
-- {HELD, time, pttl_ms, holder_value, queue_length}                     one try
-- {QUEUE_FULL, time, queue_length}   {LATE, time}   {FOREIGN, time, key, type or "shape"}
local owner, not_after, wait, broker, slot_ms = ARGV[1], tonumber(ARGV[4]), ARGV[5] == '1', ARGV[6], ARGV[7]
local keep, trusted, max_waiters = ARGV[9], ARGV[10] == '1', tonumber(ARGV[11])
local me = {owner = owner, terms = ARGV[2] .. ';' .. ARGV[3] .. ';' .. ARGV[8], px = tonumber(ARGV[2]) + tonumber(ARGV[3])}

if not_after > 0 and now >= not_after then return {LATE, NOW} end
local value, stored = unpack(redis.call('MGET', HOLDER, TOKEN))
if value then
  local holder = parse_holder(value)
  if not holder then return foreign(HOLDER, 'shape') end
  if holder.owner == owner then
    redis.call('PEXPIRE', HOLDER, str(me.px))
    return {GRANTED, NOW, holder.token, holder.since}
  end
end
local last, bad = last_token(stored)
local length, entries
if not bad then length, bad = try('ZCARD', QUEUE) end
if bad then return bad end
if not value and length == 0 then
  local token = str(math.max(last + 1, now))
  local mine = '1;' .. owner .. ';' .. token .. ';' .. NOW .. ';' .. me.terms
  -- MGET shows a foreign type as missing; NX refuses it without writing.
  if not redis.call('SET', HOLDER, mine, 'PX', str(me.px), 'NX') then return foreign(HOLDER) end
  redis.call('SET', TOKEN, token, 'PX', keep)
  return {GRANTED, NOW, token, NOW}
end
entries, bad = try('HLEN', WAITERS)
if not bad and not value then bad = select(2, read_holder()) end
if bad then return bad end
if not value then
  local winner = hand_off({last = last, keep = keep, trusted = trusted, broker = broker, caller = me})
  if winner and winner.owner == owner then return {GRANTED, NOW, winner.token, NOW} end
  value, length = winner and winner.value or '', redis.call('ZCARD', QUEUE)
end
local pttl = redis.call('PTTL', HOLDER)
if not wait then return {HELD, NOW, pttl, value, length} end

local place, dead = redis.call('ZRANK', QUEUE, owner), {}
if not place then
  if length >= max_waiters then dead = walk({[broker] = true}, nil, function() return true end) end
  if length - #dead >= max_waiters then return {QUEUE_FULL, NOW, length} end
  local tail = redis.call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')
  redis.call('ZADD', QUEUE, str(tonumber(tail[2] or '0') + 1), owner)
  if length == 0 and entries > 0 then redis.call('DEL', WAITERS) end -- left behind by a queue that was deleted
  place, length = length - #dead, length - #dead + 1
end
redis.call('HSET', WAITERS, owner, broker .. ';' .. me.terms)
redis.call('SET', slot_key(broker), '1', 'PX', slot_ms)
remove(dead)
redis.call('PEXPIRE', QUEUE, slot_ms)
redis.call('PEXPIRE', WAITERS, slot_ms)
return {QUEUED, NOW, place, pttl, value, length}
