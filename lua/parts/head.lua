-- SPDX-License-Identifier: Apache-2.0
-- Shared by every verb: the build puts this text in front of each verb file, and prelude.lua behind it, or where a verb says so. See
-- README.md for the schema and the codes.
-- KEYS of every verb but renew: holder (B:h), last token (B:t), queue (B:q), waiters (B:w), all with one hash tag.
local GRANTED, QUEUED, HELD, LATE, FOREIGN, QUEUE_FULL, RELEASED = 1, 2, 3, 4, 5, 6, 7
local NOT_HOLDER, WITHDRAWN, GONE, TENDED, RENEWED, INSPECTED, MISMATCH = 8, 9, 10, 11, 12, 13, 14
local CONVERTED, TOLD = 15, 16
local MAX_TOKEN, MAX_PX, MAX_WATCHERS, WATCHER = 9007199254740991, 2147483647, 100, '(%x+);(%d+),'
local HOLDER, TOKEN, QUEUE, WAITERS = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local WATCHERS = string.sub(HOLDER, 1, -2) .. 'v' -- of one lock, as HOLDER is

local time = redis.call('TIME')
local NOW = time[1] .. string.sub('00000' .. time[2], -6)
local now = tonumber(NOW)
