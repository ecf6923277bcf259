-- SPDX-License-Identifier: Apache-2.0
-- Step, behind holders.lua. Uses the argument `hold_off`: "0", or "from_us;until_us;confirmed" (1: the caller's broker
-- knows that nobody else can have the owner's lock). Until then nobody new fits any lock. Or "t" and the least token of
-- whom this call hands the lock to: one of several servers is told the same as the others.
if string.byte(hold_off) == 116 then
  least_token = tonumber(string.sub(hold_off, 2))
elseif hold_off ~= '0' then
  local from, till, confirmed = string.match(hold_off, '^(%d+);(%d+);([01])$')
  held_off_from, held_off_until, is_confirmed = tonumber(from), tonumber(till), confirmed == '1'
end
