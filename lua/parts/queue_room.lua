-- SPDX-License-Identifier: Apache-2.0
-- Step of an acquire that waits. Uses owner, broker, max_waiters, length and had_place. Sets entry and since (of the
-- place that it has), or makes sure that there is room for one more: dead are to be removed for that.
local dead, since, entry = {}, NOW, nil
if had_place then
  entry = redis.call('HGET', WAITERS, owner)
  local before = parse_waiter(owner, entry)
  if before then since = str(before.since) end
elseif length >= tonumber(max_waiters) then
  dead = walk({[broker] = 'alive'}, nil, function() return true end)
  if length - #dead >= tonumber(max_waiters) then return {QUEUE_FULL, NOW, length} end
end
