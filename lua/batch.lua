-- SPDX-License-Identifier: Apache-2.0
-- Acquires and releases of different locks in one call: what they have in common is asked once.
-- KEYS holder of each item
-- ARGV token_keep_ms, "broker_id;slot_ms;trusted;max_waiters;fair_after_us" as acquire and release have them, then of each item
--      "a", owner_id, wait, preferred, "not_after_us;px;want;", "ttl_ms;delay_ms;info"   an acquire; px is ttl_ms + delay_ms
--      "r", owner_id, token or nothing for any                                           a release, free at once
-- {time, then of each item its script's reply, or only the code: GRANTED with time as token and since, or RELEASED with nobody told}
-- An item that fails has its error instead of a reply, and the others are not concerned.
local sub, byte, match = string.sub, string.byte, string.match
local replies, reads, queues, free, rest = {NOW}, {}, {}, {}, {}
for i, key in ipairs(KEYS) do
  local base, at = sub(key, 1, -2), 3 * i
  reads[at - 2], reads[at - 1], reads[at], queues[i] = key, base .. 't', base .. 'v', base .. 'q'
end
local values = redis.call('MGET', unpack(reads))
local none_waits = redis.call('EXISTS', unpack(queues)) == 0

-- What is usual, as in acquire and release; all else is left to those.
for i, key in ipairs(KEYS) do
  local item, value, stored, granted = ARGV[i + 2], values[3 * i - 2], values[3 * i - 1], nil
  local is_usual = not values[3 * i] and (none_waits or redis.pcall('ZCARD', queues[i]) == 0)
  if byte(item) == 114 then
    local named = sub(item, 34)
    local token = is_usual and value and sub(value, 1, 35) == '1;' .. sub(item, 2, 33) .. ';' and
      match(value, '^(%d+);%d+;%d+;%d+;', 36)
    if token and #token <= 16 and (named == '' or named == token) then
      free[#free + 1], replies[i + 1] = key, RELEASED
    end
  elseif is_usual and not value and (not stored or #stored == #NOW and stored < NOW and not string.find(stored, '%D')) then
    local late, px, want, tail = match(item, '^(%d+);(%d+);(%l)[a;]+()', 36)
    if want == 'x' and (late == '0' or now < tonumber(late)) then
      local mine = '1;' .. sub(item, 2, 33) .. ';' .. NOW .. ';' .. NOW .. ';' .. sub(item, tail)
      granted = redis.pcall('SET', key, mine, 'PX', px, 'NX')
      if granted and not granted.err then
        if stored then
          granted = redis.pcall('SET', reads[3 * i - 1], NOW, 'PX', ARGV[1])
        else
          granted = redis.pcall('SET', reads[3 * i - 1], NOW, 'PX', ARGV[1], 'NX')
        end
        if not granted or granted.err then redis.call('DEL', key) end
      end
      if granted then replies[i + 1] = granted.err and granted or GRANTED end
    end
  end
  if not replies[i + 1] then rest[#rest + 1] = i end
end
if #free > 0 then
  local deleted = redis.pcall('DEL', unpack(free))
  if type(deleted) == 'table' then
    for i = 2, #KEYS + 1 do replies[i] = replies[i] == RELEASED and deleted or replies[i] end
  end
end
if #rest == 0 then return replies end

local broker, slot_ms, trusted, max_waiters, fair_after = match(ARGV[2], '^(%x+);(%d+);(%d);(%d+);(%d+)$')
local keep = ARGV[1]
local function acquire(ARGV)
-- with acquire.lua
end
local function release(ARGV)
-- with release.lua
end
for _, i in ipairs(rest) do
  local item, base = ARGV[i + 2], sub(KEYS[i], 1, -2)
  HOLDER, TOKEN, QUEUE, WAITERS, WATCHERS = KEYS[i], base .. 't', base .. 'q', base .. 'w', base .. 'v'
  local call, args = release, nil
  if byte(item) == 114 then
    args = {sub(item, 2, 33), #item > 33 and sub(item, 34) or '0', '0', keep, trusted, broker, fair_after}
  else
    local late, want, ttl, delay, info = match(item, '^(%d+);%d+;([^;]*);(%d+);(%d+);(.*)$', 36)
    call, args = acquire, {sub(item, 2, 33), ttl, delay, late, sub(item, 34, 34), broker, slot_ms, info, keep, trusted, max_waiters, want,
      sub(item, 35, 35), fair_after}
  end
  local ok, reply = pcall(call, args)
  replies[i + 1] = ok and reply or type(reply) == 'table' and reply or {err = reply}
end
return replies
