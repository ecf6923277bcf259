// SPDX-License-Identifier: Apache-2.0
//
// The border between core types and RESP: StoreCommands become EVALSHA calls, script replies become StoreReply, notices
// and LockView. No RESP passes beyond it. lua/README.md is the contract with the scripts. Pure, but for the clock of
// Obey. Thread: any, but TrustPublish runs alone.
//
// A malformed reply decodes to StoreUnknown: the command may have run. So does an error, unless it proves that nothing
// has changed; then it decodes to StoreFailed.
#pragma once

#include <hiredis/hiredis.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/messages.h"
#include "lua/scripts_data.h"
#include "store/redis/census.h"
#include "store/redis/command_sender.h"
#include "store/redis/keys.h"
#include "store/redis/server_clock.h"
#include "store/redis/transport.h"
#include "store/store.h"
#include "store/store_options.h"

namespace distlock::store {

// For one lock, in the answer to a query about it.
inline constexpr uint32_t kMaxShownHolders = 1000;

// The part of a command that its reply is decoded with.
struct SentCommand {
  using Verb = core::Verb;
  Verb verb = Verb::kAcquire;
  core::OpId op = 0;
  size_t items = 0;                          // kRenew, kAcquireAll
  std::vector<core::StoreTime> hold_untils;  // kRenew, of each item; empty: none has one
  std::vector<core::Duration> ttls;          // kRenew, of each item; empty: others are told of such ttls anyway
  core::StoreTime held_off_until;  // kAcquire, kTend: nobody new is granted a lock before; us = 0: no hold-off
};

struct Encoded {
  SentCommand sent;
  const lua::ScriptSource* script = nullptr;
  std::string bytes;
};

struct EncodedBatch {
  std::vector<SentCommand> sent;
  std::string bytes;
};

struct Decoded {
  core::StoreReply reply;
  core::StoreTime time;    // by the server's clock, when the script ran; us = 0: not known
  bool malformed = false;  // the reply stream may be out of step with the commands: reconnect
  std::string reconnect;   // why this connection is of no use any more; "" = it is
};

class Codec {
 public:
  // `clock`: of the server that takes the commands; outlives the codec.
  Codec(LockOptions options, const ServerClock& clock);

  // Whether scripts may take a broker for unreachable when PUBLISH finds no listener. Stays false when the options
  // forbid it.
  void TrustPublish(bool trust);
  bool trusts_publish() const { return trusts_publish_; }

  // Whose hold-off scripts are told of, and the time by which that is trusted; null: none. Both outlive the codec.
  void Obey(const Census* census, const Timers* timers) {
    census_ = census;
    timers_ = timers;
  }
  bool holds_off() const { return ObeyedCensus() != nullptr && census_->HoldsOff(timers_->Now()); }

  // `least_token`: of whom a tend, downgrade or force hands a lock to, instead of the server's clock, and without a
  // hold-off; 0: none is given.
  Encoded Encode(const core::StoreCommand& command, uint64_t least_token = 0) const;
  Decoded Decode(const SentCommand& sent, const redisReply& reply) const;
  Decoded Decode(const SentCommand& sent, const Answer& answer) const;

  // For how long the lock's token outlives its grant.
  core::Duration TokenKeep(const core::LockName& name) const;

  // As one call of batch.lua. Acquires, and releases that do not block, of locks with one TokenKeep; those of one lock
  // stand together.
  // REQUIRES: !holds_off() a moment ago; batch.lua knows only until when that counts.
  EncodedBatch EncodeBatch(const std::vector<core::StoreCommand>& commands) const;

  std::string EncodeInspect(const core::LockName& name, uint32_t max_waiters,
                            uint32_t max_holders = kMaxShownHolders) const;
  // FailedPrecondition: a foreign key. Unavailable: any other error.
  static absl::StatusOr<LockView> DecodeInspect(const core::LockName& name, const redisReply& reply);

  // A GrantNotice, a ChangeNotice, a ForceNotice or a WantedNotice; nullopt: it has another form.
  static std::optional<core::Input> DecodeNotice(std::string_view payload);

  const Keys& keys() const { return keys_; }
  // This broker listens to the channel of the shard with this tag, and the lock's other brokers on this server do, too;
  // "": the channel that PUBLISH reaches.
  void ListenAt(std::string tag) { channel_tag_ = std::move(tag); }
  std::string grant_channel() const { return keys_.GrantChannel(options_.broker_id, channel_tag_); }

 private:
  // Null: scripts are told of no hold-off.
  const Census* ObeyedCensus() const { return census_ != nullptr && census_->obeys() ? census_ : nullptr; }

  // Const after construction.
  LockOptions options_;
  const ServerClock& clock_;
  Keys keys_;

  const Census* census_ = nullptr;
  const Timers* timers_ = nullptr;  // with census_
  std::string channel_tag_;
  bool trusts_publish_ = true;
  std::string common_;  // what all items of batch.lua have in common, but for the hold-off
};

}  // namespace distlock::store
