-- SPDX-License-Identifier: Apache-2.0
-- Step. Uses the argument `least`: the least token of whom this call hands the lock to, instead of the server's time,
-- since one of several servers is told the same as the others. "0": none is given.
if least ~= '0' then least_token = tonumber(least) end
