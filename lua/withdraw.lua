-- SPDX-License-Identifier: Apache-2.0
-- KEYS holder, last token, queue, waiters
-- ARGV owner_id, token_keep_ms, trusted, broker_id (the caller's), keep_grant (1: a holder keeps the lock)
-- {WITHDRAWN, time}   it was queued
-- {RELEASED, ...}     it was the holder already, without keep_grant: as release
-- {GONE, time}        neither, or it has its place through another broker   {FOREIGN, time, key, type}
local holder = ARGV[5] ~= '1' and read_holder()
if holder and holder.owner == ARGV[1] then return free(holder, ARGV[2], ARGV[3] == '1', ARGV[4]) end
local entry, bad = try('HGET', WAITERS, ARGV[1])
if bad then return bad end
-- A repeat through another broker has moved the place there.
if entry and string.match(entry, '^(%x+);') ~= ARGV[4] then return {GONE, NOW} end
local removed
removed, bad = try('ZREM', QUEUE, ARGV[1])
if bad then return bad end
redis.call('HDEL', WAITERS, ARGV[1])
return {removed == 1 and WITHDRAWN or GONE, NOW}
