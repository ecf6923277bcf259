// SPDX-License-Identifier: Apache-2.0
//
// A primary of a Cluster in a world: runs what is for its slots, and sends everything else to where it believes the
// slot is. What it believes of other nodes' slots may be old. ClusterSet moves slots and keys.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/cluster/hash_slot.h"
#include "world/store_process.h"

namespace distlock::sim {

using store::Slot;

class ClusterNode : public StoreProcess {
 public:
  static constexpr int kPort = 6379;
  static constexpr int8_t kNobody = -1;

  ClusterNode(Env& env, int number) : StoreProcess(env, number), number_(number) { Gate(); }

  static std::string HostOf(int number) { return "node" + std::to_string(number); }
  int number() const { return number_; }

  // ---- What it believes ----

  void Believe(Slot slot, int owner) { owner_of_[slot] = static_cast<int8_t>(owner); }
  int owner_of(Slot slot) const { return owner_of_[slot]; }
  void Migrate(Slot slot, std::optional<int> to) { Set(migrating_, slot, to); }
  void Import(Slot slot, std::optional<int> from) { Set(importing_, slot, from); }
  // It has lost touch with the others, and names only itself.
  void KnowOnlyItself(bool alone) { alone_ = alone; }

  // The keys of a slot that it has.
  std::vector<std::string> KeysOf(Slot slot);
  // Whether MIGRATE can move keys: both nodes run and take writes now.
  bool CanMoveTo(ClusterNode& to);
  // As MIGRATE: the key, its value and what is left of its ttl. REQUIRES: CanMoveTo(to).
  void MoveKey(const std::string& key, ClusterNode& to);

  void Run(int connection, std::string_view command, Answer answer) override;
  void Disconnect(int connection) override {
    asking_.erase(connection);
    StoreProcess::Disconnect(connection);
  }

 private:
  using Command = std::span<const std::string_view>;

  static void Set(std::map<Slot, int>& slots, Slot slot, std::optional<int> node);
  void Gate();
  // The error that a command with these keys is answered with; "": it runs here.
  std::string Redirection(Command keys, bool asking);
  bool Has(std::string_view key) { return model().Type(key) != KeyType::kNone; }
  store::ReplyPtr Slots() const;

  const int number_;
  std::array<int8_t, store::kSlots> owner_of_{};
  std::map<Slot, int> migrating_, importing_;
  bool alone_ = false;
  std::set<int> asking_;        // connections whose next command comes behind ASKING
  bool script_asking_ = false;  // the running script's call did
};

}  // namespace distlock::sim
