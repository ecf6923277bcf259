-- SPDX-License-Identifier: Apache-2.0
-- Takes a vote back: its owner waits again, at its place. Only waiters before it are served, or none of them (hands_on
-- 0): then the lock stays free.
-- KEYS holder, last token, queue, waiters
-- ARGV owner_id, token of the vote, place, ttl_ms, delay_ms, want, info, broker_id, slot_ms, token_keep_ms, trusted,
--      hands_on, least (see parts/least_token.lua), first and last mark (of the vote, see parts/mark.lua)
-- {YIELDED, time, "" or "look", then next holders as of release}   {FOREIGN, time, key, type or "shape"}
-- {NOT_HOLDER, time}   the owner does not have it under this token with one of these marks: nothing was done
-- include parts/head.lua
-- include parts/values.lua
-- include parts/mark.lua
-- include parts/holders.lua
-- include parts/queue.lua
-- include parts/hand_off.lua
local owner, token, place, ttl, delay, want, info, broker, slot_ms, keep, trusted, hands_on, least,
  first_mark, last_mark = unpack(ARGV)
-- include parts/least_token.lua
local value, watchers = unpack(redis.call('MGET', HOLDER, WATCHERS))
local h, bad = read_holders(value, owner)
local _
if not bad then _, bad = try('ZCARD', QUEUE) end
if not bad then _, bad = try('HLEN', WAITERS) end
if bad then return bad end
if not h.mine or h.mine.token ~= token or
  not is_named(h.kind == 'x' and info_of(h) or h.mine.info, broker, first_mark, last_mark) then
  return {NOT_HOLDER, NOW}
end
local since, floor = h.mine.since, tonumber(h.mine.token)
leave(h)
redis.call('ZADD', QUEUE, place, owner)
local request = request_of(owner)
redis.call('HSET', WAITERS, owner, table.concat({broker, ttl, delay, want, since, info}, ';'),
  unpack(request and {request, owner} or {}))
redis.call('SET', slot_key(broker), '1', 'PX', slot_ms)
redis.call('PEXPIRE', QUEUE, slot_ms)
redis.call('PEXPIRE', WAITERS, slot_ms)
local grants, tend_again = {}, false
if h.kind ~= 'x' then
  drop_expired(h)
  if hands_on == '1' then
    grants, tend_again =
      pass_on(h, {keep = keep, trusted = trusted == '1', broker = broker, quiet = true, stop_at = owner}, floor)
  else
    write_header(h)
  end
end
tell(watchers)
return list({YIELDED, NOW, tend_again and 'look' or ''}, grants)
