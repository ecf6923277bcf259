-- SPDX-License-Identifier: Apache-2.0
-- Has a server join a grant that enough others have: the owner holds the lock here, too, whoever waits for it.
-- KEYS holder, last token, queue, waiters
-- ARGV owner_id, token, want, ttl_ms, delay_ms, not_after_us, info, token_keep_ms, greatest token that a vote of its
--      own may have here
-- {JOINED, time}   also when the owner has it, under another token: it has it under this one now, for a whole ttl
-- {HELD, time}   by others, with whom it does not mix, or by itself, as asked for later   {LATE, time}
-- {FOREIGN, time, key, type or "shape"}
-- include parts/head.lua
-- include parts/values.lua
-- include parts/mark.lua
-- include parts/holders.lua
local owner, token, want, ttl, delay, not_after, info, keep, greatest = unpack(ARGV)
if now >= tonumber(not_after) then return {LATE, NOW} end
local value, stored, watchers = unpack(redis.call('MGET', HOLDER, TOKEN, WATCHERS))
local h, bad = read_holders(value, owner)
local last, waiting
if not bad then last, bad = last_token(stored) end
if not bad then waiting, bad = try('ZRANK', QUEUE, owner) end
if bad then return bad end
drop_expired(h)
if h.mine then
  local held_info = h.kind == 'x' and info_of(h) or h.mine.info
  -- A grant that was downgraded stays so: this call may come late.
  local was_downgraded = h.mine.token == token and h.kind == 's' and string.byte(want) == 120
  if is_marked_later(held_info, info) or tonumber(h.mine.token) > tonumber(greatest) or was_downgraded then
    return {HELD, NOW}
  end
end
local who = parse_want(want)
who.owner, who.ttl, who.delay, who.info, who.px = owner, ttl, delay, info, tonumber(ttl) + tonumber(delay)
local is_new = not h.mine or h.mine.token ~= token or h.kind ~= who.kind
if h.mine then
  who.px = math.max(who.px, life_left(h, h.mine))
  who.info = with_hold_of(info, hold_left(h.mine, h.kind == 'x' and info_of(h) or h.mine.info) or 0)
  -- Its own hold stands in nobody's way. First the write that maxmemory never refuses.
  redis.call('PEXPIRE', HOLDER, str(math.max(who.px, redis.call('PTTL', HOLDER))))
  if h.kind ~= 'x' then
    h.used = h.used - h.mine.permits
    if h.used <= 0 and who.kind ~= h.kind then
      redis.call('DEL', HOLDER)
      h.kind, h.many = nil, nil
    end
  elseif who.kind ~= 'x' then
    redis.call('DEL', HOLDER)
    h.kind = nil
  else
    h.kind = nil
  end
end
if h.kind and (h.kind ~= 's' or who.kind ~= 's') then return {HELD, NOW} end
add_holder(h, who, token)
redis.call('SET', TOKEN, str(math.max(last, tonumber(token))), 'PX', keep)
write_header(h)
if waiting then
  redis.call('ZREM', QUEUE, owner)
  redis.call('HDEL', WAITERS, unpack({owner, request_of(owner)}))
end
if is_new then tell(watchers) end
return {JOINED, NOW}
