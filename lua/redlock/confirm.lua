-- SPDX-License-Identifier: Apache-2.0
-- Gives an owner's vote the token that all servers are to have, for a whole ttl, whatever max_hold has left: that
-- counts from the vote, which may be old.
-- KEYS holder, last token, queue, waiters
-- ARGV owner_id, token, px_ms (ttl and delay), token_keep_ms, broker_id, first and last mark (of the vote, see
--      parts/mark.lua)
-- {CONFIRMED, time}   {LOW, time, last token}   this server has given as much already: nothing was done
-- {NOT_HOLDER, time}   also when its vote has another mark   {GONE, time}   {FOREIGN, time, key, type or "shape"}
-- include parts/head.lua
-- include parts/values.lua
-- include parts/mark.lua
-- include parts/holders.lua
local owner, token, px, keep, broker, first_mark, last_mark = unpack(ARGV)
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
local before, max_hold, behind = string.match(info, '^(m?%d*;?)h(%d+);(.*)$')
local least = max_hold and math.ceil((now - tonumber(mine.since)) / 1000) + tonumber(px)
local is_longer = max_hold and least > tonumber(max_hold)
if is_longer then info = table.concat({before, 'h', str(least), ';', behind}) end
-- First the write that maxmemory never refuses.
if h.kind == 'x' then
  redis.call('PEXPIRE', HOLDER, px)
  if is_new or is_longer then
    local now_held = table.concat({'1', owner, token, mine.since, mine.ttl, mine.delay, info}, ';')
    redis.call('SET', HOLDER, now_held, 'PX', px)
  end
else
  redis.call('PEXPIRE', HOLDER, str(math.max(tonumber(px), redis.call('PTTL', HOLDER))))
  mine.token, mine.info = token, info
  redis.call('HSET', HOLDER, owner, slot_value(mine, now + tonumber(px) * 1000))
end
if is_new then
  redis.call('SET', TOKEN, token, 'PX', keep)
  tell(watchers)
end
return {CONFIRMED, NOW}
