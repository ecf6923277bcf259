// SPDX-License-Identifier: Apache-2.0
//
// The addresses of a client's brokers, in an order of its own, and which of them to try next. Not thread-safe.
//
// A failure goes on to the next address at once, until each has been tried since the last success. The client then
// pauses before the next round. With one address it pauses after each failure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace distlock::internal {

// The addresses of a list such as "unix:///run/a.sock, b:7420". A path becomes a gRPC target. Never empty: a list
// without any address is one address.
std::vector<std::string> SplitAddresses(const std::string& list);

// Why no broker can be at this target, in one line: its port is missing, or is no number of 1..65535. "" when it can,
// or when its scheme is not known here.
std::string AddressProblem(const std::string& target);

class Addresses {
 public:
  // The order is random, so that not all clients go to the same broker.
  explicit Addresses(const std::string& list, uint32_t seed = std::random_device{}());

  const std::vector<std::string>& all() const { return all_; }
  size_t size() const { return all_.size(); }
  size_t present() const { return present_; }
  const std::string& at(size_t i) const { return all_[i]; }

  // The present broker cannot be reached, or is to be left. True: the next one may be tried at once.
  bool Next();
  // The present broker serves this client.
  void Succeed() { tried_ = 0; }

 private:
  std::vector<std::string> all_;
  size_t present_ = 0;
  size_t tried_ = 0;  // since the last success, or since the last pause
};

}  // namespace distlock::internal
