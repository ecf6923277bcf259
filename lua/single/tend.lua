-- SPDX-License-Identifier: Apache-2.0
-- A broker keeps its waiters' places, and learns which of them hold the lock.
-- KEYS holder, last token, queue, waiters
-- ARGV broker_id (the caller's), slot_ms, token_keep_ms, trusted, hold_off (see parts/hold_off.lua), least (see
--      parts/least_token.lua), then owner_id of 1 to 100 of the caller's waiters, beginning with the first in its
--      queue; then, if it has a shard's channel, the tag of that
-- {TENDED, time, left_ms (-2: free), more (1: tend again), last token, then owner_id, token, since_us, ttl_ms and
--      delay_ms of holders}   an EXCLUSIVE holder always; of many, those that were asked for, and waiters of the
--      caller's broker that hold it since this call
-- {GONE, time}   the queue lost some or all of them: acquire again for each waiter
-- {FOREIGN, time, key, type or "shape"}
-- include parts/head.lua
-- include parts/values.lua
-- include parts/holders.lua
-- include parts/queue.lua
-- include parts/hand_off.lua
local broker, slot_ms, keep, trusted, hold_off, least = unpack(ARGV, 1, 6)
-- include parts/hold_off.lua
-- include parts/least_token.lua
local channel = string.byte(ARGV[#ARGV]) == 123 and table.remove(ARGV) or nil
own_tag = channel
local asked, last, place, entries = {unpack(ARGV, 7)}
local value, stored, watchers = unpack(redis.call('MGET', HOLDER, TOKEN, WATCHERS))
local h, bad = read_holders(value, asked[1])
if not bad and h.kind ~= 'x' then last, bad = last_token(stored) end
if not bad then place, bad = try('ZRANK', QUEUE, asked[1]) end
if not bad then entries, bad = try('HMGET', WAITERS, unpack(asked)) end
if bad then return bad end
local slots, holders, known = {h.mine}, {}, true
if h.many and #asked > 1 then
  for i, slot in ipairs(redis.call('HMGET', HOLDER, unpack(asked))) do
    slots[i] = parse_slot(asked[i], slot) or false
  end
end
for i in ipairs(asked) do
  known = known and (slots[i] or entries[i] and (i > 1 or place))
  if slots[i] then holders[#holders + 1] = slots[i] end
end
if redis.call('PEXPIRE', slot_key(broker), slot_ms) == 0 or not known then return {GONE, NOW} end
redis.call('PEXPIRE', QUEUE, slot_ms)
redis.call('PEXPIRE', WAITERS, slot_ms)
if channel then redis.call('SET', slot_key(broker), channel, 'PX', slot_ms) end

local tend_again = false
if h.kind == 'x' then
  holders = {h}
else
  drop_expired(h)
  local grants
  local o = {last = last, keep = keep, trusted = trusted == '1', broker = broker, quiet = true}
  grants, tend_again = hand_off(h, o)
  last = o.last
  if o.changed then tell(watchers) end
  for _, who in ipairs(grants) do holders[#holders + 1] = who end
  if h.kind == 'x' then holders = {parse_holder(h.value)} end
end
local newest = last and str(last) or string.match(stored or '0', '^%d+$') or '0'
return list({TENDED, NOW, left_ms(h), tend_again and 1 or 0, newest}, holders)
