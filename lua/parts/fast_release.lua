-- SPDX-License-Identifier: Apache-2.0
-- Step, the fast paths of a release: nobody watches, and either the caller holds the lock EXCLUSIVE or SHARED and
-- nobody waits, or it holds it EXCLUSIVE and the next waiter wants it EXCLUSIVE, too, and waits at the caller's broker,
-- which needs no notice. A holder with a min_hold may leave a block. Uses owner, token, broker, keep, hold_off, and
-- what MGET said of the lock: value (B:h), stored (B:t), watchers (B:v). Returns the reply. Anything else goes on
-- behind it, with nothing written; `waiting`, which the caller declares, may then be the length of the queue.
local held, info_at
-- include parts/in_time.lua
if not watchers and value and string.sub(value, 1, 35) == '1;' .. owner .. ';' then
  held, info_at = string.match(value, '^(%d+);%d+;%d+;%d+;()', 36)
end
if held and #held <= 16 and (token == '0' or token == held) and string.byte(value, info_at) ~= 109 then
  waiting = redis.pcall('ZCARD', QUEUE)
  if waiting == 0 then
    redis.call('DEL', HOLDER)
    return {RELEASED, NOW, ''}
  elseif type(waiting) ~= 'number' then
    waiting = nil
  elseif in_time and stored and #held == #NOW and held < NOW then
-- include parts/token_check.lua
    local first = now_is_next and redis.call('ZRANGE', QUEUE, 0, 0)[1]
    local entry = first and redis.pcall('HGET', WAITERS, first)
    local at, ttl, delay, info =
      string.match(type(entry) == 'string' and entry or '', '^(%x+);(%d+);(%d+);x;%d+;(.*)$')
    local px = at == broker and tonumber(ttl) + tonumber(delay) or 0
    if px > 0 and px <= MAX_PX then
      -- DEL is never refused by maxmemory, and after it the writes that follow are not either.
      redis.call('DEL', HOLDER)
      redis.call('SET', HOLDER, '1;' .. first .. ';' .. NOW .. ';' .. NOW .. ';' .. ttl .. ';' .. delay .. ';' .. info,
        'PX', string.format('%.0f', px))
      redis.call('SET', TOKEN, NOW, 'PX', keep)
-- include parts/leave_queue.lua
      return {RELEASED, NOW, '', first, NOW, NOW, ttl, delay}
    end
  end
-- The caller is one of several readers, none of whom may have expired, and nobody waits.
elseif not watchers and not value then
  waiting = redis.pcall('ZCARD', QUEUE)
  if type(waiting) ~= 'number' then waiting = nil end
  local got = waiting == 0 and redis.pcall('HMGET', HOLDER, 'holders', owner) or {}
  local used, soonest = string.match(got[1] or '', '^s;0;(%d+);(%d+)$')
  local expiry, granted = string.match(got[2] or '', '^(%d+);(%d+);%d+;%d+;%d+;1;')
  if used and expiry and now < tonumber(soonest) and now < tonumber(expiry) and (token == '0' or token == granted) then
    if tonumber(used) <= 1 then
      redis.call('DEL', HOLDER)
    else
      redis.call('HDEL', HOLDER, owner)
      redis.call('HSET', HOLDER, 'holders', 's;0;' .. tonumber(used) - 1 .. ';' .. soonest)
    end
    return {RELEASED, NOW, ''}
  end
end
