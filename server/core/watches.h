// SPDX-License-Identifier: Apache-2.0
//
// Locks that streams of this broker watch. A change notice only says that a look is worthwhile, and may be lost; a look
// shows the lock and makes the store go on telling this broker. So a watched lock is looked at: upon a notice; when a
// holder may have expired, since nobody announces that; when the store or its channel is back; and before this broker's
// slot in the store's list of watchers ends.
//
// Thread: the shard's.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/container/btree_map.h"
#include "core/core_context.h"
#include "core/part.h"

namespace distlock::core {

// A lock that streams of this broker watch.
struct Watch : PartRecord {
  explicit Watch(Part& of) : PartRecord(of) {}
  struct Listening {
    RequestId request = 0;
    OpId from = 0;      // looks before this one are not shown to it
    bool told = false;  // it has been shown the lock once
  };
  LockName name;
  absl::btree_map<SessionId, Listening> listeners;  // never empty
  std::optional<LockView> seen;                     // the last view told to all who were told anything
  Instant not_before{};                             // of the next look
  OpId op = 0;                                      // the look under way
  bool again = false;                               // a change was announced after the look under way had been sent
};

class Watches final : public PartOf<Watch> {
 public:
  explicit Watches(CoreContext& core) : core_(core) {}

  void Handle(const WatchLock& in);
  void Handle(const ChangeNotice& in);
  // Notices may have been missed.
  void LookAtAll();
  void OnStoreUp() override { LookAtAll(); }
  void OnTimer(Watch& watch) override;
  void OnReply(const Op& op, OpId id, StoreReply& reply) override;
  void OnStreamEnd(SessionId session) override { StopWatching(session); }
  // The broker drains: ends all streams that watch. They hold nothing, and another broker shows them the lock as well.
  void EndAll();

  size_t size() const { return watches_.size(); }
  size_t Check() const override;

 private:
  void StopWatching(SessionId session);
  void Look(Watch& watch);
  void ShowTo(Watch& watch, OpId look, LockView view);
  void Refuse(Watch& watch, const std::string& cause);

  CoreContext& core_;
  absl::btree_map<LockName, std::unique_ptr<Watch>> watches_;
  absl::btree_map<SessionId, Watch*> watching_;
};

}  // namespace distlock::core
