// SPDX-License-Identifier: Apache-2.0
//
// Ends what this process watches when a signal comes that would end the process.
#pragma once

#include <stop_token>
#include <thread>

#include "signals.h"

namespace distlock::cli {

// Its thread, which alone takes signals meanwhile, ends with this object.
class EndBySignal {
 public:
  explicit EndBySignal(Signals& signals);
  ~EndBySignal();
  EndBySignal(const EndBySignal&) = delete;
  EndBySignal& operator=(const EndBySignal&) = delete;

  // Stops with such a signal, or with End().
  std::stop_token token() const { return end_.get_token(); }
  void End() { end_.request_stop(); }

 private:
  void Wait();

  Signals& signals_;
  const int over_fd_;
  std::stop_source end_;
  std::thread thread_;
};

}  // namespace distlock::cli
