-- SPDX-License-Identifier: Apache-2.0
-- What release does; batch runs it, too.
local value, stored, watchers = unpack(redis.call('MGET', HOLDER, TOKEN, WATCHERS))
local waiting
-- What is usual: EXCLUSIVE, and nobody waits.
local token = value and ARGV[3] == '0' and string.sub(value, 1, 35) == '1;' .. ARGV[1] .. ';' and
  string.match(value, '^(%d+);%d+;%d+;%d+;', 36)
if token and #token <= 16 and (ARGV[2] == '0' or ARGV[2] == token) then
  waiting = redis.pcall('ZCARD', QUEUE)
  if waiting == 0 then
    redis.call('DEL', HOLDER)
    if not watchers then return {RELEASED, NOW, ''} end
  -- Or the next one wants it EXCLUSIVE too and waits at the caller's broker, which needs no notice.
  elseif not watchers and type(waiting) == 'number' and stored and #stored == #NOW and stored < NOW and not string.find(stored, '%D') and
    #token == #NOW and token < NOW then
    local next_one = redis.call('ZRANGE', QUEUE, 0, 0)[1]
    local entry = redis.pcall('HGET', WAITERS, next_one)
    local broker, ttl, delay, info = string.match(type(entry) == 'string' and entry or '', '^(%x+);(%d+);(%d+);x;%d+;(.*)$')
    local px = broker == ARGV[6] and tonumber(ttl) + tonumber(delay) or 0
    if px > 0 and px <= MAX_PX then
      redis.call('DEL', HOLDER) -- as this is never refused by maxmemory, what follows is not either
      redis.call('SET', HOLDER, '1;' .. next_one .. ';' .. NOW .. ';' .. NOW .. ';' .. ttl .. ';' .. delay .. ';' .. info,
        'PX', string.format('%.0f', px))
      redis.call('SET', TOKEN, NOW, 'PX', ARGV[4])
      redis.call('ZREM', QUEUE, next_one)
      redis.call('HDEL', WAITERS, next_one)
      return {RELEASED, NOW, '', next_one, NOW, NOW, ttl, delay}
    end
  end
end
-- include parts/prelude.lua
if waiting == 0 then
  tell(watchers)
  return {RELEASED, NOW, ''}
end
-- include parts/queue.lua
-- What is blocked is free again without anybody's doing: the broker of the first waiter who can hear is to look then.
local function tell_of_block()
  local length, bad = try('ZCARD', QUEUE)
  if not bad and length > 0 then length, bad = try('HLEN', WAITERS) end
  if bad or length == 0 then return end
  local mine, heard = ARGV[6], {}
  walk({[mine] = true}, nil, function(who)
    if heard[who.broker] == nil then
      heard[who.broker] = who.broker == mine or publish(who.broker, NOW .. ';' .. ARGV[3]) or ARGV[5] ~= '1'
    end
    return heard[who.broker]
  end)
end

local block = tonumber(ARGV[3])
local h, bad = read_holders(value, ARGV[1])
if bad then return bad end
if not h.kind then return {GONE, NOW} end
if not h.mine or not is_held_by(h.mine, ARGV[1], ARGV[2]) then return {NOT_HOLDER, NOW} end
if block > 0 then
  -- PEXPIRE is never refused by maxmemory, and after it the next write is not either. No owner, so that a late renewal finds nothing.
  if h.many then
    redis.call('PEXPIRE', HOLDER, str(math.max(block, redis.call('PTTL', HOLDER))))
    redis.call('HDEL', HOLDER, ARGV[1])
    h.soonest = math.min(h.soonest, now + block * 1000)
    redis.call('HSET', HOLDER, 'holders', header(h), BLOCKED .. h.mine.token, slot_value(h.mine, now + block * 1000))
  else
    redis.call('PEXPIRE', HOLDER, ARGV[3])
    redis.call('SET', HOLDER, '1;' .. string.rep('0', 32) .. string.sub(value, 35), 'PX', ARGV[3])
  end
  tell_of_block()
  tell(watchers)
  return {RELEASED, NOW, 'blocked'}
end
return free(h, {keep = ARGV[4], trusted = ARGV[5] == '1', broker = ARGV[6], quiet = true, waiting = type(waiting) == 'number' and waiting or nil,
  fair_after = tonumber(ARGV[7]), watchers = watchers})
