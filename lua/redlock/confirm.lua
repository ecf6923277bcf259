-- SPDX-License-Identifier: Apache-2.0
-- Gives an owner's vote the token that all servers are to have, for a whole ttl. Its max_hold counts from the vote,
-- which may be old: it ends no sooner than what is promised.
-- KEYS holder, last token, queue, waiters
-- ARGV owner_id, token, px_ms (ttl and delay), token_keep_ms, broker_id, first and last mark (of the vote, see
--      parts/mark.lua), promised_ms
-- {CONFIRMED, time}   {LOW, time, last token}   this server has given as much already: nothing was done
-- {NOT_HOLDER, time}   also when its vote has another mark   {GONE, time}   {FOREIGN, time, key, type or "shape"}
-- include parts/head.lua
-- include parts/values.lua
-- include parts/mark.lua
-- include parts/holders.lua
local owner, token, px, keep, broker, first_mark, last_mark, promised = unpack(ARGV)
local value, stored, watchers = unpack(redis.call('MGET', HOLDER, TOKEN, WATCHERS))
local h, bad = read_own_hold(value, owner, '0')
if bad then return bad end
local info = h.kind == 'x' and info_of(h) or h.mine.info
if not is_named(info, broker, first_mark, last_mark, true) then return {NOT_HOLDER, NOW} end
local last
last, bad = last_token(stored)
if bad then return bad end
local mine, is_new = h.mine, h.mine.token ~= token
if is_new and last >= tonumber(token) then return {LOW, NOW, str(last)} end
-- `since` stays as it is: hold-offs judge by it.
local raised = with_hold_of(info, math.ceil((now - tonumber(mine.since)) / 1000) + tonumber(promised))
px = math.max(tonumber(px), life_left(h, h.mine))
-- First the write that maxmemory never refuses.
if h.kind == 'x' then
  redis.call('PEXPIRE', HOLDER, str(px))
  if is_new or raised ~= info then
    local now_held = table.concat({'1', owner, token, mine.since, mine.ttl, mine.delay, raised}, ';')
    redis.call('SET', HOLDER, now_held, 'PX', str(px))
  end
else
  redis.call('PEXPIRE', HOLDER, str(math.max(px, redis.call('PTTL', HOLDER))))
  mine.token, mine.info = token, raised
  redis.call('HSET', HOLDER, owner, slot_value(mine, now + px * 1000))
end
if is_new then
  redis.call('SET', TOKEN, token, 'PX', keep)
  tell(watchers)
end
return {CONFIRMED, NOW}
