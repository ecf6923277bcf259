-- SPDX-License-Identifier: Apache-2.0
-- KEYS holder, last token, queue, waiters
-- ARGV broker_id (the caller's), slot_ms, token_keep_ms, trusted, owner_id of the caller's first waiter
-- {TENDED, time, pttl_ms (-2: free), owner_id or "", token, since_us, ttl_ms, delay_ms, more}   who has it now, perhaps
--      since this call; more = 1: dead waiters are left, tend again
-- {GONE, time}   the queue lost some or all of them: acquire again for each waiter   {FOREIGN, time, key, type or "shape"}
local holder, bad = read_holder()
local first, last, place, entry = ARGV[5]
if not bad and not holder then last, bad = last_token() end
if not bad then place, bad = try('ZRANK', QUEUE, first) end
if not bad then entry, bad = try('HMGET', WAITERS, first) end
if bad then return bad end
local known = holder and holder.owner == first or place and entry[1]
if redis.call('PEXPIRE', slot_key(ARGV[1]), ARGV[2]) == 0 or not known then return {GONE, NOW} end
redis.call('PEXPIRE', QUEUE, ARGV[2])
redis.call('PEXPIRE', WAITERS, ARGV[2])

local more
if not holder then
  holder, more = hand_off({last = last, keep = ARGV[3], trusted = ARGV[4] == '1', broker = ARGV[1], quiet = true})
end
if not holder then return {TENDED, NOW, -2, '', '0', '0', '0', '0', more and 1 or 0} end
local pttl = redis.call('PTTL', HOLDER)
return {TENDED, NOW, pttl, holder.owner, holder.token, holder.since or NOW, holder.ttl, holder.delay, 0}
