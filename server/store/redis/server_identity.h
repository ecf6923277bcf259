// SPDX-License-Identifier: Apache-2.0
//
// Which server is at the other end of a connection, by its own INFO. Pure; any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace distlock::store {

// The fields of a reply to INFO. Points into the reply.
class ServerInfo {
 public:
  explicit ServerInfo(std::string_view info);
  // "" when there is no such field.
  std::string_view Get(std::string_view name) const;

 private:
  std::map<std::string_view, std::string_view> fields_;
};

struct ServerIdentity {
  std::string run_id;  // of this run of the server; a restart makes a new one
  std::string role;    // "master" or "slave", as the server says it
  std::string version;

  bool operator==(const ServerIdentity&) const = default;
};

ServerIdentity IdentityOf(const ServerInfo& info);

}  // namespace distlock::store
