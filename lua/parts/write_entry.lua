-- SPDX-License-Identifier: Apache-2.0
-- Step: the entry of a new waiter, which stands in the queue already. Uses acquire's arguments; `request`, when it is a
-- try of one, then names it.
local entry = broker .. ';' .. ttl .. ';' .. delay .. ';' .. want .. ';' .. NOW .. ';' .. info
if request then
  redis.call('HSET', WAITERS, owner, entry, request, owner)
else
  redis.call('HSET', WAITERS, owner, entry)
end
