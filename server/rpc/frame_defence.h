// SPDX-License-Identifier: Apache-2.0
//
// Whether the gRPC that this program was linked with ends connections whose frames cost far more than they carry, and
// who sent such ones. Thread: any.
#pragma once

#include <functional>
#include <string>

namespace distlock::rpc {

// As "1.51.1".
std::string GrpcVersion();

// Sends a header block without end to a server of its own, over a pair of sockets: true when that one closes the
// connection. Takes milliseconds the first time, then remembers.
bool EndsEndlessHeaders();

// Hears of each connection that gRPC ends for that, by grpc::ServerContext::peer(), until it is destroyed. Never hears
// anything where DISTLOCK_GRPC is system.
class ExcessListener {
 public:
  explicit ExcessListener(std::function<void(const std::string& grpc_peer)> hear);
  ~ExcessListener();
  ExcessListener(const ExcessListener&) = delete;
  ExcessListener& operator=(const ExcessListener&) = delete;

 private:
  friend struct ExcessListeners;
  const std::function<void(const std::string&)> hear_;
};

}  // namespace distlock::rpc
