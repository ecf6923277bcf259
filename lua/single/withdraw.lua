-- SPDX-License-Identifier: Apache-2.0
-- KEYS holder, last token, queue, waiters
-- ARGV owner_id, token_keep_ms, trusted, broker_id (the caller's), keep_grant (1: a holder keeps the lock), fair_after_us
-- {WITHDRAWN, time, ...}   it was queued; the rest as of release, since who waited behind it may fit beside the holders
-- {RELEASED, ...}          it was a holder already, without keep_grant: as release
-- {GONE, time}             neither, or it has its place through another broker   {FOREIGN, time, key, type}
-- include parts/head.lua
-- include parts/prelude.lua
-- include parts/queue.lua
local value, watchers = unpack(redis.call('MGET', HOLDER, WATCHERS))
local h = read_holders(value, ARGV[1])
local o = {keep = ARGV[2], trusted = ARGV[3] == '1', broker = ARGV[4], quiet = true, fair_after = tonumber(ARGV[6]),
  watchers = watchers}
if h and h.mine and ARGV[5] ~= '1' then return free(h, o) end
local entry, bad = try('HGET', WAITERS, ARGV[1])
if bad then return bad end
-- A repeat through another broker has moved the place there.
if entry and string.match(entry, '^(%x+);') ~= ARGV[4] then return {GONE, NOW} end
local removed
removed, bad = try('ZREM', QUEUE, ARGV[1])
if bad then return bad end
redis.call('HDEL', WAITERS, ARGV[1])
if removed == 0 then return {GONE, NOW} end
local grants, look = {}, false
if h and h.kind ~= 'x' then
  settle(h)
  grants, look = pass_on(h, o)
end
local was = parse_waiter(ARGV[1], entry)
if was and was.adaptive and redis.call('ZCARD', QUEUE) == 0 then redis.call('DEL', WAITERS) end
tell(watchers)
return list({WITHDRAWN, NOW, look and 'look' or ''}, grants)
