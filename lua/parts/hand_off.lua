-- SPDX-License-Identifier: Apache-2.0
-- Definitions: who holds a lock next, behind queue.lua.
local MAX_GRANTS = 100

-- Whether a waiter has waited for so long that ADAPTIVE is FAIR until the queue drains.
local function turned_fair(who, fair_after)
  if redis.call('HEXISTS', WAITERS, 'fair') == 1 then return true end
  if now - who.since < fair_after then return false end
  redis.call('HSET', WAITERS, 'fair', '1')
  return true
end

-- Gives what is free to living waiters, in their order, as long as the next one fits. o: last (token), keep (ms the
-- token is kept), trusted, broker (the caller's: alive without a slot), quiet (that broker's waiters need no notice),
-- me (the caller who asks: granted without a notice), fair_after (if set, an ADAPTIVE waiter is invited to fetch the
-- lock, unless it has waited for longer), stop_at (a waiter that gets nothing, nor those behind it). Returns the grants
-- to waiters of o.broker, and tend_again: that broker is to tend, since there is more for it to do, or dead waiters are
-- left. Sets o.last, and o.changed when there was anything to do. A holder is written before anything is removed, so
-- that a caller refused by maxmemory has changed nothing.
local function hand_off(h, o)
  local brokers, granted, mine, last = {}, {}, {}, o.last
  local tend_again, count, adaptive = false, 0, false
  if o.broker then brokers[o.broker] = 'alive' end
  -- Whether the waiter's broker received the text, as far as that can be known.
  local function notify(who, text)
    if o.quiet and who.broker == o.broker then return true end
    if publish(who.broker, text) or not o.trusted then return true end
    brokers[who.broker] = 'unreachable'
    return false
  end
  -- Asks the waiter's broker to fetch the lock, which stays free.
  local function invite(who)
    if not notify(who, NOW .. ';0') then return false end
    tend_again = tend_again or who.broker == o.broker
    return true
  end
  local function visit(who)
    if who.owner == o.stop_at then return true end
    if not fits(h, who) then
      -- A call that is late grants nothing: that waiter's broker may know the server as it is now.
      return not (is_late and has_room(h, who)) or invite(who)
    end
    local may_overtake = o.fair_after and who.adaptive
    if who ~= o.me and (count >= MAX_GRANTS or may_overtake and not turned_fair(who, o.fair_after)) then
      return invite(who)
    end
    adaptive = adaptive or who.adaptive
    local used, kind, token = h.used, h.kind, str(math.max(last + 1, least_token))
    add_holder(h, who, token)
    if who ~= o.me and not notify(who, table.concat({who.owner, token, NOW, who.ttl, who.delay}, ';')) then
      -- Undone. The waiter keeps its place: its broker may be reachable at the next hand-off.
      if who.kind == 'x' then
        redis.call('DEL', HOLDER)
      else
        redis.call('HDEL', HOLDER, who.owner)
      end
      h.used, h.kind, h.stale = used, kind, true
      return false
    end
    who.token, who.since, last, count = token, NOW, tonumber(token), count + 1
    if who == o.me or who.broker == o.broker then mine[#mine + 1] = who end
    if not who.ahead then granted[#granted + 1] = who.owner end
    return h.kind == 'x'
  end
  local dead, _, more = walk(brokers, o.me, visit)
  if last > o.last then redis.call('SET', TOKEN, str(last), 'PX', o.keep) end
  o.last = last
  write_header(h)
  remove(dead)
  remove(granted)
  if adaptive and redis.call('ZCARD', QUEUE) == 0 then redis.call('DEL', WAITERS) end
  o.changed = count > 0 or #dead > 0
  -- Beyond the walk's bound the next call finds the same, unless this one has removed something.
  return mine, tend_again or more and #dead > 0
end

-- hand_off after a holder has left, or a waiter in front of others. o.waiting: the length of the queue, if known;
-- floor: at least the last token. A foreign key of the queue stops it.
local function pass_on(h, o, floor)
  local waiting, bad = o.waiting, nil
  if not waiting then waiting, bad = try('ZCARD', QUEUE) end
  if not bad and waiting > 0 then
    local _
    _, bad = try('HLEN', WAITERS)
    if not bad then o.last, bad = last_token(nil, floor) end
    if not bad then return hand_off(h, o) end
  end
  write_header(h)
  return {}, false
end

-- Appends owner_id, token, since_us, ttl_ms and delay_ms of each holder.
local function list(reply, holders)
  for _, who in ipairs(holders) do
    for _, field in ipairs({'owner', 'token', 'since', 'ttl', 'delay'}) do reply[#reply + 1] = who[field] end
  end
  return reply
end

-- Takes the caller's hold, h.mine, out of h and the store.
local function leave(h)
  if h.kind == 'x' then
    redis.call('DEL', HOLDER)
    h.kind = nil
  else
    redis.call('HDEL', HOLDER, h.mine.owner)
    h.used, h.stale = h.used - h.mine.permits, true
    if h.used <= 0 then h.kind = nil end
    drop_expired(h)
  end
end

-- Ends the caller's hold, h.mine, and passes on what that frees. Returns the reply.
local function free(h, o)
  leave(h)
  local grants, tend_again = pass_on(h, o, tonumber(h.mine.token))
  tell(o.watchers)
  return list({RELEASED, NOW, tend_again and 'look' or ''}, grants)
end
