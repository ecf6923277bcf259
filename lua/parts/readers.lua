-- SPDX-License-Identifier: Apache-2.0
-- Step of batch: the items `first` to `last`, of one lock that nobody waits for or watches, when they are acquires
-- SHARED and releases of readers, none of whom may have expired, each of another owner. What these would do one after
-- the other is done at once: the lock is read once and written once. Uses and sets the names of batch, among them the
-- replies of these items, and `answered`. Anything else goes on behind it, with nothing written.
HOLDER, TOKEN = KEYS[first], sub(KEYS[first], 1, -2) .. 't'
local fields, stored, longest = {'holders'}, '0', 0
for j = first, last do
  if byte(ARGV[j + 2]) == 97 then
    fields[#fields + 1], stored = sub(ARGV[j + 2], 2, 33), values[j] or ''
  else
    fields[#fields + 1] = sub(ARGV[j + 2], 3, 34)
  end
end
local got = redis.pcall('HMGET', HOLDER, unpack(fields))
local used, soonest = match(got[1] or '', '^s;0;(%d+);(%d+)$')
local is_new = got[1] == false and redis.call('EXISTS', HOLDER) == 0
used, soonest = is_new and 0 or tonumber(used), is_new and MAX_TOKEN or tonumber(soonest)
local token = tonumber(match(stored, '^%d+$'))
local fits = used and now < soonest and token and token + n < MAX_TOKEN
local seen, slots, leave, emptied = {}, {'holders', ''}, {}, false
for j = first, fits and last or 0 do
  local item, owner, slot, reply = ARGV[j + 2], fields[j - first + 2], got[j - first + 2], nil
  if seen[owner] then
    reply = nil -- what the server has told of this owner holds no longer
  elseif byte(item) == 97 then
    local late, px, terms, info_at = match(item, '^(%d+);(%d+);sa?;(%d+;%d+);()', 36)
    if late and not slot and (late == '0' or #late == #NOW and NOW < late) then
      px, token = tonumber(px), token < now and now or token + 1
      local expiry, text = now + px * 1000, string.format('%.0f', token)
      used, longest, soonest = used + 1, px > longest and px or longest, expiry < soonest and expiry or soonest
      slots[#slots + 1] = owner
      slots[#slots + 1] = string.format('%.0f', expiry) .. ';' .. text .. ';' .. NOW .. ';' .. terms .. ';1;' ..
        sub(item, info_at)
      stored, reply = text, token == now and GRANTED or {GRANTED, NOW, text, NOW}
    end
  else
    local expiry, granted = match(slot or '', '^(%d+);(%d+);%d+;%d+;%d+;1;')
    if expiry and now < tonumber(expiry) and (#item == 35 or sub(item, 36, -2) == granted) then
      used, leave[#leave + 1], reply = used - 1, owner, RELEASED
      if used <= 0 then used, soonest, slots, is_new, emptied = 0, MAX_TOKEN, {'holders', ''}, true, true end
    end
  end
  seen[owner], replies[j + 1], fits = true, reply, reply
  if not reply then break end
end
if fits then
  slots[2] = 's;0;' .. used .. ';' .. string.format('%.0f', soonest)
  -- The first write tells whether the server writes at all. maxmemory refuses HSET, and no release may suffer from it:
  -- then each item does its own.
  local verb, with = 'HSET', slots
  if emptied then verb, with = 'DEL', {} elseif #slots == 2 then verb, with = 'HDEL', leave end
  if type(redis.pcall(verb, HOLDER, unpack(with))) == 'number' then
    if verb == 'HSET' and #leave > 0 then
      redis.call('HDEL', HOLDER, unpack(leave))
    elseif verb ~= 'HSET' and used > 0 then
      redis.call('HSET', HOLDER, unpack(slots))
    end
    if longest > 0 then
      if is_new or redis.call('PTTL', HOLDER) < longest then
        redis.call('PEXPIRE', HOLDER, string.format('%.0f', longest))
      end
      redis.call('SET', TOKEN, stored, 'PX', keep)
    end
    answered = last
  end
end
