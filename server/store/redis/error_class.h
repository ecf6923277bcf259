// SPDX-License-Identifier: Apache-2.0
//
// What an error reply of the server means for the command it answers. Pure; any thread.
//
// Scripts check before they write, and a server refuses a script's first write or none. Therefore OOM, READONLY,
// NOREPLICAS and MISCONF mean that nothing has changed, even when a script reports them. After any other error in a
// script, a part of it may have run.
#pragma once

#include <string_view>

namespace distlock::store {

enum class ErrorClass {
  kUnknown,      // it may have run, wholly or in part
  kNoScript,     // not run: load the script, send again
  kUnavailable,  // not run: the server cannot serve now
  kWrongServer,  // not run: a replica, or one that lost its primary; another connection may find the right one
  kFull,         // not run: maxmemory
  kDenied,       // not run: password or ACL
};

ErrorClass ClassifyError(std::string_view text);

// After such an error the connection is of no use: a new one may reach the primary, or log in.
bool NeedsNewConnection(std::string_view text);

}  // namespace distlock::store
