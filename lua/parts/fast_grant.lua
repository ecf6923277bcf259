-- SPDX-License-Identifier: Apache-2.0
-- Step: grants a lock EXCLUSIVE to its first comer. The caller has found no EXCLUSIVE holder, an empty queue, and
-- now_is_next. Uses `mine` (the new value of B:h), `px`, `stored` and `keep`. Sets one of two names that the caller
-- declares: `granted`, or `refusal`, the server's error. With neither, nothing is written: MGET shows SHARED holders
-- and foreign types as missing, and NX finds them.
local set = redis.pcall('SET', HOLDER, mine, 'PX', px, 'NX')
if set and set.ok then
  if stored then
    set = redis.pcall('SET', TOKEN, NOW, 'PX', keep)
  else
    set = redis.pcall('SET', TOKEN, NOW, 'PX', keep, 'NX')
  end
  granted = set and set.ok
  if not granted then redis.call('DEL', HOLDER) end
-- A refusal (no memory) is the answer, unless the lock is held anyway.
elseif set and redis.call('EXISTS', HOLDER) == 0 then
  refusal = set
end
