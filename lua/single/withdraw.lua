-- SPDX-License-Identifier: Apache-2.0
-- Ends a request whose outcome the caller does not know: a waiter, or a holder already.
-- KEYS holder, last token, queue, waiters
-- ARGV owner_id, not_after_us (0: never late), token_keep_ms, trusted, broker_id (the caller's), keep_grant (1: a
--      holder keeps the lock), fair_after_us, hold_off (see parts/hold_off.lua), and the tag of the broker's channel if
--      that is a shard's
-- {WITHDRAWN, time, ...}   it was queued; the rest as of release, since waiters behind it may fit beside the holders
-- {RELEASED, ...}          it was a holder already, without keep_grant: as release
-- {GONE, time}             neither, or it has its place through another broker
-- {LATE, time}   {FOREIGN, time, key, type}
-- include parts/head.lua
-- include parts/values.lua
-- include parts/holders.lua
-- include parts/queue.lua
-- include parts/hand_off.lua
local owner, not_after, keep, trusted, broker, keep_grant, fair_after, hold_off, channel = unpack(ARGV)
if not_after ~= '0' and now >= tonumber(not_after) then return {LATE, NOW} end
own_tag = channel
-- include parts/hold_off.lua
local value, watchers = unpack(redis.call('MGET', HOLDER, WATCHERS))
local h = read_holders(value, owner)
local o = {keep = keep, trusted = trusted == '1', broker = broker, quiet = true, fair_after = tonumber(fair_after),
  watchers = watchers}
if h and h.mine and keep_grant ~= '1' then return free(h, o) end
local entry, bad = try('HGET', WAITERS, owner)
if bad then return bad end
-- A repeat through another broker has moved the place there.
if entry and string.match(entry, '^(%x+);') ~= broker then return {GONE, NOW} end
local removed
removed, bad = try('ZREM', QUEUE, owner)
if bad then return bad end
redis.call('HDEL', WAITERS, unpack({owner, removed == 1 and request_of(owner) or nil}))
if removed == 0 then return {GONE, NOW} end
local grants, tend_again = {}, false
if h and h.kind ~= 'x' then
  drop_expired(h)
  grants, tend_again = pass_on(h, o)
end
local was = parse_waiter(owner, entry)
if was and was.adaptive and redis.call('ZCARD', QUEUE) == 0 then redis.call('DEL', WAITERS) end
tell(watchers)
return list({WITHDRAWN, NOW, tend_again and 'look' or ''}, grants)
