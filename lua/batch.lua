-- SPDX-License-Identifier: Apache-2.0
-- Acquires and releases of different locks in one call: what they have in common is asked once.
-- KEYS holder of each item
-- ARGV token_keep_ms, "broker_id;slot_ms;trusted;max_waiters;fair_after_us" as acquire and release have them, then of each item
--      "a", owner_id, wait, preferred, "not_after_us;px;want;", "ttl_ms;delay_ms;info"   an acquire; px is ttl_ms + delay_ms
--      "r", owner_id, token or nothing for any                                           a release, free at once
-- {time, then of each item its script's reply, or only the code: GRANTED with time as token and since, or RELEASED with nobody told}
-- An item that fails has its error instead of a reply, and the others are not concerned.
local sub, byte, match, find = string.sub, string.byte, string.match, string.find
local rest = {}
-- These begin at their full length: to grow them would take longer than what is done with them.
local replies, watchers, tokens, queues = {NOW, unpack(KEYS)}, {unpack(KEYS)}, {unpack(KEYS)}, {unpack(KEYS)}
local free, freed = {unpack(KEYS)}, 0
for i = 1, #KEYS do
  local base = sub(KEYS[i], 1, -2)
  local watching = base .. 'v'
  -- Who releases need not know the token: another key stands in its place.
  watchers[i], queues[i], tokens[i] = watching, base .. 'q', byte(ARGV[i + 2]) == 97 and base .. 't' or watching
end
local values, watched = redis.call('MGET', unpack(KEYS)), redis.call('MGET', unpack(watchers))
local stored = redis.call('MGET', unpack(tokens))
local none_waits = redis.call('EXISTS', unpack(queues)) == 0

-- What is usual, as in acquire and release; all else is left to those.
for i = 1, #KEYS do
  local key, item, value, last, reply = KEYS[i], ARGV[i + 2], values[i], stored[i], false
  local is_usual = not watched[i] and (none_waits or redis.pcall('ZCARD', queues[i]) == 0)
  if byte(item) == 114 then
    local kind, mark = byte(value or '', 1, 2)
    if is_usual and kind == 49 and mark == 59 and find(value, sub(item, 2, 33), 3, true) == 3 then
      local ends = find(value, ';', 36, true)
      if ends and ends <= 52 and find(value, '^;%d+;%d+;%d+;%d+;', 35) and (#item == 33 or sub(item, 34) == sub(value, 36, ends - 1)) then
        freed, reply = freed + 1, RELEASED
        free[freed] = key
      end
    end
  elseif is_usual and not value and (not last or #last == #NOW and last < NOW and find(last, '^%d+$')) then
    local late, px, tail = match(item, '^(%d+);(%d+);x[a;]+()', 36)
    if late and (late == '0' or #late == #NOW and NOW < late) then
      local mine = '1;' .. sub(item, 2, 33) .. ';' .. NOW .. ';' .. NOW .. ';' .. sub(item, tail)
      local granted = redis.pcall('SET', key, mine, 'PX', px, 'NX')
      if granted and not granted.err then
        if last then
          granted = redis.pcall('SET', tokens[i], NOW, 'PX', ARGV[1])
        else
          granted = redis.pcall('SET', tokens[i], NOW, 'PX', ARGV[1], 'NX')
        end
        if not granted or granted.err then redis.call('DEL', key) end
      end
      if granted then reply = granted.err and granted or GRANTED end
    end
  end
  replies[i + 1] = reply
  if not reply then rest[#rest + 1] = i end
end
if freed > 0 then
  local deleted = redis.pcall('DEL', unpack(free, 1, freed))
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
