// SPDX-License-Identifier: Apache-2.0
//
// gRPC's own lines. Left alone, it writes them to stderr between those of the daemon's log.
#pragma once

#include <functional>
#include <string>

namespace distlock::rpc {

struct GrpcLine {
  bool is_error = false;
  std::string text;
};

// Why a TLS handshake with a client failed, such as "certificate verify failed"; "" when the line is of something else.
std::string HandshakeProblem(const std::string& text);

// Calls `take` for each line, on gRPC's threads, instead of writing it, unless GRPC_VERBOSITY asks for gRPC's own log.
// Before the first server; once in a process.
void TakeOverGrpcLog(std::function<void(const GrpcLine&)> take);

}  // namespace distlock::rpc
