-- SPDX-License-Identifier: Apache-2.0
-- Reads the mark of the schema, announces what the caller reads, and raises what is written (see "The schema" in
-- lua/README.md).
-- KEYS mark
-- ARGV broker_id, oldest and newest (that the broker reads), want (what is to be written at least; 0: as it is),
--      ask (1: only say what would be), keep_ms (of the mark), recent_ms (who announced itself so lately counts),
--      old_ms (so long after an upgrade there may be data of the schema before), least_id (of several servers, which
--      are to show one id; "": none is known), new_id (of a store that has none; "": it gets none)
-- {SCHEMA, time, writes, reads_from, since_us, reads, at_us, broker_id, refusal, id}   reads, at_us, broker_id: who
--      stands in the way of `want` (reads 0: nobody). refusal: why the server does not write the mark ("": it does)
-- {FOREIGN, time, key, type}
-- include parts/head.lua
local MARK, broker, oldest, newest, want, ask = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]),
  tonumber(ARGV[4]), ARGV[5] == '1'
local recent_us, old_us = tonumber(ARGV[7]) * 1000, tonumber(ARGV[8]) * 1000
local fields = redis.pcall('HGETALL', MARK)
if fields.err then
  local kind = redis.call('TYPE', MARK).ok
  if kind == 'hash' or kind == 'none' then return fields end
  return {FOREIGN, NOW, MARK, kind}
end
local writes, reads_from, since = 0, 0, NOW
local blocker_reads, blocker_at, blocker = 0, 0, ''
local least_id, id = ARGV[9], ''
for i = 1, #fields, 2 do
  local field, value = fields[i], fields[i + 1]
  if field == 'writes' then writes = tonumber(value) or 0 end
  if field == 'reads_from' then reads_from = tonumber(value) or 0 end
  if field == 'since_us' then since = value end
  if field == 'id' and string.match(value, '^%x+$') then id = value end
  local reads = tonumber(string.match(field, '^reads:(%d+)$') or want)
  local at, who = string.match(value, '^(%d+);(%x+)$')
  if at and reads < want and now - tonumber(at) < recent_us and tonumber(at) > blocker_at then
    blocker_reads, blocker_at, blocker = reads, tonumber(at), who
  end
end
if #fields > 0 and (writes < 1 or reads_from < 1 or not string.match(since, '^%d+$')) then
  return {FOREIGN, NOW, MARK, 'shape'}
end
local function reply(refusal)
  return {SCHEMA, NOW, string.format('%.0f', writes), string.format('%.0f', reads_from), since,
    string.format('%.0f', blocker_reads), string.format('%.0f', blocker_at), blocker, refusal, id}
end
local new_writes, new_from, new_since = writes, reads_from, since
if #fields == 0 then
  -- The mark may have been lost, and then data of every schema that this broker reads may be there.
  new_writes, new_from, new_since = math.max(oldest, want), oldest, NOW
elseif want > writes and blocker_reads == 0 then
  new_writes, new_from, new_since = want, writes, NOW
elseif reads_from < writes and now - tonumber(since) >= old_us then
  new_from = writes
end
local new_id = id ~= '' and id or ARGV[10]
if least_id ~= '' and least_id < new_id then new_id = least_id end
-- A broker that cannot read the store does not count as its user.
if not ask and new_writes <= newest and new_from >= oldest then
  local mark = {'writes', string.format('%.0f', new_writes), 'reads_from', string.format('%.0f', new_from),
    'since_us', new_since, 'reads:' .. string.format('%.0f', newest), NOW .. ';' .. broker}
  if new_id ~= '' then mark[9], mark[10] = 'id', new_id end
  local written = redis.pcall('HSET', MARK, unpack(mark))
  -- A full server has no room for the mark, and can still renew and release.
  if type(written) == 'table' and written.err then
    if #fields == 0 then writes, reads_from, since = new_writes, new_from, new_since end
    return reply(written.err)
  end
  redis.call('PEXPIRE', MARK, ARGV[6])
  writes, reads_from, since, id = new_writes, new_from, new_since, new_id
elseif #fields == 0 then
  writes, reads_from, since = new_writes, new_from, new_since
end
return reply('')
