-- SPDX-License-Identifier: Apache-2.0
-- Marks since when a server's data are known to have been complete (see "The hold-off" in lua/README.md).
-- KEYS marker
-- ARGV identity (of the data: any text without ";"), known_since_us (0: not known), confirm (1: count from now if
--      nothing is known yet; 0: leave that open), keep_ms, hold_off_ms, longest_ttl_ms
-- {CENSUSED, time, since_us (0: open), hold_off_ms, longest_ttl_ms}   the largest that any broker has named here
-- include parts/head.lua
local identity, since, confirm, keep, hold_off, longest = unpack(ARGV)
local marked, marked_since, marked_hold_off, marked_longest =
  string.match(redis.call('GET', KEYS[1]) or '', '^([^;]+);(%d+);(%d+);(%d+)$')
if marked == identity then
  if marked_since ~= '0' then since = marked_since end
  hold_off = string.format('%.0f', math.max(tonumber(hold_off), tonumber(marked_hold_off)))
  longest = string.format('%.0f', math.max(tonumber(longest), tonumber(marked_longest)))
end
if since == '0' and confirm == '1' then since = NOW end
redis.call('SET', KEYS[1], table.concat({identity, since, hold_off, longest}, ';'), 'PX', keep)
return {CENSUSED, NOW, since, hold_off, longest}
