// SPDX-License-Identifier: Apache-2.0
//
// Which server is at the other end of a connection, by its own INFO. Pure; any thread.
#pragma once

#include <cstdint>
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
  // Its own: Valkey says in redis_version with which Redis it is compatible.
  std::string_view Version() const;
  // Reads the section "keyspace" of a reply: how many keys database `db` has.
  uint64_t KeysIn(int db) const;

 private:
  std::map<std::string_view, std::string_view> fields_;
};

struct ServerIdentity {
  std::string run_id;  // of this run of the server; a restart makes a new one
  std::string role;    // "master" or "slave", as the server says it
  std::string version;
  std::string replid;  // of the data's history; a promotion makes a new one

  // Names the data: another one after each restart and each promotion.
  std::string DataIdentity() const { return run_id + ":" + replid; }

  // For people, who compare it with another.
  std::string Short() const { return (replid.empty() ? run_id : replid).substr(0, 8); }

  bool operator==(const ServerIdentity&) const = default;
};

ServerIdentity IdentityOf(const ServerInfo& info);

}  // namespace distlock::store
