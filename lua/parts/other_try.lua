-- SPDX-License-Identifier: Apache-2.0
-- Step of an acquire. Another try of the same request may have a place: this one takes it over, unless it had one of
-- its own before, or the other is the later one. When the other try holds the lock, this one waits in front of all
-- others: the other's broker gives it back. Behind a later one that holds it, it does not wait at all.
-- Uses owner, wait, length, the holders h; held(), the reply that it is held, and score_after(theirs), the score of the
-- owner when the other try had theirs. Sets request, other, rank (of a place that was taken over) and holds (the other
-- try holds the lock).
local request, holds = wait ~= '0' and request_of(owner), false
local other = request and length > 0 and redis.call('HGET', WAITERS, request)
local rank = other and other ~= owner and redis.call('ZRANK', QUEUE, other)
if rank and (wait == '2' or is_later(other, owner)) then return held() end
if rank then
  redis.call('ZADD', QUEUE, score_after(redis.call('ZRANGE', QUEUE, rank, rank, 'WITHSCORES')[2]), owner)
  redis.call('HSET', WAITERS, owner, redis.call('HGET', WAITERS, other) or '', request, owner)
  redis.call('ZREM', QUEUE, other)
  redis.call('HDEL', WAITERS, other)
elseif request and wait == '1' and h.kind and (length > 0 or h.kind == 'x') then
  for _, hold in ipairs(h.kind == 'x' and {h} or h.used <= MOST_SHOWN and read_slots(h) or {}) do
    local same = request_of(hold.owner) == request
    if same and is_later(hold.owner, owner) then return held() end
    holds = holds or same
  end
end
