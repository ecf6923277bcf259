-- SPDX-License-Identifier: Apache-2.0
-- A broker has given a lock that it kept after a release to its next lease: the store is told who has it now. Or, with
-- the same owner on both sides, that it will keep the lock no more: the mark of that goes.
-- KEYS holder, last token, queue, waiters
-- ARGV owner_id that has it, token, owner_id that has it from now on, token, ttl_ms, info, token_keep_ms
-- {NOTED, time, queue_length}   also when the new owner has it already; its ttl begins anew, unless only the mark goes
-- {NOT_HOLDER, time}   neither of them has it under its token, EXCLUSIVE; nothing was done
-- include parts/head.lua
local from, from_token, owner, token, ttl, info, keep = unpack(ARGV)
local value, stored, watchers = unpack(redis.call('MGET', HOLDER, TOKEN, WATCHERS))
local before, mine = '1;' .. from .. ';' .. from_token .. ';', '1;' .. owner .. ';' .. token .. ';'
local is_noted = value and string.sub(value, 1, #mine) == mine
if not is_noted and (not value or string.sub(value, 1, #before) ~= before) then return {NOT_HOLDER, NOW} end
local since = string.match(value, '^%d+', #(is_noted and mine or before) + 1)
if not since then return {NOT_HOLDER, NOW} end

-- First the write that maxmemory never refuses. What is shown of a holder's beginning stays: a call that comes late, to
-- a server that has forgotten, must not look like a grant of that server (hold_off).
if from == owner then
  local head, plain = string.match(value, '^(1;%x+;%d+;%d+;%d+;%d+;)l;%x+;(.*)$')
  local left = head and string.sub(plain, 1, 2) ~= 'r;' and redis.call('PTTL', HOLDER) or 0
  if left > 0 then
    redis.call('PEXPIRE', HOLDER, left)
    redis.call('SET', HOLDER, head .. plain, 'PX', left)
  end
else
  redis.call('PEXPIRE', HOLDER, ttl)
end
if from ~= owner and not is_noted then
  redis.call('SET', HOLDER, mine .. since .. ';' .. ttl .. ';0;' .. info, 'PX', ttl)
  -- A last token that is greater, or no token, stays.
  if not stored then
    redis.pcall('SET', TOKEN, token, 'PX', keep, 'NX')
  elseif #stored <= #token and not string.find(stored, '%D') and (#stored < #token or stored < token) then
    redis.call('SET', TOKEN, token, 'PX', keep)
  end
end
local waiting = redis.pcall('ZCARD', QUEUE)
if watchers and not is_noted then
-- include parts/values.lua
  tell(watchers)
end
return {NOTED, NOW, type(waiting) == 'number' and waiting or 0}
