-- SPDX-License-Identifier: Apache-2.0
-- KEYS holder, last token, queue, waiters
-- ARGV owner_id, token (0: any), block_ms (0: free at once; else nobody gets it for so long), token_keep_ms, trusted,
--      broker_id (the caller's)
-- {RELEASED, time}   {RELEASED, time, "blocked"}
-- {RELEASED, time, owner_id, token, since_us, ttl_ms, delay_ms, broker_id}   the next holder, when it waits at the caller's
--      broker; others learn of theirs from their channel
-- {NOT_HOLDER, time}   also when the owner has it under another token   {GONE, time}   {FOREIGN, time, key, type or "shape"}
local NOBODY = string.rep('0', 32)

-- A lock whose block ends is free without anybody's doing: the broker of the first waiter who can hear is to look then.
local function tell_of_block()
  local waiting, bad = try('ZCARD', QUEUE)
  if not bad and waiting > 0 then waiting, bad = try('HLEN', WAITERS) end
  if bad or waiting == 0 then return end
  local prefix, name = string.match(HOLDER, '^(.-):{(.*)}:h$')
  local mine, heard = ARGV[6], {}
  walk({[mine] = true}, nil, function(who)
    if heard[who.broker] == nil then
      heard[who.broker] = who.broker == mine
        or redis.call('PUBLISH', prefix .. ':grant:' .. who.broker, name .. '\n' .. NOW .. ';' .. ARGV[3]) > 0
        or ARGV[5] ~= '1'
    end
    return heard[who.broker]
  end)
end

local holder, bad = read_holder()
if bad then return bad end
if not holder then return {GONE, NOW} end
if not is_held_by(holder, ARGV[1], ARGV[2]) then return {NOT_HOLDER, NOW} end
if tonumber(ARGV[3]) > 0 then
  -- PEXPIRE is never refused by maxmemory, and after it SET is not either. No owner, so that a late renewal finds nothing.
  redis.call('PEXPIRE', HOLDER, ARGV[3])
  redis.call('SET', HOLDER, '1;' .. NOBODY .. string.sub(holder.value, 35), 'PX', ARGV[3])
  tell_of_block()
  return {RELEASED, NOW, 'blocked'}
end
return free(holder, ARGV[4], ARGV[5] == '1', ARGV[6])
