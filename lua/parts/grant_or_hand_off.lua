-- SPDX-License-Identifier: Apache-2.0
-- Step of an acquire: gives its owner the lock if that fits, and nobody else is to have it first. Uses the holders h,
-- the request me, length, had_place (its rank in the queue, if it has one), last, and count_in_front(). Sets these anew
-- when the lock was handed on, and in_front.
if fits(h, me) then
  if length == 0 then
    local token = str(math.max(last + 1, least_token))
    grant(h, me, token, keep, watchers)
    return {GRANTED, NOW, token, NOW}
  end
  if not had_place and me.adaptive then
    local first = redis.call('ZRANGE', QUEUE, 0, 0)[1]
    local who = parse_waiter(first, redis.call('HGET', WAITERS, first))
    if who and who.adaptive and not turned_fair(who, tonumber(fair_after)) then me.ahead = 0 end
  end
  local o = {last = last, keep = keep, trusted = trusted == '1', broker = broker, me = me}
  hand_off(h, o)
  last = o.last
  if o.changed then tell(watchers) end
  if me.token then return {GRANTED, NOW, me.token, NOW} end
  length, had_place = redis.call('ZCARD', QUEUE), had_place and redis.call('ZRANK', QUEUE, owner)
  in_front = count_in_front()
end
