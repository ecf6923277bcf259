-- SPDX-License-Identifier: Apache-2.0
-- Step, before a script that removes the holder's key and writes it anew. While the lock's slot moves to another node
-- of a Cluster, keys that are missing here cannot be made, so the script would end in the middle, without the hold. To
-- ask for a key that never exists fails in the same way, before anything is written.
redis.call('EXISTS', HOLDER .. '-')
