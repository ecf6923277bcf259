-- SPDX-License-Identifier: Apache-2.0
-- Definitions: of which request a hold or a place is, at one of several servers. `info` begins with the place that was
-- asked for, and with the mark: the broker that asked, and the number of the request, which grows with each request of
-- that broker. A number that begins with 0 is of a candidate that has found the hold: it counts it, and may not give it
-- back.
local REPEATABLE = 'ff' -- how the owner_id of a request begins that may be repeated through another broker

-- The place, the broker, the number; nil: there is no mark.
local function mark_of(info)
  info = string.gsub(string.gsub(info or '', '^m%d+;', ''), '^h%d+;', '')
  return string.match(info, '^p(%-?%d+);(%x+)%.(%d+);')
end

-- Whether the mark is the broker's, with a number from `first` to `last`; both 0: with none. `or_found`: also of a hold
-- that was found.
local function is_named(info, by, first, last, or_found)
  local _, asked_by, number = mark_of(info)
  if asked_by ~= by or not or_found and string.byte(number) == 48 then return false end
  return tonumber(number) >= tonumber(first) and tonumber(number) <= tonumber(last)
end

-- Whether what was asked for in `info` was asked for later than what is in `mine`: of two brokers, for a later place.
-- (The preferred are 2^52 in front of the others.)
local function is_marked_later(info, mine)
  local place, asked_by, number = mark_of(info)
  local my_place, me, my_number = mark_of(mine)
  if asked_by and asked_by == me then return tonumber(number) > tonumber(my_number) end
  place, my_place = tonumber(place or 0), tonumber(my_place or 0)
  return (place < 0 and place + 4503599627370496 or place) > (my_place < 0 and my_place + 4503599627370496 or my_place)
end

-- The info of a hold, whose max_hold, if it has one, is at least so many ms.
local function with_hold_of(info, ms)
  local before, hold, behind = string.match(info, '^(m?%d*;?)h(%d+);(.*)$')
  if not hold or tonumber(hold) >= ms then return info end
  return table.concat({before, 'h', str(ms), ';', behind})
end

-- How long a hold lasts by its max_hold, in ms. nil: it has none.
local function hold_left(mine, info)
  local _, hold = bounds_of(info)
  return hold and math.ceil((tonumber(mine.since) - now) / 1000) + tonumber(hold)
end
