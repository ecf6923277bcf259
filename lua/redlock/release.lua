-- SPDX-License-Identifier: Apache-2.0
-- Ends what an owner has at one of several servers, if it is named: its hold or vote, or its place.
-- KEYS holder, last token, queue, waiters
-- ARGV owner_id, token (a hold under this one or an earlier; 0: by its mark alone), first and last mark (a hold or a
--      place with one of these, see parts/mark.lua; both 0: by its token alone), block_ms (as of release),
--      token_keep_ms, trusted, broker_id (the caller's), fair_after_us, keep_grant (as of withdraw), least (see
--      parts/least_token.lua)
-- {RELEASED, ...}, {WITHDRAWN, ...}   as of release and of withdraw
-- {GONE, time, "" or "look", then next holders as of release}   neither, or its place is of another request
-- {NOT_HOLDER, time, token}   it has the lock under that token, which was not named: nothing was done
-- {FOREIGN, time, key, type or "shape"}
-- include parts/head.lua
local owner, token, first_mark, last_mark, block_ms, keep, trusted, broker, fair_after, keep_grant, least =
  unpack(ARGV)
local value, stored, watchers = unpack(redis.call('MGET', HOLDER, TOKEN, WATCHERS))
-- Fast paths: it holds the lock EXCLUSIVE, nobody watches, and either nobody waits, or the next waiter wants it
-- EXCLUSIVE, too, and its broker is the caller's or hears of it.
local held, info_at
if (block_ms == '0' or block_ms == '-') and keep_grant ~= '1' and value and not watchers and
  string.sub(value, 1, 35) == '1;' .. owner .. ';' then
  held, info_at = string.match(value, '^(%d+);%d+;%d+;%d+;()', 36)
  if block_ms == '0' and held and string.byte(value, info_at) == 109 then held = nil end -- it has a min_hold
end
local mark, asked_by
if held and first_mark ~= '0' then
  asked_by, mark = string.match(value, '^p%-?%d+;(%x+)%.([1-9]%d*);', info_at)
  mark = asked_by == broker and tonumber(mark)
end
if held and #held <= 16 and (tonumber(held) <= tonumber(token) or
    mark and mark >= tonumber(first_mark) and mark <= tonumber(last_mark)) then
  local waiting = redis.pcall('ZCARD', QUEUE)
  if waiting == 0 then
    redis.call('DEL', HOLDER)
    return {RELEASED, NOW, ''}
  elseif type(waiting) == 'number' and stored and #stored == #least and stored < least and not string.find(stored, '%D')
    and #held == #least and held < least then
    local first = redis.call('ZRANGE', QUEUE, 0, 0)[1]
    local entry = redis.pcall('HGET', WAITERS, first)
    local at, its_ttl, its_delay, info =
      string.match(type(entry) == 'string' and entry or '', '^(%x+);(%d+);(%d+);x;%d+;(.*)$')
    local px = at and tonumber(its_ttl) + tonumber(its_delay) or 0
    if px > 0 and px <= MAX_PX and
      (at == broker or redis.pcall('GET', string.sub(HOLDER, 1, -2) .. 'b:' .. at) == '1') then
      -- A server that writes nothing is to tell of no grant. DEL is never refused by maxmemory, and after it the writes
      -- that follow are not either.
      redis.call('DEL', HOLDER)
      local is_told = at == broker
      if not is_told then
        local prefix, name = string.match(HOLDER, '^(.-):{(.*)}:h$')
        local notice = table.concat({first, least, NOW, its_ttl, its_delay}, ';')
        is_told = redis.call('PUBLISH', prefix .. ':grant:' .. at, name .. '\n' .. notice) > 0 or trusted ~= '1'
      end
      if is_told then
        redis.call('SET', HOLDER, table.concat({'1', first, least, NOW, its_ttl, its_delay, info}, ';'), 'PX',
          string.format('%.0f', px))
        redis.call('SET', TOKEN, least, 'PX', keep)
-- include parts/leave_queue.lua
        return at == broker and {RELEASED, NOW, '', first, least, NOW, its_ttl, its_delay} or {RELEASED, NOW, ''}
      end
    end
  end
end
-- include parts/values.lua
-- include parts/mark.lua
-- include parts/holders.lua
-- include parts/least_token.lua
-- include parts/queue.lua
-- include parts/hand_off.lua
-- include parts/block.lua
local h, bad = read_holders(value, owner)
if bad then return bad end
local o = {keep = keep, trusted = trusted == '1', broker = broker, quiet = true, fair_after = tonumber(fair_after),
  watchers = watchers}
if h.mine and keep_grant ~= '1' then
  local info = h.kind == 'x' and info_of(h) or h.mine.info
  if tonumber(h.mine.token) > tonumber(token) and not is_named(info, broker, first_mark, last_mark) then
    return {NOT_HOLDER, NOW, h.mine.token}
  end
  -- Each server has stamped its vote by itself; the token is the same at all, and a time.
  return release_hold(h, block_ms, h.mine.token, o)
end
local entry
entry, bad = try('HGET', WAITERS, owner)
if bad then return bad end
local removed = 0
local waits = parse_waiter(owner, entry)
if waits and waits.broker == broker and is_named(waits.info, broker, first_mark, last_mark) then
  removed, bad = try('ZREM', QUEUE, owner)
  if bad then return bad end
  redis.call('HDEL', WAITERS, unpack({owner, removed == 1 and request_of(owner) or nil}))
end
local grants, tend_again = {}, false
if h.kind ~= 'x' then
  drop_expired(h)
  grants, tend_again = pass_on(h, o)
end
if removed == 1 and waits.adaptive and redis.call('ZCARD', QUEUE) == 0 then redis.call('DEL', WAITERS) end
if removed == 1 or o.changed then tell(watchers) end
return list({removed == 1 and WITHDRAWN or GONE, NOW, tend_again and 'look' or ''}, grants)
