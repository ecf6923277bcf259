-- SPDX-License-Identifier: Apache-2.0
-- Step. Uses `hold_off`. Sets `in_time`: there is no hold-off, as the caller's broker knew, and that counts still. Its
-- other forms are longer than a time.
local in_time = hold_off == '0' or #hold_off == #NOW and NOW < hold_off
