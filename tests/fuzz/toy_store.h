// SPDX-License-Identifier: Apache-2.0
//
// A store that says anything: it keeps the commands of a core that are not answered yet and answers them as an input
// dictates, within what the codec can decode, or as a well-behaved store with every lock free would. Single-threaded.
#pragma once

#include <map>
#include <vector>

#include "bytes.h"
#include "core/messages.h"

namespace distlock::fuzz {

class ToyStore {
 public:
  // A command of the core. Aborts when its op has been used before.
  void Take(core::StoreCommand command);
  bool idle() const { return open_.empty(); }

  // The answer to one of the open commands; they must not be none.
  core::StoreReply Answer(Bytes& bytes, core::Instant now);
  // The oldest open command, answered well.
  core::StoreReply AnswerWell(core::Instant now);

  core::GrantNotice Notice(Bytes& bytes, core::Instant now);

 private:
  // A stamp, mostly the true one.
  core::StoreTime Time(Bytes& bytes, core::Instant now) const;
  static core::StoreTime TrueTime(core::Instant now);
  using Outcome = decltype(core::StoreReply::outcome);
  Outcome AnyOutcome(Bytes& bytes, core::Instant now);
  core::AcquireAllDone TakeAll(const core::StoreAcquireAll& in, core::Instant now);
  Outcome FittingOutcome(const core::StoreCommand& command, Bytes& bytes, core::Instant now);
  core::HolderView Holder(Bytes& bytes, core::Instant now);
  core::OwnerId Owner(Bytes& bytes) const;
  core::Duration Span(Bytes& bytes) const;
  // As a clock that is set makes of two stamps.
  core::Duration Difference(Bytes& bytes) const;

  std::map<core::OpId, core::StoreCommand> open_;
  core::OpId last_op_ = 0;
  uint64_t last_token_ = 0;
  std::vector<core::OwnerId> owners_;  // that commands have named
  std::vector<core::LockName> names_;
};

}  // namespace distlock::fuzz
