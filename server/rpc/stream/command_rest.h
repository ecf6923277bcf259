// SPDX-License-Identifier: Apache-2.0
//
// The part of a session's message that is not checked yet, as bytes. Parsed, a message of short commands takes a
// hundred times its bytes, and thousands of such messages take seconds: so each command is parsed when there is room
// for it.
// Not thread-safe; the reading side's.
#pragma once

#include <grpcpp/support/slice.h>

#include <string>
#include <string_view>

#include "distlock/v1/lock_service.pb.h"

namespace distlock::rpc {

class CommandRest {
 public:
  // Begins with a SessionRequest. The one before must be at its end.
  void Set(grpc::Slice message);
  // Takes the next command. False: there is none, or `problem` says what is wrong with the bytes.
  bool Next(v1::SessionCommand* command, std::string* problem);
  // Copies what is left, which frees the buffer that it came in.
  void Compact();

  bool empty() const { return left_.empty(); }

 private:
  grpc::Slice came_in_;
  std::string copy_;
  std::string_view left_;  // in one of these
};

}  // namespace distlock::rpc
