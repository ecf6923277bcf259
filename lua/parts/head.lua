-- SPDX-License-Identifier: Apache-2.0
-- The head of every script: reply codes, bounds, the keys of the lock and the server's clock. lua/README.md explains
-- keys and codes.
-- KEYS of a verb on one lock: B:h, B:t, B:q, B:w, all with one hash tag. A verb on several locks sets the names below
-- for each.
local GRANTED, QUEUED, HELD, LATE, FOREIGN, QUEUE_FULL, RELEASED = 1, 2, 3, 4, 5, 6, 7
local NOT_HOLDER, WITHDRAWN, GONE, TENDED, RENEWED, INSPECTED, MISMATCH = 8, 9, 10, 11, 12, 13, 14
local DOWNGRADED, TOLD, ADOPTED, CENSUSED, PROBED = 15, 16, 17, 18, 19
local CONFIRMED, LOW, JOINED, YIELDED, MEMBER, SCHEMA = 20, 21, 22, 23, 24, 25
local MAX_TOKEN, MAX_PX, MAX_WATCHERS, WATCHER = 9007199254740991, 2147483647, 100, '(%x+):?([^;,]*);(%d+),'
local TRY = 'fe' -- how the owner_id of a try of a request begins
local HOLDER, TOKEN, QUEUE, WAITERS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local WATCHERS = string.sub(HOLDER, 1, -2) .. 'v'

-- TIME in microseconds: NOW as a string of 16 digits, now as a number.
local time = redis.call('TIME')
local NOW = time[1] .. string.sub('00000' .. time[2], -6)
local now = tonumber(NOW)
local least_token = now -- the next token is this, or the last one + 1 if that is more
