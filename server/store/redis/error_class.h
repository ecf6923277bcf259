// SPDX-License-Identifier: Apache-2.0
//
// What an error reply of the server means for the command it answers. Pure; any thread.
//
// Scripts check before they write, and the server refuses a script's first write or none: OOM, READONLY, NOREPLICAS and
// MISCONF therefore mean that nothing has changed, even when they come out of a script. Any other error out of a script
// may have come half way.
#pragma once

#include <string_view>

namespace distlock::store {

enum class ErrorClass {
  kUnknown,      // it may have run, in part
  kNoScript,     // not run: load the script, send again
  kUnavailable,  // not run: the server cannot serve now
  kWrongServer,  // not run: a replica, or one that lost its primary; another connection may find the right one
  kFull,         // not run: maxmemory
  kDenied,       // not run: password or ACL
};

ErrorClass ClassifyError(std::string_view text);

}  // namespace distlock::store
