-- SPDX-License-Identifier: Apache-2.0
-- Step, behind holders.lua. Uses the argument `hold_off`: "0", none, whenever the call runs; "known_until_us", none by
-- what the broker knows, which counts until then; or "from_us;until_us;confirmed;known_until_us" (confirmed 1: the
-- caller's broker knows that nobody else can have the owner's lock; known_until may be missing). Until until_us nobody
-- new fits any lock; nor, in a call that runs at known_until or later, at any time. Or "t" and the least token of whom
-- this call hands the lock to: one of several servers is told the same as the others.
if string.byte(hold_off) == 116 then
  least_token = tonumber(string.sub(hold_off, 2))
elseif hold_off ~= '0' then
  local from, till, confirmed, known = string.match(hold_off, '^(%d+);(%d+);([01]);?(%d*)$')
  known = tonumber(from and known or hold_off)
  is_late = known and now >= known
  if is_late then
    held_off_from, held_off_until = MAX_TOKEN, MAX_TOKEN
  elseif from then
    held_off_from, held_off_until, is_confirmed = tonumber(from), tonumber(till), confirmed == '1'
  end
end
