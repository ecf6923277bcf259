-- SPDX-License-Identifier: Apache-2.0
-- KEYS holder keys of up to 100 locks, one slot
-- ARGV owner_id, token (0: any), px_ms for each key in turn
-- {RENEWED, time, r...}   r of each key: 1 renewed, 0 gone, 2 another's, under another token, or foreign. A key that is gone is not made again.
local values, reply = redis.call('MGET', unpack(KEYS)), {RENEWED, NOW}
for i, key in ipairs(KEYS) do
  local holder = values[i] and parse_holder(values[i])
  if holder and is_held_by(holder, ARGV[3 * i - 2], ARGV[3 * i - 1]) then
    reply[i + 2] = redis.call('PEXPIRE', key, ARGV[3 * i])
  elseif values[i] or redis.call('EXISTS', key) == 1 then
    reply[i + 2] = 2
  else
    reply[i + 2] = 0
  end
end
return reply
