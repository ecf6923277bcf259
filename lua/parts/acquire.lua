-- SPDX-License-Identifier: Apache-2.0
-- What acquire does; batch runs it, too.
local owner, want, px = ARGV[1], ARGV[12], tonumber(ARGV[2]) + tonumber(ARGV[3])
if ARGV[4] ~= '0' and now >= tonumber(ARGV[4]) then return {LATE, NOW} end
local value, stored, watchers = unpack(redis.call('MGET', HOLDER, TOKEN, WATCHERS))
-- What is usual: EXCLUSIVE, and nobody has it or waits. All else is told apart below.
local granted
local is_usual = not value and string.byte(want) == 120 and
  (not stored or #stored == #NOW and stored < NOW and not string.find(stored, '%D'))
if is_usual and redis.pcall('ZCARD', QUEUE) == 0 then
  local mine = '1;' .. owner .. ';' .. NOW .. ';' .. NOW .. ';' .. ARGV[2] .. ';' .. ARGV[3] .. ';' .. ARGV[8]
  -- MGET shows many holders, and a foreign type, as missing; NX refuses them without writing.
  if redis.call('SET', HOLDER, mine, 'PX', ARGV[3] == '0' and ARGV[2] or string.format('%.0f', px), 'NX') then
    if stored then
      granted = redis.call('SET', TOKEN, NOW, 'PX', ARGV[9])
    else
      granted = redis.call('SET', TOKEN, NOW, 'PX', ARGV[9], 'NX')
    end
    if granted and not watchers then return {GRANTED, NOW, NOW, NOW} end
    if not granted then redis.call('DEL', HOLDER) end
  end
-- Or one EXCLUSIVE holder has it, and somebody who is new here goes to the end of its queue.
elseif value and not watchers and ARGV[5] == '1' and want == 'x' and ARGV[13] == '0' and
  stored and #stored == #NOW and stored <= NOW and not string.find(stored, '%D') then
  local holder, token = string.match(value, '^1;(%x+);(%d+);%d+;%d+;%d+;')
  local length, entries = redis.pcall('ZCARD', QUEUE), redis.pcall('HLEN', WAITERS)
  if holder and #holder == 32 and #token <= 16 and holder ~= owner and type(length) == 'number' and length < tonumber(ARGV[11]) and
    type(entries) == 'number' and (length > 0 or entries == 0) then
    local tail = length > 0 and redis.call('ZRANGE', QUEUE, -1, -1, 'WITHSCORES')[2] or '0'
    if redis.call('ZADD', QUEUE, 'NX', string.format('%.0f', math.max(tonumber(tail), 0) + 1), owner) == 1 then
      redis.call('HSET', WAITERS, owner, table.concat({ARGV[6], ARGV[2], ARGV[3], want, NOW, ARGV[8]}, ';'))
      redis.call('SET', string.sub(HOLDER, 1, -2) .. 'b:' .. ARGV[6], '1', 'PX', ARGV[7])
      redis.call('PEXPIRE', QUEUE, ARGV[7])
      redis.call('PEXPIRE', WAITERS, ARGV[7])
      local left = redis.call('PTTL', HOLDER)
      return {QUEUED, NOW, length, left, length + 1, left, value}
    end
  end
end
-- include parts/prelude.lua
if granted then
  tell(watchers)
  return {GRANTED, NOW, NOW, NOW}
end
-- include parts/queue.lua
local wait, broker, slot_ms = ARGV[5] == '1', ARGV[6], ARGV[7]
local keep, trusted, max_waiters = ARGV[9], ARGV[10] == '1', tonumber(ARGV[11])
local h, bad = read_holders(value, owner)
if bad then return bad end
if h.mine and h.kind == 'x' and string.byte(want) == 120 then
  redis.call('PEXPIRE', HOLDER, str(px))
  return {GRANTED, NOW, h.mine.token, h.mine.since}
end
local last, length, entries
last, bad = last_token(stored)
if not bad then length, bad = try('ZCARD', QUEUE) end
if not bad then entries, bad = try('HLEN', WAITERS) end
if bad then return bad end
local token = str(math.max(last + 1, now))
local me, preferred = parse_want(want), ARGV[13] == '1'
me.owner, me.ttl, me.delay, me.info, me.px = owner, ARGV[2], ARGV[3], ARGV[8], px
if h.mine and h.kind == me.kind then
  redis.call('HSET', HOLDER, owner, slot_value(h.mine, now + px * 1000))
  redis.call('PEXPIRE', HOLDER, str(math.max(px, redis.call('PTTL', HOLDER))))
  return {GRANTED, NOW, h.mine.token, h.mine.since}
end
settle(h)
if h.mine or not mixes(h, me) then return {MISMATCH, NOW, h.kind, h.limit or 0} end

local place = length > 0 and redis.call('ZRANK', QUEUE, owner)
local function count_in_front() return preferred and length > 0 and redis.call('ZCOUNT', QUEUE, '-inf', '(0') or length end
local in_front = count_in_front()
if not place then me.ahead = in_front end
if fits(h, me) then
  if length == 0 then
    take(h, me, token)
    redis.call('SET', TOKEN, token, 'PX', keep)
    tidy(h)
    tell(watchers)
    return {GRANTED, NOW, token, NOW}
  end
  if not place and me.adaptive then
    local first = redis.call('ZRANGE', QUEUE, 0, 0)[1]
    local who = parse_waiter(first, redis.call('HGET', WAITERS, first))
    if who and who.adaptive and not turned_fair(who, tonumber(ARGV[14])) then me.ahead = 0 end
  end
  local o = {last = last, keep = keep, trusted = trusted, broker = broker, me = me}
  hand_off(h, o)
  if o.changed then tell(watchers) end
  if me.token then return {GRANTED, NOW, me.token, NOW} end
  length, place = redis.call('ZCARD', QUEUE), place and redis.call('ZRANK', QUEUE, owner)
  in_front = count_in_front()
end
local left = left_ms(h)
if not wait then return show(h, left, {HELD, NOW, left, length}) end

local dead, since, entry = {}, NOW, nil
if place then
  entry = redis.call('HGET', WAITERS, owner)
  local before = parse_waiter(owner, entry)
  if before then since = str(before.since) end
else
  if length >= max_waiters then dead = walk({[broker] = true}, nil, function() return true end) end
  if length - #dead >= max_waiters then return {QUEUE_FULL, NOW, length} end
  local base, at = preferred and -FIRST_PLACE or 0, preferred and in_front - 1 or -1
  local tail = preferred and in_front == 0 and {} or redis.call('ZRANGE', QUEUE, at, at, 'WITHSCORES')
  redis.call('ZADD', QUEUE, str(math.max(tonumber(tail[2] or base), base) + 1), owner)
  if length == 0 and entries > 0 then redis.call('DEL', WAITERS) end -- left behind by a queue that was deleted
  place, length = math.max(in_front - #dead, 0), length - #dead + 1
end
local asks = table.concat({broker, me.ttl, me.delay, want, since, me.info}, ';')
redis.call('HSET', WAITERS, owner, asks)
redis.call('SET', slot_key(broker), '1', 'PX', slot_ms)
remove(dead)
redis.call('PEXPIRE', QUEUE, slot_ms)
redis.call('PEXPIRE', WAITERS, slot_ms)
if asks ~= entry then tell(watchers) end -- a repeat may change nothing
return show(h, left, {QUEUED, NOW, place, left, length})
