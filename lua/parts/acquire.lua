-- SPDX-License-Identifier: Apache-2.0
-- Step: what an acquire does behind its fast paths. Uses acquire's arguments, what MGET said of the lock (value,
-- stored, watchers), what fast_acquire sets, and the definitions of values, holders, show, queue and hand_off. Returns
-- the reply.
if granted then
  tell(watchers)
  return {GRANTED, NOW, NOW, NOW}
end
own_tag = channel
local h, bad = read_holders(value, owner)
if bad then return bad end
local px = tonumber(ttl) + tonumber(delay)
if h.mine and ends_elsewhere(h, h.mine) then
  local length, bad_queue = try('ZCARD', QUEUE)
  return bad_queue or {HELD, NOW, left_ms(h), length}
end
if h.mine and h.kind == 'x' and string.byte(want) == 120 then
  redis.call('PEXPIRE', HOLDER, str(math.max(px, redis.call('PTTL', HOLDER))))
  return {GRANTED, NOW, h.mine.token, h.mine.since}
end
local last, length, entries = nil, waiting, nil
last, bad = last_token(stored)
if not bad and not length then length, bad = try('ZCARD', QUEUE) end
if not bad then entries, bad = try('HLEN', WAITERS) end
if bad then return bad end
local me = parse_want(want)
me.owner, me.ttl, me.delay, me.info, me.px = owner, ttl, delay, info, px
if h.mine and h.many and h.kind == me.kind then
  redis.call('HSET', HOLDER, owner, slot_value(h.mine, math.max(now + px * 1000, h.mine.expiry)))
  redis.call('PEXPIRE', HOLDER, str(math.max(px, redis.call('PTTL', HOLDER))))
  return {GRANTED, NOW, h.mine.token, h.mine.since}
end
drop_expired(h)
-- EXCLUSIVE and SHARED stand beside each other as readers and writers do; a PERMIT only beside the same limit. A
-- request that does not mix waits until the holders are gone; then its own kind and limit count.
local mixes = not h.kind or (me.kind == 'p') == (h.kind == 'p') and (h.kind ~= 'p' or me.limit == h.limit)
if h.mine or not mixes and wait == '0' then
  return {MISMATCH, NOW, h.kind, h.limit or 0}
end

local function held()
  local left = left_ms(h)
  return show(h, left, {HELD, NOW, left, length})
end
local function score_after(theirs) return theirs end
-- include parts/other_try.lua

-- A request of which no try has a place has none itself.
local had_place = length > 0 and (other or not request) and redis.call('ZRANK', QUEUE, owner)
local is_preferred = preferred == '1'
local function count_in_front()
  return is_preferred and length > 0 and redis.call('ZCOUNT', QUEUE, '-inf', '(0') or length
end
local in_front = count_in_front()
if not had_place then me.ahead = holds and 0 or in_front end
-- include parts/grant_or_hand_off.lua
local left = left_ms(h)
if wait == '0' then
  -- Holders whom it could join are not what keeps it out.
  if now < held_off_until and has_room(h, me) then return {HELD, NOW, left, length} end
  return show(h, left, {HELD, NOW, left, length})
end

-- include parts/queue_room.lua
local place = had_place
if not had_place then
  local base, at = is_preferred and -FIRST_PLACE or 0, is_preferred and in_front - 1 or -1
  local tail = is_preferred and in_front == 0 and {} or redis.call('ZRANGE', QUEUE, at, at, 'WITHSCORES')
  local number = math.max(tonumber(tail[2] or base), base) + 1
  if holds then -- preferred or not, also before a preferred waiter that comes later
    local first = tonumber(redis.call('ZRANGE', QUEUE, 0, 0, 'WITHSCORES')[2] or number)
    number, in_front = math.min(number, first - 1), 0
  end
  redis.call('ZADD', QUEUE, str(number), owner)
  if length == 0 and entries > 0 then redis.call('DEL', WAITERS) end -- left behind by a queue that was deleted
  place, length = math.max(in_front - #dead, 0), length - #dead + 1
end
-- include parts/enqueue.lua
return show(h, left, {QUEUED, NOW, place, left, length, str(last)})
