// SPDX-License-Identifier: Apache-2.0
//
// The schema's mark on one server: read at each preparation, before anything else is done there, and once a minute
// from then on, which also announces what this broker reads. A server that has no mark gets one.
//
// Thread: the loop's. Ownership: the sender, caller and timers outlive it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "store/redis/script_caller.h"
#include "store/redis/transport.h"
#include "store/store_options.h"

namespace distlock::store {

class SchemaMark {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // The first answer since Begin: this broker can read the store.
    virtual void OnSchemaRead() = 0;
    // This connection must not be used. FailedPrecondition: this release cannot read the store, or the store cannot be
    // upgraded. PermissionDenied, Unavailable: the mark could not be read.
    virtual void OnSchemaRefused(const absl::Status& why) = 0;
  };

  SchemaMark(CommandSender* sender, ScriptCaller* scripts, const std::shared_ptr<Timers>& timers,
             const StoreOptions& options, Owner* owner);

  bool on() const { return options_.task != SchemaTask::kOff; }
  // The connection is ready to be used. One of the owner's methods follows, later, unless Stop comes first.
  // REQUIRES: on().
  void Begin();
  // The connection has ended.
  void Stop();
  // Why the server did not write the mark last; "": it did.
  const std::string& refusal() const { return refusal_; }
  // The mark is this key from the next question on.
  void MarkAt(std::string key);

 private:
  // The script's answer.
  struct Read {
    uint32_t writes = 0;
    uint32_t reads_from = 0;
    core::StoreTime time;
    core::StoreTime since;       // when `writes` was raised
    uint32_t blocker_reads = 0;  // 0: no broker stands in the way of an upgrade
    core::StoreTime blocker_at;
    std::string blocker;  // its id
    std::string refusal;  // why the server does not write the mark
    uint64_t id = 0;      // of the store; 0: it has none
  };

  void Ask();
  void OnAnswer(const Answer& answer);
  absl::Status OnReply(const redisReply& reply);
  absl::Status Judge(const Read& read) const;
  absl::Status JudgeUpgrade(const Read& read) const;
  void EndRound(core::Duration next);
  void AddIds(CommandBuilder& call) const;
  void NoteId(uint64_t id) const;

  // Const after construction.
  CommandSender* const sender_;
  ScriptCaller* const scripts_;
  Owner* const owner_;
  const SchemaOptions options_;
  const std::string broker_id_;
  const core::Duration old_data_;  // data of the schema before may be there for so long after an upgrade
  const std::shared_ptr<std::atomic<uint32_t>> known_;
  const std::shared_ptr<std::atomic<uint64_t>> id_;

  std::string key_;
  uint64_t connection_ = 0;  // counts Begin and Stop
  bool ready_ = false;       // OnSchemaRead was called
  std::string refusal_;
  const std::unique_ptr<Timer> timer_;
};

}  // namespace distlock::store
