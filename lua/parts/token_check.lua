-- SPDX-License-Identifier: Apache-2.0
-- Step. Uses `stored`: what MGET said of B:t. Sets `now_is_next`: NOW can be the next token, since the last one is
-- smaller or missing. (MGET shows a key of a foreign type as missing, too.)
local now_is_next = not stored or #stored == #NOW and stored < NOW and not string.find(stored, '%D')
