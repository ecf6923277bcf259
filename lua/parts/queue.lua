-- SPDX-License-Identifier: Apache-2.0
-- Definitions: the queue of one lock, behind holders.lua.
local MAX_WALK, FIRST_PLACE = 10001, 4503599627370496

local function slot_key(broker) return string.sub(HOLDER, 1, -2) .. 'b:' .. broker end

-- Where servers have channels for each shard: the tags of the channels of brokers whose slots walk() has seen, and the
-- tag at which, as far as the caller knows, every broker listens here.
local tag_of, own_tag = {}, nil

-- Whether the broker received the text, or may have: the shard of the channel that it once named may have left this
-- server together with others, and then it is not known where it listens now.
local function publish(broker, text)
  local prefix, name = string.match(HOLDER, '^(.-):{(.*)}:h$')
  local tag = tag_of[broker] or own_tag or ''
  local heard = send(prefix, broker, tag, name .. '\n' .. text)
  if heard < 1 and own_tag and own_tag ~= tag then
    local here = send(prefix, broker, own_tag, name .. '\n' .. text)
    heard = here > 0 and here or heard
  end
  return heard ~= 0
end

-- A waiter from its entry in B:w. nil: no entry, or an unusable one.
local function parse_waiter(id, entry)
  local broker, ttl, delay, want, since, info = string.match(entry or '', '^(%x+);(%d+);(%d+);([^;]*);(%d+);(.*)$')
  local who = broker and parse_want(want)
  if not who then return nil end
  who.owner, who.broker, who.ttl, who.delay, who.since, who.info = id, broker, ttl, delay, tonumber(since), info
  who.px = tonumber(ttl) + tonumber(delay)
  return who.px > 0 and who.px <= MAX_PX and who or nil
end

-- Goes along the queue from its head until visit() is true. Only reads. `brokers` says what is known of each: 'alive';
-- 'dead', it has no slot; or 'unreachable', which visit() may set: its other waiters are passed over. Waiters of dead
-- brokers, and without a usable entry, are the dead: they are passed over and collected. `me` ({owner, ahead}) is
-- visited even when dead, and, when it has no place, behind `ahead` others. Returns the dead, whether visit() stopped
-- the walk, and whether its bound did.
local function walk(brokers, me, visit)
  local dead, rank, step = {}, 0, 1
  while rank < MAX_WALK do
    if me and me.ahead == 0 and rank == 0 and visit(me) then return dead, true, false end
    local ids = redis.call('ZRANGE', QUEUE, rank, rank + step - 1)
    if #ids == 0 then return dead, me and me.ahead and me.ahead > rank and visit(me) or false, false end
    local entries = redis.call('HMGET', WAITERS, unpack(ids))
    for i, id in ipairs(ids) do
      local broker, who = string.match(entries[i] or '', '^(%x+);'), nil
      if broker and not brokers[broker] then
        local slot = redis.pcall('GET', slot_key(broker))
        brokers[broker] = slot and 'alive' or 'dead'
        tag_of[broker] = type(slot) == 'string' and string.match(slot, '^{.*}$') or ''
      end
      if me and me.owner == id then
        who = me
      elseif brokers[broker] == 'alive' then
        who = parse_waiter(id, entries[i])
      end
      if who then
        if visit(who) then return dead, true, false end
      elseif brokers[broker] ~= 'unreachable' then
        dead[#dead + 1] = id
      end
      if me and me.ahead == rank + i and visit(me) then return dead, true, false end
    end
    rank, step = rank + #ids, CHUNK
  end
  return dead, false, true
end

-- Removes waiters.
local function remove(ids)
  for i = 1, #ids, CHUNK do
    local last = math.min(i + CHUNK - 1, #ids)
    redis.call('ZREM', QUEUE, unpack(ids, i, last))
    local fields = {unpack(ids, i, last)}
    for at = i, last do fields[#fields + 1] = request_of(ids[at]) end
    redis.call('HDEL', WAITERS, unpack(fields))
  end
end
