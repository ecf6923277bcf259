-- SPDX-License-Identifier: Apache-2.0
-- Tries what a broker in a Cluster needs of a node: that a script may send to a shard's channel, whatever the slot of
-- its own keys.
-- KEYS a key of any slot of the node; it is not touched
-- ARGV channel, of another slot of the node if it has more than one
-- {PROBED, time, how many listen; -1: refused, why}
-- include parts/head.lua
local heard = redis.pcall('SPUBLISH', ARGV[1], '')
if type(heard) == 'number' then return {PROBED, NOW, heard, ''} end
return {PROBED, NOW, -1, heard.err}
