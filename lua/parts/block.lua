-- SPDX-License-Identifier: Apache-2.0
-- Definitions: a release that leaves the lock blocked, behind hand_off.lua.

-- For how long the end of h.mine leaves its share blocked, in ms. `asked`: block_ms as release has it. A min_hold
-- counts from `granted_us`, from now at the latest, should the clock have been set back.
local function block_left(h, asked, granted_us)
  if asked == '-' then return 0 end
  local min_hold = asked == '0' and h.kind == 'x' and string.match(info_of(h), '^m(%d+);')
  local left = tonumber(min_hold or asked)
  if min_hold then left = left + math.min(math.ceil((tonumber(granted_us) - now) / 1000), 0) end
  return math.max(math.min(left, MAX_PX - tonumber(h.mine.ttl)), 0)
end

-- Ends the caller's hold, h.mine: nobody gets its share for so long. o: broker, trusted and watchers, as hand_off has
-- them; is_delay: not a min_hold, which counts no more then. Returns the reply.
local function block(h, left, is_delay, o)
  -- PEXPIRE is never refused by maxmemory, and after it the next write is not either. The blocked share has no owner,
  -- so that a late renewal finds nothing. Its delay is that of the block, so its beginning can be told.
  local mine, px = h.mine, str(left)
  if h.many then
    redis.call('PEXPIRE', HOLDER, str(math.max(left, redis.call('PTTL', HOLDER))))
    redis.call('HDEL', HOLDER, mine.owner)
    h.soonest = math.min(h.soonest, now + left * 1000)
    redis.call('HSET', HOLDER, 'holders', header(h), BLOCKED .. mine.token, slot_value(mine, now + left * 1000))
  else
    local info = info_of(h)
    if is_delay then info = string.gsub(info, '^m%d+;', '') end
    redis.call('PEXPIRE', HOLDER, px)
    redis.call('SET', HOLDER, table.concat({'1', NOBODY, mine.token, mine.since, mine.ttl, px, info}, ';'), 'PX', px)
  end
  -- Nothing happens in the store when the block ends: the broker of the first waiter that can be reached is to tend
  -- then.
  local length, foreign_queue = try('ZCARD', QUEUE)
  if not foreign_queue and length > 0 then length, foreign_queue = try('HLEN', WAITERS) end
  if not foreign_queue and length > 0 then
    local brokers = {[o.broker] = 'alive'}
    walk(brokers, nil, function(who)
      if who.broker == o.broker or publish(who.broker, NOW .. ';' .. px) or not o.trusted then return true end
      brokers[who.broker] = 'unreachable'
      return false
    end)
  end
  tell(o.watchers)
  return {RELEASED, NOW, 'blocked', px}
end

-- For how long what a release of that token left is blocked, in ms. nil: there is no such block.
local function left_behind(value, token)
  local begins = '1;' .. NOBODY .. ';' .. token .. ';'
  if value then return string.sub(value, 1, #begins) == begins and math.max(redis.call('PTTL', HOLDER), 0) or nil end
  local share = parse_slot(BLOCKED .. token, redis.call('HGET', HOLDER, BLOCKED .. token))
  return share and math.ceil((share.expiry - now) / 1000)
end

-- The hold to be released, as of read_own_hold. The reply to a repeat says for how long what its first try left is
-- blocked, so that replicas can be asked for that again.
local function read_hold_to_release(value, owner, token)
  local h, bad = read_own_hold(value, owner, token)
  local left = bad and bad[1] == NOT_HOLDER and left_behind(value, token)
  if left then
    bad[3], bad[4] = 'blocked', str(left)
    -- WAIT counts what its own connection has written, and the first try may have come over another one.
    local px = redis.call('PTTL', HOLDER)
    if px > 0 then redis.call('PEXPIRE', HOLDER, str(px)) end
  end
  return h, bad
end

-- Ends the caller's hold, and leaves it blocked or passes it on. See block_left, and hand_off for o. Returns the reply.
local function release_hold(h, asked, granted_us, o)
  local left = block_left(h, asked, granted_us)
  return left > 0 and block(h, left, asked ~= '0', o) or free(h, o)
end
