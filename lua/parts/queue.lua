-- SPDX-License-Identifier: Apache-2.0
-- What several verbs do with many holders and with the queue. The build puts it where a verb says "-- with queue.lua":
-- behind what is done without it, since each function here costs the server something in each call that comes so far.
--
-- The holders `h` of a lock: {kind = nil} nobody; {kind = 'x', owner, token, since, ttl, delay, value} one EXCLUSIVE; or many:
-- {kind = 's' or 'p', limit, used (permits taken), soonest (no slot expires before), many = true (B:h is a hash)}.
-- What somebody wants: {kind, permits, limit, adaptive}, and to be granted: owner, ttl, delay, info, px.
local CHUNK, MAX_WALK, MAX_GRANTS, FIRST_PLACE = 100, 10001, 100, 4503599627370496
local BLOCKED = 'blocked:' -- and a token: the field of a share that a release left blocked

-- x | s | p<permits>/<limit>, and a: ADAPTIVE. nil: it has another shape.
local function parse_want(text)
  local kind, permits, limit, adaptive = string.match(text, '^([xsp])(%d*)/?(%d*)(a?)$')
  if not kind then return nil end
  return {kind = kind, permits = tonumber(permits) or 1, limit = tonumber(limit) or 0, adaptive = adaptive == 'a'}
end

-- The holders, given what MGET said of B:h: (h), or (nil, reply) when it is foreign. `owner`: h.mine is the slot it has.
local function read_holders(value, owner)
  if value then
    local h = parse_holder(value)
    if not h then return nil, foreign(HOLDER, 'shape') end
    if h.owner == owner then h.mine = h end
    return h
  end
  local got, bad = try('HMGET', HOLDER, 'holders', owner)
  if bad then return nil, bad end
  if not got[1] then
    if redis.call('EXISTS', HOLDER) == 1 then return nil, foreign(HOLDER) end
    return {}
  end
  local kind, limit, used, soonest = string.match(got[1], '^([sp]);(%d+);(%d+);(%d+)$')
  if not kind then return nil, foreign(HOLDER, 'shape') end
  return {many = true, kind = kind, limit = tonumber(limit), used = tonumber(used), soonest = tonumber(soonest),
    mine = got[2] and parse_slot(owner, got[2])}
end

