-- SPDX-License-Identifier: Apache-2.0
-- Tells the broker of a holder that somebody waits for what it holds, or was just refused it, and says how many wait.
-- KEYS holder, last token, queue, waiters (only read)
-- ARGV owner_id, token (not 0), broker_id that it has the lock through, broker_id (the caller's), and the tag of the
--      broker's channel if that is a shard's
-- {TOLD, time, queue_length}   it holds the lock under that token; the caller itself gets no notice
-- {NOT_HOLDER, time}   {GONE, time}   {FOREIGN, time, key, type or "shape"}
-- include parts/head.lua
-- include parts/values.lua
-- include parts/holders.lua
-- include parts/queue.lua
local owner, token, through, broker, channel = unpack(ARGV)
own_tag = channel
local h, bad = read_own_hold(redis.call('MGET', HOLDER)[1], owner, token)
local length
if not bad then length, bad = try('ZCARD', QUEUE) end
if bad then return bad end
if through ~= broker then publish(through, table.concat({'wanted', owner, token}, ';')) end
return {TOLD, NOW, length}
