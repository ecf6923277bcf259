// SPDX-License-Identifier: Apache-2.0
//
// Random actions on a store, as plain numbers that a generator draws and shrinks: calls of the production scripts as
// the production codec writes them, and everything else that can happen between them. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/lock_name.h"
#include "core/types.h"
#include "redis/twins.h"
#include "store/redis/codec.h"
#include "store/redlock/vote_codec.h"

namespace distlock::sim {

enum class Deed : uint8_t {
  kAcquire,
  kRenew,
  kRelease,
  kWithdraw,
  kTend,
  kInspect,
  kVote,        // a call of a script of one of several servers
  kBrokenCall,  // one of these with a wrong argument
  kSnippet,     // a small script that is not a script of distlock
  kPutString,
  kPutOther,
  kPutWaiter,
  kPutEntry,
  kRemove,
  kExpire,
  kFlushScripts,
  kLoadScripts,
  kFlushAll,
  kListen,
  kUnlisten,
  kHang,
  kPublish,
  kMemory,
  kReplica,
  kWantReplicas,
  kClock,
  kToExpiry,
  kCompare,
  kScan,
  kPrepare,  // a question that a client asks before it uses a server
  kCount
};

// `lock`, `who` and `broker` are indexes; the meaning of a, b and c depends on the deed. All numbers are taken modulo
// the number of choices.
struct Action {
  Deed deed = Deed::kCompare;
  uint8_t lock = 0;
  uint8_t who = 0;
  uint8_t broker = 0;
  uint8_t a = 0;
  uint8_t b = 0;
  uint8_t c = 0;
};

std::string ActionText(const Action& action);

// A few locks, owners and brokers, and their actions on the twins.
class Mischief {
 public:
  explicit Mischief(Twins* twins);  // `twins` outlive it

  void Do(const Action& action);

 private:
  static constexpr size_t kLocks = 3;
  static constexpr size_t kOwners = 5;
  static constexpr size_t kBrokers = 3;

  // Mostly the first lock: actions on different locks do not affect each other.
  const core::LockName& Lock(const Action& action) const {
    return locks_[action.lock % 8 < 5 ? 0 : action.lock % kLocks];
  }
  const store::Codec& Broker(const Action& action) const { return brokers_[action.broker % kBrokers]; }
  core::OwnerId Owner(const Action& action) const;
  // Mostly the present holder, else Owner().
  core::OwnerId Holder(const Action& action, const core::LockName& lock) const;
  uint64_t Token(const Action& action, const core::LockName& lock) const;
  // One of the lock's five keys.
  std::string Key(const Action& action, uint8_t which) const;
  // An acquire or a release, alone or in a batch with a neighbour, often one of the same lock.
  std::string LeaseBytes(const Action& action, Deed verb) const;
  // A call of the verb that the deed names, as bytes.
  std::string CallBytes(const Action& action, Deed verb) const;
  std::string VoteBytes(const Action& action) const;
  core::Want Want(const Action& action) const;
  core::StoreCommand Command(const Action& action, Deed verb) const;

  void Run(std::initializer_list<std::string_view> argv) { twins_->Do(Argv(argv)); }
  void RunBytes(std::string_view bytes);
  void RunBroken(const Action& action);
  void PutString(const Action& action);
  void PutOther(const Action& action);
  void PutWaiter(const Action& action);
  void PutEntry(const Action& action);
  void Remove(const Action& action);
  void LoadScripts();
  void MoveClock(const Action& action);
  void MoveToExpiry(const Action& action);
  bool DoToServer(const Action& action);

  Twins* const twins_;
  std::array<core::LockName, kLocks> locks_;
  std::vector<store::Codec> brokers_;
  std::vector<store::VoteCodec> voters_;  // of the same brokers
};

}  // namespace distlock::sim