-- All of many holders, in the order of their grants. Leaves those whose slots have expired in h.expired, writes nothing, and
-- makes h exact: nobody when all have.
local function read_slots(h)
  local all, slots = redis.call('HGETALL', HOLDER), {}
  h.expired, h.used, h.soonest = {}, 0, MAX_TOKEN
  for i = 1, #all, 2 do
    local slot = all[i] ~= 'holders' and parse_slot(all[i], all[i + 1])
    if slot then
      slots[#slots + 1] = slot
      h.used, h.soonest = h.used + slot.permits, math.min(h.soonest, slot.expiry)
    elseif all[i] ~= 'holders' then
      h.expired[#h.expired + 1] = all[i]
    end
  end
  if #slots == 0 then h.kind = nil end
  h.stale = true
  table.sort(slots, function(a, b)
    local first, second = tonumber(a.token), tonumber(b.token)
    return first < second or first == second and a.owner < b.owner
  end)
  return slots
end

local function settle(h)
  if h.many and h.kind and now >= h.soonest then read_slots(h) end
end

local function header(h) return table.concat({h.kind, str(h.limit), str(h.used), str(h.soonest)}, ';') end

-- Writes what settle found, after the verb's own first write: this one is never refused by maxmemory.
local function tidy(h)
  if not h.many then return end
  if not h.kind then return redis.call('DEL', HOLDER) end
  for i = 1, #(h.expired or {}), CHUNK do
    redis.call('HDEL', HOLDER, unpack(h.expired, i, math.min(i + CHUNK - 1, #h.expired)))
  end
  if h.stale then redis.call('HSET', HOLDER, 'holders', header(h)) end
  h.expired, h.stale = nil, nil
end

local function fits(h, want)
  if not h.kind then return true end
  if want.kind ~= h.kind or h.kind == 'x' then return false end
  return h.kind == 's' or (want.limit == h.limit and h.used + want.permits <= h.limit)
end

-- EXCLUSIVE and SHARED are of one family, PERMIT of each limit of another.
local function mixes(h, want)
  return not h.kind or (want.kind == 'p') == (h.kind == 'p') and (h.kind ~= 'p' or want.limit == h.limit)
end

-- When to look again if nothing is heard: of many, when the first of them may have expired.
local function left_ms(h)
  if not h.kind then return -2 end
  return h.kind == 'x' and redis.call('PTTL', HOLDER) or math.max(math.ceil((h.soonest - now) / 1000), 0)
end

local function value_of(slot)
  local owner = string.sub(slot.owner, 1, #BLOCKED) == BLOCKED and string.rep('0', 32) or slot.owner
  return table.concat({'1', owner, slot.token, slot.since, slot.ttl, slot.delay, slot.info}, ';')
end

-- Appends at most 16 of the holders: left_ms and value of each. None of more than 128: all would have to be read for it.
local function show(h, left, reply)
  if h.kind == 'x' then
    reply[#reply + 1], reply[#reply + 2] = left, h.value
  elseif h.kind and redis.call('HLEN', HOLDER) <= 129 then
    for i, slot in ipairs(read_slots(h)) do
      if i > 16 then break end
      reply[#reply + 1], reply[#reply + 2] = math.ceil((slot.expiry - now) / 1000), value_of(slot)
    end
  end
  return reply
end

-- Writes one more holder; the first write is one that maxmemory refuses.
local function take(h, who, token)
  if who.kind == 'x' then
    h.value = table.concat({'1', who.owner, token, NOW, who.ttl, who.delay, who.info}, ';')
    redis.call('SET', HOLDER, h.value, 'PX', str(who.px))
    h.kind, h.many, h.owner = 'x', nil, who.owner
    return
  end
  local expiry = now + who.px * 1000
  if not h.kind then h.kind, h.limit, h.used, h.soonest = who.kind, who.limit, 0, expiry end
  h.used, h.soonest, h.stale = h.used + who.permits, math.min(h.soonest, expiry), nil
  local slot = {token = token, since = NOW, ttl = who.ttl, delay = who.delay, permits = who.permits, info = who.info}
  redis.call('HSET', HOLDER, 'holders', header(h), who.owner, slot_value(slot, expiry))
  -- Its earlier hold may be among the expired.
  for i, id in ipairs(h.expired or {}) do
    if id == who.owner then table.remove(h.expired, i) break end
  end
  h.many, h.longest = true, math.max(h.longest or redis.call('PTTL', HOLDER), who.px)
  redis.call('PEXPIRE', HOLDER, str(h.longest))
end

-- Ends one of many holders.
local function drop(h, slot)
  redis.call('HDEL', HOLDER, slot.owner)
  h.used, h.stale = h.used - slot.permits, true
  if h.used <= 0 then h.kind = nil end
end

local function slot_key(broker) return string.sub(HOLDER, 1, -2) .. 'b:' .. broker end

local function parse_waiter(id, entry)
  local broker, ttl, delay, want, since, info = string.match(entry or '', '^(%x+);(%d+);(%d+);([^;]*);(%d+);(.*)$')
  local who = broker and parse_want(want)
  if not who then return nil end
  who.owner, who.broker, who.ttl, who.delay, who.since, who.info = id, broker, ttl, delay, tonumber(since), info
  who.px = tonumber(ttl) + tonumber(delay)
  return who.px > 0 and who.px <= MAX_PX and who or nil
end

-- Goes along the queue from its head until visit() is true. Only reads. Passes over, and collects, the dead: no entry, an
-- unusable one, or a broker without a slot. `me` ({owner, ahead}) is visited even when dead, and, when it has no place, behind
-- `ahead` others. Returns the dead, whether visit() stopped it, and whether it stopped at its bound.
local function walk(alive, me, visit)
  local dead, rank, step = {}, 0, 1
  while rank < MAX_WALK do
    if me and me.ahead == 0 and rank == 0 and visit(me) then return dead, true, false end
    local ids = redis.call('ZRANGE', QUEUE, rank, rank + step - 1)
    if #ids == 0 then return dead, me and me.ahead and me.ahead > rank and visit(me) or false, false end
    local entries = redis.call('HMGET', WAITERS, unpack(ids))
    for i, id in ipairs(ids) do
      local who = parse_waiter(id, entries[i])
      if who and alive[who.broker] == nil then alive[who.broker] = redis.call('EXISTS', slot_key(who.broker)) == 1 end
      if me and me.owner == id then who = me end
      if who and (who == me or alive[who.broker]) then
        if visit(who) then return dead, true, false end
      else
        dead[#dead + 1] = id
      end
      if me and me.ahead == rank + i and visit(me) then return dead, true, false end
    end
    rank, step = rank + #ids, CHUNK
  end
  return dead, false, true
end

local function remove(ids)
  for i = 1, #ids, CHUNK do
    local last = math.min(i + CHUNK - 1, #ids)
    redis.call('ZREM', QUEUE, unpack(ids, i, last))
    redis.call('HDEL', WAITERS, unpack(ids, i, last))
  end
end

local prefix, name = string.match(HOLDER, '^(.-):{(.*)}:h$')
local function publish(broker, text) return redis.call('PUBLISH', prefix .. ':grant:' .. broker, name .. '\n' .. text) > 0 end

-- Whether a waiter has waited for so long that ADAPTIVE is FAIR until the queue drains.
local function turned_fair(who, fair_after)
  if redis.call('HEXISTS', WAITERS, 'fair') == 1 then return true end
  if now - who.since < fair_after then return false end
  redis.call('HSET', WAITERS, 'fair', '1')
  return true
end

-- Gives what is free to living waiters, in their order, as long as the next one fits. o: last, keep (ms the token is kept), trusted,
-- broker (the caller's: alive without a slot), quiet (that broker's waiters need no notice), me (the caller who asks: granted
-- without a notice), fair_after (set: an ADAPTIVE waiter is told to come for it, unless it has waited for longer).
-- Returns the grants to waiters of o.broker, and `look`: it is to tend, since there is more for it to do or dead waiters are left;
-- o.changed says whether there was anything to do.
-- A holder is written before anything is removed, so that a caller refused by maxmemory has changed nothing.
local function hand_off(h, o)
  local alive, deaf, gone, mine, look, last, count, adaptive = {}, {}, {}, {}, false, o.last, 0, false
  if o.broker then alive[o.broker] = true end
  local function hears(who, text)
    if o.quiet and who.broker == o.broker then return true end
    if publish(who.broker, text) or not o.trusted then return true end
    deaf[who.broker] = true
    return false
  end
  local function call_up(who)
    if not hears(who, NOW .. ';0') then return false end
    look = look or who.broker == o.broker
    return true
  end
  local function visit(who)
    if who ~= o.me and deaf[who.broker] then return false end
    if not fits(h, who) then return true end
    if who ~= o.me and (count >= MAX_GRANTS or o.fair_after and who.adaptive and not turned_fair(who, o.fair_after)) then
      return call_up(who)
    end
    adaptive = adaptive or who.adaptive
    local before, token = {h.used, h.kind}, str(math.max(last + 1, now))
    take(h, who, token)
    if who ~= o.me and not hears(who, table.concat({who.owner, token, NOW, who.ttl, who.delay}, ';')) then
      if who.kind == 'x' then
        redis.call('DEL', HOLDER)
      else
        redis.call('HDEL', HOLDER, who.owner)
      end
      h.used, h.kind, h.stale = before[1], before[2], true
      return false
    end
    who.token, who.since, last, count = token, NOW, tonumber(token), count + 1
    if who == o.me or who.broker == o.broker then mine[#mine + 1] = who end
    if not who.ahead then gone[#gone + 1] = who.owner end
    return h.kind == 'x'
  end
  local dead, _, more = walk(alive, o.me, visit)
  if last > o.last then redis.call('SET', TOKEN, str(last), 'PX', o.keep) end
  tidy(h)
  remove(dead)
  remove(gone)
  if adaptive and redis.call('ZCARD', QUEUE) == 0 then redis.call('DEL', WAITERS) end
  o.changed = count > 0 or #dead > 0
  -- Beyond the walk's bound the next call finds the same, unless this one has removed something.
  return mine, look or more and #dead > 0
end

-- After a holder has left, or one who waited in front: who is next. Foreign keys of the queue stop it. Returns what hand_off does.
local function pass_on(h, o, floor)
  local waiting, bad = o.waiting, nil
  if not waiting then waiting, bad = try('ZCARD', QUEUE) end
  if not bad and waiting > 0 then
    local _
    _, bad = try('HLEN', WAITERS)
    if not bad then o.last, bad = last_token(nil, floor) end
    if not bad then return hand_off(h, o) end
  end
  tidy(h)
  return {}, false
end

-- Appends owner_id, token, since_us, ttl_ms and delay_ms of each holder.
local function list(reply, holders)
  for _, who in ipairs(holders) do
    for _, field in ipairs({'owner', 'token', 'since', 'ttl', 'delay'}) do reply[#reply + 1] = who[field] end
  end
  return reply
end

-- Ends the caller's hold, h.mine, and hands on what that frees.
local function free(h, o)
  local floor = tonumber(h.mine.token)
  if h.kind == 'x' then
    redis.call('DEL', HOLDER)
    h.kind = nil
  else
    drop(h, h.mine)
    settle(h)
  end
  local grants, look = pass_on(h, o, floor)
  tell(o.watchers)
  return list({RELEASED, NOW, look and 'look' or ''}, grants)
end
