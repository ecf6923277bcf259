// SPDX-License-Identifier: Apache-2.0
//
// The least that a broker must do: each message of a stream, or each unary call, is a Redis command, which one
// connection carries for all, and its answer goes back as a message. It has no locks, leases, fencing tokens, checks or
// metrics. Its time is the cost of gRPC, of the machine's wake-ups and of Redis' socket; the rest of distlockd's time
// is distlockd's own. A message of the echo stream goes back at once: that is the cost of gRPC alone.
#pragma once

#include <memory>
#include <string>

#include "bench/lab.h"
#include "bench/load.h"

namespace distlock::bench {

inline constexpr const char* kRelayStream = "/bench.Relay/Stream";
inline constexpr const char* kRelayEcho = "/bench.Relay/Echo";
inline constexpr const char* kRelayUnary = "/bench.Relay/Unary";

// In a process of its own: serves at `listen` (a gRPC address) until it is killed. Returns the exit code.
int RunRelay(const std::string& listen, const std::string& redis_socket);

// A relay process in front of the Lab's Redis.
class Relay {
 public:
  // Throws std::runtime_error when it does not serve.
  explicit Relay(const Lab& lab, Transport over = Transport::kAsSetUp);

  pid_t pid() const { return child_->pid(); }
  const std::string& target() const { return target_; }

 private:
  std::string target_;
  std::unique_ptr<Child> child_;
};

// `clients` connections to a relay at `target`, each with one stream and one command in flight: SET NX PX and
// compare-and-delete. The scripts are loaded through `lab`.
std::unique_ptr<Load> RelayClients(const Lab& lab, std::string target, size_t clients);
// As many messages, which the relay sends back without asking Redis.
std::unique_ptr<Load> EchoClients(const Lab& lab, std::string target, size_t clients);
// The same, with one unary call in flight instead of a stream.
std::unique_ptr<Load> RelayUnaryClients(const Lab& lab, const std::string& target, size_t clients);

}  // namespace distlock::bench
