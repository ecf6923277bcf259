-- SPDX-License-Identifier: Apache-2.0
-- Acquires and releases of different locks in one call: what they have in common is asked once.
-- KEYS holder of each item
-- ARGV token_keep_ms, "broker_id;slot_ms;trusted;max_waiters;fair_after_us" as acquire and release have them, then of each item
--      "a", owner_id, wait, preferred, "not_after_us;px;want;", "ttl_ms;delay_ms;info"   an acquire; px is ttl_ms + delay_ms
--      "1;owner_id;token;", or "1;owner_id;" for any token: how its value begins           a release, free at once
-- {time, then of each item its script's reply, or only the code: GRANTED with time as token and since, or RELEASED with nobody told}
-- An item that fails has its error instead of a reply, and the others are not concerned.
-- include parts/head.lua
local sub, byte, match, find = string.sub, string.byte, string.match, string.find
local n, freed, rest = #KEYS, 0, {}
-- These begin at their full length: to grow them would take longer than what is done with them.
local replies, asked, noticed = {NOW, unpack(KEYS)}, {unpack(KEYS)}, {unpack(KEYS)}
for i = 1, n do
  local base = sub(KEYS[i], 1, -2)
  noticed[i], noticed[n + i] = base .. 'v', base .. 'q'
  -- Of a release its holder; of an acquire the last token, since SET tells whether somebody holds it.
  if byte(ARGV[i + 2]) == 97 then asked[i] = base .. 't' end
end
local values, is_quiet = redis.call('MGET', unpack(asked)), redis.call('EXISTS', unpack(noticed)) == 0

-- What is usual, as in acquire and release; all else is left to those.
for i = 1, n do
  local item, value, reply = ARGV[i + 2], values[i], false
  local is_usual = is_quiet or redis.call('EXISTS', noticed[i], noticed[n + i]) == 0
  if byte(item) == 49 then
    if is_usual and value and find(value, item, 1, true) == 1 then
      local _, _, token_ends = find(value, '^%d+();%d+;%d+;%d+;', 36)
      if token_ends and token_ends <= 52 then
        freed, reply = freed + 1, RELEASED
        asked[freed] = KEYS[i] -- what was asked before is not needed again
      end
    end
  elseif is_usual and (not value or #value == #NOW and value < NOW and find(value, '^%d+$')) then
    local late, px, tail = match(item, '^(%d+);(%d+);x[a;]+()', 36)
    if late and (late == '0' or #late == #NOW and NOW < late) then
      local mine = '1;' .. sub(item, 2, 33) .. ';' .. NOW .. ';' .. NOW .. ';' .. sub(item, tail)
      local set = redis.pcall('SET', KEYS[i], mine, 'PX', px, 'NX')
      if set and set.ok then
        if value then
          set = redis.pcall('SET', asked[i], NOW, 'PX', ARGV[1])
        else
          set = redis.pcall('SET', asked[i], NOW, 'PX', ARGV[1], 'NX')
        end
        if set and set.ok then reply = GRANTED else redis.call('DEL', KEYS[i]) end
      -- A refusal (no memory) is the answer, unless the lock is held anyway: after the first write nothing is refused.
      elseif set and redis.call('EXISTS', KEYS[i]) == 0 then
        reply = set
      end
    end
  end
  replies[i + 1] = reply
  if not reply then rest[#rest + 1] = i end
end
if freed > 0 then
  local deleted = redis.pcall('DEL', unpack(asked, 1, freed))
  if type(deleted) == 'table' then
    for i = 2, n + 1 do replies[i] = replies[i] == RELEASED and deleted or replies[i] end
  end
end
if #rest == 0 then return replies end

local broker, slot_ms, trusted, max_waiters, fair_after = match(ARGV[2], '^(%x+);(%d+);(%d);(%d+);(%d+)$')
local keep = ARGV[1]
local function acquire(ARGV)
-- include parts/acquire.lua
end
local function release(ARGV)
-- include parts/release.lua
end
for _, i in ipairs(rest) do
  local item, base = ARGV[i + 2], sub(KEYS[i], 1, -2)
  HOLDER, TOKEN, QUEUE, WAITERS, WATCHERS = KEYS[i], base .. 't', base .. 'q', base .. 'w', base .. 'v'
  local call, args = release, nil
  if byte(item) == 49 then
    args = {sub(item, 3, 34), #item > 35 and sub(item, 36, -2) or '0', '0', keep, trusted, broker, fair_after}
  else
    local late, want, ttl, delay, info = match(item, '^(%d+);%d+;([^;]*);(%d+);(%d+);(.*)$', 36)
    call, args = acquire, {sub(item, 2, 33), ttl, delay, late, sub(item, 34, 34), broker, slot_ms, info, keep, trusted, max_waiters, want,
      sub(item, 35, 35), fair_after}
  end
  local ok, reply = pcall(call, args)
  replies[i + 1] = ok and reply or type(reply) == 'table' and reply or {err = reply}
end
return replies
