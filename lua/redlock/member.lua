-- SPDX-License-Identifier: Apache-2.0
-- The mark of a server: with which servers it makes a quorum. Every broker must mean the same ones.
-- KEYS mark, marker of the census
-- ARGV servers (the mark to be; "": only look), how ("first": unless there is one; "new": the same, and nobody can hold
--      a lock of these servers yet; "replace": whatever is there), identity (as of census), keep_ms (of the marker)
-- {MEMBER, time, mark}   the mark that is there now; "": none
-- include parts/head.lua
local servers, how, identity, keep = unpack(ARGV)
local mark = redis.call('GET', KEYS[1])
if servers ~= '' and (not mark or how == 'replace') then
  redis.call('SET', KEYS[1], servers)
  -- Complete since the beginning of time: there was nothing to forget.
  if how == 'new' then redis.call('SET', KEYS[2], identity .. ';1;0;0', 'PX', keep) end
  mark = servers
end
return {MEMBER, NOW, mark or ''}
