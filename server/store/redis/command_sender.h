// SPDX-License-Identifier: Apache-2.0
//
// Where commands go, and how each of them ends. Thread: the loop's.
#pragma once

#include <hiredis/hiredis.h>

#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "core/types.h"

namespace distlock::store {

struct Answer {
  // kNotSent: it surely has not run. kUnknown: its bytes may have left, and it may have run.
  enum class Kind { kReply, kNotSent, kUnknown };
  Kind kind = Kind::kNotSent;
  const redisReply* reply = nullptr;  // kReply only; gone after the callback
  std::string cause;                  // otherwise; for people
  // kReply only, by the broker's clock: before the command left, and when its reply had been read.
  core::Instant sent{};
  core::Instant received{};
};

// Each command is answered exactly once, in order, and never from within Send.
class CommandSender {
 public:
  using Done = absl::AnyInvocable<void(const Answer&)>;
  virtual ~CommandSender() = default;
  // `command` is copied.
  virtual void Send(std::string_view command, Done done) = 0;
  // Sent commands leave at the latest now.
  virtual void Flush() = 0;
};

}  // namespace distlock::store
