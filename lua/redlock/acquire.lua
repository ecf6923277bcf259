-- SPDX-License-Identifier: Apache-2.0
-- One server's vote: the lock, or a place in its queue, which is the same at all servers.
-- KEYS holder, last token, queue, waiters
-- ARGV owner_id, ttl_ms, delay_ms, not_after_us (0: never late), wait, broker_id, slot_ms, info, token_keep_ms,
--      trusted, max_waiters, want, fair_after_us: as acquire of one server has them; place (negative: preferred),
--      least (see parts/least_token.lua), first and last mark (of what the candidate has asked for, see
--      parts/mark.lua), token that q servers have shown for another candidate of the owner ("0": none)
-- {GRANTED, time, token, since_us}   also when the owner has it already, by this candidate, or by one that is over, or
--      under that token; then, if max_hold bounds it, one element more: what is left of that, in ms
-- {GRANTED, time, token, since_us, "found"}   another candidate of the owner has it; nothing was done
-- {QUEUED, time, position, left_ms, queue_length, last token, place (before the given one if another try of the request
--      had that), place of the last waiter of its kind that was there before ("0": none), kind of the holders or "",
--      then left_ms and value of at most 16 holders}
-- {HELD, time, left_ms, queue_length, kind of the holders or "", holders as above}   as of acquire
-- {QUEUE_FULL, time, queue_length}   {LATE, time}   {MISMATCH, time, kind of the holders, their limit}
-- {FOREIGN, time, key, type or "shape"}
-- include parts/head.lua
local owner, ttl, delay, not_after, wait, broker, slot_ms, info, keep, trusted, max_waiters, want, fair_after, place,
  least, first_mark, last_mark, found = unpack(ARGV)
