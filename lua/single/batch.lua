-- SPDX-License-Identifier: Apache-2.0
-- Acquires and releases in one call: what they have in common is asked once.
-- KEYS holder of each item. Items of one lock stand together, in their order; those of different locks may run in any
-- ARGV token_keep_ms, "broker_id;slot_ms;trusted;max_waiters;fair_after_us;hold_off" as acquire and release have them,
--      then of each item one string. hold_off is "0" or known_until_us: during a hold-off brokers call each item's own
--      script
--      an acquire: "a", owner_id, wait, preferred, "not_after_us;px;want;ttl_ms;delay_ms;info"; px is ttl_ms + delay_ms
--      a release, with block_ms 0: "1;owner_id;token;", or "1;owner_id;" for any token, which is how its value begins
-- {time, then of each item the reply of its own script, or only a code: GRANTED with time as token and since_us, or
--      RELEASED with no next holder}
-- An item that fails has its error instead of a reply, and the other items are not affected.
-- include parts/head.lua
local sub, byte, match, find = string.sub, string.byte, string.match, string.find
local keep, n, freed, rest = ARGV[1], #KEYS, 0, {}
local channel -- servers with channels for each shard are not called with batches
-- These tables begin at their full length: to grow them would take longer than what is done with them.
local replies, asked, noticed = {NOW, unpack(KEYS)}, {unpack(KEYS)}, {unpack(KEYS)}
local several, before -- whether some items are of one lock; the key before
for i = 1, n do
  local key = KEYS[i]
  local base = sub(key, 1, -2)
  several, before = several or key == before, key
  noticed[i], noticed[n + i] = base .. 'v', base .. 'q'
  -- A release asks for its holder; an acquire for the last token, since SET NX tells whether the lock is held.
  if byte(ARGV[i + 2]) == 97 then asked[i] = base .. 't' end
end
local values, is_quiet = redis.call('MGET', unpack(asked)), redis.call('EXISTS', unpack(noticed)) == 0

-- The fast paths, when nobody waits for the lock or watches it: of several items of one lock when they are readers', of
-- any other item when it is EXCLUSIVE and alone of its lock.
local last, answered = 0, 0 -- the last item of the latest lock that has several; the same, once they are answered
for i = 1, n do
  local item, value, reply = ARGV[i + 2], values[i], false
  local is_quiet = is_quiet or i > last and redis.call('EXISTS', noticed[i], noticed[n + i]) == 0
  if several and (i <= last or KEYS[i] == KEYS[i + 1]) then
    if i > last then
      local first = i
      last = i + 1
      while KEYS[last + 1] == KEYS[i] do last = last + 1 end
      if is_quiet then
-- include parts/readers.lua
      end
    end
    reply = i <= answered and replies[i + 1]
  elseif byte(item) == 49 then
    if is_quiet and value and find(value, item, 1, true) == 1 then
      local _, before_info, token_ends = find(value, '^%d+();%d+;%d+;%d+;', 36)
      if token_ends and token_ends <= 52 and byte(value, before_info + 1) ~= 109 then
        freed, reply = freed + 1, RELEASED
        asked[freed] = KEYS[i] -- what was asked before is not needed again
      end
    end
  elseif is_quiet then
    local late, px, tail = match(item, '^(%d+);(%d+);x[a;]+()', 36)
    local stored = value
-- include parts/token_check.lua
    if now_is_next and late and (late == '0' or #late == #NOW and NOW < late) then
      local mine = '1;' .. sub(item, 2, 33) .. ';' .. NOW .. ';' .. NOW .. ';' .. sub(item, tail)
      local granted, refusal
      HOLDER, TOKEN = KEYS[i], asked[i]
-- include parts/fast_grant.lua
      reply = granted and GRANTED or refusal or false
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

-- The rest: each item as its own script does it. The functions of the general paths are defined when the first item
-- needs them.
local broker, slot_ms, trusted, max_waiters, fair_after, hold_off =
  match(ARGV[2], '^(%x+);(%d+);(%d);(%d+);(%d+);(%d+)$')
local acquire_generally, release_generally
local function define_general_paths()
-- include parts/values.lua
-- include parts/holders.lua
-- include parts/hold_off.lua
-- include parts/show.lua
-- include parts/queue.lua
-- include parts/hand_off.lua
-- include parts/block.lua
  function acquire_generally(owner, ttl, delay, wait, info, want, preferred, value, stored, watchers, granted,
    waiting)
-- include parts/acquire.lua
  end
  function release_generally(owner, token, value, watchers, waiting)
    local h, bad = read_hold_to_release(value, owner, token)
    return bad or release_hold(h, '0', h.mine.since, {keep = keep, trusted = trusted == '1', broker = broker,
      quiet = true, waiting = waiting, fair_after = tonumber(fair_after), watchers = watchers})
  end
end

local function acquire(item)
  local not_after, want, ttl, delay, info = match(item, '^(%d+);%d+;([^;]*);(%d+);(%d+);(.*)$', 36)
  local owner, wait, preferred = sub(item, 2, 33), sub(item, 34, 34), sub(item, 35, 35)
  if not_after ~= '0' and now >= tonumber(not_after) then return {LATE, NOW} end
  local value, stored, watchers = unpack(redis.call('MGET', HOLDER, TOKEN, WATCHERS))
-- include parts/fast_acquire.lua
  if not acquire_generally then define_general_paths() end
  return acquire_generally(owner, ttl, delay, wait, info, want, preferred, value, stored, watchers,
    granted, waiting)
end

local function release(item)
  local owner, token, waiting = sub(item, 3, 34), #item > 35 and sub(item, 36, -2) or '0', nil
  local value, stored, watchers = unpack(redis.call('MGET', HOLDER, TOKEN, WATCHERS))
-- include parts/fast_release.lua
  if not release_generally then define_general_paths() end
  return release_generally(owner, token, value, watchers, waiting)
end

for _, i in ipairs(rest) do
  local item, base = ARGV[i + 2], sub(KEYS[i], 1, -2)
  HOLDER, TOKEN, QUEUE, WAITERS, WATCHERS = KEYS[i], base .. 't', base .. 'q', base .. 'w', base .. 'v'
  local ok, reply = pcall(byte(item) == 49 and release or acquire, item)
  replies[i + 1] = ok and reply or type(reply) == 'table' and reply or {err = reply}
end
return replies
