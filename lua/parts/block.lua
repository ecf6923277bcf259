-- SPDX-License-Identifier: Apache-2.0
-- Step, what a release does that blocks the owner's share. Uses owner, block_ms, broker, trusted, value and watchers as
-- release has them, h with the owner's hold, and the definitions of queue. Returns the reply.
-- The block. PEXPIRE is never refused by maxmemory, and after it the next write is not either. The blocked share has no
-- owner, so that a late renewal finds nothing.
local block = tonumber(block_ms)
if h.many then
  redis.call('PEXPIRE', HOLDER, str(math.max(block, redis.call('PTTL', HOLDER))))
  redis.call('HDEL', HOLDER, owner)
  h.soonest = math.min(h.soonest, now + block * 1000)
  redis.call('HSET', HOLDER, 'holders', header(h), BLOCKED .. h.mine.token, slot_value(h.mine, now + block * 1000))
else
  redis.call('PEXPIRE', HOLDER, block_ms)
  redis.call('SET', HOLDER, '1;' .. string.rep('0', 32) .. string.sub(value, 35), 'PX', block_ms)
end
-- Nothing happens in the store when the block ends: the broker of the first waiter that can be reached is to tend then.
local length, foreign_queue = try('ZCARD', QUEUE)
if not foreign_queue and length > 0 then length, foreign_queue = try('HLEN', WAITERS) end
if not foreign_queue and length > 0 then
  local brokers = {[broker] = 'alive'}
  walk(brokers, nil, function(who)
    if who.broker == broker or publish(who.broker, NOW .. ';' .. block_ms) or trusted ~= '1' then return true end
    brokers[who.broker] = 'unreachable'
    return false
  end)
end
tell(watchers)
return {RELEASED, NOW, 'blocked'}
