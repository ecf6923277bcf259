-- SPDX-License-Identifier: Apache-2.0
-- Step: the waiter `first` leaves the queue, with its entry and what names it as the try of its request.
redis.call('ZREM', QUEUE, first)
if string.sub(first, 1, 2) == TRY then
  redis.call('HDEL', WAITERS, first, string.sub(first, 1, 16))
else
  redis.call('HDEL', WAITERS, first)
end
