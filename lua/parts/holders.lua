-- SPDX-License-Identifier: Apache-2.0
-- Definitions: the holders of one lock, behind values.lua.
--
-- The holders `h`: {kind = nil} nobody; {kind = 'x', owner, token, since, ttl, delay, value} one EXCLUSIVE holder; or
-- many:
-- {kind = 's' or 'p', limit, used (permits taken), soonest (no slot expires before), many = true (B:h is a hash)}.
-- A request: {kind, permits, limit, adaptive}; to be granted it also has owner, ttl, delay, info and px.
local CHUNK = 100
local BLOCKED = 'blocked:' -- and a token: the field of a share that a release left blocked
local NOBODY = string.rep('0', 32) -- who has what is blocked

-- x | s | p<permits>/<limit>, and a: ADAPTIVE. nil: another shape.
local function parse_want(text)
  local kind, permits, limit, adaptive = string.match(text, '^([xsp])(%d*)/?(%d*)(a?)$')
  if not kind then return nil end
  return {kind = kind, permits = tonumber(permits) or 1, limit = tonumber(limit) or 0, adaptive = adaptive == 'a'}
end

-- The holders, given what MGET said of B:h; (nil, reply) when the key is foreign. h.mine is the hold of `owner`, if it
-- has one.
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

-- The holders when `owner` is one of them under `token`; else (nil, reply).
local function read_own_hold(value, owner, token)
  local h, bad = read_holders(value, owner)
  if bad then return nil, bad end
  if not h.kind then return nil, {GONE, NOW} end
  if not h.mine or not is_held_by(h.mine, owner, token) then return nil, {NOT_HOLDER, NOW} end
  return h
end

-- All of many holders, in the order of their grants. Makes h exact (nobody, when all have expired) and lists in
-- h.expired the fields of expired slots. Writes nothing.
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

-- Takes expired slots out of h, when there may be any. The keys are written by write_header.
local function drop_expired(h)
  if h.many and h.kind and now >= h.soonest then read_slots(h) end
end

local function header(h) return table.concat({h.kind, str(h.limit), str(h.used), str(h.soonest)}, ';') end

-- Writes what drop_expired found. It must come after the verb's own first write: maxmemory never refuses this one.
local function write_header(h)
  if not h.many then return end
  if not h.kind then return redis.call('DEL', HOLDER) end
  for i = 1, #(h.expired or {}), CHUNK do
    redis.call('HDEL', HOLDER, unpack(h.expired, i, math.min(i + CHUNK - 1, #h.expired)))
  end
  if h.stale then redis.call('HSET', HOLDER, 'holders', header(h)) end
  h.expired, h.stale = nil, nil
end

-- The hold-off: see hold_off.lua. 0: there is none. is_late: the call runs when what its broker knew counts no more.
local held_off_until, others_until, is_late = 0, 0, false

-- In how many ms `mine`, one of the holders h, ends if nobody renews it: what was promised of it ends by then.
local function life_left(h, mine)
  return h.kind == 'x' and redis.call('PTTL', HOLDER) or math.ceil((mine.expiry - now) / 1000)
end

-- In a hold-off: another server, which this one has replaced, may give `mine`, of the holders h, away when it ends
-- there. A broker that renews it does so long before.
local function ends_elsewhere(h, mine)
  return now < held_off_until and now + 1000 * life_left(h, mine) < others_until
end

local function has_room(h, want)
  if not h.kind then return true end
  if want.kind ~= h.kind or h.kind == 'x' then return false end
  return h.kind == 's' or (want.limit == h.limit and h.used + want.permits <= h.limit)
end

local function fits(h, want) return now >= held_off_until and has_room(h, want) end

-- When the holder, or the first of many, may have expired, or the hold-off ends. -2: nobody holds the lock. A hold-off
-- whose end is not known yet is worth another look every second.
local function left_ms(h)
  local left = -2
  if h.kind then
    left = h.kind == 'x' and redis.call('PTTL', HOLDER) or math.max(math.ceil((h.soonest - now) / 1000), 0)
  end
  if now >= held_off_until then return left end
  local held_off = math.ceil((held_off_until - now) / 1000)
  if held_off > MAX_PX then held_off = 1000 end
  return left < 0 and held_off or math.min(left, held_off)
end

-- Writes one more holder. Its first write is one that maxmemory refuses.
local function add_holder(h, who, token)
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
  -- An earlier hold of this owner may be among the expired ones.
  for i, id in ipairs(h.expired or {}) do
    if id == who.owner then table.remove(h.expired, i) break end
  end
  h.many, h.longest = true, math.max(h.longest or redis.call('PTTL', HOLDER), who.px)
  redis.call('PEXPIRE', HOLDER, str(h.longest))
end

-- Grants `who` a lock that it fits and nobody waits for.
local function grant(h, who, token, keep, watchers)
  add_holder(h, who, token)
  redis.call('SET', TOKEN, token, 'PX', keep)
  write_header(h)
  tell(watchers)
end
