// SPDX-License-Identifier: Apache-2.0
//
// Redis' log of slow commands: how long each call of a script blocks Redis. Main thread.
#pragma once

#include <string_view>

#include "bench/lab.h"

namespace distlock::bench {

// Redis logs while this object lives. Logging costs CPU, so it must not be used while Redis' CPU is measured.
class SlowLog {
 public:
  struct Calls {
    double median_ms = 0;
    double longest_ms = 0;
  };

  explicit SlowLog(const Lab& lab);
  ~SlowLog();
  SlowLog(const SlowLog&) = delete;
  SlowLog& operator=(const SlowLog&) = delete;

  // The calls logged so far; 0.02 ms when all were shorter. Throws std::runtime_error.
  Calls CallsOf(std::string_view script_sha1) const;

 private:
  void Set(long long micros, long long entries);

  RedisConnection connection_;
};

}  // namespace distlock::bench
