// SPDX-License-Identifier: Apache-2.0
//
// How a command sent to the server ended, and what that means to the core. Pure; the simulator uses it in place of a
// socket. Thread: any.
#pragma once

#include <hiredis/hiredis.h>

#include <string>
#include <string_view>

#include "absl/functional/any_invocable.h"
#include "core/messages.h"
#include "store/redis/codec.h"

namespace distlock::store {

struct Answer {
  enum class Kind { kReply, kNotSent, kUnknown };
  Kind kind = Kind::kNotSent;
  const redisReply* reply = nullptr;  // kReply only; gone after the callback
  std::string cause;                  // otherwise
};

// Where commands go. Each is answered exactly once, in order, and never from within Send.
class CommandSender {
 public:
  using Done = absl::AnyInvocable<void(const Answer&)>;
  virtual ~CommandSender() = default;
  virtual void Send(std::string_view command, Done done) = 0;
  // What was sent leaves at the latest now.
  virtual void Flush() = 0;
};

struct Understood {
  core::StoreReply reply;
  std::string reconnect;  // why this connection is of no use any more; "" = it is
};

// The answer to a script call in the core's words.
Understood Understand(const Codec& codec, const Question& question, const Answer& answer);

}  // namespace distlock::store
