-- SPDX-License-Identifier: Apache-2.0
-- Definitions: of which request a hold or a place is, at one of several servers. Its mark is the place that was asked
-- for and the broker that asked, as `info` shows them: each candidate of an owner asks its broker for later places than
-- the one before. A place that begins with 0 is of a candidate that has found the hold: it counts it, and may not give
-- it back.
local REPEATABLE = 'ff' -- how the owner_id of a request begins that may be repeated through another broker

local function mark_of(info)
  local place, asked_by = string.match(info or '', '^p(%-?%d+);(%x*)')
  if place then return place, asked_by end
  return string.match(info or '', '^h%d+;p(%-?%d+);(%x*)')
end

-- Whether the mark is the broker's, with a place from `first` to `last`; both 0: with none. `or_found`: also of a hold
-- that was found.
local function is_named(info, by, first, last, or_found)
  local mark, asked_by = mark_of(info)
  if asked_by ~= by or not or_found and string.find(mark, '^%-?0') then return false end
  return tonumber(mark) >= tonumber(first) and tonumber(mark) <= tonumber(last)
end

-- Whether it is later than the place. (The preferred are 2^52 in front of the others.)
local function is_marked_later(info, place)
  local mark = tonumber((mark_of(info)) or 0)
  return (mark < 0 and mark + 4503599627370496 or mark) > (place < 0 and place + 4503599627370496 or place)
end
