-- SPDX-License-Identifier: Apache-2.0
-- The mark of a server: with which servers it makes a quorum. Every broker must mean the same ones.
-- KEYS mark, marker of the census, note that the mark was made by "new" not long ago, heartbeat of the census, mark of
--      the schema
-- ARGV servers (the mark to be; "": only look), how ("first": unless there is one; "new": the same, and nobody can hold
--      a lock of these servers yet; "replace": whatever is there), identity (as of census), keep_ms (of the marker),
--      new_ms (how long the note lives)
-- {MEMBER, time, mark, is_new, beat_us, announced_us, longest_ttl_ms}   the mark that is there now, "": none; 1: the
--      note is there; when the last census was, and when the last broker told what it reads, 0: never; the longest ttl
--      of the brokers whose leases may last
-- include parts/head.lua
local servers, how, identity, keep, new_ms = unpack(ARGV)
local mark = redis.call('GET', KEYS[1])
if servers ~= '' and (not mark or how == 'replace') then
  redis.call('SET', KEYS[1], servers)
  -- Complete since the beginning of time: there was nothing to forget.
  if how == 'new' then
    redis.call('SET', KEYS[2], identity .. ';1;0;0', 'PX', keep)
    redis.call('SET', KEYS[3], '1', 'PX', new_ms)
  end
  mark = servers
end
local beat, ttls = string.match(redis.call('MGET', KEYS[4])[1] or '', '^[^;]+;(%d+);[01];([%d:,]*);')
local longest, announced = 0, 0
for ttl in string.gmatch(ttls or '', '(%d+):%d+') do longest = math.max(longest, tonumber(ttl)) end
local schema = redis.pcall('HGETALL', KEYS[5])
for i = 1, #schema, 2 do
  local at = string.match(schema[i], '^reads:%d+$') and string.match(schema[i + 1], '^(%d+);%x+$')
  announced = math.max(announced, tonumber(at or 0))
end
return {MEMBER, NOW, mark or '', redis.call('EXISTS', KEYS[3]), beat or '0', string.format('%.0f', announced),
  string.format('%.0f', longest)}
