-- SPDX-License-Identifier: Apache-2.0
-- KEYS holder, last token, queue, waiters
-- ARGV owner_id, token (0: any), broker_id that it has the lock through ("": not known), reason (any bytes), token_keep_ms, trusted,
--      broker_id (the caller's), fair_after_us
-- {TOLD, time}   that broker has been told to give it back, at once or when its holder has ceased to believe
-- {RELEASED, ...}   as release: nobody hears that broker's channel, or it is the caller, who knows of no such lease
-- {NOT_HOLDER, time}   {GONE, time}   {FOREIGN, time, key, type or "shape"}
-- include parts/head.lua
-- include parts/prelude.lua
-- include parts/queue.lua
local value, watchers = unpack(redis.call('MGET', HOLDER, WATCHERS))
local h, bad = read_holders(value, ARGV[1])
if bad then return bad end
if not h.kind then return {GONE, NOW} end
if not h.mine or not is_held_by(h.mine, ARGV[1], ARGV[2]) then return {NOT_HOLDER, NOW} end
local trusted = ARGV[6] == '1'
if ARGV[3] ~= '' and ARGV[3] ~= ARGV[7] then
  local heard = publish(ARGV[3], table.concat({'force', ARGV[1], h.mine.token, ARGV[4]}, ';'))
  if heard or not trusted then return {TOLD, NOW} end
end
return free(h, {keep = ARGV[5], trusted = trusted, broker = ARGV[7], quiet = true, fair_after = tonumber(ARGV[8]),
  watchers = watchers})
