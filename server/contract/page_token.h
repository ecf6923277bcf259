// SPDX-License-Identifier: Apache-2.0
//
// The page token of ListLocks: that of the store, bound to its caller and its search. The binding tells a token that
// was mixed up. It is no signature, since another broker must take the token, too: whatever a token says, only locks of
// the search are shown. Pure; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "contract/validate.h"

namespace distlock::contract {

// `caller`: its name; "" when nobody is asked. "" for the store's "": the end.
std::string BindPageToken(std::string_view store_token, std::string_view caller, const LockSearch& search);

// The store's token; nullopt when `text` was not made for this caller and search. "" for "": the first page.
std::optional<std::string> UnbindPageToken(std::string_view text, std::string_view caller, const LockSearch& search);

}  // namespace distlock::contract
