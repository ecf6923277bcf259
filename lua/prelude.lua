-- SPDX-License-Identifier: Apache-2.0
-- Shared by every verb: the build puts this text in front of each verb file. See README.md for the schema and the codes.
-- KEYS of every verb but renew: holder (B:h), last token (B:t), queue (B:q), waiters (B:w), all with one hash tag.
local GRANTED, QUEUED, HELD, LATE, FOREIGN, QUEUE_FULL, RELEASED = 1, 2, 3, 4, 5, 6, 7
local NOT_HOLDER, WITHDRAWN, GONE, TENDED, RENEWED, INSPECTED = 8, 9, 10, 11, 12, 13
local MAX_TOKEN, MAX_PX, CHUNK, MAX_WALK = 9007199254740991, 2147483647, 100, 10001
local HOLDER, TOKEN, QUEUE, WAITERS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

-- tostring() would round a token to 14 digits.
local function str(n) return string.format('%.0f', n) end

local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local NOW = str(now)

local function foreign(key, what)
  return {FOREIGN, NOW, key, what or redis.call('TYPE', key).ok}
end

-- Runs a command that checks the key's type; a foreign type gives (nil, reply) instead of ending the script.
local function try(command, key, ...)
  local got = redis.pcall(command, key, ...)
  if type(got) ~= 'table' or not got.err then return got end
  if string.sub(got.err, 1, 9) == 'WRONGTYPE' then return nil, foreign(key) end
  return nil, got
end

-- nil unless the value has our shape: 1;owner;token;since_us;ttl_ms;delay_ms;info
local function parse_holder(value)
  local owner, token, since, ttl, delay = string.match(value, '^1;(%x+);(%d+);(%d+);(%d+);(%d+);')
  if not owner or #owner ~= 32 or #token > 16 then return nil end
  return {owner = owner, token = token, since = since, ttl = ttl, delay = delay}
end

-- Whether `token` of `owner` holds it. Token 0 is any: who lost an answer knows none.
local function is_held_by(holder, owner, token)
  return holder.owner == owner and (token == '0' or holder.token == token)
end

local function read_holder()
  local value, bad = try('GET', HOLDER)
  if bad or not value then return nil, bad end
  local holder = parse_holder(value)
  if not holder then return nil, foreign(HOLDER, 'shape') end
  holder.value = value
  return holder
end

-- The last token as a number, given what MGET said of it (which cannot tell a missing key from a foreign type).
local function last_token(value, floor)
  local bad
  if not value then value, bad = try('GET', TOKEN) end
  if bad then return nil, bad end
  local last = math.max(tonumber(string.match(value or '0', '^%d+$') or MAX_TOKEN), floor or 0)
  if last >= MAX_TOKEN then return nil, foreign(TOKEN, 'shape') end
  return last
end

local function slot_key(broker) return string.sub(HOLDER, 1, -2) .. 'b:' .. broker end

-- Goes along the queue from its head until visit() is true. Only reads. Passes over, and collects, the dead: no entry, an
-- unusable one, or a broker without a slot. `me` is visited even when dead. Returns the dead, whether visit() stopped
-- it, and whether it stopped at its bound.
local function walk(alive, me, visit)
  local dead, rank, step = {}, 0, 1
  while rank < MAX_WALK do
    local ids = redis.call('ZRANGE', QUEUE, rank, rank + step - 1)
    if #ids == 0 then return dead, false, false end
    local entries = redis.call('HMGET', WAITERS, unpack(ids))
    for i, id in ipairs(ids) do
      local broker, terms, ttl, delay = string.match(entries[i] or '', '^(%x+);((%d+);(%d+);.*)$')
      local px = broker and tonumber(ttl) + tonumber(delay) or 0
      local live = px > 0 and px <= MAX_PX
      if live and alive[broker] == nil then alive[broker] = redis.call('EXISTS', slot_key(broker)) == 1 end
      if id == me or (live and alive[broker]) then
        if visit({owner = id, broker = broker, terms = terms, ttl = ttl, delay = delay, px = px}) then
          return dead, true, false
        end
      else
        dead[#dead + 1] = id
      end
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

-- Gives the free lock to the first living waiter. o: last, keep (ms the token is kept), trusted, broker (the caller's: alive
-- without a slot), quiet (that broker's waiters need no notice), caller ({owner, terms, px}: granted without a notice at
-- its place, or after the last waiter when it has none). Returns the winner, or nil and whether dead waiters may be left.
-- The holder is written before anything is removed, so that a caller refused by maxmemory has changed nothing.
local function hand_off(o)
  local token, alive, deaf, winner, written = str(math.max(o.last + 1, now)), {}, {}, nil, false
  if o.broker then alive[o.broker] = true end
  local prefix, name = string.match(HOLDER, '^(.-):{(.*)}:h$')
  local function take(who)
    who.token, who.value = token, '1;' .. who.owner .. ';' .. token .. ';' .. NOW .. ';' .. who.terms
    redis.call('SET', HOLDER, who.value, 'PX', str(who.px))
    written = true
    return who
  end
  local function visit(who)
    if o.caller and who.owner == o.caller.owner then
      winner = take(o.caller)
    elseif not deaf[who.broker] then
      take(who)
      local notice = name .. '\n' .. table.concat({who.owner, token, NOW, who.ttl, who.delay}, ';')
      if (o.quiet and who.broker == o.broker)
        or redis.call('PUBLISH', prefix .. ':grant:' .. who.broker, notice) > 0 or not o.trusted then
        winner = who
      else
        deaf[who.broker] = true
      end
    end
    return winner ~= nil
  end
  local gone, found, more = walk(alive, o.caller and o.caller.owner, visit)
  if found then
    gone[#gone + 1] = winner.owner
  elseif o.caller and not more then
    winner = take(o.caller)
  elseif written then
    redis.call('DEL', HOLDER)
  end
  if winner then redis.call('SET', TOKEN, token, 'PX', o.keep) end
  -- A broker that cannot hear keeps its places for now; without its slot it learns from its next tend to come again.
  for broker in pairs(deaf) do redis.call('DEL', slot_key(broker)) end
  remove(gone)
  return winner, more
end

-- Frees a lock whose holder is the caller. A foreign queue, waiter or token key stops the hand-off, not the release.
local function free(holder, keep, trusted, broker)
  local waiting, bad = try('ZCARD', QUEUE)
  local last
  if not bad and waiting > 0 then
    local _
    _, bad = try('HLEN', WAITERS)
    if not bad then last, bad = last_token(nil, tonumber(holder.token)) end
  end
  redis.call('DEL', HOLDER)
  if last then
    local next = hand_off({last = last, keep = keep, trusted = trusted, broker = broker, quiet = true})
    if next and next.broker == broker then
      return {RELEASED, NOW, next.owner, next.token, NOW, next.ttl, next.delay, next.broker}
    end
  end
  return {RELEASED, NOW}
end
