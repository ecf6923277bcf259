// SPDX-License-Identifier: Apache-2.0
//
// A node of a Cluster in a simulation: a primary that runs what is for its slots, and sends everything else to where it
// believes the slot is; or a replica, which sends all to others. What it believes of other nodes' slots may be old.
// ClusterSet moves slots and keys, ClusterFailover makes replicas primaries.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "simulation/replica_server.h"
#include "store/cluster/hash_slot.h"

namespace distlock::sim {

using store::Slot;

class ClusterNode : public ReplicaServer {
 public:
  static constexpr int kPort = 6379;
  static constexpr int8_t kNobody = -1;

  // A primary that has started refuses commands for so long, in which it hears whether it was replaced.
  static constexpr Duration kRejoins = seconds(2);

  // `replicas_of`: the numbers of the replicas that a primary is known to have.
  ClusterNode(Env& env, int number, std::function<std::vector<int>(int primary)> replicas_of)
      : ReplicaServer(env, number, HostOf(number)), number_(number), replicas_of_(std::move(replicas_of)) {
    Gate();
  }

  static std::string HostOf(int number) { return "node" + std::to_string(number); }
  int number() const { return number_; }

  // ---- Its beliefs ----

  void Believe(Slot slot, int owner) { owner_of_[slot] = static_cast<int8_t>(owner); }
  int owner_of(Slot slot) const { return owner_of_[slot]; }
  void Migrate(Slot slot, std::optional<int> to) { Set(migrating_, slot, to); }
  void Import(Slot slot, std::optional<int> from) { Set(importing_, slot, from); }
  // It has lost touch with the others, and names only itself.
  void KnowOnlyItself(bool alone) { alone_ = alone; }
  // It is one of a minority, or a slot is not served and all have to be: it refuses all commands.
  void RefuseUntil(Instant until) { refuses_until_ = std::max(refuses_until_, until); }

  // The keys of a slot that it has.
  std::vector<std::string> KeysOf(Slot slot);
  // Whether MIGRATE can move keys: both nodes run and take writes now.
  bool CanMoveTo(ClusterNode& to);
  // As MIGRATE: the key, its value and what is left of its ttl; but where MIGRATE may take up to a millisecond of that
  // away, this adds it, because a lock may move here more often than
  // the broker's margin has milliseconds. REQUIRES: CanMoveTo(to).
  void MoveKey(const std::string& key, ClusterNode& to);

  void Disconnect(int connection) override {
    asking_.erase(connection);
    ReplicaServer::Disconnect(connection);
  }

 private:
  void RunNow(int connection, std::string_view command, Answer answer) override;
  void OnStarted() override {
    RefuseUntil(env_.now() + kRejoins);
    ReplicaServer::OnStarted();
  }

  using Command = std::span<const std::string_view>;

  static void Set(std::map<Slot, int>& slots, Slot slot, std::optional<int> node);
  void Gate();
  // The error that a command with these keys is answered with; "": it runs here.
  std::string Redirection(Command keys, bool asking);
  bool Has(std::string_view key) { return model().Type(key) != KeyType::kNone; }
  store::ReplyPtr Slots() const;
  store::ReplyPtr Configuration() const;

  const int number_;
  const std::function<std::vector<int>(int)> replicas_of_;
  std::array<int8_t, store::kSlots> owner_of_{};
  std::map<Slot, int> migrating_, importing_;
  bool alone_ = false;
  Instant refuses_until_{};
  std::set<int> asking_;        // connections whose next command comes behind ASKING
  bool restoring_ = false;      // a key is moved here
  bool script_asking_ = false;  // the running script's call did
};

}  // namespace distlock::sim
