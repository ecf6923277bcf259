-- SPDX-License-Identifier: Apache-2.0
-- Step, behind holders.lua. Uses the argument `hold_off`: "0", none, whenever the call runs; "known_until_us", none by
-- what the broker knows, which counts until then; or "until_us;known_until_us;others_until_us". Until until_us nobody
-- new fits any lock; nor, in a call that runs at known_until or later, at any time. Until others_until_us another
-- server may give away what ends there.
if hold_off ~= '0' then
  local till, known, others = string.match(hold_off, '^(%d+);(%d+);(%d+)$')
  is_late = now >= tonumber(known or hold_off)
  held_off_until = is_late and MAX_TOKEN or tonumber(till or 0)
  others_until = is_late and MAX_TOKEN or tonumber(others or 0)
end