if not_after ~= '0' and now >= tonumber(not_after) then return {LATE, NOW} end
local value, stored, watchers = unpack(redis.call('MGET', HOLDER, TOKEN, WATCHERS))
-- Fast path: EXCLUSIVE, no holder, empty queue, nobody watches. MGET shows SHARED holders and foreign types as missing,
-- and NX finds them; then, and when the server refuses, nothing is written, and the rest finds out why.
if not value and not watchers and string.byte(want) == 120 and
  (not stored or #stored == #least and stored < least and not string.find(stored, '%D')) and
  redis.pcall('ZCARD', QUEUE) == 0 then
  local px = delay == '0' and ttl or string.format('%.0f', tonumber(ttl) + tonumber(delay))
  local mine = '1;' .. owner .. ';' .. least .. ';' .. NOW .. ';' .. ttl .. ';' .. delay .. ';' .. info
  local set = redis.pcall('SET', HOLDER, mine, 'PX', px, 'NX')
  if set and set.ok then
    set = redis.pcall('SET', TOKEN, least, 'PX', keep, unpack(stored and {} or {'NX'}))
    if set and set.ok then return {GRANTED, NOW, least, NOW} end
    redis.call('DEL', HOLDER)
  end
-- Fast path: one EXCLUSIVE holder, and a new EXCLUSIVE waiter whose place is the last.
elseif value and not watchers and wait == '1' and want == 'x' and stored and string.byte(place) ~= 45 then
  local holder, token = string.match(value, '^1;(%x+);(%d+);%d+;%d+;%d+;')
  local length, entries = redis.pcall('ZCARD', QUEUE), redis.pcall('HLEN', WAITERS)
  local request = string.sub(owner, 1, 2) == TRY and string.sub(owner, 1, 16)
  if holder and #holder == 32 and #token <= 16 and holder ~= owner and string.find(stored, '^%d+$') and
    tonumber(stored) < MAX_TOKEN and type(length) == 'number' and length < tonumber(max_waiters) and
    type(entries) == 'number' and (length > 0 or entries == 0) and
    not (request and (string.sub(holder, 1, 16) == request or
      entries > 0 and redis.call('HEXISTS', WAITERS, request) == 1)) then
    local last = length > 0 and tonumber(redis.call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')[2]) or 0
    if last < tonumber(place) and redis.call('ZADD', QUEUE, 'NX', place, owner) == 1 then
-- include parts/write_entry.lua
      redis.call('SET', string.sub(HOLDER, 1, -2) .. 'b:' .. broker, '1', 'PX', slot_ms)
      redis.call('PEXPIRE', QUEUE, slot_ms)
      redis.call('PEXPIRE', WAITERS, slot_ms)
      local left = redis.call('PTTL', HOLDER)
      return {QUEUED, NOW, length, left, length + 1, stored, place, string.format('%.0f', math.max(last, 0)), 'x', left,
        value}
    end
  end
end
-- include parts/values.lua
-- include parts/mark.lua
-- include parts/holders.lua
-- include parts/least_token.lua
-- include parts/show.lua
-- include parts/queue.lua
-- include parts/hand_off.lua
local h, bad = read_holders(value, owner)
if bad then return bad end
local px = tonumber(ttl) + tonumber(delay)
local me = parse_want(want)
local had
if h.mine and h.kind == me.kind then
  local held_info = h.kind == 'x' and info_of(h) or h.mine.info
  px = math.max(px, life_left(h, h.mine))
  local left = hold_left(h.mine, held_info)
  had = {GRANTED, NOW, h.mine.token, h.mine.since, left and str(math.max(left, 0))}
  if not is_named(held_info, broker, first_mark, last_mark) then
    local takes = found == h.mine.token
    local is_over = string.sub(owner, 1, 2) ~= REPEATABLE and not is_marked_later(held_info, info)
    if not takes and not is_over then return {GRANTED, NOW, h.mine.token, h.mine.since, 'found'} end
    local _, hold = bounds_of(held_info)
    h.mine.info = with_hold_of(takes and string.gsub(info, '%.', '.0', 1) or info, tonumber(hold or 0))
  end
end
if h.mine and h.kind == 'x' and me.kind == 'x' then
  -- First the write that maxmemory never refuses.
  redis.call('PEXPIRE', HOLDER, str(px))
  if h.mine.info then
    local mine = table.concat({'1', owner, h.mine.token, h.mine.since, h.mine.ttl, h.mine.delay, h.mine.info}, ';')
    redis.call('SET', HOLDER, mine, 'PX', str(px))
  end
  return had
end
local last, length, entries
last, bad = last_token(stored)
if not bad then length, bad = try('ZCARD', QUEUE) end
if not bad then entries, bad = try('HLEN', WAITERS) end
if bad then return bad end
me.owner, me.ttl, me.delay, me.info, me.px = owner, ttl, delay, info, px
if h.mine and h.kind == me.kind then
  redis.call('HSET', HOLDER, owner, slot_value(h.mine, now + px * 1000))
  redis.call('PEXPIRE', HOLDER, str(math.max(px, redis.call('PTTL', HOLDER))))
  return had
end
drop_expired(h)
if h.mine then return {MISMATCH, NOW, h.kind, h.limit or 0} end

local function score(rank) return tonumber(redis.call('ZRANGE', QUEUE, rank, rank, 'WITHSCORES')[2]) end
place = tonumber(place)
local function held()
  local left = left_ms(h)
  return show(h, left, {HELD, NOW, left, length, h.kind or ''})
end
local function score_after(theirs)
  place = math.min(place, tonumber(theirs))
  return str(place)
end
-- include parts/other_try.lua
if rank then length = redis.call('ZCARD', QUEUE) end
local had_place = length > 0 and redis.call('ZRANK', QUEUE, owner)
if holds and length > 0 and had_place ~= 0 then place = math.min(place, score(0) - 1) end
if had_place and score(had_place) ~= place then
  -- A repeat through another broker keeps the place; its own broker may move it.
  local waits = parse_waiter(owner, redis.call('HGET', WAITERS, owner))
  if waits and waits.broker == broker and not is_named(waits.info, broker, first_mark, last_mark) and
    is_marked_later(waits.info, info) then
    return held()
  end
  if not waits or waits.broker ~= broker then place = math.min(place, score(had_place) + 1) end
  redis.call('ZADD', QUEUE, str(place), owner)
  had_place = redis.call('ZRANK', QUEUE, owner)
end

local function count_in_front()
  return had_place or length > 0 and redis.call('ZCOUNT', QUEUE, '-inf', str(place)) or 0
end
local in_front = count_in_front()
if not had_place then me.ahead = in_front end
-- include parts/grant_or_hand_off.lua
if wait == '0' then return held() end
local left = left_ms(h)

-- include parts/queue_room.lua
local tail = 0
if not had_place then
  local preferred = length > 0 and redis.call('ZCOUNT', QUEUE, '-inf', '(0') or 0
  if place < 0 and preferred > 0 then
    tail = score(preferred - 1)
  elseif place >= 0 and length > preferred then
    tail = score(length - 1)
  end
  redis.call('ZADD', QUEUE, str(place), owner)
  if length == 0 and entries > 0 then redis.call('DEL', WAITERS) end -- left behind by a queue that was deleted
  in_front, length = math.max(in_front - #dead, 0), length - #dead + 1
end
-- include parts/enqueue.lua
return show(h, left, {QUEUED, NOW, in_front, left, length, str(last), str(place), str(tail), h.kind or ''})
