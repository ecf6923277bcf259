// SPDX-License-Identifier: Apache-2.0
//
// The meaning of a server's error reply for the command it answers. Pure; any thread.
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

// A node of a Cluster names another one (MOVED, ASK), or none can run it now (TRYAGAIN, CLUSTERDOWN). Not run.
bool IsRedirect(std::string_view text);

// The server's words, for people: without the script's name and line. "" of a redirect that is no trouble.
std::string_view RefusalText(std::string_view error);

// A node of a Cluster says of a script that it has touched a key of another node. All keys of a lock have one slot, so
// either the slot is on its way, or the node is not right (Valkey 9.1: after a script of anybody's with keys of two
// slots, it says so of every script).
bool IsNonLocalKey(std::string_view text);
// The words about such a node.
inline constexpr std::string_view kRefusesAllScripts =
    "it refuses every script, because somebody's script has used keys of two slots there (Valkey 9.1 then says 'non "
    "local key' until it is restarted): restart this node, and keep such scripts away from it";

// After such an error the connection is of no use: a new one may reach the primary, or log in.
bool NeedsNewConnection(std::string_view text);

}  // namespace distlock::store
