-- SPDX-License-Identifier: Apache-2.0
-- Step, the fast paths of an acquire. Uses acquire's arguments and what MGET said of the lock: value (B:h), stored
-- (B:t), watchers (B:v). Returns the reply. Anything else goes on behind it, with nothing written, but for a grant of a
-- watched lock, which sets `granted`; `waiting` may then be the length of the queue.
local granted, refusal, waiting
-- include parts/in_time.lua
-- include parts/token_check.lua
-- Fast path: EXCLUSIVE, no holder, empty queue.
if in_time and not value and string.byte(want) == 120 and now_is_next and redis.pcall('ZCARD', QUEUE) == 0 then
  local mine = '1;' .. owner .. ';' .. NOW .. ';' .. NOW .. ';' .. ttl .. ';' .. delay .. ';' .. info
  local px = delay == '0' and ttl or string.format('%.0f', tonumber(ttl) + tonumber(delay))
-- include parts/fast_grant.lua
  if refusal then return refusal end
  if granted then
    granted = true
    if not watchers then return {GRANTED, NOW, NOW, NOW} end
  end
end
-- Fast path: SHARED, empty queue, and nobody, or readers none of whom may have expired; the caller is none of them.
if not granted and in_time and not value and string.byte(want) == 115 and stored and now_is_next then
  waiting = redis.pcall('ZCARD', QUEUE)
  if type(waiting) ~= 'number' then waiting = nil end
  local got = waiting == 0 and redis.pcall('HMGET', HOLDER, 'holders', owner) or {}
  local used, soonest = string.match(got[1] or '', '^s;0;(%d+);(%d+)$')
  local is_free = got[1] == false and redis.call('EXISTS', HOLDER) == 0
  if is_free or used and not got[2] and now < tonumber(soonest) then
    local px = tonumber(ttl) + tonumber(delay)
    local expiry = string.format('%.0f', now + px * 1000)
    -- Times of the same number of digits stand in the order of their texts.
    local first = is_free and expiry or #soonest == #expiry and soonest < expiry and soonest or expiry
    redis.call('HSET', HOLDER, 'holders', 's;0;' .. (used or 0) + 1 .. ';' .. first, owner,
      expiry .. ';' .. NOW .. ';' .. NOW .. ';' .. ttl .. ';' .. delay .. ';1;' .. info)
    if is_free or redis.call('PTTL', HOLDER) < px then
      redis.call('PEXPIRE', HOLDER, string.format('%.0f', px))
    end
    redis.call('SET', TOKEN, NOW, 'PX', keep)
    granted = true
    if not watchers then return {GRANTED, NOW, NOW, NOW} end
  end
-- Fast path: one EXCLUSIVE holder, and a new EXCLUSIVE waiter that goes to the end of the queue.
elseif value and not watchers and wait == '1' and want == 'x' and preferred == '0' and stored and now_is_next then
  local holder, token = string.match(value, '^1;(%x+);(%d+);%d+;%d+;%d+;')
  local length, entries = redis.pcall('ZCARD', QUEUE), redis.pcall('HLEN', WAITERS)
  local request = string.sub(owner, 1, 2) == TRY and string.sub(owner, 1, 16)
  if holder and #holder == 32 and #token <= 16 and holder ~= owner and
    type(length) == 'number' and length < tonumber(max_waiters) and type(entries) == 'number' and
      (length > 0 or entries == 0) and
    not (request and (string.sub(holder, 1, 16) == request or
      entries > 0 and redis.call('HEXISTS', WAITERS, request) == 1)) then
    local tail = length > 0 and redis.call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')[2] or '0'
    if redis.call('ZADD', QUEUE, 'NX', string.format('%.0f', math.max(tonumber(tail), 0) + 1), owner) == 1 then
-- include parts/write_entry.lua
      redis.call('SET', string.sub(HOLDER, 1, -2) .. 'b:' .. broker, channel or '1', 'PX', slot_ms)
      redis.call('PEXPIRE', QUEUE, slot_ms)
      redis.call('PEXPIRE', WAITERS, slot_ms)
      local left = redis.call('PTTL', HOLDER)
      return {QUEUED, NOW, length, left, length + 1, stored, left, value}
    end
  end
end
