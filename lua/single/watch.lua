-- SPDX-License-Identifier: Apache-2.0
-- KEYS holder, last token, queue, waiters (only read)
-- ARGV max_waiters, max_holders, broker_id (the caller's), slot_ms
-- As inspect. And the caller's broker is told of each change of holders or waiters from now on, for slot_ms: what is shown, and what
-- it is told of later, leave no gap. It is not told when MAX_WATCHERS brokers are, or the store has no memory: it is to call again
-- before its slot ends in any case.
-- include parts/head.lua
-- include parts/prelude.lua
local function look()
-- include parts/inspect.lua
end

-- Those who watch, and, when it is not for nearly as long as it may, the caller.
local function watch(broker, slot_ms)
  local text, bad = try('GET', WATCHERS)
  if bad then return bad end
  local alive, longest, mine = {}, now + slot_ms * 1000, 0
  if text and string.gsub(text, WATCHER, '') ~= '' then return foreign(WATCHERS, 'shape') end
  for who, until_us in string.gmatch(text or '', WATCHER) do
    if who == broker then
      mine = tonumber(until_us)
    elseif tonumber(until_us) > now and #alive < MAX_WATCHERS then
      alive[#alive + 1] = who .. ';' .. until_us .. ','
      longest = math.max(longest, tonumber(until_us))
    end
  end
  if mine - now > slot_ms * 1000 * 2 / 3 or #alive == MAX_WATCHERS then return nil end
  alive[#alive + 1] = broker .. ';' .. str(now + slot_ms * 1000) .. ','
  -- Who watches already is not refused by maxmemory: after PEXPIRE the SET is not.
  if mine > 0 then redis.call('PEXPIRE', WATCHERS, str(slot_ms)) end
  local set = redis.pcall('SET', WATCHERS, table.concat(alive), 'PX', str(math.ceil((longest - now) / 1000)))
  if set.err and not string.find(set.err, 'OOM', 1, true) then return set end
end

local reply = look()
if reply[1] == FOREIGN then return reply end
return watch(ARGV[3], tonumber(ARGV[4])) or reply
