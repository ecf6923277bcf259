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

-- Another try of the same request may have a place: this one takes it over, unless it had one of its own before, or the
-- other is the later one. When the other try holds the lock, this one waits in front of all others: the other's broker
-- gives it back. Behind a later one that holds it, it does not wait at all.
local request, holds = wait ~= '0' and request_of(owner), false
local other = request and length > 0 and redis.call('HGET', WAITERS, request)
local rank = other and other ~= owner and redis.call('ZRANK', QUEUE, other)
if rank and (wait == '2' or is_later(other, owner)) then return show(h, left_ms(h), {HELD, NOW, left_ms(h), length}) end
if rank then
  redis.call('ZADD', QUEUE, redis.call('ZRANGE', QUEUE, rank, rank, 'WITHSCORES')[2], owner)
  redis.call('HSET', WAITERS, owner, redis.call('HGET', WAITERS, other) or '', request, owner)
  redis.call('ZREM', QUEUE, other)
  redis.call('HDEL', WAITERS, other)
elseif request and wait == '1' and h.kind and (length > 0 or h.kind == 'x') then
  for _, hold in ipairs(h.kind == 'x' and {h} or h.used <= MOST_SHOWN and read_slots(h) or {}) do
    local same = request_of(hold.owner) == request
    if same and is_later(hold.owner, owner) then return show(h, left_ms(h), {HELD, NOW, left_ms(h), length}) end
    holds = holds or same
  end
end

-- A request of which no try has a place has none itself.
local place = length > 0 and (other or not request) and redis.call('ZRANK', QUEUE, owner)
local is_preferred = preferred == '1'
local function count_in_front()
  return is_preferred and length > 0 and redis.call('ZCOUNT', QUEUE, '-inf', '(0') or length
end
local in_front = count_in_front()
if not place then me.ahead = holds and 0 or in_front end
if fits(h, me) then
  if length == 0 then
    local token = str(math.max(last + 1, least_token))
    grant(h, me, token, keep, watchers)
    return {GRANTED, NOW, token, NOW}
  end
  if not place and me.adaptive then
    local first = redis.call('ZRANGE', QUEUE, 0, 0)[1]
    local who = parse_waiter(first, redis.call('HGET', WAITERS, first))
    if who and who.adaptive and not turned_fair(who, tonumber(fair_after)) then me.ahead = 0 end
  end
  local o = {last = last, keep = keep, trusted = trusted == '1', broker = broker, me = me}
  hand_off(h, o)
  last = o.last
  if o.changed then tell(watchers) end
  if me.token then return {GRANTED, NOW, me.token, NOW} end
  length, place = redis.call('ZCARD', QUEUE), place and redis.call('ZRANK', QUEUE, owner)
  in_front = count_in_front()
end
local left = left_ms(h)
if wait == '0' then
  -- Holders whom it could join are not what keeps it out.
  if now < held_off_until and has_room(h, me) then return {HELD, NOW, left, length} end
  return show(h, left, {HELD, NOW, left, length})
end

local dead, since, limit, entry = {}, NOW, tonumber(max_waiters), nil
if place then
  entry = redis.call('HGET', WAITERS, owner)
  local before = parse_waiter(owner, entry)
  if before then since = str(before.since) end
else
  if length >= limit then dead = walk({[broker] = 'alive'}, nil, function() return true end) end
  if length - #dead >= limit then return {QUEUE_FULL, NOW, length} end
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
local new_entry = table.concat({broker, ttl, delay, want, since, info}, ';')
redis.call('HSET', WAITERS, owner, new_entry, unpack(request and {request, owner} or {}))
redis.call('SET', slot_key(broker), channel or '1', 'PX', slot_ms)
remove(dead)
redis.call('PEXPIRE', QUEUE, slot_ms)
redis.call('PEXPIRE', WAITERS, slot_ms)
if new_entry ~= entry then tell(watchers) end -- a repeat may change nothing
return show(h, left, {QUEUED, NOW, place, left, length, str(last)})
