// SPDX-License-Identifier: Apache-2.0
#include "rpc/admin_authorizer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "acceptor/listeners.h"

namespace distlock::rpc {

std::string AdminAuthorizer::Obstacle(const std::string& peer) {
  return absl::StrCat("is not served at this address (you are ", peer,
                      "): call it on a unix socket of this broker, or at an address that the broker's --admin-listen "
                      "names; SIGTERM drains, too");
}

v1::Refusal AdminAuthorizer::Refusal(const std::string& method, const std::string& peer) {
  return contract::MakeRefusal(core::RefusalReason::kPermissionDenied, absl::StrCat(method, " ", Obstacle(peer)));
}

absl::Status AdminAuthorizer::MakePlan(const std::vector<std::string>& listen,
                                       const std::vector<std::string>& admin_listen, Plan* plan) {
  const auto is_named = [&](const std::string& address) {
    return std::find(admin_listen.begin(), admin_listen.end(), address) != admin_listen.end();
  };
  for (const bool of_unix : {true, false}) {
    bool& admits = of_unix ? plan->authorizer.unix_peers : plan->authorizer.tcp_peers;
    admits = of_unix && admin_listen.empty();
    const std::string* other = nullptr;
    for (const std::string& address : listen) {
      if (!acceptor::UnixPath(address).empty() != of_unix) continue;
      if (is_named(address)) {
        admits = true;
      } else {
        other = &address;
      }
    }
    if (admits && other != nullptr && !admin_listen.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("--admin-listen names some of the ", of_unix ? "unix sockets" : "TCP addresses",
                       " of --listen, but not ", *other,
                       ", and a caller cannot be told by which of them it came: name all of them, or an address that "
                       "--listen does not have"));
    }
  }
  for (const std::string& address : admin_listen) {
    if (std::find(listen.begin(), listen.end(), address) == listen.end()) plan->own.push_back(address);
  }
  return absl::OkStatus();
}

}  // namespace distlock::rpc
