-- SPDX-License-Identifier: Apache-2.0
-- Marks since when a server's data are known to have been complete, and keeps its heartbeat (see "The hold-off" in
-- lua/README.md).
-- KEYS marker, heartbeat
-- ARGV identity (of the data: any text without ";"), known_since_us (0: not known), confirm (1: count from now if
--      nothing is known yet; 0: leave that open), keep_ms, hold_off_ms (when the data may be incomplete),
--      longest_ttl_ms (the caller's), known_hold_off_ms (with known_since_us),
--      complete_if: "never", "beating" (a heartbeat shows that nothing is missing), "original" (the data are no copy of
--      another server's), or both, "beating original"; started_us (when the server's process began, to the second; 0:
--      not known), copied: "promoted" (it was a replica), "copied" (it has replicas) or "";
--      ttls (what brokers have said of their longest ttl: "ttl_ms:age_ms,..."),
--      server (of several servers with data of their own: this one's address; else ""),
--      has_marked (1: the caller has read or written this marker before, and known_since_us since then),
--      lives (1: no other server can have had these locks since this one's process began, as far as the caller knows),
--      kept_us (by the server's clock: after that time its settings were such that each write is on its disk before it
--      is answered; 0: they are not, or it is not known)
-- {CENSUSED, time, since_us (0: open), hold_off_ms, longest_ttl_ms, copied (1: it has, or had, replicas), ttls}
--      hold_off and longest_ttl: the largest that any broker has named here
-- include parts/head.lua
local BEATS, KEPT, SECOND, LATER, MOST = 3000000, 2000000, 1000000, 10000000, 8
local identity, since, confirm, keep, hold_off, longest, known_hold_off, complete_if, started, copied, said,
  server, has_marked, lives, kept_us = unpack(ARGV)
local keys = redis.call('MGET', KEYS[1], KEYS[2])
local marked, marked_since, marked_hold_off, marked_longest =
  string.match(keys[1] or '', '^([^;]+);(%d+);(%d+);(%d+)$')
local seen, beat, had_replicas, ttls, rest =
  string.match(keys[2] or '', '^([^;]+);(%d+);([01]);([%d:,]*);(.*)$')
-- A heartbeat of a release that says nothing of the settings shows nothing.
local was_kept, beat_server = string.match(rest or '', '^([01]);(.*)$')

-- Whether, since this process began, no data were deleted at once, thrown away, or replaced by another server's: as its
-- own counters show. Servers before Redis 7.0 do not count all of that.
local EMPTIES = {'flushall', 'flushdb', 'swapdb', 'debug', 'restore', 'replicaof', 'slaveof', 'failover',
  'config|resetstat'}
local function keeps_all()
  local stats, commands = redis.pcall('INFO', 'stats'), redis.pcall('INFO', 'commandstats')
  if type(stats) ~= 'string' or type(commands) ~= 'string' or not string.find(commands, 'cmdstat_', 1, true) or
    not string.find(stats, 'evicted_keys:0\r', 1, true) or
    not string.find(stats, 'total_net_repl_input_bytes:0\r', 1, true) then
    return false
  end
  for _, name in ipairs(EMPTIES) do
    if string.find(commands, 'cmdstat_' .. name .. ':', 1, true) then return false end
  end
  return true
end

-- A caller that has known the marker finds none, or another one of the same data: the data were deleted meanwhile.
local is_lost = since ~= '0' and has_marked == '1' and (not marked and seen ~= identity or
  marked == identity and (marked_since == '0' or tonumber(marked_since) > tonumber(since)))
local is_known = seen == identity or since ~= '0'
if is_lost then since = '0' end
local is_new = not is_lost and not is_known
beat, started, hold_off = tonumber(beat or 0), tonumber(started), tonumber(hold_off)

-- Data that were still written elsewhere while this process was running have been copied from there. A stamp from the
-- future is one of a clock that was set.
local is_copy = copied == 'promoted' or
  (is_new and seen and started > 0 and beat > started + 2 * SECOND and beat <= now)
if is_new then
  -- Where there are replicas, one of them may have been promoted and restarted before anybody has seen it.
  local beats_on = started > 0 and had_replicas ~= '1' and beat >= started - BEATS and beat <= started + SECOND
  -- The settings of today's process are not those of the one before: an operator may have changed these at run time.
  beats_on = beats_on and was_kept == '1'
  if string.find(complete_if, 'original', 1, true) and not is_copy and had_replicas ~= '1' or
    string.find(complete_if, 'beating', 1, true) and not is_copy and beats_on and beat_server == server then
    hold_off = 0
  end
elseif not is_lost and complete_if ~= 'never' and
  tonumber(marked == identity and marked_hold_off or known_hold_off) == 0 then
  hold_off = 0
end

if marked == identity then
  if marked_since ~= '0' then since = marked_since end
  hold_off = math.max(hold_off, tonumber(marked_hold_off))
  longest = string.format('%.0f', math.max(tonumber(longest), tonumber(marked_longest)))
elseif is_known then
  hold_off = math.max(hold_off, tonumber(known_hold_off))
elseif marked then
  -- The hold-off of the data before is over only by itself.
  local whole = tonumber(marked_hold_off)
  local left = marked_since == '0' and whole or math.ceil((tonumber(marked_since) - now) / 1000) + whole
  hold_off = math.max(hold_off, math.min(left, whole))
end
-- A server without a trace of any broker, whose process has kept all data that it ever had, can have forgotten only
-- what was granted before that began.
if is_new and lives == '1' and not keys[1] and not keys[2] and started > 0 and keeps_all() then
  since = string.format('%.0f', math.min(now, started + 2 * SECOND))
end
if since == '0' and confirm == '1' then since = NOW end
hold_off = string.format('%.0f', hold_off)
redis.call('SET', KEYS[1], table.concat({identity, since, hold_off, longest}, ';'), 'PX', keep)

-- A longest ttl matters for its own length and LATER since it was said; a longer one, said later, says it, too. The
-- shortest that is kept is taken to have been said when those were that there is no room for.
local last, order, kept, ages, newest, shortest = {}, {}, {}, {}, 0, 0
local function hear(ttl, at)
  at = math.min(at, now)
  if at + ttl * 1000 + LATER < now then return end
  if not last[ttl] then order[#order + 1] = ttl end
  last[ttl] = math.max(last[ttl] or 0, at)
end
for ttl, at in string.gmatch(ttls or '', '(%d+):(%d+)') do hear(tonumber(ttl), tonumber(at)) end
for ttl, age in string.gmatch(said, '(%d+):(%d+)') do hear(tonumber(ttl), now - tonumber(age) * 1000) end
table.sort(order, function(a, b) return a > b end)
for _, ttl in ipairs(order) do
  if last[ttl] > newest then
    newest = last[ttl]
    if #kept < MOST then shortest = ttl else kept[MOST], ages[MOST] = nil, nil end
    kept[#kept + 1] = string.format('%.0f:%.0f', shortest, newest)
    ages[#ages + 1] = string.format('%.0f:%.0f', shortest, math.floor((now - newest) / 1000))
  end
end
local has_replicas = (copied ~= '' or is_copy or had_replicas == '1') and '1' or '0'
-- A call that is late does not know the settings of its time.
local keeps = tonumber(kept_us) <= now and now < tonumber(kept_us) + KEPT and '1' or '0'
local written = table.concat({identity, NOW, has_replicas, table.concat(kept, ','), keeps, server}, ';')
redis.call('SET', KEYS[2], written, 'PX', keep)
return {CENSUSED, NOW, since, hold_off, longest, has_replicas, table.concat(ages, ',')}
