// SPDX-License-Identifier: Apache-2.0
//
// The border between core types and RESP: StoreCommands become EVALSHA calls, script replies become StoreReply,
// notices and LockView. Nothing of RESP passes beyond it. lua/README.md is the contract with the scripts.
// Pure; any thread, but TrustPublish with nobody else.
//
// A reply of unexpected shape, or an error that does not prove the contrary, decodes to StoreUnknown: the command may
// have run. Only what provably changed nothing decodes to StoreFailed.
#pragma once

#include <hiredis/hiredis.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/messages.h"
#include "lua/scripts_data.h"
#include "store/redis/keys.h"
#include "store/store.h"
#include "store/store_options.h"

namespace distlock::store {

// What must be remembered of a command to understand its reply.
struct Question {
  enum class Verb { kAcquire, kAcquireAll, kRenew, kRelease, kWithdraw, kTend, kWatch, kConvert, kForce };
  Verb verb = Verb::kAcquire;
  core::OpId op = 0;
  size_t items = 0;  // kRenew, kAcquireAll
};

struct Encoded {
  Question question;
  const lua::ScriptSource* script = nullptr;
  std::string bytes;
};

struct EncodedBatch {
  std::vector<Question> questions;
  std::string bytes;
};

struct Decoded {
  core::StoreReply reply;
  bool odd = false;  // not a shape that our scripts have: requests and replies may have come apart
};

class Codec {
 public:
  explicit Codec(LockOptions options);

  // Whether scripts may take a PUBLISH that nobody heard for a broker that does not listen. Never when the options forbid it.
  void TrustPublish(bool trust);

  // Any command but StoreReconnect.
  Encoded Encode(const core::StoreCommand& command) const;
  Decoded Decode(const Question& question, const redisReply& reply) const;

  // Acquires, and releases that do not block, of different locks, as one call of batch.lua.
  EncodedBatch EncodeBatch(const std::vector<core::StoreCommand>& commands) const;

  std::string EncodeInspect(const core::LockName& name, uint32_t max_waiters) const;
  // FailedPrecondition: a foreign key. Unavailable: any other error.
  static absl::StatusOr<LockView> DecodeInspect(const core::LockName& name, const redisReply& reply);

  // A GrantNotice, a ChangeNotice or a ForceNotice; nullopt: it has another form.
  static std::optional<core::Input> DecodeNotice(std::string_view payload);

  const Keys& keys() const { return keys_; }
  std::string grant_channel() const { return keys_.GrantChannel(options_.broker_id); }

 private:
  // Const after construction.
  LockOptions options_;
  Keys keys_;

  bool trusts_publish_ = true;
  std::string common_;  // what all items of a batch share, as batch.lua reads it
};

// The answer to a batch, looked at one item at a time. Does not own it.
class BatchReply {
 public:
  // Null: there is none.
  BatchReply(const redisReply* reply, size_t items) : reply_(reply), items_(items) {}

  // Calls `look` with what the item's own script would have answered, valid until it returns. With the whole, when that is an error
  // or has no such shape; with null, when there is none.
  void Of(size_t item, const std::function<void(const redisReply*)>& look) const;

 private:
  const redisReply* const reply_;
  const size_t items_;
};

}  // namespace distlock::store
