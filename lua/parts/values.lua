-- SPDX-License-Identifier: Apache-2.0
-- Definitions: values as they are stored, and errors of foreign keys.

-- tostring() would round a token to 14 digits.
local function str(n) return string.format('%.0f', n) end

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

-- Sends a notice to a broker; how many received it. `tag` is of the broker's channel: "" is a channel that PUBLISH
-- knows, else it is a shard's. -1: that shard has left this server.
local function send(prefix, broker, tag, text)
  if tag == '' then return redis.call('PUBLISH', prefix .. ':grant:' .. broker, text) end
  local heard = redis.pcall('SPUBLISH', prefix .. ':grant:' .. broker .. ':' .. tag, text)
  return type(heard) == 'number' and heard or -1
end

-- Tells the brokers that watch that holders or waiters have changed. `watchers` is what MGET said of B:v; `holder` is
-- B:h of the lock, if not HOLDER.
local function tell(watchers, holder)
  if not watchers or #watchers > MAX_WATCHERS * 44 then return end
  local prefix, name = string.match(holder or HOLDER, '^(.-):{(.*)}:h$')
  for broker, tag, until_us in string.gmatch(watchers, WATCHER) do
    if tonumber(until_us) > now then send(prefix, broker, tag, name .. '\n' .. NOW) end
  end
end

-- Whether a key may live for ttl + delay.
local function is_px(ttl, delay)
  local px = tonumber(ttl) + tonumber(delay)
  return px > 0 and px <= MAX_PX
end

-- All tries of a request have this in common: the first half of their owner_ids. nil: of no request.
local function request_of(owner) return string.sub(owner, 1, 2) == TRY and string.sub(owner, 1, 16) or nil end
-- Whether a try of the same request is of a later session of the client: its number follows.
local function is_later(other, owner) return string.sub(other, 17, 24) > string.sub(owner, 17, 24) end

-- The EXCLUSIVE holder from its value, 1;owner;token;since_us;ttl_ms;delay_ms;info. nil: the value has another shape.
local function parse_holder(value)
  local owner, token, since, ttl, delay = string.match(value, '^1;(%x+);(%d+);(%d+);(%d+);(%d+);')
  if not owner or #owner ~= 32 or #token > 16 or not is_px(ttl, delay) then return nil end
  return {kind = 'x', owner = owner, token = token, since = since, ttl = ttl, delay = delay, value = value}
end

-- The bounds of a hold, in ms, that stand in front of its info: min_hold and max_hold. nil: there is none.
local function bounds_of(info)
  local min_hold, rest = string.match(info, '^m(%d+);(.*)$')
  return min_hold, string.match(rest or info, '^h(%d+);')
end

-- The info that an EXCLUSIVE holder shows.
local function info_of(holder) return string.match(holder.value, '^1;%x+;%d+;%d+;%d+;%d+;(.*)$') end

-- Whether `holder` is `owner` under `token`. Token 0 is any: a caller that lost an answer does not know it.
local function is_held_by(holder, owner, token)
  return holder.owner == owner and (token == '0' or holder.token == token)
end

-- One of many holders from its slot, expiry_us;token;since_us;ttl_ms;delay_ms;permits;info. nil: another shape, or
-- expired.
local function parse_slot(owner, slot)
  local expiry, token, since, ttl, delay, permits, info =
    string.match(slot or '', '^(%d+);(%d+);(%d+);(%d+);(%d+);(%d+);(.*)$')
  if not expiry or tonumber(expiry) <= now or not is_px(ttl, delay) then return nil end
  return {owner = owner, expiry = tonumber(expiry), token = token, since = since, ttl = ttl, delay = delay,
    permits = tonumber(permits), info = info}
end

local function slot_value(slot, expiry)
  return table.concat({str(expiry), slot.token, slot.since, slot.ttl, slot.delay, str(slot.permits), slot.info}, ';')
end

-- The last token as a number, given what MGET said of B:t (which shows a foreign type as missing); at least `floor`.
local function last_token(value, floor)
  local bad
  if not value then value, bad = try('GET', TOKEN) end
  if bad then return nil, bad end
  local last = math.max(tonumber(string.match(value or '0', '^%d+$') or MAX_TOKEN), floor or 0)
  if last >= MAX_TOKEN then return nil, foreign(TOKEN, 'shape') end
  return last
end
