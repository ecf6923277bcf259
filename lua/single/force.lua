-- SPDX-License-Identifier: Apache-2.0
-- Ends a hold, or a block, on an administrator's order.
-- KEYS holder, last token, queue, waiters
-- ARGV owner_id (zeros: what a release left blocked under the token), token (0: any), broker_id that it has the lock
--      through ("": not known), reason (any bytes), token_keep_ms, trusted, broker_id (the caller's), fair_after_us,
--      hold_off and least (as of tend), and the tag of the broker's channel if that is a shard's
-- {TOLD, time}   that broker has been told to release the lock, at once or when its holder no longer believes in it
-- {RELEASED, ...}   as release: nobody received that broker's notice, or it is the caller, which has no such lease
-- {NOT_HOLDER, time}   {GONE, time}   {FOREIGN, time, key, type or "shape"}
-- include parts/head.lua
-- include parts/values.lua
-- include parts/holders.lua
-- include parts/queue.lua
-- include parts/hand_off.lua
local owner, token, through, reason, keep, trusted, broker, fair_after, hold_off, least,
  channel = unpack(ARGV)
own_tag = channel
-- include parts/hold_off.lua
-- include parts/least_token.lua
local value, watchers = unpack(redis.call('MGET', HOLDER, WATCHERS))
if owner == NOBODY then
  through = '' -- nobody has it through a broker any more
  if not value then owner = BLOCKED .. token end
end
local h, bad = read_own_hold(value, owner, token)
if bad then return bad end
if through ~= '' and through ~= broker then
  local heard = publish(through, table.concat({'force', owner, h.mine.token, reason}, ';'))
  if heard or trusted ~= '1' then return {TOLD, NOW} end
end
return free(h, {keep = keep, trusted = trusted == '1', broker = broker, quiet = true, fair_after = tonumber(fair_after),
  watchers = watchers})
