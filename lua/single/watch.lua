-- SPDX-License-Identifier: Apache-2.0
-- Shows a lock, as inspect, and enters the caller's broker among those that are told of each change of holders or
-- waiters from now on, for slot_ms. There is no gap between what it is shown and what it is told of. It is not entered
-- when MAX_WATCHERS other brokers watch, or the store has no memory. It must call again before its slot ends.
-- KEYS holder, last token, queue, waiters (only read)
-- ARGV max_waiters, max_holders, broker_id (the caller's), slot_ms, and the tag of its channel if that is a shard's
-- include parts/head.lua
-- include parts/values.lua
-- include parts/holders.lua
-- include parts/show.lua
-- include parts/inspect.lua

-- Enters the caller among the watchers, unless its entry there lasts for more than two thirds of slot_ms. Returns an
-- error reply, or nil.
local function watch(broker, slot_ms, channel)
  local text, bad = try('GET', WATCHERS)
  if bad then return bad end
  local alive, longest, mine = {}, now + slot_ms * 1000, 0
  if text and string.gsub(text, WATCHER, '') ~= '' then return foreign(WATCHERS, 'shape') end
  for who, tag, until_us in string.gmatch(text or '', WATCHER) do
    if who == broker then
      mine = tag == (channel or '') and tonumber(until_us) or math.min(tonumber(until_us), now + 1)
    elseif tonumber(until_us) > now and #alive < MAX_WATCHERS then
      alive[#alive + 1] = who .. (tag == '' and ';' or ':' .. tag .. ';') .. until_us .. ','
      longest = math.max(longest, tonumber(until_us))
    end
  end
  if mine - now > slot_ms * 1000 * 2 / 3 or #alive == MAX_WATCHERS then return nil end
  alive[#alive + 1] = broker .. (channel and ':' .. channel or '') .. ';' .. str(now + slot_ms * 1000) .. ','
  -- A broker that watches already is not refused by maxmemory: after PEXPIRE the SET passes.
  if mine > 0 then redis.call('PEXPIRE', WATCHERS, str(slot_ms)) end
  local set = redis.pcall('SET', WATCHERS, table.concat(alive), 'PX', str(math.ceil((longest - now) / 1000)))
  if set.err and not string.find(set.err, 'OOM', 1, true) then return set end
end

local reply = inspect(tonumber(ARGV[1]), tonumber(ARGV[2]))
if reply[1] == FOREIGN then return reply end
return watch(ARGV[3], tonumber(ARGV[4]), ARGV[5]) or reply
