// SPDX-License-Identifier: Apache-2.0
//
// Where what changes the broker or takes locks from others may be called: Drain, Reload, ForceRelease,
// UpgradeStore and InitQuorum. Pure; any
// thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "acceptor/connection.h"
#include "contract/refusal.h"

namespace distlock::rpc {

struct AdminAuthorizer {
  bool unix_peers = true;  // the file mode of a unix socket says who reaches it
  bool tcp_peers = false;

  // `caller`: how it is connected. A caller of whom nothing is known: never.
  bool Admits(std::optional<acceptor::Kind> caller) const {
    return caller && (*caller == acceptor::Kind::kUnix ? unix_peers : tcp_peers);
  }

  // Why none of its calls is served to this caller.
  static std::string Obstacle(const std::string& peer);
  // PERMISSION_DENIED.
  static v1::Refusal Refusal(const std::string& method, const std::string& peer);

  // The authorizer of `listen`, and the addresses of `admin_listen` that are in none of `listen`. Without
  // `admin_listen`: the unix sockets of `listen`, to which the server adds its TCP addresses where a policy is
  // enforced. FailedPrecondition: some of the TCP addresses, or some of the unix sockets, of `listen` are named and
  // others are not, and a caller's address does not tell by which of them it came.
  struct Plan;
  static absl::Status MakePlan(const std::vector<std::string>& listen, const std::vector<std::string>& admin_listen,
                               Plan* plan);
};

struct AdminAuthorizer::Plan {
  AdminAuthorizer authorizer;
  std::vector<std::string> own;
};

}  // namespace distlock::rpc
