// SPDX-License-Identifier: Apache-2.0
//
// How many of something each peer has, and the most that one may have, so that the rest is left for others. It keeps
// nothing of who has none. Not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <unordered_map>

namespace distlock::peer {

class Shares {
 public:
  // `most`: what one peer may have at a time.
  explicit Shares(size_t most) : most_(most) {}

  // One more, until Leave. False: the peer has as many as it may.
  bool Enter(const std::string& peer) {
    if (Of(peer) >= most_) return false;
    ++taken_[peer];
    return true;
  }

  void Leave(const std::string& peer) {
    const auto taken = taken_.find(peer);
    if (taken != taken_.end() && --taken->second == 0) taken_.erase(taken);
  }

  size_t Of(const std::string& peer) const {
    const auto taken = taken_.find(peer);
    return taken == taken_.end() ? 0 : taken->second;
  }

  size_t known() const { return taken_.size(); }  // peers that have some

 private:
  const size_t most_;
  std::unordered_map<std::string, size_t> taken_;
};

}  // namespace distlock::peer
