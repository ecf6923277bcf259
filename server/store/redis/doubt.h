// SPDX-License-Identifier: Apache-2.0
//
// A primary that refuses writes for lack of replicas may have been replaced by one of them. When a cut heals it may
// even take writes again for a moment: what a replica acknowledged before the cut arrives then, ahead of the end of
// that connection. So from a refusal on nothing is sent to it before those who decide which server is the primary have
// named it again. Pure; one thread.
#pragma once

#include <string>
#include <string_view>

#include "core/types.h"
#include "store/text.h"

namespace distlock::store {

class Doubt {
 public:
  // The server was named by those who were asked at `asked`, or, at the beginning of time, by too few of them. Without
  // such a word there never is a doubt.
  void OnNamed(core::Instant asked) {
    is_told_ = true;
    if (asked > refused_) refusal_.clear();
  }
  // The server's own words, at `now`.
  void OnRefused(std::string_view words, core::Instant now) {
    if (!is_told_ || !Contains(words, "NOREPLICAS")) return;
    refused_ = now;
    refusal_ = Cat(words, "; it may have been replaced, and no majority of the sentinels has named it since");
  }
  // Another server is meant from now on.
  void OnMoved() { refusal_.clear(); }

  // Why nothing is to be sent now; "": it is.
  const std::string& Refusal() const { return refusal_; }

 private:
  bool is_told_ = false;
  core::Instant refused_{};
  std::string refusal_;
};

}  // namespace distlock::store
